"""`pipec run` and `pipec sim`: make arguments up, run the kernels, compare with the reference, show what happened."""

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipec.diag.catalogue import run as messages
from pipec.diag.message import Failure, Message, Sink
from pipec.driver import Compilation
from pipec.files import read_source, write_output
from pipec.interface import KernelInterface, RoleWarps, TensorArgument, from_json
from pipec.kir.plan_types import Plan
from pipec.reference import (
    Comparison,
    ReferenceProblem,
    accumulation_unit,
    apply_given,
    before_launch,
    compare,
    dtypes_of,
    expected_values,
    operand_rounding,
    reference_lines,
    shape_sets,
)
from pipec.report import KernelReport, report_of
from pipec.runtime.errors import ArgumentError, HangError, RuntimeFault
from pipec.source import Source, Span

if TYPE_CHECKING:
    from pipec.runtime import LaunchResult

_INTERFACE_MARK = "// pipec.kernel "
_ANSWER_AFTER = 1.0  # seconds after which a simulation says how far it is


def run_kernels(state: Compilation, options: argparse.Namespace) -> int:
    """Every kernel of the source with every set of shapes; 0, or Failure at the first that fails."""
    assert state.plans is not None and state.ptx is not None
    _check_names(options.shapes, [plan.interface for plan in state.plans])
    built = _assembled(state)
    for plan in state.plans:
        _print_report(report_of(plan, state.protocol[plan.kernel.name]), state.arch)
        print(f"  built   {built.get(plan.kernel.name, built[''])}")
        for values in _value_sets(plan.interface, plan.kernel.document, options.shapes):
            arguments, before = _run_one(plan.interface, state.ptx, values, options, state.source, plan.kernel.document)
            _compare(plan, arguments, before, values)
    return 0


def run_ptx(options: argparse.Namespace) -> int:
    """A PTX file that says how its kernels are called."""
    source = read_source(options.file)
    interfaces = list(_interfaces(source))
    if not interfaces:
        entries = [line.split(".entry", 1)[1].split("(")[0].strip() for line in source.lines if ".entry" in line]
        raise Failure(
            messages.NoInterface(name=options.file, kernels=", ".join(f"`{entry}`" for entry in entries) or "no kernel")
        )
    chosen = [interface for interface in interfaces if options.kernel in (None, interface.name)]
    if not chosen:
        from pipec.diag.catalogue.names import UnknownKernel

        raise Failure(UnknownKernel(name=options.kernel, known=", ".join(f"`{interface.name}`" for interface in interfaces)))
    _check_names(options.shapes, chosen)
    options.device = "sim"
    for interface in chosen:
        (values,) = _value_sets(interface, "", options.shapes)
        _run_one(interface, source.text, values, options, None)
    return 0


def _interfaces(source: Source) -> Iterator[KernelInterface]:
    for line in source.lines:
        if line.startswith(_INTERFACE_MARK):
            try:
                yield from_json(line.removeprefix(_INTERFACE_MARK))
            except (ValueError, LookupError, TypeError, AttributeError):
                continue  # a line cut off or edited by hand describes nothing


# ----------------------------------------------------------------------------------------------------------------- shapes


def _check_names(shapes: list[tuple[str, str]], interfaces: list[KernelInterface]) -> None:
    known = {name for interface in interfaces for name in _names(interface)}
    for name, value in shapes:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise Failure(messages.BadShape(name=name, value=value, problem=f"names no dimension or scalar; there is {listed}"))


def _names(interface: KernelInterface) -> Iterator[str]:
    for argument in interface.arguments:
        if isinstance(argument, TensorArgument):
            yield from (size for size in argument.shape if isinstance(size, str))
        else:
            yield argument.name


def _value_sets(interface: KernelInterface, document: str, given: list[tuple[str, str]]) -> list[dict[str, float]]:
    """The sizes to run with: those given, completed by the docstring's first set; or all sets of the docstring."""
    sets: list[dict[str, str]] = shape_sets(document) or [{}]
    if given:
        sets = [{**sets[0], **dict(given)}]
    return [_numbers(interface, values) for values in sets]


