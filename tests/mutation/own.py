"""What notices a mutant of pipec's own checks (`mutation.operators`).

The changed module stands in for its file in a process of its own; there the cases that come through the changed line are compiled, and
what pipec says is compared with what it says otherwise: the golden messages of the error cases, and the verdicts on the examples. What
that leaves goes to the tests of that part.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import pickle
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Self, TypeVar

import pytest

from mutation.operators import ROOT, Change

Answer = TypeVar("Answer")
SECONDS = 120  # of processor time, for all cases of a mutant, or all tests
# Without those that go through changes of PTX and of certificates, or through runs in the simulator, which take minutes.
_SLOW = frozenset(
    {"mutated", "reader_mutations", "against_simulator", "arithmetic_simulated", "forged", "threads_apart", "limits"}
)
_TESTS_OF: Mapping[str, tuple[str, ...]] = {
    "checks": ("tests/checks", "tests/lower/test_meetings.py", "tests/lower/test_drain.py", "tests/sema/test_types.py",
               "tests/sema/test_scopes.py", "tests/sema/test_kernel_heads.py"),
    "kir": ("tests/kir", "tests/checks/test_blocks.py", "tests/checks/test_turn_order.py", "tests/lower/test_global_order.py",
            "tests/protocol/test_acknowledged.py", "tests/fuzz/test_global_kernels.py", "tests/fuzz/test_kernel_variants.py"),
    "protocol": ("tests/protocol",),
    "verify": tuple(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests/verify").glob("test_*.py"))
        if path.stem.removeprefix("test_") not in _SLOW
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A source to compile. `kind`: "error" (its golden is the answer) or "example"."""

    kind: str
    path: str

    def said(self) -> str:
        from diagnose import Options, diagnose_anew

        from pipec.diag.render import render_text
        from pipec.driver import compile_source
        from pipec.source import Source

        path = ROOT / self.path
        text = path.read_text(encoding="utf-8")
        if self.kind == "error":
            return render_text(diagnose_anew(path.name, text, Options.of(text)))
        state = compile_source(Source(path.name, text))
        return render_text(state.diagnostics) + json.dumps({name: one.outcome for name, one in state.protocol.items()})


def cases() -> list[Case]:
    found = [("error", path) for path in sorted((ROOT / "tests/errors").glob("*/*.pipe"))]
    found += [("example", path) for path in sorted((ROOT / "examples").glob("*.pipe"))]
    return [Case(kind, str(path.relative_to(ROOT))) for kind, path in found]


@dataclass(frozen=True, slots=True)
class Known:
    """What a case says, how long it takes, and the changes that it comes through."""

    case: Case
    said: str
    seconds: float
    through: frozenset[Change]


