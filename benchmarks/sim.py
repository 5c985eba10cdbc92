"""How fast the simulator runs: the 256 x 256 x 256 GEMM of examples/gemm.pipe, compared with float64 NumPy.

python benchmarks/sim.py [--shape M=256 N=256 K=256]
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import ROOT, write

import pipec
from pipec.runtime import LaunchOptions, random_arguments
from pipec.sim import Options

ROUNDS = 3
GOALS = {"seconds": 3.0}
NAMES = ("M", "N", "K")


def sizes(texts: Sequence[str]) -> dict[str, int]:
    pairs = (text.partition("=") for text in texts)
    return {name: int(value) for name, _, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=[f"{name}=256" for name in NAMES], metavar="NAME=SIZE")
    shape = sizes(parser.parse_args().shape)
    kernel = pipec.compile(ROOT / "examples" / "gemm.pipe")["gemm"]
    arrays = random_arguments(kernel.interface, shape)
    runs = [run(kernel, arrays) for _ in range(ROUNDS)]
    expected = arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64).T
    error = float(np.abs(arrays["d"].astype(np.float64) - expected).max())
    if error > 0.01 * np.abs(expected).max():
        raise SystemExit(f"the result is wrong: largest difference {error} from float64 NumPy")
    took = statistics.median(seconds for seconds, _ in runs)
    counted = runs[0][1]
    figures = {
        "goals": GOALS,
        "shape": shape,
        "seconds": took,
        "thread_instructions": counted.thread_instructions,
        "warp_instructions": counted.warp_instructions,
        "thread_instructions_per_second": counted.thread_instructions / took,
        "largest_difference_from_float64": error,
    }
    write("sim", figures)


def run(kernel: Any, arrays: dict[str, Any]) -> tuple[float, Any]:
    """Seconds of one launch (parsing the PTX included) and the simulator's counts."""
    started = time.perf_counter()
    result = kernel(**arrays, device="sim", options=LaunchOptions(simulation=Options(trace=False)))
    return time.perf_counter() - started, result.simulation.statistics


if __name__ == "__main__":
    main()
