"""PTX to cubin: ptxas as a program, or nvJitLink inside this process; their errors become diagnostics.

Neither needs a GPU or a driver. ptxas comes from PATH or PyPI's nvidia-cuda-nvcc, nvJitLink from PyPI's nvidia-nvjitlink (through
cuda.bindings). Both print the same log format, so one parser reads errors and statistics of either. ptxas is preferred: it compiles a
whole program, whereas nvJitLink compiles relocatable code, ignores `setmaxnreg` (C7504) and serialises wgmma in the presence of
divisions (C7509).
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipec.budgets import BudgetEnded
from pipec.diag.catalogue.commands.assemble import AssemblerFails, AssemblerMissing, AssemblerRejects, AssemblerTooOld
from pipec.diag.catalogue.commands.internal import budget_spent
from pipec.diag.message import Message, Sink
from pipec.isa.targets import TARGETS
from pipec.ptx.process import run_within_budgets
from pipec.source import Source, Span

PTXAS_TIMEOUT = 120  # seconds of wall time; processor time has a budget


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """The assembler's statistics of one kernel. Registers per thread; everything else in bytes, except the barriers."""

    name: str
    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    @property
    def spills(self) -> bool:
        return self.spill_stores > 0 or self.spill_loads > 0


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin with the assembler's output; `assembler` names the tool and its version."""

    cubin: bytes
    assembler: str
    statistics: tuple[KernelStatistics, ...]
    warnings: tuple[str, ...]
    losses: tuple[str, ...] = ()  # reported performance losses: ignored register budgets, serialised MMAs


class AssemblerUnavailable(Exception):
    """This tool is not available; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One run of a tool; `cubin` is None on failure."""

    assembler: str
    cubin: bytes | None
    log: str


def assemble(
    ptx: str,
    arch: str,
    sink: Sink,
    *,
    tool: str = "auto",
    sources: Mapping[str, Source] | None = None,
    name: str = "generated.ptx",
) -> Assembled | None:
    """The cubin of `ptx` for `arch` ("sm_100a"), or None with the errors reported to `sink`.

    `tool` is "ptxas", "nvjitlink" or "auto" (the first that is available and supports the target). `sources` maps the names in the PTX's
    `.file` directives to source texts, so that an error points at the line that the PTX was generated from; `name` is the name of the
    PTX in messages.
    """
    if arch not in TARGETS:
        # nvJitLink 13.5 terminates the process on some unknown names (sm_1), so it must never see one.
        sink.report(AssemblerFails(assembler="assembling", reason=f"unknown target `{arch}`, known are {', '.join(TARGETS)}"))
        return None
    chosen = tuple(_TOOLS) if tool == "auto" else (tool,)
    missing = []
    for candidate in chosen:
        try:
            outcome = _TOOLS[candidate](ptx, arch)
        except AssemblerUnavailable as reason:
            missing.append(f"{candidate}: {reason}")
            continue
        except BudgetEnded as ended:
            sink.report(budget_spent(ended))
            return None
        if outcome.cubin is None:
            if _is_too_old(outcome) and candidate != chosen[-1]:
                missing.append(f"{candidate}: {outcome.assembler} is too old for {arch}")
                continue
            for message in _errors(outcome, ptx, sources or {}, name):
                sink.report(message)
            return None
        warnings = tuple(entry.text for entry in _entries(outcome.log) if entry.severity == "warning")
        losses = tuple(" ".join(text.split()) for text in _LOSS.findall(outcome.log))
        return Assembled(outcome.cubin, outcome.assembler, statistics(outcome.log), warnings, losses)
    sink.report(AssemblerMissing(wanted=tool, reasons="; ".join(missing)))
    return None


def available() -> dict[str, str]:
    """Each available tool with its version text, e.g. {"ptxas": "ptxas 13.5.37"}; for `pipec --version` and tests."""
    found = {}
    for name, version in (("ptxas", _ptxas_version), ("nvjitlink", _nvjitlink_version)):
        try:
            found[name] = version()
        except AssemblerUnavailable:
            continue
    return found


# --- nvJitLink --------------------------------


