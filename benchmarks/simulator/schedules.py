"""Takes waits, commits, arrivals, fences and barriers out of kernels, changes announced bytes, and simulates what is left.

    python benchmarks/simulator/schedules.py [--workers N] [--seconds S] [--runs R] [--minutes M] [--prepared FILE] [NAME ...]

The kernels are those of the examples, at their default tiles, and of tests/oracle, which Triton compiles; each at the largest of its
tested shapes that is simulated within S seconds of processor time (default 0.5), so that loops go around their rings. Writes
benchmarks/results/schedules.json and the table of docs/simulator.md: for each kind of change how many there are, how many a
plain run reports, how many only one of the first R schedules of `--timing explore`, and how many change nothing that any of them
shows. What has not been tried after M minutes is left out, in a random order, and counted. The exit status is 1 where a change
gives a wrong result that nothing reports, or breaks the simulator.
"""

import argparse
import copy
import inspect
import json
import multiprocessing
import pickle
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT)]  # this folder has modules of the same names

import numpy as np
from examples.catalogue import COMPARED_ELSEWHERE, Run, cases, compiled, runs

import pipec.sim.explore
from benchmarks.common import surroundings
from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options, SimulationError

RESULTS = ROOT / "benchmarks" / "results" / "schedules.json"
PAGE = ROOT / "docs" / "simulator.md"
HEAD = "| change | kernels | changes | reported in order | reported by a schedule | no effect | wrong and unreported |\n"
# A change that makes a kernel wait for ever shall end soon.
STEPS = 2_000_000
pipec.sim.explore.SECONDS = 60.0

_TEST = re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(%p\d+),")
_EXPECT = re.compile(r"(mbarrier\.arrive\.expect_tx\S*\s+\S+, \[[^\]]*\], )(\d+);")
_REMOVED = {
    "commit": re.compile(r"tcgen05\.commit|commit_group|cp\.async\.mbarrier\.arrive"),
    "arrival": re.compile(r"mbarrier\.arrive\.(?!expect_tx)"),
    "wait of a group": re.compile(r"wait_group|tcgen05\.wait|cp\.async\.wait"),
    "proxy fence": re.compile(r"fence\.proxy\.async"),
    "tcgen05 fence": re.compile(r"tcgen05\.fence"),
    "barrier of the CTA": re.compile(r"(?:bar|barrier)(?:\.cta)?\.sync"),
}


@dataclass(frozen=True)
class Change:
    kind: str
    line: int  # of the PTX, from 1
    text: str


def changes(ptx: str) -> Iterator[Change]:
    lines = ptx.split("\n")

    def changed(kind: str, index: int, *instead: str, over: int = 1) -> Change:
        return Change(
            kind, index + 1, "\n".join([*lines[:index], *instead, *[""] * (over - len(instead)), *lines[index + over :]])
        )

    for index, line in enumerate(lines):
        code = line.partition("//")[0]
        if found := _TEST.search(code):
            label = code[: code.index("mbarrier")]
            yield changed("wait for an mbarrier", index, f"{label}setp.eq.u32 {found[1]}, 0, 0;")
        elif found := _EXPECT.search(code):
            for difference in (-16, 16):
                yield changed("announced bytes", index, _EXPECT.sub(rf"\g<1>{int(found[2]) + difference};", line))
        elif "barrier.cluster.arrive" in code:
            end = next(number for number in range(index, len(lines)) if "barrier.cluster.wait" in lines[number])
            kept = [one for one in lines[index + 1 : end] if "barrier.cluster" not in one]
            yield changed("barrier of the cluster", index, *kept, over=end - index + 1)
        else:
            for kind, pattern in _REMOVED.items():
                if pattern.search(code) and not code.lstrip().startswith("."):
                    yield changed(kind, index, "")


@dataclass(frozen=True)
class Subject:
    """A kernel with a launch. `tried(ptx, options)` runs such a text on fresh inputs, raises SimulationError, and says whether the
    results are right."""

    name: str
    ptx: str
    tried: Callable[[str, Options], bool]

    def outcome(self, ptx: str) -> str:
        """Of a changed kernel: "in order", "schedule", "wrong", "nothing", or what broke the simulator."""
        for name, timing in (("in order", "order"), ("schedule", "explore")):
            try:
                right = self.tried(ptx, Options(timing, step_limit=STEPS, trace=False))
            except SimulationError:
                return name
            except Exception as error:  # noqa: BLE001 - whatever breaks the simulator is an outcome of the change
                return f"broken: {error!r}"[:200]
            if not right:
                return "wrong"
        return "nothing"