def _numbers(interface: KernelInterface, values: Mapping[str, str]) -> dict[str, float]:
    dimensions = {
        size
        for argument in interface.arguments
        if isinstance(argument, TensorArgument)
        for size in argument.shape
        if isinstance(size, str)
    }
    missing = sorted(dimensions - values.keys())
    if missing:
        raise Failure(
            messages.MissingShape(
                kernel=interface.name,
                names=", ".join(f"`{name}`" for name in missing),
                example=" ".join(f"{name}=256" for name in missing),
            )
        )
    numbers: dict[str, float] = {}
    for name in _names(interface):
        if name in values:
            numbers[name] = _number(name, values[name], name in dimensions)
    return numbers


def _number(name: str, text: str, dimension: bool) -> float:
    try:
        value = int(text)
    except ValueError:
        try:
            value = float(text)  # type: ignore[assignment]
        except ValueError:
            raise Failure(messages.BadShape(name=name, value=text, problem="is not a number")) from None
    if dimension and (not isinstance(value, int) or not 0 <= value < 2**31):
        raise Failure(messages.BadShape(name=name, value=text, problem="must be a whole number from 0 to 2147483647"))
    return value


# ---------------------------------------------------------------------------------------------------------------- running


def _run_one(
    interface: KernelInterface,
    ptx: str,
    values: dict[str, float],
    options: argparse.Namespace,
    source: Source | None,
    document: str = "",
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Runs a kernel with made-up arguments and shows what happened; the arguments, with the outputs written, and what they held before
    where that counts."""
    from pipec.runtime import Launcher, LaunchOptions, random_arguments
    from pipec.sim import Options, SimulationError

    gc.enable()  # the command line starts without it
    progress = Progress()
    simulation = Options(options.timing, options.seed, options.steps, progress)
    try:
        arguments = random_arguments(interface, values, options.seed)
        apply_given(document, arguments, values)
        before = before_launch(interface, arguments)
        started = time.perf_counter()
        result = Launcher(interface, ptx)(arguments, device=options.device, options=LaunchOptions(simulation))
        seconds = time.perf_counter() - started
    except MemoryError:
        raise Failure(
            messages.LaunchRefused(message=f"the arrays of {_shown(values)} do not fit this machine's memory", hint=None)
        ) from None
    except SimulationError as error:
        raise Failure(_simulation_message(interface, error, source)) from None
    except HangError as error:
        raise Failure(_hang_message(error, source)) from None
    except (ArgumentError, RuntimeFault) as error:
        raise Failure(messages.LaunchRefused(message=str(error), hint=None)) from None
    except ReferenceProblem as problem:
        raise Failure(messages.BadReference(kernel=interface.name, problem=str(problem), text="its `given:` line")) from None
    finally:
        progress.end()
    print(f"\n{interface.name}({_shown(values)}) on {result.device}, grid {result.grid}: {seconds:.2f} s")
    _print_simulation(interface, result, options)
    return arguments, before


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


class Progress:
    """A line on the terminal while a simulation takes longer than a second."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if time.perf_counter() - self._started > _ANSWER_AFTER:
            print(f"\r  simulated {done} of {total} clusters", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        if self._shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)


def _simulation_message(interface: KernelInterface, error: Any, source: Source | None) -> Message:
    span: Span | None = None
    if error.source is not None and source is not None and error.source.file.endswith(source.name):
        span = _line_span(source, error.source.line)
    message, _, details = error.message.partition("\n")
    where = f" (PTX line {error.ptx_line})" if error.ptx_line else ""
    return messages.SimulationFailed(
        kernel=interface.name, kind=error.kind.replace("_", " "), message=message + where, details=details or None, at=span
    )


def _hang_message(error: HangError, source: Source | None) -> Message:
    at, *others = dict.fromkeys(_line_span(source, entry["line"]) for entry in error.blocked)
    return messages.KernelHung(
        kernel=error.kernel,
        summary=error.summary,
        report=error.report,
        at=at,
        others=tuple(span for span in others if span is not None),
    )


def _line_span(source: Source | None, shown_line: int) -> Span | None:
    if source is None:
        return None
    number = shown_line - source.first_line + 1
    line = source.line(number)
    return source.span(number, len(line) - len(line.lstrip()) + 1, number, len(line) + 1)


def _print_simulation(interface: KernelInterface, result: "LaunchResult", options: argparse.Namespace) -> None:
    if result.simulation is None:
        if not result.launched:
            print("  the grid is empty: nothing to run")
        return
    from pipec.timeline import chart, chrome_trace

    statistics = result.simulation.statistics
    rate = statistics.thread_instructions / max(statistics.seconds, 1e-9)
    print(f"  {statistics.thread_instructions:,} thread instructions, {rate:,.0f} per second")
    for warning in result.simulation.warnings:
        print(f"  warning: {warning}")
    print("  " + chart(interface, result.simulation).replace("\n", "\n  "))
    if options.timeline:
        write_output(options.timeline, chrome_trace(interface, result.simulation))


def _compare(plan: Plan, arguments: Mapping[str, Any], before: Mapping[str, Any], values: Mapping[str, float]) -> None:
    lines, name = reference_lines(plan.kernel.document), plan.kernel.name
    if not lines:
        print("  no `numpy:` line in the docstring: the result was not compared")
        return
    try:
        expected = expected_values(lines, {**arguments, **before}, dtypes_of(plan.interface), plan.kernel.constants)
    except ReferenceProblem as problem:
        raise Failure(messages.BadReference(kernel=name, problem=str(problem), text="; ".join(lines))) from None
    depth = int(max((value for value in values.values() if isinstance(value, int)), default=1))
    for output, reference in expected.items():
        unit, rounding = accumulation_unit(plan.kernel), operand_rounding(plan.kernel)
        outcome = compare(output, arguments[output], reference, depth, unit, rounding)
        if not outcome.passed:
            raise Failure(_wrong(plan.interface, outcome))
        against = f"against float64 NumPy over {outcome.total:,} elements"
        print(f"  {output}: largest error {outcome.error:.3g} {against} (allowed there {outcome.bound:.3g})")


def _wrong(interface: KernelInterface, outcome: Comparison) -> Message:
    return messages.WrongResult(
        output=outcome.output,
        kernel=interface.name,
        error=f"{outcome.error:.3g}",
        bound=f"{outcome.bound:.3g}",
        count=f"{outcome.wrong:,}",
        total=f"{outcome.total:,}",
        place=str(list(outcome.first)),
        found=f"{outcome.found:.6g}",
        expected=f"{outcome.expected:.6g}",
    )


def _assembled(state: Compilation) -> dict[str, str]:
    """What the assembler says of each kernel, by name; under "" for a kernel it says nothing of. Raises Failure when it refuses."""
    from pipec.ptx.assemble import assemble, available

    assert state.ptx is not None
    if not available():
        return {"": "not assembled: there is neither nvJitLink nor ptxas (python -m pip install 'pipec[assemble]')"}
    sink = Sink()
    assembled = assemble(state.ptx, state.arch, sink, sources={state.source.name: state.source})
    if assembled is None:
        raise Failure(*sink.diagnostics)
    said = {"": f"assembled by {assembled.assembler}"}
    for kernel in assembled.statistics:
        spills = f"{kernel.spill_stores + kernel.spill_loads} bytes spilled" if kernel.spills else "nothing spilled"
        lost = "".join(f"; {loss}" for loss in assembled.losses)
        said[kernel.name] = f"assembled by {assembled.assembler}: {kernel.registers} registers per thread, {spills}{lost}"
    return said


def _warps(role: RoleWarps) -> str:
    last = role.first_warp + role.warps - 1
    return f"{role.name} (warp {last})" if role.warps == 1 else f"{role.name} (warps {role.first_warp}-{last})"


def _print_report(report: KernelReport, arch: str) -> None:
    print(f"{report.name}: compiled for {arch}")
    for proof in report.proofs:
        print(f"  proved  {proof}")
    for question in report.undecided:
        print(f"  open    {question}")
    print(f"  uses    {report.threads} threads: {', '.join(_warps(role) for role in report.roles)}")
    memory = f"{report.shared_bytes:,} of {report.shared_limit:,} bytes of shared memory"
    print(f"  uses    {memory}, {report.tensor_columns} of 512 tensor-memory columns")
    if report.tiles is not None:
        print(f"  tiles   {report.tiles}")
