"""Compiled programs: what `pipec.compile` and `pipec.kernel` return."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pipec.diag.message import Diagnostic, Failure, Sink
from pipec.driver import Compilation, compile_source
from pipec.interface import KernelInterface
from pipec.kir.plan_types import Plan
from pipec.report import KernelReport, report_of

if TYPE_CHECKING:
    from pipec.runtime import Launcher, LaunchResult


class CompileError(Failure):
    """The source did not compile; `diagnostics` holds what is wrong, the text shows it as the command line would."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__(*diagnostics)

    def __str__(self) -> str:
        from pipec.diag.render import render_text

        return "\n" + render_text(self.diagnostics).rstrip()


def debug_seconds(debug: str | None) -> float | None:
    """The watchdog's bound that a `debug` argument asks for. Raises CompileError for a mode that does not exist."""
    if debug is None:
        return None
    from pipec.watchdog import MOST_SECONDS, seconds_of

    seconds = seconds_of(debug)
    if seconds is None:
        from pipec.diag.catalogue.run import UnknownDebug

        raise CompileError([UnknownDebug(asked=str(debug), most=MOST_SECONDS).diagnostic()])
    return seconds


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """One kernel, callable with its arrays and scalars in order or by name.

    `watched` compiles it again with a watchdog of so many seconds.
    """

    interface: KernelInterface
    report: KernelReport
    ptx: str
    watched: "Callable[[float], CompiledKernel] | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.interface.name

    @cached_property
    def _launcher(self) -> "Launcher":
        from pipec.runtime import Launcher

        return Launcher(self.interface, self.ptx)

    def __call__(
        self,
        /,
        *arguments: Any,
        device: str = "auto",
        stream: Any = None,
        options: Any = None,
        debug: str | None = None,
        **by_name: Any,
    ) -> "LaunchResult":
        """Runs the kernel; outputs are written into the arrays passed.

        Arrays: NumPy (with ml_dtypes for bf16 and 8-bit floats), DLPack, `__cuda_array_interface__`, torch. `device` "auto" takes a GPU
        that fits, else the simulator. `debug="watchdog"` (or "watchdog=2.5", seconds) runs the kernel with bounded waits, waits for its
        end, and raises pipec.runtime.HangError when it hangs. Raises pipec.runtime.ArgumentError before anything runs when an
        argument does not fit.
        """
        if debug is not None and (seconds := debug_seconds(debug)) is not None and self.watched is not None:
            return self.watched(seconds)(*arguments, device=device, stream=stream, options=options, **by_name)
        given: Any = self._named(arguments, by_name) if by_name else arguments
        return self._launcher(given, device=device, stream=stream, options=options)

    def _named(self, arguments: tuple[Any, ...], by_name: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments in order, then by name, as Python binds them."""
        from pipec.runtime import ArgumentError

        names = [argument.name for argument in self.interface.arguments]
        given = dict(zip(names, arguments, strict=False))
        twice = next((name for name in by_name if name in given), None)
        if twice is not None:
            raise ArgumentError(self.name, twice, "it was passed in order and by name")
        if len(arguments) > len(names):
            raise ArgumentError(
                self.name, "(none)", f"the kernel takes {len(names)} arguments, got {len(arguments) + len(by_name)}"
            )
        return {**given, **by_name}


class Program(Mapping[str, CompiledKernel]):
    """The kernels of one source, compiled: `program["gemm"](a, b, d)`."""

    def __init__(self, compilation: Compilation) -> None:
        assert compilation.ptx is not None and compilation.plans is not None
        self._compilation = compilation
        self.ptx: str = compilation.ptx
        self.arch = compilation.arch
        self.report: Mapping[str, KernelReport] = {
            plan.kernel.name: report_of(plan, compilation.protocol[plan.kernel.name]) for plan in compilation.plans
        }
        self._watched: dict[float, Program] = {}
        self._kernels = {plan.kernel.name: self._compiled(plan) for plan in compilation.plans}

    def _compiled(self, plan: Plan) -> CompiledKernel:
        name = plan.kernel.name
        return CompiledKernel(plan.interface, self.report[name], self.ptx, partial(self._with_watchdog, name))

    def _with_watchdog(self, name: str, seconds: float) -> CompiledKernel:
        """The kernel with bounded waits; compiled once for each bound."""
        if seconds not in self._watched:
            options = replace(self._compilation.options, watchdog=seconds)
            self._watched[seconds] = Program(compile_source(self._compilation.source, options))
        return self._watched[seconds][name]

    def __getitem__(self, name: str) -> CompiledKernel:
        if name not in self._kernels:
            raise KeyError(f"no kernel is called {name!r}; there is {', '.join(self._kernels)}")
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    @cached_property
    def llvm(self) -> str:
        """The LLVM IR the PTX was generated from."""
        assert self._compilation.llvm is not None
        return self._compilation.llvm

    @cached_property
    def _cubin(self) -> bytes:
        from pipec.ptx.assemble import assemble

        sink = Sink()
        source = self._compilation.source
        assembled = assemble(self.ptx, self.arch, sink, sources={source.name: source})
        if assembled is None:
            raise CompileError(sink.diagnostics)
        return assembled.cubin

    def cubin(self) -> bytes:
        """Machine code for the program's target, by nvJitLink or ptxas. Raises CompileError when neither is there or they refuse."""
        return self._cubin