# ------------------------------------------------------------------------------------------------- the examples


def examples(seconds: float) -> Iterator[Subject]:
    for case in cases():
        if case.constants or case.path.stem in COMPARED_ELSEWHERE:
            continue
        kernels: dict[str, list[Run]] = defaultdict(list)
        for run in runs(case):
            if all(number > 0 for number in run.numbers.values()):
                kernels[run.kernel].append(run)
        for kernel, found in kernels.items():
            found.sort(key=lambda run: prod(run.numbers.values()))
            yield largest([_example(f"{case.name}: {kernel}", run) for run in found], seconds)


def _example(name: str, run: Run) -> Subject:
    def tried(ptx: str, options: Options) -> bool:
        trial = trial_of(run.plan, run.numbers, seed=1)
        launch(run.plan.interface, ptx, trial.arguments, device="sim", options=LaunchOptions(options))
        return all(outcome.passed for outcome in trial.judged())

    return Subject(name, compiled(run.case).ptx or "", tried)


def largest(subjects: Sequence[Subject], seconds: float) -> Subject:
    """The last of them that runs within so many seconds of processor time; the first where none does."""
    chosen = subjects[0]
    for subject in subjects:
        started = time.process_time()
        assert subject.tried(subject.ptx, Options(trace=False)), f"{subject.name} is wrong as it is"
        if time.process_time() - started > seconds:
            break
        chosen = subject
    return chosen


# ------------------------------------------------------------------------------------------- what Triton compiles


class _Enough(Exception):
    """A test has launched its kernel, and the rest of it is not asked for."""


@dataclass(frozen=True)
class Launch:
    """One of tests/oracle: what `pipec.sim.launch` is called with besides the text and options."""

    name: str
    ptx: str
    kernel: str | None
    given: dict[str, Any]


def oracle() -> Iterator[Launch]:
    """The first launch of each test of tests/oracle that compares results: its kernels are right."""
    import oracle.test_gluon
    import oracle.test_matmul
    import oracle.test_pointers
    from oracle import support

    for module in (oracle.test_gluon, oracle.test_matmul, oracle.test_pointers):
        for name, test in inspect.getmembers(module, inspect.isfunction):
            found = first_launch(module, support, name, test) if name.startswith("test_") else None
            if found is not None:
                yield found


def as_subject(launched: Launch) -> Subject | None:
    """None where the kernel is meant to fail."""

    def run(ptx: str, options: Options) -> list[bytes]:
        given = copy.deepcopy(launched.given)
        pipec.sim.launch(ptx, launched.kernel, options=options, **given)
        arrays = [getattr(one, "array", None) for one in given["arguments"]]
        return [one.tobytes() for one in (*arrays, *given.get("allocations", ())) if isinstance(one, np.ndarray)]

    try:
        wanted = run(launched.ptx, Options(trace=False))
    except SimulationError:
        return None
    return Subject(f"oracle: {launched.name}", launched.ptx, lambda ptx, options: run(ptx, options) == wanted)


