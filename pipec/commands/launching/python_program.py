"""`pipec triton FILE.py` and `pipec cute FILE.py`: run a program whose kernels another compiler compiles, in the simulator."""

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Protocol

from pipec.api.files import read_input
from pipec.commands.printer import Printer
from pipec.diag.catalogue.commands import run as messages
from pipec.diag.message import Failure
from pipec.record import record
from pipec.sim import Options, SimulationError, SourceLocation
from pipec.sim.findings import Finding
from pipec.source import Source, Span


class Frontend(Protocol):
    """`pipec.triton`, or `pipec.cute`."""

    def install(self, arch: str, options: Options) -> None: ...

    def uninstall(self) -> None: ...

    def findings(self) -> list[Finding]: ...


@record
class Compiler:
    """Whose kernels a program has. `missing` is what `install` raises without it; pipec's `extra` installs the release whose launches are
    understood."""

    frontend: Frontend
    missing: type[Exception]
    name: str
    extra: str


def triton() -> Compiler:
    import pipec.triton as frontend

    return Compiler(frontend, frontend.NoTriton, "Triton", "oracle")


def cute() -> Compiler:
    import pipec.cute as frontend

    return Compiler(frontend, frontend.NoCute, "CuTe DSL", "cute")


def run_program(options: argparse.Namespace, compiler: Compiler) -> int:
    """Runs the program as Python would, with its arguments; 0, or Failure if a launch failed."""
    read_input(options.file)  # an unreadable file is reported like any other
    frontend = compiler.frontend
    options.guard.lift()  # the program is the user's own and has no limits; launches still have step limits
    simulation = Options(
        options.timing, options.seed, options.steps, checks=dict(options.checks), rules=options.rules, trace=False
    )
    try:
        frontend.install(options.arch, simulation)
    except compiler.missing as error:
        raise Failure(messages.NoCompiler(compiler=compiler.name, extra=compiler.extra, problem=str(error))) from None
    before = sys.argv, list(sys.path)
    sys.argv = [options.file, *options.program_arguments]
    sys.path.insert(0, str(Path(options.file).resolve().parent))
    try:
        runpy.run_path(options.file, run_name="__main__")
    except SimulationError as error:
        raise Failure(_message(error, compiler.name)) from None
    except Exception as error:  # noqa: BLE001  # a program may raise whatever it likes
        raise Failure(_failed(error, options.file)) from None
    finally:
        sys.argv, sys.path[:] = before
        found = frontend.findings()
        frontend.uninstall()
        _print(options.printer, found)
    return 0


def _print(printer: Printer, found: list[Finding]) -> None:
    for finding in found:
        printer.text(f"warning: {finding}")
        printer.row("finding", check=finding.check, text=str(finding), count=finding.count)


def _message(error: SimulationError, compiler: str) -> messages.SimulationFailed:
    return messages.SimulationFailed(
        kernel=str(error.details.get("kernel", f"a kernel of {compiler}")),
        kind=error.kind.replace("_", " "),
        message=error.message.partition("\n")[0],
        details=error.further,
        at=_span(error.source),
    )


def _failed(error: Exception, file: str) -> messages.ProgramFailed:
    """An exception raised by the program itself, at its own line; with the call stack below it, without the frames that started the
    program."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if frame.filename == file), len(frames))
    own = [frame for frame in frames[first:] if frame.filename == file]
    place = SourceLocation(file, own[-1].lineno or 0) if own else None
    called = "".join(traceback.StackSummary.from_list(frames[first:]).format())
    text, _, rest = "".join(traceback.format_exception_only(error)).strip().partition("\n")
    return messages.ProgramFailed(error=text, called=f"{called}{rest}".rstrip() or None, at=_span(place))


def _span(place: SourceLocation | None) -> Span | None:
    """The line of the program."""
    if place is None or not os.path.isfile(place.file):
        return None
    source = Source(place.file, Path(place.file).read_text(encoding="utf-8", errors="replace"))
    if not 0 < place.line <= len(source.lines):
        return None
    text = source.line(place.line)
    first = place.column or len(text) - len(text.lstrip()) + 1
    return source.span(place.line, first, place.line, max(first + 1, len(text.rstrip()) + 1))
