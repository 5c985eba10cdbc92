"""Mutants of pipec's own checks (`tests/mutation/own.py`): how many are noticed by the error cases, the examples and the tests.

    WORKERS=2 python benchmarks/proof/own_mutants.py [COUNT [SEED]]

Which cases come through which changes is found first, without a change. A mutant is tried on such cases, the short ones first, for two
minutes of processor time; what these leave, on the tests of its part, as long. What survives is explained in `mutation.explained`.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS), str(ROOT)]

from mutation.explained import WHY, explained_by
from mutation.operators import Change, changes, sample
from mutation.own import SURVIVED, Known, cases, failing, files_about, in_child, judged, judged_by_tests, known

from benchmarks import common

WORKERS = int(os.environ.get("WORKERS", "2"))


def main() -> None:
    count, seed = (int(one) for one in (*sys.argv[1:], *("100", "1")[len(sys.argv) - 1 :]))
    started = time.perf_counter()
    chosen = sample(count, seed)
    told = _all_known(chosen)
    verdicts = _all_judged(chosen, lambda change: judged(change, told))
    # What the cases leave goes to tests. To find out which of thousands of them come there costs more than to run those of the part.
    left = [change for change in chosen if verdicts[change] == SURVIVED]
    _sound(sorted({file for change in left for file in files_about(change)}))
    verdicts |= _all_judged(left, judged_by_tests)
    survivors = [change for change in left if verdicts[change] == SURVIVED]
    reached = {change for one in told for change in one.through}
    common.write(
        "own_mutants",
        {
            "mutants": count,
            "seed": seed,
            "seconds": round(time.perf_counter() - started, 1),
            "noticed": count - len(survivors),
            "survivors": [
                {"mutant": str(change), "reached": change in reached, "why": WHY.get(explained_by(change), "")}
                for change in survivors
            ],
            "explained, but gone": sorted(
                f"{file}: {line}" for file, line, _ in {*WHY} - {explained_by(one) for one in changes()}
            ),
            "verdicts": {str(change): said for change, said in verdicts.items()},
        },
    )


def _all_known(chosen: Sequence[Change]) -> list[Known]:
    """What the cases say, and which changes they come through; in processes of their own."""
    every, parts = cases(), 4 * WORKERS
    found: list[Known] = []
    with ThreadPool(WORKERS) as pool:
        for part in pool.imap(
            lambda some: in_child(lambda: known(some, chosen), 3600), [every[first::parts] for first in range(parts)]
        ):
            assert not isinstance(part, str), part
            found += part
    return found


def _sound(files: Sequence[str]) -> None:
    with ThreadPool(WORKERS) as pool:
        failed = [one for one in pool.map(lambda file: failing(file, 300), files, chunksize=1) if one]
    if failed:
        raise SystemExit(f"fail without a change: {', '.join(failed)}")


def _all_judged(chosen: Sequence[Change], judge: Callable[[Change], str]) -> dict[Change, str]:
    def one(change: Change) -> str:
        said = judge(change)
        print(f"{change}: {said}", file=sys.stderr, flush=True)
        return said

    with ThreadPool(WORKERS) as pool:
        return dict(zip(chosen, pool.map(one, chosen, chunksize=1), strict=True))


if __name__ == "__main__":
    main()
