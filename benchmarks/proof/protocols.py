"""What pipec says of random protocols, right ones and ones with a planted fault, beside what is true (`tests/fuzz`).

    python benchmarks/proof/protocols.py [COUNT [SEED [SECONDS]]]

It ends after COUNT programs, or with the last that is judged within SECONDS. The search for a proof is given up after a third of its
visits: what would be proved later counts as open.

`right`: made right, and found right by the token model. `faulty`: a fault was planted, and the token model goes wrong at small
sizes. `harmless`: it does not. `contradictions` are proved kernels that hang, race or differ, and refusals that name sizes at
which nothing is wrong.
"""

import multiprocessing
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS), str(ROOT)]

from benchmarks import common

CHUNK = 20


def _judged(numbers: tuple[int, range]) -> tuple[list[tuple[str, str, str]], list[str], Counter[str]]:
    from fuzz.fuzz_protocol import kernel
    from fuzz.protocol_judge import judge

    seed, these = numbers
    found, contradictions, totals = [], [], Counter[str]()
    for number in these:
        drawn = kernel(random.Random(f"protocol/{seed}/{number}"))
        outcome = judge(drawn, number)
        wrong = outcome.truth not in ("right", "open")
        kind = "faulty" if wrong else "harmless" if drawn.fault else "right"
        said = " ".join(outcome.codes) if outcome.said == "refused" else outcome.said
        found.append((kind, said, drawn.fault.split(",")[0].split(" of p")[0] if wrong else ""))
        contradictions += [f"--seed {seed} --first {number} --count 1: {told}" for told in outcome.contradictions]
        totals += Counter({"states": outcome.states, "simulations": outcome.simulated})
        totals[f"{kind}, all interleavings" if outcome.truth != "open" else f"{kind}, some interleavings"] += 1
    return found, contradictions, totals


def main() -> None:
    count, seed, seconds = (int(one) for one in (*sys.argv[1:], *("2000", "1", "86400")[len(sys.argv) - 1 :]))
    started, judged = time.perf_counter(), 0
    rows: Counter[tuple[str, str]] = Counter()
    faults: Counter[tuple[str, bool]] = Counter()
    totals: Counter[str] = Counter()
    told: list[str] = []
    chunks = [(seed, range(first, min(first + CHUNK, count))) for first in range(0, count, CHUNK)]
    with multiprocessing.Pool() as pool:
        for done, (found, contradictions, sums) in enumerate(pool.imap_unordered(_judged, chunks), 1):
            rows.update((kind, said) for kind, said, _ in found)
            faults.update((fault, said == "proved") for _, said, fault in found if fault)
            totals += sums
            told += contradictions
            for one in contradictions:
                print(one, file=sys.stderr, flush=True)
            judged += len(found)
            if time.perf_counter() - started > seconds:
                break
            if done % 10 == 0:
                print(f"{done * CHUNK} of {count}: {_table(rows)}", file=sys.stderr, flush=True)
    common.write(
        "protocols",
        {
            "programs": judged,
            "seed": seed,
            "seconds": round(time.perf_counter() - started, 1),
            "verdicts": _table(rows),
            "faults": {fault: faults[fault, False] for fault, _ in sorted(faults)},
            **dict(sorted(totals.items())),
            "contradictions": sorted(told),
        },
    )


def _table(rows: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    kinds = sorted({kind for kind, _ in rows})
    return {kind: {said: number for (its, said), number in rows.most_common() if its == kind} for kind in kinds}


if __name__ == "__main__":
    main()
