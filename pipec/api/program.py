"""Compiled programs: what `pipec.compile` and `pipec.kernel` return."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

from pipec.api.report import KernelReport, report_of, statements
from pipec.diag.message import Diagnostic, Failure, Sink
from pipec.diag.shown import shown
from pipec.driver import Compilation, compile_source
from pipec.interface import KernelInterface, TensorArgument
from pipec.kir.plan.types import Plan
from pipec.record import replace

if TYPE_CHECKING:
    from pipec.predict.launch import Prediction
    from pipec.runtime import Launcher, LaunchResult
    from pipec.runtime.again import Again, Recent
    from pipec.tune.choice import Candidate, Choices
    from pipec.tune.measure import Outcome
    from pipec.tune.tuned import Tuned


class CompileError(Failure):
    """The source did not compile; `diagnostics` has the errors, the text shows them as the command line would."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__(*diagnostics)

    def __str__(self) -> str:
        from pipec.diag.render import render_text

        return "\n" + render_text(self.diagnostics).rstrip()


def debug_seconds(debug: str | None) -> float | None:
    """The time limit of the watchdog given by a `debug` argument. Raises CompileError for an unknown mode."""
    if debug is None:
        return None
    from pipec.watchdog import MOST_SECONDS, seconds_of

    seconds = seconds_of(debug) if isinstance(debug, str) else None
    if seconds is None:
        from pipec.diag.catalogue.commands.run import UnknownDebug

        asked = debug if isinstance(debug, str) else shown(debug)
        raise CompileError([UnknownDebug(asked=asked, most=MOST_SECONDS).diagnostic()])
    return seconds


