"""How many persistent kernels are proved in which each role says the same loops in other words (`tests/fuzz/persistent_kernels.py`).

    python benchmarks/proof/strangers.py [COUNT [SEED]]

COUNT right kernels of each kind; an open one is neither proved nor refuted. Seconds are processor time of a compilation.
"""

import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from fuzz.persistent_kernels import KINDS, draw

from benchmarks import common
from pipec.driver import Options, compile_source
from pipec.source import Source


def judged(kind: str, seed: int, number: int) -> tuple[str, float]:
    """What is said of a kernel, and how long that took."""
    program = draw(random.Random(f"strangers/{seed}/{kind}/{number}"), kind, right=True)
    started = time.process_time()
    state = compile_source(Source("k.pipe", program.source), Options(program.arch))
    codes = {one.code for one in state.diagnostics}
    said = "proved" if not state.failed else "open" if codes == {"E0604"} else " ".join(sorted(codes))
    return said, time.process_time() - started


def main() -> None:
    count, seed = (int(one) for one in (*sys.argv[1:], *("60", "1")[len(sys.argv) - 1 :]))
    judged("size", seed, 0)
    rows: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        said: Counter[str] = Counter()
        times: list[float] = []
        for number in range(count):
            outcome, took = judged(kind, seed, number)
            said[outcome] += 1
            times.append(took)
        rows[kind] = {**said, "seconds": round(statistics.median(times), 2), "most": round(max(times), 2)}
        print(kind, rows[kind], file=sys.stderr, flush=True)
    common.write("strangers", {"kernels": count, "seed": seed, "kinds": rows})


if __name__ == "__main__":
    main()