def first_parameters(test: Callable[..., object]) -> dict[str, Any]:
    """The first set of each of a test's parametrisations."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return named(
        {mark.args[0] if isinstance(mark.args[0], str) else ",".join(mark.args[0]): next(iter(mark.args[1])) for mark in marks}
    )


def named(chosen: dict[str, Any]) -> dict[str, Any]:
    """A value for each name, where a parametrisation has several."""
    found: dict[str, Any] = {}
    for names, value in chosen.items():
        parts = [part.strip() for part in names.split(",")]
        given = value.values if hasattr(value, "marks") else value if len(parts) > 1 else (value,)
        found |= dict(zip(parts, given, strict=True))
    return found


def first_launch(module: Any, support: Any, name: str, test: Callable[..., object]) -> Launch | None:
    """None where the test launches nothing by itself."""
    caught: list[Launch] = []

    def caught_launch(ptx: str, kernel: str | None = None, **given: Any) -> None:
        given.pop("options", None)
        caught.append(Launch(name.removeprefix("test_"), ptx, kernel, copy.deepcopy(given)))
        raise _Enough

    before, support.sim.launch = support.sim.launch, caught_launch
    try:
        test(**first_parameters(test))
    except _Enough:
        pass
    except TypeError:
        return None  # it takes fixtures
    finally:
        support.sim.launch = before
    return caught[0] if caught else None


# -------------------------------------------------------------------------------------------------- what comes of it

_SUBJECTS: list[Subject] = []  # workers are forked with them


def judged(task: tuple[int, Change]) -> tuple[int, Change, str]:
    index, change = task
    return index, change, _SUBJECTS[index].outcome(change.text)


def within(minutes: float, tasks: Sequence[tuple[int, Change]], workers: int) -> Iterator[tuple[int, Change, str]]:
    """What comes of the tasks that are done in so many minutes."""
    ends = time.monotonic() + 60 * minutes
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        results = pool.imap_unordered(judged, tasks)
        for number in range(len(tasks)):
            try:
                yield results.next(max(0.0, ends - time.monotonic()))
            except multiprocessing.TimeoutError:
                print(f"{len(tasks) - number} changes were not tried in time", flush=True)
                return


def rows_of(results: Iterable[tuple[int, Change, str]]) -> dict[str, Any]:
    counts: dict[int, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    left: dict[int, list[dict[str, object]]] = defaultdict(list)
    for index, change, found in results:
        counts[index][change.kind][found] += 1
        if found not in ("in order", "schedule"):
            instruction = _SUBJECTS[index].ptx.split("\n")[change.line - 1].strip()
            left[index].append({"kind": change.kind, "line": change.line, "instruction": instruction, "outcome": found})
    return {
        _SUBJECTS[index].name: {"counts": by_kind, "left": sorted(left[index], key=lambda one: int(str(one["line"])))}
        for index, by_kind in sorted(counts.items())
    }


def table(rows: dict[str, Any]) -> str:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows.values():
        for kind, counts in row["counts"].items():
            kinds[kind] += Counter(counts)
            kinds[kind]["kernels"] += 1
    text = HEAD + "|---|---|---|---|---|---|---|\n"
    for kind, counts in sorted(kinds.items()):
        columns = [counts["in order"], counts["schedule"], counts["nothing"], counts["wrong"]]
        text += f"| {kind} | {counts['kernels']} | {sum(columns)} | {' | '.join(map(str, columns))} |\n"
    return text


def main() -> int:
    reader = argparse.ArgumentParser(description="what each wait, fence and barrier is worth")
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--seconds", type=float, default=0.5)
    reader.add_argument("--runs", type=int, default=10)
    reader.add_argument("--minutes", type=float, default=600.0)
    reader.add_argument("--prepare", type=Path, help="only write the launches of tests/oracle to this file")
    reader.add_argument("--prepared", type=Path, help="take them from there, where Triton is not installed")
    reader.add_argument("names", nargs="*", help="only kernels whose name contains one of these")
    options = reader.parse_args()
    pipec.sim.explore.RUNS = options.runs
    if options.prepare:
        options.prepare.write_bytes(pickle.dumps(list(oracle())))
        return 0
    launches = pickle.loads(options.prepared.read_bytes()) if options.prepared else oracle()
    subjects = [*examples(options.seconds), *filter(None, map(as_subject, launches))]
    _SUBJECTS.extend(one for one in subjects if not options.names or any(name in one.name for name in options.names))
    tasks = [(index, change) for index, subject in enumerate(_SUBJECTS) for change in changes(subject.ptx)]
    print(f"{len(_SUBJECTS)} kernels, {len(tasks)} changes", flush=True)
    random.Random(0).shuffle(tasks)
    results = list(within(options.minutes, tasks, options.workers))
    rows = rows_of(results)
    record = {"seconds": options.seconds, "runs": options.runs, "not tried": len(tasks) - len(results), "kernels": rows}
    RESULTS.write_text(json.dumps(surroundings() | record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEAD)
    end = page.index("\n\n", start)
    PAGE.write_text(page[:start] + table(rows).rstrip("\n") + page[end:], encoding="utf-8")
    print(table(rows))
    return int(any(one["outcome"] != "nothing" for row in rows.values() for one in row["left"]))


if __name__ == "__main__":
    raise SystemExit(main())
