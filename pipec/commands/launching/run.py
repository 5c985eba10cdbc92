"""`pipec run` and `pipec sim`: generate arguments, run the kernels, compare with the reference, show the results."""

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipec import timestamps
from pipec.api.files import read_input
from pipec.api.report import KernelReport, lines, report_of
from pipec.budgets import BUDGETS, BudgetEnded
from pipec.commands.launching.described import described
from pipec.commands.launching.sizes import check_names, sizes_to_run
from pipec.commands.printer import Printer
from pipec.diag.catalogue.commands import run as messages
from pipec.diag.catalogue.commands.internal import InternalError, budget_spent
from pipec.diag.message import Failure, Message, Sink
from pipec.driver import Compilation
from pipec.interface import KernelInterface, TensorArgument
from pipec.kir.plan.types import Plan
from pipec.ptx.normalise import INTERFACE_MARK
from pipec.record import fields_of
from pipec.reference import Comparison, ReferenceProblem, Trial, given_lines, reference_lines, trial_of
from pipec.runtime.errors import HangError, RuntimeFault
from pipec.source import Source, Span

if TYPE_CHECKING:
    from pipec.runtime import LaunchResult

_ANSWER_AFTER = 1.0  # seconds after which a simulation shows its progress


def run_kernels(state: Compilation, options: argparse.Namespace) -> int:
    """Runs every kernel of the source with every set of shapes; 0, or Failure at the first that fails."""
    assert state.plans is not None and state.ptx is not None
    printer: Printer = options.printer
    check_names(options.shapes, [plan.interface for plan in state.plans])
    built = _assembled(state)
    if options.device == "cuda" or (options.device == "auto" and _gpu_fits(state.arch)):
        options.guard.lift()
    for plan in state.plans:
        report = report_of(plan, state.protocol[plan.kernel.name], state.findings.get(plan.kernel.name))
        assembled = built.get(plan.kernel.name, built[""])
        _print_report(printer, report, state.arch)
        printer.text(f"  built   {assembled}")
        printer.row("kernel", arch=state.arch, **fields_of(report), assembled=assembled)
        for values in sizes_to_run(plan.interface, plan.kernel.document, [*options.shapes, *_stamp_words(plan.interface)]):
            trial = _trial(plan, values, options.seed, state.source)
            if plan.interface.timestamps is not None:
                trial.arguments[plan.interface.timestamps.argument][...] = 0
            _run_one(plan.interface, state.ptx, trial.arguments, values, options, state.source)
            _compare(plan, trial, values, printer)
    return 0


def _gpu_fits(arch: str) -> bool:
    from pipec.runtime.errors import DeviceError
    from pipec.runtime.gpu.cuda import fitting_device

    try:
        fitting_device(arch)
    except DeviceError:
        return False
    return True


def run_ptx(options: argparse.Namespace) -> int:
    """Runs a PTX file that includes its kernels' interfaces."""
    from pipec.runtime import random_arguments

    source = read_input(options.file)
    interfaces = list(_interfaces(source))
    if not interfaces:
        entries = [line.split(".entry", 1)[1].split("(")[0].strip() for line in source.lines if ".entry" in line]
        described = "give `--grid`, `--block` and an `--arg` for each parameter"
        compiled = f"give a PTX file: `pipec compile {options.file} -o OUT.ptx` writes that of a source, `pipec run` compiles and runs it"
        raise Failure(
            messages.NoInterface(
                name=options.file,
                kernels=", ".join(f"`{entry}`" for entry in entries) or "no kernel in PTX",
                advice=described if entries else compiled,
            )
        )
    chosen = [interface for interface in interfaces if options.kernel in (None, interface.name)]
    if not chosen:
        from pipec.diag.catalogue.language.names import UnknownKernel

        raise Failure(UnknownKernel(name=options.kernel, known=", ".join(f"`{interface.name}`" for interface in interfaces)))
    check_names(options.shapes, chosen)
    options.device = "sim"
    for interface in chosen:
        (values,) = sizes_to_run(interface, "", options.shapes)
        with _refusals(values):
            arguments = random_arguments(interface, values, options.seed)
        _run_one(interface, source.text, arguments, values, options, None)
    return 0