@cache
def _nvjitlink_version() -> str:
    try:
        from cuda.bindings import nvjitlink

        major, minor = nvjitlink.version()
    except ImportError as error:
        raise AssemblerUnavailable(f"{error} (package cuda-python)") from None
    except Exception as error:  # noqa: BLE001 - cuda.pathfinder raises a type of its own when the library is not installed
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AssemblerUnavailable(f"{first} (package nvidia-nvjitlink)") from None
    return f"nvJitLink {major}.{minor}"


def _nvjitlink(ptx: str, arch: str) -> _Outcome:
    version = _nvjitlink_version()
    from cuda.bindings import nvjitlink

    data = ptx.encode()
    # Not from its cache, beside which pipec has one of its own: what comes from there may have no log.
    options = [f"-arch={arch}", "-verbose", "-lineinfo", "-no-cache"]
    try:
        handle = nvjitlink.create(len(options), options)
    except nvjitlink.nvJitLinkError as error:  # a target newer than the library
        return _Outcome(version, None, f"ptxas fatal : unsupported arch {arch}: {error}")
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return _Outcome(version, bytes(cubin), _nvjitlink_log(nvjitlink, handle))
    except nvjitlink.nvJitLinkError as error:
        return _Outcome(version, None, _nvjitlink_log(nvjitlink, handle) or f"ERROR {error}")
    finally:
        nvjitlink.destroy(handle)


def _nvjitlink_log(nvjitlink: Any, handle: int) -> str:
    texts = []
    for kind in ("error", "info"):
        log = bytearray(getattr(nvjitlink, f"get_{kind}_log_size")(handle))
        if log:
            getattr(nvjitlink, f"get_{kind}_log")(handle, log)
        texts.append(log.rstrip(b"\0").decode(errors="replace"))
    return "\n".join(texts).strip()


# --- ptxas --------------------------------


@cache
def ptxas_path() -> str:
    """The ptxas to use: that on PATH, else the one of PyPI's nvidia-cuda-nvcc. Raises AssemblerUnavailable."""
    if found := shutil.which("ptxas"):
        return found
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for candidate in sorted(Path(folder).glob("cu*/bin/ptxas"), reverse=True):
            return str(candidate)
    raise AssemblerUnavailable("not on PATH and not among the installed packages (package nvidia-cuda-nvcc)")


@cache
def _ptxas_version() -> str:
    try:
        text = subprocess.run([ptxas_path(), "--version"], check=False, capture_output=True, text=True, timeout=30).stdout
    except OSError as error:
        raise AssemblerUnavailable(f"{ptxas_path()} cannot be run: {error.strerror}") from None
    version = re.search(r"V(\d+\.\d+\.\d+)", text)
    return f"ptxas {version[1]}" if version else "ptxas of unknown version"