@dataclass(frozen=True, eq=False, repr=False)
class CompiledKernel:
    """One kernel, callable with its arrays and scalars in order or by name.

    `watched` recompiles it with a watchdog of the given seconds; `tuned` selects the values of tuned parameters; `predicted` simulates
    its timing event by event; `choices` are its candidates, for a choice among several kernels (pipec.choose).
    """

    interface: KernelInterface
    report: KernelReport
    ptx: str
    watched: "Callable[[float], CompiledKernel] | None" = None
    tuned: "Tuned[CompiledKernel] | None" = None
    predicted: "Callable[[Mapping[str, int], str | None, float | None], Prediction] | None" = None
    arch: str = ""
    choices: "Callable[[], Choices] | None" = None

    def __repr__(self) -> str:
        return f"<pipec kernel {signature(self.interface)}>"

    @property
    def name(self) -> str:
        return self.interface.name

    def of(self, candidate: "Candidate | None") -> "CompiledKernel":
        """With these values of its tuned parameters; None: those in the file. Raises CompileError."""
        if self.tuned is None or candidate is None or candidate == self.tuned.choices.file:
            return self
        return self.tuned.of(candidate)

    @cached_property
    def _launcher(self) -> "Launcher":
        from pipec.runtime import Launcher

        return Launcher(self.interface, self.ptx)

    @cached_property
    def _recent(self) -> "Recent":
        return (self._launcher if self.tuned is None else self.tuned).recent

    @property
    def again(self) -> "Again | None":
        """The last launch, if a similar one can be recognised."""
        return self._recent.last

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

        Arrays: NumPy (with ml_dtypes for bf16 and 8-bit floats), DLPack, `__cuda_array_interface__`, torch. `device` "auto" uses a GPU
        that fits, else the simulator. `debug="watchdog"` (or "watchdog=2.5", seconds) runs the kernel with bounded waits, synchronises,
        and raises pipec.runtime.HangError if it hangs. Raises pipec.runtime.ArgumentError before anything runs if an argument does not
        fit.
        """
        # Fast path: most launches repeat an earlier one.
        if options is None and debug is None and not by_name:
            again = self._recent.launch(arguments, device, stream)
            if again is not None:
                return again
        # The check is called only if there is something to check, which is rare.
        if options is not None or type(device) is not str or len(device) > _LONGEST_DEVICE:
            _check_call(self.name, device, options)
        # A watchdog run uses the values in the file: the report is about the kernel as written.
        if self.tuned is not None and debug is None:
            # `None` for a missing name; the launch below reports it.
            names = (argument.name for argument in self.interface.arguments)
            ordered = arguments if not by_name else [self._named(arguments, by_name).get(name) for name in names]
            other = self.tuned.variant(ordered, device)
            if other is not None:
                result = other(*arguments, device=device, stream=stream, options=options, **by_name)
                self.tuned.recent.keep(other.again, ordered)
                return result
        if debug is not None and (seconds := debug_seconds(debug)) is not None and self.watched is not None:
            return self.watched(seconds)(*arguments, device=device, stream=stream, options=options, **by_name)
        given: Any = self._named(arguments, by_name) if by_name else arguments
        result = self._launcher(given, device=device, stream=stream, options=options)
        if self.tuned is not None:
            self.tuned.recent.keep(self._launcher.recent.last, arguments)
        return result

    def predict(self, *, device: str | None = None, clock: float | None = None, **sizes: int) -> "Prediction":
        """How long a launch with these sizes takes, and why, without a GPU: `kernel.predict(M=4096, N=4096, K=4096)`.

        `device`: "b200" or "h200", by default the one that runs the kernel's target; `clock` in Hz. Raises CompileError for a missing
        size, and if the time depends on more than sizes (docs/time.md).
        """
        assert self.predicted is not None
        try:
            return self.predicted(sizes, device, clock)
        except Failure as failure:
            raise CompileError(failure.diagnostics) from None

    def tune(self, /, *arguments: Any, seed: int = 0) -> "Outcome":
        """Measures the candidates of the kernel (`tune`) on these CUDA tensors, and keeps the fastest for their sizes: in this process,
        and in the user's cache for later ones. The contents of outputs are undefined afterwards.

        Raises CompileError if there is nothing to choose from or no way to measure, and pipec.tune.measure.NothingRuns.
        """
        from pipec.diag.catalogue.language import tuning as messages
        from pipec.tune.measure import best

        if self.tuned is None:
            raise CompileError([messages.NoTuning(kernel=self.name).diagnostic()])
        sizes = self.tuned.sizes(arguments)
        if sizes is None or not any(getattr(argument, "is_cuda", False) for argument in arguments):
            problem = "the arguments are not CUDA tensors that fit the kernel"
            raise CompileError([messages.CannotMeasure(problem=problem).diagnostic()])
        from pipec.tune.gpu import TorchBench

        outcome = best(self.tuned.choices, sizes, TorchBench(self.tuned.of, arguments), seed=seed)
        self.tuned.remember(outcome.row(self.tuned.label))
        return outcome

    def _named(self, arguments: tuple[Any, ...], by_name: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments in order, then by name, as Python binds them."""
        from pipec.runtime import ArgumentError

        names = [argument.name for argument in self.interface.arguments]
        given = dict(zip(names, arguments, strict=False))
        # Before the count is checked: "passed twice" is more specific than "too many".
        twice = next((name for name in by_name if name in given), None)
        if twice is not None:
            raise ArgumentError(self.name, twice, "it was passed in order and by name")
        if len(arguments) > len(names):
            raise ArgumentError(self.name, "", f"the kernel takes {len(names)} arguments, got {len(arguments) + len(by_name)}")
        return {**given, **by_name}


def _check_call(kernel: str, device: object, options: object) -> None:
    """Checks what the launcher relies on: a device is a string, options are a LaunchOptions."""
    from pipec.runtime import DeviceError, LaunchError, LaunchOptions

    if not isinstance(device, str) or len(device) > _LONGEST_DEVICE:
        raise DeviceError(f"there is no device {shown(device)}", "use 'auto', 'sim', 'cuda' or 'cuda:N'")
    if options is not None and not isinstance(options, LaunchOptions):
        raise LaunchError(kernel, f"`options` must be a pipec.runtime.LaunchOptions, not {shown(options)}")


_LONGEST_DEVICE = 32


def signature(interface: KernelInterface) -> str:
    """How a kernel is called, on one line: `scale(x: f32[M, N], y: f32[M, N], alpha: f32)`."""
    listed = []
    for argument in interface.arguments:
        sizes = f"[{', '.join(map(str, argument.shape))}]" if isinstance(argument, TensorArgument) else ""
        listed.append(f"{argument.name}: {argument.dtype}{sizes}")
    return f"{interface.name}({', '.join(listed)})"