def _interfaces(source: Source) -> Iterator[KernelInterface]:
    for line in source.lines:
        if line.startswith(INTERFACE_MARK):
            found = described(line.removeprefix(INTERFACE_MARK))
            if found is not None:
                yield found


def _trial(plan: Plan, values: Mapping[str, float], seed: int, source: Source) -> Trial:
    try:
        with _refusals(values):
            return trial_of(plan, values, seed)
    except ReferenceProblem as problem:
        document = plan.kernel.document
        text = "; ".join((*given_lines(document), *reference_lines(document)))
        at = _part_of_docstring(source, plan.kernel.span, problem)
        raise Failure(messages.BadReference(kernel=plan.kernel.name, problem=str(problem), text=text, at=at)) from None


def _part_of_docstring(source: Source, kernel: Span, problem: ReferenceProblem) -> Span:
    """Where the line stands behind the kernel's name, and in it the part that is wrong; else the name."""
    line = problem.line or "\n"
    number = next((number for number in range(kernel.line, len(source.lines) + 1) if line in source.line(number)), None)
    if number is None:
        return kernel
    first = source.line(number).index(line) + 1
    start, end = problem.part or (0, len(line))
    return source.span(number, first + start, number, first + end)


@contextmanager
def _refusals(values: Mapping[str, float]) -> Iterator[None]:
    """Converts what refuses a launch to a message."""
    try:
        yield
    except MemoryError:
        raise Failure(
            messages.LaunchRefused(message=f"the arrays of {_shown(values)} do not fit this machine's memory", hint=None)
        ) from None
    except HangError:
        raise  # from a launched kernel; it describes the blocked waits itself
    except RuntimeFault as error:
        hint = error.help.replace("device='sim'", "--device sim") if error.help else None
        raise Failure(messages.LaunchRefused(message=error.problem, hint=hint)) from None


def _run_one(
    interface: KernelInterface,
    ptx: str,
    arguments: Mapping[str, Any],
    values: Mapping[str, float],
    options: argparse.Namespace,
    source: Source | None,
) -> None:
    """Runs a kernel and shows the results; its outputs are written into the arguments."""
    from pipec.runtime import Launcher, LaunchOptions
    from pipec.sim import Options, SimulationError

    gc.enable()  # the command line starts with it off
    progress = Progress()
    simulation = Options(options.timing, options.seed, options.steps, progress, checks=dict(options.checks), rules=options.rules)
    try:
        started = time.perf_counter()
        with _refusals(values):
            result = Launcher(interface, ptx)(arguments, device=options.device, options=LaunchOptions(simulation))
        seconds = time.perf_counter() - started
    except SimulationError as error:
        raise Failure(_simulation_message(interface, error, source, options.steps)) from None
    except HangError as error:
        raise Failure(_hang_message(error, source)) from None
    finally:
        progress.end()
    options.printer.text(f"\n{interface.name}({_shown(values)}) on {result.device}, grid {result.grid}: {seconds:.2f} s")
    _print_simulation(interface, result, options)
    if interface.timestamps is not None and options.timeline:
        _write_stamps(interface, arguments, options.timeline)
    options.printer.row("run", kernel=interface.name, values=values, seconds=seconds, **_run_fields(result))


_STAMPED_BLOCKS = 8


def _stamp_words(interface: KernelInterface) -> list[tuple[str, str]]:
    """The size of the tensor for clock stamps, for the first blocks."""
    table = interface.timestamps
    if table is None:
        return []
    (argument,) = (one for one in interface.arguments if one.name == table.argument)
    assert isinstance(argument, TensorArgument)
    return [(str(argument.shape[0]), str(timestamps.words(interface, _STAMPED_BLOCKS)))]


def _write_stamps(interface: KernelInterface, arguments: Mapping[str, Any], path: str) -> None:
    from pipec.commands.launching.timeline_page import trace, write_timeline
    from pipec.predict.following.uses import Stretch

    assert interface.timestamps is not None
    found = timestamps.stamped(interface, arguments[interface.timestamps.argument].tolist())
    # A microsecond of the format stands for a cycle: the clock rate is not recorded.
    stretches = [Stretch(one.block, one.role, one.what, one.start, one.end) for one in found]
    write_timeline(path, trace([(interface.name, 1e6, stretches)], "cycles"))


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _run_fields(result: "LaunchResult") -> dict[str, object]:
    """What is known about a launch, as machine-readable fields."""
    found: dict[str, object] = {"device": result.device, "grid": result.grid, "launched": result.launched}
    if result.simulation is not None:
        found["thread_instructions"] = result.simulation.statistics.thread_instructions
        found["warnings"] = list(map(str, result.simulation.warnings))
    return found