def _ptxas(ptx: str, arch: str) -> _Outcome:
    version = _ptxas_version()
    with tempfile.TemporaryDirectory(prefix="pipec-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [ptxas_path(), "-v", "-lineinfo", f"-arch={arch}", str(source), "-o", str(cubin)]
        try:
            run = run_within_budgets(command, PTXAS_TIMEOUT)
        except subprocess.TimeoutExpired:
            return _Outcome(version, None, f"ptxas fatal : no answer after {PTXAS_TIMEOUT} s")
        log = (run.stdout + run.stderr).replace(str(source), "ptx").strip()
        if run.returncode != 0 or not cubin.is_file():
            return _Outcome(version, None, log or f"ptxas fatal : exit status {run.returncode}")
        return _Outcome(version, cubin.read_bytes(), log)


_TOOLS: dict[str, Callable[[str, str], _Outcome]] = {"ptxas": _ptxas, "nvjitlink": _nvjitlink}
TOOLS = ("auto", *_TOOLS)


# --- what they print --------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    severity: str  # "error", "fatal", "warning"
    line: int | None  # of the PTX, from 1
    text: str


# ptxas:      "ptxas k.ptx, line 13; error   : Unknown modifier '.globl'" and "ptxas fatal   : ..."
# nvJitLink:  "ptxas application ptx input, line 13; error   : ..."
_ENTRY = re.compile(r"^ptxas\s+(?:.*?, line (\d+); )?(error|fatal|warning)\s*: (.*)$", re.MULTILINE)
_LOSS = re.compile(r"^ptxas\s+info\s*: (\(C\d+\) Potential Performance Loss: .*)$", re.MULTILINE)
_SUMMARY = "Ptx assembly aborted due to errors"
_TOO_OLD = re.compile(
    r"Unsupported \.version|is not defined for option 'gpu-name'|unknown architecture|unsupported arch", re.IGNORECASE
)


def _entries(log: str) -> Iterator[_Entry]:
    for match in _ENTRY.finditer(log):
        line, severity, text = match.groups()
        if text.strip() != _SUMMARY:
            yield _Entry(severity, int(line) if line else None, text.strip())


def _is_too_old(outcome: _Outcome) -> bool:
    return _TOO_OLD.search(outcome.log) is not None


def _errors(outcome: _Outcome, ptx: str, sources: Mapping[str, Source], name: str) -> Iterator[Message]:
    failures = [entry for entry in _entries(outcome.log) if entry.severity != "warning"]
    if too_old := next((entry for entry in failures if _TOO_OLD.search(entry.text)), None):
        yield AssemblerTooOld(assembler=outcome.assembler, reason=too_old.text)
        return
    if not failures:
        last = outcome.log.splitlines()[-1] if outcome.log else "no message"
        message = AssemblerTooOld if _is_too_old(outcome) else AssemblerFails
        yield message(assembler=outcome.assembler, reason=last.strip())
    text = Source(name, ptx)
    for entry in failures:
        if entry.line is None:
            yield AssemblerFails(assembler=outcome.assembler, reason=entry.text)
            continue
        at = source_span(ptx, entry.line, sources)
        yield AssemblerRejects(
            assembler=outcome.assembler,
            reason=entry.text,
            line=entry.line,
            text=text.line(entry.line).strip(),
            at=at,
            ptx_at=None if at else _whole_line(text, entry.line),
        )


def _whole_line(source: Source, line: int) -> Span:
    text = source.line(line)
    start = len(text) - len(text.lstrip()) + 1
    return source.span(line, start, line, max(len(text.rstrip()) + 1, start + 1))


# --- from a PTX line to the source line --------------------------------

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_FUNCTION = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b")


def source_position(ptx: str, line: int) -> tuple[str, int, int] | None:
    """File, line and column (0 if absent) of the `.loc` in effect at a PTX line (PTX ISA 11.5.2), if there is one."""
    lines = ptx.split("\n")
    for text in reversed(lines[: line - 1]):
        if match := _LOC.match(text):
            file, number, column = match.groups()
            names = dict(_FILE.findall(ptx))
            # LLVM writes line 0 for code without a source line.
            return (names[file], int(number), int(column or 0)) if file in names and int(number) else None
        if _FUNCTION.match(text):
            return None
    return None


def source_span(ptx: str, line: int, sources: Mapping[str, Source]) -> Span | None:
    """The span in `sources` that a PTX line was generated from: its statement up to the end of the source line.

    `.loc` carries the line and column a user sees (Span.shown_line, Span.shown_column).
    """
    position = source_position(ptx, line)
    source = _source_named(sources, position[0]) if position else None
    if position is None or source is None:
        return None
    number = position[1] - source.first_line + 1
    text = source.line(number)
    if not text.strip():
        return None
    first = len(text) - len(text.lstrip()) + 1
    column = max(position[2] - source.indent, first) if position[2] else first
    return source.span(number, min(column, len(text)), number, len(text.rstrip()) + 1)


def _source_named(sources: Mapping[str, Source], name: str) -> Source | None:
    # LLVM may prefix the name with a directory.
    if name in sources:
        return sources[name]
    return next((source for known, source in sources.items() if Path(known).name == Path(name).name), None)


# --- statistics --------------------------------

_PROPERTIES = re.compile(r"ptxas\s+info\s*: (?:Function properties for|Compiling entry function) '?([\w$.]+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas\s+info\s*: Used (\d+) registers(?:, used (\d+) barriers)?(.*)$")
_SHARED = re.compile(r"(\d+) bytes smem")


def statistics(log: str) -> tuple[KernelStatistics, ...]:
    """The kernels that a `-v` log mentions, in its order."""
    found = []
    name, stack = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _PROPERTIES.search(line):
            name = match[1]
        elif match := _STACK.search(line):
            stack = (int(match[1]), int(match[2]), int(match[3]))
        elif match := _USED.search(line):
            shared = _SHARED.search(match[3])
            found.append(KernelStatistics(name, int(match[1]), int(match[2] or 0), *stack, int(shared[1]) if shared else 0))
            stack = (0, 0, 0)
    return tuple(found)
