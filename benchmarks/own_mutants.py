"""Mutants of pipec's own checks (`tests/mutation/own.py`): how many are noticed by the error cases, the examples and the tests.

    python benchmarks/own_mutants.py [COUNT [SEED [SECONDS]]]

No mutant is begun after SECONDS; `not judged` counts those of the sample that were left.
"""

import sys
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path

import common

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from mutation.own import SURVIVED, Change, cases, judged, known, sample, tested

WORKERS = 2
NOT_JUDGED = "not judged"


def main() -> None:
    count, seed, seconds = (int(one) for one in (*sys.argv[1:], *("100", "1", "86400")[len(sys.argv) - 1 :]))
    started = time.perf_counter()
    told = known(cases())
    print(f"{len(told)} cases, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    def judge(change: Change) -> tuple[Change, str]:
        if time.perf_counter() - started > seconds:
            return change, NOT_JUDGED
        said = judged(change, told)
        if said == SURVIVED:
            said = tested(change, change.file.split("/")[1])
        print(f"{change}: {said}", file=sys.stderr, flush=True)
        return change, said

    with ThreadPool(WORKERS) as pool:
        verdicts = pool.map(judge, sample(count, seed), chunksize=1)
    left = sum(said == NOT_JUDGED for _, said in verdicts)
    survivors = [str(change) for change, said in verdicts if said == SURVIVED]
    common.write(
        "own_mutants",
        {
            "mutants": count - left,
            "not judged": left,
            "seed": seed,
            "seconds": round(time.perf_counter() - started, 1),
            "noticed": count - left - len(survivors),
            "survivors": survivors,
            "verdicts": {str(change): said for change, said in verdicts if said != NOT_JUDGED},
        },
    )


if __name__ == "__main__":
    main()
