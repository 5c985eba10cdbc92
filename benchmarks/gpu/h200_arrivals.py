"""What an arrival costs on a Hopper GPU: by all lanes of a warp, or by one lane for the warp.

    python benchmarks/gpu/h200_arrivals.py [-o FILE]

The warps of one block arrive on one barrier of its shared memory, again and again, and nobody waits. Either each lane arrives by itself,
or the lanes meet (bar.warp.sync) and one arrives: with a count of one, or with the whole warp's. In cycles per turn of the slowest warp.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings

TURNS = 2000
_ALONE = '"bar.warp.sync -1;" "@p mbarrier.arrive.shared::cta.b64 _, [%0], {count};"'
WAYS = {
    "each lane": ('"mbarrier.arrive.shared::cta.b64 _, [%0];"', 32),
    "one lane, counted once": (_ALONE.format(count=1), 1),
    "one lane, counted 32 times": (_ALONE.format(count=32), 32),
}
SOURCE = r"""
extern "C" __global__ void arrive(long long* taken) {{
    __shared__ __align__(8) unsigned long long full;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(blockDim.x / 32 * {share}) : "memory");
    __syncthreads();
    long long begin = clock64();
    for (int turn = 0; turn < {turns}; ++turn)
        asm volatile("{{ .reg .pred p; setp.eq.u32 p, %1, 0;" {way} "}}" :: "r"(barrier), "r"(lane) : "memory");
    if (lane == 0) taken[threadIdx.x / 32] = clock64() - begin;
}}
"""


def measure() -> dict[str, dict[str, float]]:
    import cupy

    figures: dict[str, dict[str, float]] = {}
    for name, (way, share) in WAYS.items():
        text = SOURCE.format(turns=TURNS, way=way, share=share)
        kernel = cupy.RawKernel(text, "arrive", options=("--gpu-architecture=sm_90a",))
        for warps in (1, 4, 8, 12):
            taken = cupy.zeros(warps, cupy.int64)
            slowest = []
            for _ in range(7):
                kernel((1,), (32 * warps,), (taken,))
                slowest.append(int(taken.max()) / TURNS)
            figures.setdefault(str(warps), {})[name] = round(median(slowest[1:]), 1)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_arrivals.json")
    options = parser.parse_args()
    import torch

    record: dict[str, Any] = surroundings() | {"gpu": torch.cuda.get_device_name(0), "cycles": measure()}
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for warps, row in record["cycles"].items():
        print(f"{warps:2} warps {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
