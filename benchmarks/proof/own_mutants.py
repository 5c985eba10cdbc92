"""Mutants of pipec's own checks (`tests/mutation/own.py`): how many are noticed by the error cases, the examples and the tests.

    python benchmarks/proof/own_mutants.py [COUNT [SEED]]

Which cases come through which changes is found first, without a change; which tests, of what the cases leave. A mutant is tried on cases,
then on tests, the short ones first, as many as take a minute of processor time each. What survives is explained in `mutation.explained`.
"""

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
from mutation.own import SURVIVED, TESTS_OF, Known, cases, in_child, judged, judged_by_tests, known, known_tests

from benchmarks import common

WORKERS = 2


def main() -> None:
    count, seed = (int(one) for one in (*sys.argv[1:], *("100", "1")[len(sys.argv) - 1 :]))
    started = time.perf_counter()
    chosen = sample(count, seed)
    told = in_child(lambda: known(cases(), chosen), 3600)
    assert not isinstance(told, str), told
    verdicts = _all_judged(chosen, told, judged)
    # Only those that are left are looked for in tests: to find out which of thousands come there costs more than to run a few.
    left = [change for change in chosen if verdicts[change] == SURVIVED]
    folders = sorted({change.file.split("/")[1] for change in left})
    tests = known_tests([file for folder in folders for file in TESTS_OF[folder]], left)
    verdicts |= _all_judged(left, tests, judged_by_tests)
    survivors = [change for change in left if verdicts[change] == SURVIVED]
    reached = {change for one in (*told, *tests) for change in one.through}
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


def _all_judged(
    chosen: Sequence[Change], known: Sequence[Known], judge: Callable[[Change, Sequence[Known]], str]
) -> dict[Change, str]:
    def one(change: Change) -> str:
        said = judge(change, known)
        print(f"{change}: {said} ({sum(change in one.through for one in known)} come there)", file=sys.stderr, flush=True)
        return said

    with ThreadPool(WORKERS) as pool:
        return dict(zip(chosen, pool.map(one, chosen, chunksize=1), strict=True))


if __name__ == "__main__":
    main()
