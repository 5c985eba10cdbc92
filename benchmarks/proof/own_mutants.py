"""Mutants of pipec's own checks (`tests/mutation/own.py`): how many are noticed by the error cases, the examples and the tests.

    python benchmarks/proof/own_mutants.py [COUNT [SEED]]

Which cases and tests come through which changes is found first, without a change. A mutant is tried on cases, then on tests, the short
ones first, as many as take a minute of processor time each.
"""

import sys
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS), str(ROOT)]

from mutation.operators import Change, sample
from mutation.own import SURVIVED, TESTS_OF, cases, in_child, judged, judged_by_tests, known, known_tests

from benchmarks import common

WORKERS = 2


def main() -> None:
    count, seed = (int(one) for one in (*sys.argv[1:], *("100", "1")[len(sys.argv) - 1 :]))
    started = time.perf_counter()
    chosen = sample(count, seed)
    told = in_child(lambda: known(cases(), chosen), 3600)
    assert not isinstance(told, str), told
    folders = sorted({change.file.split("/")[1] for change in chosen})
    tests = known_tests([file for folder in folders for file in TESTS_OF[folder]], chosen)
    print(f"{len(told)} cases, {len(tests)} tests, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    def judge(change: Change) -> tuple[Change, str]:
        said = judged(change, told)
        if said == SURVIVED:
            said = judged_by_tests(change, tests)
        coming = sum(change in one.through for one in (*told, *tests))
        if said == SURVIVED and not coming:
            said = f"{SURVIVED}: nothing comes there"
        print(f"{change}: {said} ({coming} come there)", file=sys.stderr, flush=True)
        return change, said

    with ThreadPool(WORKERS) as pool:
        verdicts = pool.map(judge, chosen, chunksize=1)
    survivors = [str(change) for change, said in verdicts if said.startswith(SURVIVED)]
    common.write(
        "own_mutants",
        {
            "mutants": count,
            "seed": seed,
            "seconds": round(time.perf_counter() - started, 1),
            "noticed": count - len(survivors),
            "survivors": survivors,
            "verdicts": {str(change): said for change, said in verdicts},
        },
    )


if __name__ == "__main__":
    main()
