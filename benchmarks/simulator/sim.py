"""How fast the simulator runs GEMMs and where its time goes: examples/gemm.pipe and, where Triton is installed, Triton's.

python benchmarks/simulator/sim.py [--sizes 256 512 1024]

Seconds are the process's own, so that other work on the machine does not count. Every result is compared with float64.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import pipec
from benchmarks.common import write
from pipec.runtime import LaunchOptions
from pipec.sim import Options, Statistics

ROUNDS = 3
GOALS = {"seconds at 512": 0.4, "seconds at 1024": 3.0}
OPTIONS = Options(trace=False)
# The simulator's parts by file or folder; what NumPy and Python do counts for the part that asked for it.
# The first that has the file or one of its folders.
PARTS = {
    "reading PTX": ("ptx", "decode", "ordering", "widths", "forms", "load"),
    "MMA arithmetic": ("numbers", "matrix", "tcgen05", "products"),
    "race detection": ("races",),
    "machine code": ("compiled",),
    "copies, memory": ("memory", "copies", "asynchronous", "addresses", "mbarrier", "swizzle"),
    "warps and their schedule": ("schedule", "threads", "machine", "launch"),
    "other instructions": ("instructions", "units"),
}

Run = Callable[[], Statistics]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[256, 512, 1024], metavar="SIZE")
    sizes = parser.parse_args().sizes
    compilers = {"pipec": pipec_gemm, "Triton": triton_gemm}
    figures = {name: {str(size): measure(make, size) for size in sizes} for name, make in compilers.items()}
    write("sim", {"goals": GOALS, "gemm": figures})


def measure(make: Callable[..., Run | None], size: int) -> dict[str, Any] | None:
    """One size: bf16, M = N = K."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    d = np.zeros((size, size), ml_dtypes.bfloat16)
    run = make(a, b, d)
    if run is None:
        return None
    runs = [timed(run) for _ in range(ROUNDS)]
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    error = float(np.abs(d.astype(np.float64) - expected).max())
    if error > 0.01 * np.abs(expected).max():
        raise SystemExit(f"the result is wrong: largest difference {error} from float64 NumPy")
    took, counted = statistics.median(seconds for seconds, _ in runs), runs[0][1]
    return {
        "seconds": took,
        "thread_instructions": counted.thread_instructions,
        "warp_instructions": counted.warp_instructions,
        "thread_instructions_per_second": counted.thread_instructions / took,
        "warp_instructions_per_second": counted.warp_instructions / took,
        "share_of_time": shares(run),
        "largest_difference_from_float64": error,
    }


def timed(run: Run) -> tuple[float, Statistics]:
    started = time.process_time()
    counted = run()
    return time.process_time() - started, counted


def pipec_gemm(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Run:
    kernel = pipec.compile(ROOT / "examples" / "gemm.pipe")["gemm"]
    return lambda: kernel(a, b, d, device="sim", options=LaunchOptions(simulation=OPTIONS)).simulation.statistics


def triton_gemm(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Run | None:
    """The persistent, warp-specialised kernel of tests/oracle; None where Triton (of that version) is not installed."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from oracle import matmul_kernels, support
    except ImportError:
        return None
    maps = {"a": "tensordesc<bf16[128, 64]>", "b": "tensordesc<bf16[256, 64]>", "d": "tensordesc<bf16[128, 128]>"}
    constants = {"BM": 128, "BN": 256, "BK": 64, "FLATTEN": False}
    kernel = support.build(matmul_kernels.persistent, maps | {"M": "i32", "N": "i32", "K": "i32"}, constants, num_stages=3)
    (m, k), n = a.shape, len(b)
    return lambda: support.simulate(kernel, (4,), OPTIONS, a=a, b=b, d=d, M=m, N=n, K=k).statistics


def shares(run: Run) -> dict[str, float]:
    """Parts of the profiled time of one run, rounded to hundredths."""
    profile = cProfile.Profile()
    profile.runcall(run)
    entries = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent = dict.fromkeys((*PARTS, "the rest"), 0.0)
    for (file, _, _), (_, _, own, _, callers) in entries.items():
        if "/pipec/sim/" in file:
            spent[part_of(file)] += own
            continue
        for (caller, _, _), (_, _, given, _) in callers.items():
            spent[part_of(caller)] += given
    total = sum(spent.values())
    return {name: round(seconds / total, 2) for name, seconds in spent.items()}


def part_of(file: str) -> str:
    inside = file.partition("/pipec/sim/")[2]
    names = {inside.rpartition("/")[2].removesuffix(".py"), *inside.split("/")[:-1]}
    return next((part for part, files in PARTS.items() if inside and names & set(files)), "the rest")


if __name__ == "__main__":
    main()
