"""Whether the samples that `make test` takes of large families notice what the whole families notice: mutants of the code under test.

    python benchmarks/proof/samples.py [--each 5] [--seeds 20] [FAMILY ...]

The whole family runs once without a change, which shows what code its cases come through, and once with each mutant. A mutant that some
case notices is looked for in the samples of `--seeds` commits. Half of the mutants are in code that at most a third of the cases come
through, where a sample has most to lose. Samples that a test draws inside itself (`volume`) are not judged.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from mutation import own
from mutation.own import Change, Coverage, in_child
from samples import LEFT_OUT

from benchmarks import common

# Files of tests, and the code that they are about.
FAMILIES = {
    "lower/test_operands": ("lower",),
    "lower/test_register_operands_sm90": ("lower",),
    "lower/test_registers_sm90": ("lower",),
    "lower/test_scaled": ("lower",),
    "lower/test_tiles": ("lower",),
    "lower/test_striped": ("lower",),
    "lower/test_reductions": ("lower",),
    "lower/test_columns": ("lower",),
    "lower/test_rows": ("lower",),
    "lower/test_scheduling": ("lower",),
    "sim/test_planted_faults": ("sim/machine", "sim/instructions/asynchronous"),
    "errors/test_edits": ("checks",),
}
SECONDS = 240  # of processor time, for a family with a mutant


class Cases:
    """A plugin: which cases there are (without those that a sample only compiles), which fail, and what each comes through."""

    def __init__(self, coverage: Coverage | None = None) -> None:
        self.names: list[str] = []
        self.failed: list[str] = []
        self.through: dict[str, frozenset[Change]] = {}
        self._coverage = coverage

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid for item in session.items if not item.stash.get(LEFT_OUT, False)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if self._coverage is None:
            yield
            return
        with self._coverage:
            yield
        self.through[item.nodeid] = frozenset(self._coverage.reached)


def file_of(family: str) -> str:
    return str(ROOT / "tests" / f"{family}.py")


def whole(family: str, changes: Sequence[Change]) -> dict[str, frozenset[Change]]:
    """Case -> the changes that it comes through."""
    cases = Cases(Coverage(changes))
    own._pytest(["--whole-matrix", file_of(family)], cases)
    assert cases.names and not cases.failed, cases.failed
    return cases.through


def noticed(family: str, change: Change) -> list[str]:
    own._with(change)
    cases = Cases()
    own._pytest(["--whole-matrix", file_of(family)], cases)
    return cases.failed or ([] if cases.names else ["it cannot be collected"])


def kept(family: str, seed: int) -> frozenset[str]:
    """The cases in the sample of a commit."""
    cases = Cases()
    own._pytest(["--collect-only", f"--sample-seed={seed}", file_of(family)], cases)
    return frozenset(cases.names)


def drawn(through: dict[str, frozenset[Change]], each: int) -> list[Change]:
    """Half of those that few cases come through, half of all."""
    counts = Counter(change for reached in through.values() for change in reached)
    every = sorted(counts, key=lambda change: (change.file, change.at, change.new))
    few = [change for change in every if 3 * counts[change] <= len(through)]
    chance = random.Random(0)
    chosen = chance.sample(few, min(len(few), (each + 1) // 2))
    rest = [change for change in every if change not in chosen]
    return chosen + chance.sample(rest, min(len(rest), each - len(chosen)))


def judged(family: str, each: int, seeds: int) -> dict[str, object]:
    files = sorted(path for folder in FAMILIES[family] for path in (ROOT / "pipec" / folder).rglob("*.py"))
    changes = [change for path in files for change in own._of_file(path)]
    through = in_child(lambda: whole(family, changes), 8 * SECONDS)
    assert isinstance(through, dict), through
    samples = [in_child(lambda seed=seed: kept(family, seed), SECONDS) for seed in range(seeds)]
    rows: dict[str, object] = {}
    for change in drawn(through, each):
        failed = in_child(lambda change=change: noticed(family, change), SECONDS)
        if isinstance(failed, str):  # it does not end, or stops the tests themselves: any case does
            rows[str(change)] = failed
            continue
        hit = sum(not sample.isdisjoint(failed) for sample in samples)
        rows[str(change)] = {"cases that notice": len(failed), "samples that notice": hit} if failed else own.SURVIVED
        print(family, change, rows[str(change)], file=sys.stderr, flush=True)
    sizes = [len(sample) for sample in samples]
    return {"cases": len(through), "sampled": round(sum(sizes) / len(sizes), 1), "mutants": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", default=[*FAMILIES])
    parser.add_argument("--each", type=int, default=5, help="mutants of each family")
    parser.add_argument("--seeds", type=int, default=20, help="commits whose samples are looked at")
    options = parser.parse_args()
    started, found = time.perf_counter(), {}
    for family in options.families:
        found[family] = judged(family, options.each, options.seeds)
        rows = [row for one in found.values() for row in one["mutants"].values() if isinstance(row, dict)]
        common.write(
            "samples",
            {
                "seeds": options.seeds,
                "seconds": round(time.perf_counter() - started, 1),
                "noticed by the whole families": len(rows),
                "noticed by every sample": sum(row["samples that notice"] == options.seeds for row in rows),
                "share of samples that notice": round(
                    sum(row["samples that notice"] for row in rows) / max(1, len(rows)) / options.seeds, 4
                ),
                "families": found,
            },
        )


if __name__ == "__main__":
    main()
