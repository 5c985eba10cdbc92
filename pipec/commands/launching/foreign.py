"""`pipec sim` for PTX without call information: the command line or a file provides it."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipec.api.files import read_input, spare, write_array
from pipec.budgets import BUDGETS, BudgetEnded
from pipec.commands.launching.call import Call, call_of
from pipec.commands.launching.launch_file import read_call
from pipec.commands.launching.run import Progress
from pipec.commands.launching.timeline_page import check_timeline, write_timeline
from pipec.commands.printer import Printer
from pipec.diag.catalogue.commands import run as messages
from pipec.diag.catalogue.commands.internal import InternalError, budget_spent
from pipec.diag.message import Failure, Message
from pipec.sim import Options, Result, SimulationError, chrome_trace, launch, parse
from pipec.sim.ptx.tree import Function
from pipec.source import Source, Span


def run_foreign(options: argparse.Namespace) -> int:
    """Runs one kernel and reports what changed; 0, or Failure."""
    source = read_input(options.file)
    call = read_call(options.launch, options.seed) if options.launch else call_of(options)
    call = replace(call, kernel=options.kernel or call.kernel)
    for name, file in call.save:
        if name not in call.arrays:
            known = ", ".join(call.arrays) or "none"
            raise Failure(
                messages.BadArgument(option="--save", text=f"{name}={file}", problem=f"names no array; there is {known}")
            )
    spare(options.file, options.timeline, *(file for _, file in call.save))
    check_timeline(options.timeline)
    before = {name: array.copy() for name, array in call.arrays.items()}
    result, seconds = _launched(source, call, options)
    grid = ", ".join(str(size) for size in call.grid or (1,))
    kernel = _kernel(source, call.kernel)
    name = kernel.name if kernel else call.kernel or "?"
    printer: Printer = options.printer
    printer.text(f"{name} on sim, grid ({grid}): {seconds:.2f} s")
    _print_result(printer, result)
    counted = {"thread_instructions": result.statistics.thread_instructions, "warnings": list(map(str, result.warnings))}
    printer.row("run", kernel=name, device="sim", grid=call.grid or (1,), seconds=seconds, **counted, printed=result.printed)
    _print_arrays(printer, before, call.arrays)
    for name, file in call.save:
        write_array(file, call.arrays[name])
    if options.timeline:
        write_timeline(options.timeline, json.dumps(chrome_trace(result.trace)))
    return 0


def _launched(source: Source, call: Call, options: argparse.Namespace) -> tuple[Result, float]:
    progress, started = Progress(), time.perf_counter()
    simulation = Options(options.timing, options.seed, options.steps, progress, checks=dict(options.checks), rules=options.rules)
    try:
        result = launch(
            source.text,
            call.kernel,
            grid=call.grid or (1,),
            block=call.block,
            cluster=call.cluster,
            cooperative=call.cooperative,
            programmatic=call.programmatic,
            dynamic_smem=call.shared,
            arguments=call.arguments,
            allocations=call.allocations,
            options=simulation,
        )
    except SimulationError as error:
        _print_printed(options.printer, error.printed)
        raise Failure(message_of(error, source, call.kernel, options)) from None
    finally:
        progress.end()
    return result, time.perf_counter() - started


def message_of(error: SimulationError, source: Source, named: str | None, options: argparse.Namespace) -> Message:
    """The report for a failed simulation of foreign PTX."""
    at, kernel = _ptx_span(source, error.ptx_line), _kernel(source, named)
    name = kernel.name if kernel else named or "?"
    if error.kind == "argument":
        hint = _parameters(kernel) if kernel and "parameter" in error.message else None
        return messages.LaunchRefused(message=error.message, hint=hint)
    if error.kind == "malformed":
        return messages.BadPtx(name=source.name, problem=error.message, at=at)
    if error.kind == "unsupported":
        return messages.UnsupportedPtx(problem=error.message, at=at)
    if error.kind == "step_limit":
        return messages.StepLimit(kernel=name, steps=f"{options.steps:,}")
    if error.kind == "budget":
        return budget_spent(BudgetEnded(BUDGETS[error.details["budget"]], at))
    if error.kind == "internal":
        return InternalError(stage="simulate", error=error.message)
    message = error.message.partition("\n")[0]
    written = f" ({error.source})" if error.source is not None else ""
    return messages.SimulationFailed(
        kernel=name,
        kind=error.kind.replace("_", " "),
        message=message + written,
        details=error.further,
        at=at,
    )


def _ptx_span(source: Source, line: int) -> Span | None:
    if not 0 < line <= len(source.lines):
        return None
    text = source.line(line)
    start = len(text) - len(text.lstrip()) + 1
    return source.span(line, start, line, max(start + 1, len(text.rstrip()) + 1))


def _kernel(source: Source, name: str | None) -> Function | None:
    """The kernel to run, as far as the text determines it."""
    try:
        kernels = parse(source.text).kernels
    except SimulationError:
        return None
    chosen = [kernel for kernel in kernels if name in (None, kernel.name)]
    return chosen[0] if len(chosen) == 1 else None


def _parameters(kernel: Function) -> str:
    """The parameters of the kernel, for a message about wrong arguments."""
    listed = [f"{parameter.size} bytes" for parameter in kernel.parameters]
    return f"`{kernel.name}` takes " + (", ".join(listed) if listed else "no arguments")


def _print_result(printer: Printer, result: Result) -> None:
    statistics = result.statistics
    rate = statistics.thread_instructions / max(statistics.seconds, 1e-9)
    printer.text(f"  {statistics.thread_instructions:,} thread instructions, {rate:,.0f} per second")
    for warning in result.warnings:
        printer.text(f"  warning: {warning}")
    for practice in result.relied_on:
        printer.text(f"  relies on: {practice} (docs/fidelity.md)")
    _print_printed(printer, result.printed)


def _print_printed(printer: Printer, lines: Sequence[str]) -> None:
    for text in lines:
        printer.text(f"  printed: {text.rstrip()}")


def _print_arrays(printer: Printer, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> None:
    for name, array in after.items():
        old, new = (a.view(np.uint8).reshape(array.size, array.itemsize) for a in (before[name], array))
        changed = int((old != new).any(axis=1).sum())
        row = {"dtype": str(array.dtype), "shape": array.shape, "elements": array.size, "changed": changed}
        line = f"  {name}: {array.dtype}{list(array.shape)}, {changed:,} of {array.size:,} elements changed"
        if changed and array.dtype.kind not in "b" and array.dtype.names is None:
            wide = array.astype(np.float64)
            line += f", now {wide.min():.6g} to {wide.max():.6g}"
            row |= {"least": float(wide.min()), "largest": float(wide.max())}
        printer.text(line)
        printer.row("array", name=name, **row)
