"""Compiles a GEMM of the same shape with Triton for sm_100, no GPU needed; prints JSON. Run by benchmarks/compiling/compile.py.

D[M, N] = A[M, K] @ B[N, K].T, bf16, tile 128 x 256 x 64, tensor descriptors (TMA), 4 stages, warp specialisation.
"""

import json
import os
import statistics
import sys
import tempfile
import time

STARTED = time.perf_counter()
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="pipec-triton-")
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

# The variables above are read by this import.
from pathlib import Path

import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.common import instructions

IMPORTED = time.perf_counter() - STARTED


@triton.jit
def gemm(a, b, d, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, acc)
    d.store([row, column], acc.to(tl.bfloat16))


SIGNATURE = {
    "a": "tensordesc<bf16[128, 64]>",
    "b": "tensordesc<bf16[256, 64]>",
    "d": "tensordesc<bf16[128, 256]>",
    "K": "i32",
    "BM": "constexpr",
    "BN": "constexpr",
    "BK": "constexpr",
}
CONSTANTS = {"BM": 128, "BN": 256, "BK": 64}


def compile_once() -> tuple[float, dict[str, float], object]:
    """Seconds in all, seconds per stage, and the compiled kernel."""
    stages: dict[str, float] = {}

    def listen(*, times, **_) -> None:
        stages["front end"] = times.ir_initialization / 1e6
        stages.update({name: microseconds / 1e6 for name, microseconds in times.lowering_stages})

    triton.knobs.compilation.listener = listen
    source = ASTSource(fn=gemm, signature=SIGNATURE, constexprs=CONSTANTS)
    started = time.perf_counter()
    kernel = triton.compile(
        source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4, "num_stages": 4, "ptx_version": 90}
    )
    return time.perf_counter() - started, stages, kernel


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    first, _, kernel = compile_once()
    runs = [compile_once() for _ in range(rounds)]
    to_ptx = [total - stages.get("cubin", 0.0) for total, stages, _ in runs]
    print(
        json.dumps(
            {
                "version": triton.__version__,
                "import_seconds": IMPORTED,
                "first_seconds": first,
                "source_to_ptx_seconds": statistics.median(to_ptx),
                "source_to_cubin_seconds": statistics.median(total for total, _, _ in runs),
                "stage_seconds": {name: statistics.median(run[1][name] for run in runs) for name in runs[0][1]},
                "ptx_instructions": instructions(kernel.asm["ptx"]),
            }
        )
    )


if __name__ == "__main__":
    main()
