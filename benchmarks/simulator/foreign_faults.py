"""Plants faults into PTX that nvcc and Triton made of programs of ours, and simulates each once, as one would run an unknown kernel.

    python benchmarks/simulator/foreign_faults.py [--each N] [--minutes M] [--workers W] [--again] [NAME ...]

The faults are those of tests/mutation/ptx.py, in instructions that run at all, and others in the tensor maps of the launch; of each kind
of change at most N (default 2) in a kernel. A fault is told where the run ends in an error, or has warnings that the right kernel has
not. With --again only the faults that the record has as not told are judged. Writes benchmarks/results/foreign_faults.json and the table
of docs/sanitizer.md. The exit status is 1 where a fault breaks the simulator, or where one of the synchronisation changes the results
and is not told.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib
import json
import multiprocessing
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT)]  # this folder has modules of the same names

import numpy as np
from mutation.ptx import Mutant, mutants, trapped

import pipec.sim
from benchmarks.common import surroundings
from benchmarks.simulator.schedules import Launch, oracle
from pipec.record import replace
from pipec.sim import Options, SimulationError, TensorMap, TensorMapArgument

RESULTS = ROOT / "benchmarks" / "results" / "foreign_faults.json"
PAGE = ROOT / "docs" / "sanitizer.md"
HEAD = "| fault | kernels | planted | reported: error | reported: warning | same results | other results, not reported |\n"
# By module of tests/sim, those of its tests whose launch is taken.
NVCC = {
    "test_hopper_tile": ("tile",),
    "test_cuda_kernels": ("producer_consumer_ring", "distributed_shared_memory", "cp_async_groups", "block_reduction"),
}


class _Enough(Exception):
    """The launch is known, and the rest of the test is not asked for."""


@dataclass
class Subject:
    """A right kernel with its launch: `run` gives the bytes of all arrays afterwards, and what was found."""

    name: str
    launched: Launch

    def __post_init__(self) -> None:
        self.wanted, self.known, self.steps = self.run(self.launched.ptx)

    def run(
        self, ptx: str, steps: int = 10_000_000, maps: dict[int, TensorMap] | None = None
    ) -> tuple[list[bytes], set[tuple[Any, ...]], int]:
        """`maps`: by number of the argument, other ones."""
        given = copy.deepcopy(self.launched.given)
        for number, other in (maps or {}).items():
            given["arguments"][number] = replace(given["arguments"][number], map=other)
        options = Options(trace=False, step_limit=steps)
        result = pipec.sim.launch(ptx, self.launched.kernel, options=options, **given)
        arrays = [getattr(one, "array", one) for one in given["arguments"]]
        left = [one.tobytes() for one in (*arrays, *given.get("allocations", ())) if isinstance(one, np.ndarray)]
        return left, {(one.check, one.ptx_line) for one in result.findings}, result.statistics.warp_instructions

    def runs(self, line: int) -> bool:
        try:
            self.run(trapped(self.launched.ptx, line))
        except SimulationError as error:
            return error.kind == "trap"
        return False

    def outcome(self, text: str, maps: dict[int, TensorMap] | None = None) -> str:
        """ "error: KIND", "warning: CHECKS", "same", "other", or what broke the simulator."""
        try:
            left, found, _ = self.run(text, 5 * self.steps + 100_000, maps)
        except SimulationError as error:
            return f"error: {error.kind}"
        except Exception as error:  # noqa: BLE001 - whatever breaks the simulator is an outcome
            return f"broken: {error!r}"[:200]
        if found - self.known:
            return "warning: " + ", ".join(sorted({str(check) for check, _ in found - self.known}))
        return "same" if left == self.wanted else "other"


def compiled_by_nvcc() -> Iterator[Launch]:
    for name, tests in NVCC.items():
        module = importlib.import_module(f"sim.{name}")
        for test in tests:
            yield _first_launch(module, test, getattr(module, f"test_{test}"))


def _first_launch(module: ModuleType, name: str, test: Callable[..., object]) -> Launch:
    caught: list[Launch] = []

    def caught_launch(ptx: str, kernel: str | None = None, **given: Any) -> None:
        given.pop("options", None)
        caught.append(Launch(name, ptx, kernel, copy.deepcopy(given)))
        raise _Enough

    before = module.launch
    module.launch = caught_launch  # type: ignore[attr-defined]
    try:
        test(**({"options": Options()} if test.__code__.co_argcount else {}))
    except _Enough:
        return caught[0]
    finally:
        module.launch = before  # type: ignore[attr-defined]
    raise AssertionError(f"{name} launches nothing")


def launches(names: list[str]) -> Iterator[tuple[str, Launch]]:
    for compiler, found in (("nvcc", compiled_by_nvcc()), ("Triton", oracle())):
        for launched in found:
            name = f"{compiler}: {launched.name}"
            if not names or any(one in name for one in names):
                yield name, launched


# Faults of these kinds may make another right kernel, with other results.
OF_DATA = {
    "access": "what is not stored again is what an earlier store left, as in any update of a part",
    "accumulation": "a sum may begin anew",
    "bound": "a loop or a mask may have any bounds",
    "columns": "registers may be stored in any columns that were written before",
    "coordinates": "any box of a tensor may be copied",
    "count": "a loop may take any steps",
    "distance": "words, and boxes of a tensor, may stand at any distance from each other",
    "matrix descriptor": "a copy to tensor memory may take any rows",
    "overlap": "what is no longer used may be overwritten",
    "place of a tile": "threads may put words, and read them, anywhere in memory that is written",
    "rank": "any CTA's memory may be read",
    "stage": "either of two values may be chosen",
    "swizzle": "threads may take words of memory that is written in any order, and matrices either way",
    "tensor map": "a part of a tile may be stored, if another copy takes the whole of it",
}

# None where a map has nothing of the kind.
MAP_CHANGES: dict[str, Callable[[TensorMap], TensorMap | None]] = {
    "half the rows": lambda map_: _boxed(map_, 1, map_.box[1] // 2) if len(map_.box) > 1 else None,
    "twice the rows": lambda map_: _boxed(map_, 1, map_.box[1] * 2) if len(map_.box) > 1 else None,
    "half a row": lambda map_: _boxed(map_, 0, map_.box[0] // 2),
    "another swizzle": lambda map_: replace(map_, swizzle="64B" if map_.swizzle != "64B" else "32B"),
    "no swizzle": lambda map_: replace(map_, swizzle="none") if map_.swizzle != "none" else None,
    "another type": lambda map_: replace(map_, dtype=_OTHER_TYPES[map_.dtype]) if map_.dtype in _OTHER_TYPES else None,
    "a longer stride": lambda map_: replace(map_, strides=(map_.strides[0] + 16, *map_.strides[1:])) if map_.strides else None,
}
_OTHER_TYPES = {"f16": "bf16", "bf16": "f16", "f32": "tf32", "s32": "f32"}


def _boxed(map_: TensorMap, dimension: int, extent: int) -> TensorMap | None:
    box = (*map_.box[:dimension], extent, *map_.box[dimension + 1 :])
    return replace(map_, box=box) if 0 < extent <= 256 and map_.box[dimension] % 2 == 0 else None


def of_maps(subject: Subject, each: int) -> Iterator[tuple[str, int, TensorMap]]:
    """Changes of the maps that the kernel is given: what is changed, of which argument, and the map that comes of it."""
    taken: Counter[str] = Counter()
    for number, argument in enumerate(subject.launched.given["arguments"]):
        if not isinstance(argument, TensorMapArgument) or not isinstance(argument.map, TensorMap):
            continue
        for change, make in MAP_CHANGES.items():
            made = make(argument.map) if taken[change] < each else None
            if made is not None:
                taken[change] += 1
                yield change, number, made


def chosen(subject: Subject, each: int) -> Iterator[Mutant]:
    """At most so many of each kind of change, in instructions that run, and in a random order."""
    found = list(mutants(subject.launched.ptx))
    random.Random(0).shuffle(found)
    runs: dict[int, bool] = {}
    taken: Counter[tuple[str, str]] = Counter()
    for mutant in found:
        if taken[mutant.kind, mutant.change] == each:
            continue
        if mutant.line not in runs:
            runs[mutant.line] = subject.runs(mutant.line)
        if runs[mutant.line]:
            taken[mutant.kind, mutant.change] += 1
            yield mutant


def outcome_of(row: dict[str, Any]) -> str:
    return str(row["outcome"]).partition(":")[0]


Key = tuple[str, str, int, str]  # the kind, the change, the line, the instruction


def key_of(row: dict[str, Any]) -> Key:
    return row["kind"], row["change"], row["line"], row["instruction"]


def judged(task: tuple[str, Launch, int, float, list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], int]:
    """The faults of a kernel, and how many were left when the time was over. The last of `task`: what the record has of it, if only
    that is to be judged again."""
    name, launched, each, ends, record = task
    told = {key_of(row): row for row in record if outcome_of(row) in ("error", "warning")}
    wanted = {key_of(row) for row in record}
    rows: list[dict[str, Any]] = []
    left = 0
    try:
        subject = Subject(name, launched)
    except SimulationError:
        return [], 0  # it is meant to fail
    for row, outcome in faults(subject, each, wanted):
        if key_of(row) in told:
            rows.append(told[key_of(row)])
        elif time.monotonic() > ends:
            left += 1
        else:
            rows.append(row | {"outcome": outcome()})
    for row in rows:
        if outcome_of(row) == "other" and row["kind"] in OF_DATA:
            row["why"] = OF_DATA[row["kind"]]
    return rows, left


def faults(subject: Subject, each: int, wanted: set[Key]) -> Iterator[tuple[dict[str, Any], Callable[[], str]]]:
    """Each with what judges it; `wanted`, where there are any, instead of a choice."""
    ptx = subject.launched.ptx
    lines = ptx.split("\n")
    for mutant in mutants(ptx) if wanted else chosen(subject, each):
        row: dict[str, Any] = {"kernel": subject.name, "kind": mutant.kind, "change": mutant.change, "line": mutant.line}
        row["instruction"] = lines[mutant.line - 1].strip()[:120]
        if not wanted or key_of(row) in wanted:
            yield row, functools.partial(subject.outcome, mutant.text)
    for change, number, made in of_maps(subject, each):
        row = {"kernel": subject.name, "kind": "tensor map", "change": change, "line": 0, "instruction": f"argument {number}"}
        yield row, functools.partial(subject.outcome, ptx, {number: made})


def table(rows: list[dict[str, Any]]) -> str:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    kernels: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        kinds[row["kind"]][outcome_of(row)] += 1
        kernels[row["kind"]].add(row["kernel"])
    text = HEAD + "|---|---|---|---|---|---|---|\n"
    for kind, counts in sorted(kinds.items()):
        columns = [counts[outcome] for outcome in ("error", "warning", "same", "other")]
        text += f"| {kind} | {len(kernels[kind])} | {counts.total()} | {' | '.join(map(str, columns))} |\n"
    return text


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--each", type=int, default=2)
    reader.add_argument("--minutes", type=float, default=60.0, help="what is left then is counted")
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--again", action="store_true", help="judge only the faults that the record has as not told")
    reader.add_argument("names", nargs="*", help="only kernels whose name contains one of these")
    options = reader.parse_args()
    started, rows, left = time.monotonic(), [], 0
    known: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["faults"] if options.again else ():
        known[row["kernel"]].append(row)
    ends = started + 60 * options.minutes
    tasks = [(name, launched, options.each, ends, known[name]) for name, launched in launches(options.names)]
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        for (name, *_), (found, missed) in zip(tasks, pool.imap(judged, tasks), strict=True):
            rows += found
            left += missed
            print(f"{name}: {len(rows)} faults so far, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    record = {"each": options.each, "again": options.again, "not tried": left, "faults": rows}
    RESULTS.write_text(json.dumps(surroundings() | record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEAD)
    PAGE.write_text(page[:start] + table(rows).rstrip("\n") + page[page.index("\n\n", start) :], encoding="utf-8")
    print(table(rows))
    return int(any(outcome_of(row) == "broken" or (outcome_of(row) == "other" and "why" not in row) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