class Progress:
    """A progress line for simulations of more than a second, on a terminal only: a log would keep every update."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._watched = sys.stderr is not None and sys.stderr.isatty()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if self._watched and time.perf_counter() - self._started > _ANSWER_AFTER:
            print(f"\r  simulated {done} of {total} clusters", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        if self._shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)


def _simulation_message(interface: KernelInterface, error: Any, source: Source | None, steps: int) -> Message:
    span: Span | None = None
    if error.kind == "budget":
        return budget_spent(BudgetEnded(BUDGETS[error.details["budget"]]))
    if error.kind == "internal":
        return InternalError(stage="simulate", error=error.message)
    if error.kind == "step_limit":
        return messages.StepLimit(kernel=interface.name, steps=f"{steps:,}")
    if error.source is not None and source is not None and error.source.file.endswith(source.name):
        span = _line_span(source, error.source.line)
    message = error.message.partition("\n")[0]
    where = f" (PTX line {error.ptx_line})" if error.ptx_line else ""
    return messages.SimulationFailed(
        kernel=interface.name, kind=error.kind.replace("_", " "), message=message + where, details=error.further, at=span
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
    printer: Printer = options.printer
    if result.simulation is None:
        if not result.launched:
            printer.text("  the grid is empty: nothing to run")
        return
    from pipec.commands.launching.timeline import chart, chrome_trace
    from pipec.commands.launching.timeline_page import write_timeline

    statistics = result.simulation.statistics
    rate = statistics.thread_instructions / max(statistics.seconds, 1e-9)
    printer.text(f"  {statistics.thread_instructions:,} thread instructions, {rate:,.0f} per second")
    for warning in result.simulation.warnings:
        printer.text(f"  warning: {warning}")
    if interface.barriers:
        printer.text("  " + chart(interface, result.simulation).replace("\n", "\n  "))
    if options.timeline and interface.timestamps is None:
        write_timeline(options.timeline, chrome_trace(interface, result.simulation))


def _compare(plan: Plan, trial: Trial, values: Mapping[str, float], printer: Printer) -> None:
    if not trial.expected:
        printer.text("  no `numpy:` line in the docstring: the result was not compared")
    outcomes = trial.judged()
    for outcome in outcomes:
        verdict = "agrees" if outcome.passed else "wrong"
        against = f"largest error {outcome.error:.3g} against float64 NumPy over {outcome.total:,} elements"
        printer.text(f"  {outcome.output}: {verdict}: {against} (allowed there {outcome.bound:.3g})")
        measured = {"error": outcome.error, "bound": outcome.bound, "elements": outcome.total}
        printer.row("comparison", kernel=plan.kernel.name, values=values, output=outcome.output, verdict=verdict, **measured)
    for name in trial.unjudged:
        printer.text(f"  {name}: not compared: no `numpy:` line of the docstring says what it is")
        printer.row("not compared", kernel=plan.kernel.name, values=values, output=name)
    wrong = [_wrong(plan.interface, outcome) for outcome in outcomes if not outcome.passed]
    if wrong:
        raise Failure(*wrong)


def _wrong(interface: KernelInterface, outcome: Comparison) -> Message:
    if outcome.unwritten:
        return messages.NeverWritten(
            output=outcome.output,
            kernel=interface.name,
            count=f"{outcome.unwritten:,}",
            total=f"{outcome.total:,}",
            place=str(list(outcome.first)),
            expected=f"{outcome.expected:.6g}",
            others=f"{outcome.wrong - outcome.unwritten:,}",
        )
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
    """The assembler's statistics of each kernel, by name; under "" if there are none for a kernel. Raises Failure if it rejects the PTX."""
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


def _print_report(printer: Printer, report: KernelReport, arch: str) -> None:
    printer.text(f"{report.name}: compiled for {arch}")
    for line in lines(report):
        printer.text(f"  {line}")
