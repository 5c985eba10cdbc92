"""How many wrong kernels the compiler refuses: every mutant of the examples, judged (`tests/mutation`).

    python benchmarks/proof/mutation.py [kernel ...]

A mutant is killed when it is refused at compile time, or equivalent when it still equals NumPy. The others are caught by the
simulator only, give another result than the example (a right program for something else), or are not caught at all.
Mutants that change how often a stage is obtained are counted apart: their deadlocks are for the protocol checks.
"""

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from mutation.judge import (
    COMPARISON,
    EQUIVALENT,
    HANG,
    INTERNAL,
    KERNELS,
    LAUNCH,
    REFUSED,
    SIMULATOR,
    Verdict,
    judge,
)

from benchmarks import common

_SCORES = {
    REFUSED: "killed_at_compile_time",
    EQUIVALENT: "equivalent",
    LAUNCH: "refused_at_launch",
    SIMULATOR: "caught_only_by_the_simulator",
    COMPARISON: "caught_only_by_comparison",
    INTERNAL: "not_caught",
    HANG: "not_caught",
}


def main() -> None:
    warnings.simplefilter("ignore")
    chosen = [kernel for kernel in KERNELS if not sys.argv[1:] or kernel.name in sys.argv[1:]]
    started = time.perf_counter()
    verdicts: list[Verdict] = []
    for kernel in chosen:
        verdicts += [judge(kernel, mutant) for mutant in kernel.mutants()]
        print(f"{kernel.name}: {len(verdicts)} mutants so far, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    plain = [verdict for verdict in verdicts if not verdict.mutant.trips]
    groups = sorted({verdict.mutant.group for verdict in plain})
    common.write(
        "mutation",
        {
            "seconds": round(time.perf_counter() - started, 1),
            "all": _score(verdicts),
            "covered_classes": _score(plain),
            "trip_counts": _score([verdict for verdict in verdicts if verdict.mutant.trips]),
            "by_group": {group: _score([verdict for verdict in plain if verdict.mutant.group == group]) for group in groups},
            "by_code": dict(
                Counter(code for verdict in verdicts if verdict.outcome == REFUSED for code in verdict.detail.split())
            ),
            "survivors": [
                {
                    "mutant": verdict.mutant.name,
                    "outcome": verdict.outcome,
                    "detail": verdict.detail,
                    "trip_counts": verdict.mutant.trips,
                }
                for verdict in verdicts
                if verdict.outcome in (SIMULATOR, INTERNAL, HANG)
            ],
        },
    )


def _score(verdicts: list[Verdict]) -> dict[str, int]:
    counts = Counter(_SCORES[verdict.outcome] for verdict in verdicts)
    return {"mutants": len(verdicts)} | {score: counts[score] for score in dict.fromkeys(_SCORES.values())}


if __name__ == "__main__":
    main()