class Coverage:
    """Which changes run. Only functions with a change in them are looked at line by line, the others cost one call."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.reached: set[Change] = set()
        self._wanted = {file: [one for one in changes if one.file == file] for file in {one.file for one in changes}}
        self._codes: dict[CodeType, Mapping[int, Sequence[Change]] | None] = {}

    def __enter__(self) -> Self:
        self.reached = set()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, value: object) -> Any:
        code = frame.f_code
        if code not in self._codes:
            self._codes[code] = self._of(code)
        lines = self._codes[code]
        if lines is None:
            return None
        self.reached.update(lines.get(0, ()))

        def step(frame: FrameType, event: str, value: object) -> Any:
            self.reached.update(lines.get(frame.f_lineno, ()))
            return step

        return step if len(lines) > (0 in lines) else None

    def _of(self, code: CodeType) -> Mapping[int, Sequence[Change]] | None:
        """The changes by line; under 0 those that a call is enough for: what runs when the module is loaded, and lines without code."""
        wanted = self._wanted.get(code.co_filename.removeprefix(f"{ROOT}/"))
        if not wanted:
            return None
        own = {line for _, _, line in code.co_lines() if line is not None}
        first, last = min(own, default=0), max(own, default=0)
        found: dict[int, list[Change]] = {}
        for change in wanted:
            if change.line in own:
                found.setdefault(change.line, []).append(change)
            elif _outside(change) or code.co_name != "<module>" and first <= change.line <= last and _without_code(change):
                found.setdefault(0, []).append(change)
        return found or None


def known(chosen: Sequence[Case], changes: Sequence[Change]) -> list[Known]:
    coverage, found = Coverage(changes), []
    for case in chosen:
        started = time.process_time()
        with coverage:
            said = case.said()
        found.append(Known(case, said, time.process_time() - started, frozenset(coverage.reached)))
    return found


def _pytest(arguments: Sequence[str], plugin: object) -> None:
    """Raises where a test cannot be collected: none of the others would run."""
    # `benchmarks/compiling/examples.py` would be found in place of the folder `tests/examples`, which has no `__init__.py`.
    sys.path[:] = [one for one in sys.path if ROOT / "benchmarks" not in Path(one or ".").resolve().parents]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *arguments], [plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        raise AssertionError(said.getvalue()[-2000:])


# ------------------------------------------------------------------------------------------------------------------- a verdict


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from another text."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.change.module:
            return None
        file = ROOT / self.change.file
        package = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=package)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.change.text(), str(ROOT / self.change.file), "exec")
        exec(code, module.__dict__)  # noqa: S102 - the text is our own


SURVIVED = "survived"
MOST = 500  # cases that a change is tried on


def judged(change: Change, cases: Sequence[Known], most: int = MOST) -> str:
    """Which case notices the change; "survived" if none does. Runs in a process of its own."""
    coming = sorted((one for one in cases if change in one.through), key=lambda one: one.seconds)
    if _outside(change):
        random.Random(0).shuffle(coming)  # it runs once, when the module is loaded: any case may show it
    return in_child(lambda: _judged(change, coming[:most]), SECONDS)


@cache
def _functions(file: str) -> Sequence[tuple[int, int]]:
    return [
        (node.lineno, node.end_lineno or 0)
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


@cache
def _lines(file: str) -> frozenset[int]:
    """Those with code of their own."""
    codes = [compile((ROOT / file).read_text(encoding="utf-8"), file, "exec")]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(line for code in codes for _, _, line in code.co_lines() if line is not None)


def _without_code(change: Change) -> bool:
    return change.line not in _lines(change.file)


def _outside(change: Change) -> bool:
    """Whether the changed line belongs to no function."""
    return not any(first < change.line <= last for first, last in _functions(change.file))


def _with(change: Change) -> None:
    """From here on, in this process, modules are loaded anew, with the change."""
    for name, module in [*sys.modules.items()]:
        # Tests that have run here hold on to the modules as they were.
        of_a_test = str(getattr(module, "__file__", None) or "").startswith(f"{ROOT}/tests/") and not name.startswith("mutation")
        if name.split(".")[0] == "pipec" or of_a_test:
            del sys.modules[name]
    sys.meta_path.insert(0, _Instead(change))
    os.environ["PIPEC_CACHE_DIR"] = ""
    os.chdir(ROOT)  # to which the names of tests are relative


def _judged(change: Change, cases: Sequence[Known]) -> str:
    _with(change)
    for one in cases:
        if one.case.said() != one.said:
            return f"noticed by {one.case.path}"
    return SURVIVED


def judged_by_tests(change: Change, seconds: float = SECONDS, files: Sequence[str] | None = None) -> str:
    """The first test that fails, of as many as take that long together; `files`: see `files_about`."""
    chosen = files_about(change) if files is None else files
    return in_child(lambda: _judged_by_tests(change, chosen, seconds), round(3 * seconds))


def files_about(change: Change) -> list[str]:
    """Files with tests of the changed part; first those named by a word of the path of the changed file."""
    _, folder, *rest = change.file.removesuffix(".py").replace("_", "/").split("/")
    words = {word.rstrip("s") for word in rest}

    def distance(file: str) -> int:
        return -len(words & {word.rstrip("s") for word in Path(file).stem.split("_")})

    return sorted(_files(_TESTS_OF[folder]), key=distance)


def _files(places: Sequence[str]) -> list[str]:
    paths = (ROOT / place for place in places)
    return [
        str(file.relative_to(ROOT)) for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))
    ]


def _judged_by_tests(change: Change, files: Sequence[str], seconds: float) -> str:
    _with(change)
    failed = _first_failure(files, seconds)
    return f"noticed by {failed}" if failed else SURVIVED


def failing(file: str, seconds: int) -> str | None:
    """The first of its tests that fails without a change: it could not tell that it notices one."""
    return in_child(lambda: _first_failure([file], seconds), 3 * seconds)


def _first_failure(files: Sequence[str], seconds: float) -> str | None:
    """Of as many tests as take that long together."""
    failed: list[str] = []
    started = time.process_time()

    class Plugin:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

        def pytest_runtest_teardown(self, item: pytest.Item) -> None:
            if time.process_time() - started > seconds:
                item.session.shouldstop = "the time is over"

    _pytest(["-x", *files], Plugin())
    return failed[0] if failed else None


def in_child(work: Callable[[], Answer], seconds: int) -> Answer | str:
    """What `work` says in a forked process; an exception or too much processor time is noticed, too."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        threading.Thread(target=_watch, args=(seconds,), daemon=True).start()
        answer: Answer | str
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is noticed
            answer = f"noticed: {type(error).__name__} {str(error)[:80]}"
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    found: Answer | str = pickle.loads(data) if data else "noticed: does not end"
    return found


def _watch(seconds: int) -> None:
    import resource

    while True:
        time.sleep(1)
        used = resource.getrusage(resource.RUSAGE_SELF)
        if used.ru_utime + used.ru_stime > seconds:
            os.kill(os.getpid(), signal.SIGKILL)