class Program(Mapping[str, CompiledKernel]):
    """The kernels of one source, compiled: `program["gemm"](a, b, d)`."""

    def __init__(self, compilation: Compilation) -> None:
        assert compilation.ptx is not None and compilation.plans is not None
        self._compilation = compilation
        self.ptx: str = compilation.ptx
        self.arch = compilation.arch
        self.report: Mapping[str, KernelReport] = {
            name: report_of(plan, compilation.protocol[name], compilation.findings.get(name))
            for plan in compilation.plans
            for name in (plan.kernel.name,)
        }
        self._watched: dict[float, Program] = {}
        self._kernels = {plan.kernel.name: self._compiled(plan) for plan in compilation.plans}

    def _compiled(self, plan: Plan) -> CompiledKernel:
        name = plan.kernel.name
        return CompiledKernel(
            plan.interface,
            self.report[name],
            self.ptx,
            partial(self._with_watchdog, name),
            self._tuned(plan),
            partial(self._predicted, name),
            self.arch,
            partial(self._choices, name),
        )

    def _predicted(self, name: str, sizes: Mapping[str, int], device: str | None, clock: float | None) -> "Prediction":
        from pipec.predict.launch import prediction

        return prediction(self._compilation, name, sizes, device, clock)

    def _choices(self, name: str) -> "Choices":
        from pipec.tune.choice import Choices

        return Choices(self._compilation, name)

    def _tuned(self, plan: Plan) -> "Tuned[CompiledKernel] | None":
        """For kernels with candidates: what selects one at a call."""
        name = plan.kernel.name
        trees = self._compilation.trees or ()
        tuning = next((kernel.tuning for kernel in trees if kernel.name == name), None)
        # A single candidate leaves no choice, and a kernel with bounded waits is for finding a hang, not for speed.
        if tuning is None or len(tuning.candidates) < 2 or self._compilation.options.watchdog is not None:
            return None
        if self._compilation.options.timestamps:  # its candidates would have other arguments
            return None
        from pipec.tune.devices import gpu_for
        from pipec.tune.tuned import Tuned

        compiled, gpu_of = partial(self._with_candidate, name), partial(gpu_for, self.arch)
        return Tuned(self._choices(name), plan.interface, compiled, gpu_of, lambda made: made.interface)

    def _with_candidate(self, name: str, candidate: "Candidate") -> CompiledKernel:
        """The kernel with other values of its tuned parameters."""
        options = self._compilation.options
        changed = replace(options, constants={**options.constants, **candidate.constants}, kernel=name)
        # The syntax tree does not depend on the constants, so the source is parsed once for all candidates.
        compilation = compile_source(self._compilation.source, changed, parsed=self._compilation.file)
        if compilation.failed:
            raise CompileError(compilation.diagnostics)
        return Program(compilation)[name]

    def _with_watchdog(self, name: str, seconds: float) -> CompiledKernel:
        """The kernel with bounded waits; compiled once per time limit."""
        if seconds not in self._watched:
            options = replace(self._compilation.options, watchdog=seconds)
            compilation = compile_source(self._compilation.source, options)
            if compilation.failed:  # the longer code may exceed a budget
                raise CompileError(compilation.diagnostics)
            self._watched[seconds] = Program(compilation)
        return self._watched[seconds][name]

    def __getitem__(self, name: str) -> CompiledKernel:
        if not isinstance(name, str) or name not in self._kernels:
            raise KeyError(f"no kernel is called {shown(name)}; there is {', '.join(self._kernels)}")
        return self._kernels[name]

    def __repr__(self) -> str:
        return f"<pipec program for {self.arch}: {'; '.join(signature(kernel.interface) for kernel in self._kernels.values())}>"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each kernel."""
        rows = [_html_row(kernel) for kernel in self._kernels.values()]
        heads = "".join(
            f"<th>{head}</th>" for head in ("kernel", "threads", "shared memory", "tensor columns", "checked and proved")
        )
        return f"<table><caption>pipec program for {escape(self.arch)}</caption><tr>{heads}</tr>{''.join(rows)}</table>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    @cached_property
    def llvm(self) -> str:
        """The LLVM IR from which the PTX was generated."""
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
        """Machine code for the program's target, by nvJitLink or ptxas. Raises CompileError if neither is available or they reject it."""
        return self._cubin


def _html_row(kernel: CompiledKernel) -> str:
    report = kernel.report
    memory = f"{report.shared_bytes:,} of {report.shared_limit:,} bytes"
    cells = (
        signature(kernel.interface),
        str(report.threads),
        memory,
        str(report.tensor_columns),
        "<br>".join(escape(f"{word}: {sentence}") for word, sentence in statements(report)),
    )
    return f"<tr><td><code>{escape(cells[0])}</code></td>" + "".join(f"<td>{cell}</td>" for cell in cells[1:]) + "</tr>"
