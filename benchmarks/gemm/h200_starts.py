"""What a launch costs beside its main loop, on a Hopper GPU: the same tiles over series of K, at shapes that judge nothing.

    python benchmarks/gemm/h200_starts.py [--rounds 9] [--budget 150] [-o FILE]

Where each multiprocessor has one tile, the time over K is a line: its slope is the main loop's, and what is left at K = 0 is the launch,
the way to the first data, the start of a cluster, the order of tiles that a scheduler works out, and the epilogue. Kernels of like tiles
differ in one of these. The constants of pipec.predict.device that are about them are fitted to this record
(benchmarks/prediction/fit_model.py), and judged on shapes of the others. `farther`: the same kernels where buffers exceed the L2 twelve
times, not three times.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_shapes import Shape, Tile
from benchmarks.gemm.h200_tiles import gemms, write

SHAPES = tuple(
    Shape(m, n, k, "odd")
    for m, n, depths in (
        (896, 1152, (64, 256, 512, 1536, 3072, 6144)),
        (64, 6400, (512, 2048, 5120, 12288)),
        (8, 6400, (512, 2048, 5120, 12288)),
        (256, 384, (256, 2048, 8192)),
    )
    for k in depths
)
FARTHER = tuple(Shape(m, 6400, k, "odd") for m, k in ((8, 5120), (8, 12288), (64, 5120)))


def tiles() -> list[Tile]:
    return [
        Tile("gemm_sm90", {"BN": 64, "STAGES": 8}),
        Tile("gemm_sm90", {"BM": 64, "BN": 64, "STAGES": 6, "WARPS": 4}),
        Tile("gemm_sm90", {"BM": 64, "BN": 64, "STAGES": 12, "WARPS": 4}),
        Tile("gemm_sm90", {"BM": 64, "BN": 32, "BK": 128, "WARPS": 4}),
        Tile("gemm_sm90", {"BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4}),
        Tile("gemm_sm90"),
        Tile("gemm_sm90_persistent", {"BM": 128, "BN": 64, "STAGES": 8}),
        Tile("gemm_sm90_persistent", {"BM": 64, "BN": 64, "STAGES": 12, "WARPS": 4}),
        Tile("gemm_sm90_persistent", {"BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4}),
        Tile("gemm_sm90_persistent", {"BM": 128, "BN": 128, "STAGES": 4}),
        Tile("gemm_sm90_cluster", {"CX": 2, "CY": 1, "BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4}),
        Tile("gemm_sm90_cluster", {"CX": 1, "CY": 2, "BM": 128, "BN": 64, "STAGES": 8}),
        Tile("gemm_sm90_cluster", {"CX": 2, "CY": 2, "BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4}),
        Tile("gemm_sm90_cluster", {"CX": 2, "CY": 4, "BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4}),
        Tile("gemm_sm90_swapped", {"CX": 2, "BM": 64, "BN": 128, "STAGES": 8}),
        Tile("gemm_sm90_swapped", {"CX": 2, "BM": 64, "BN": 128, "STAGES": 8, "ONCE": True}),
        Tile("gemm_sm90_swapped", {"CX": 1, "CY": 8, "BM": 128, "BN": 64, "STAGES": 8, "ONCE": True}),
        Tile("gemm_sm90_swapped", {"CX": 1, "CY": 4, "BM": 128, "BN": 64, "STAGES": 8, "ONCE": True}),
        Tile("gemm_sm90_swapped", {"CX": 1, "CY": 2, "BM": 128, "BN": 64, "STAGES": 8, "ONCE": True}),
        Tile("gemm_sm90_swapped", {"CX": 1, "CY": 1, "BM": 128, "BN": 64, "STAGES": 8, "ONCE": True}),
        Tile("gemm_sm90_swapped", {"CX": 2, "CY": 2, "BM": 80, "BN": 128, "STAGES": 7, "ONCE": True}),
        Tile("gemm_sm90_narrow", {"BM": 64, "BN": 64, "BK": 64, "SPLITS": 1, "STAGES": 12}),
        Tile("gemm_sm90_narrow", {"BM": 8, "BN": 64, "BK": 128, "SPLITS": 1, "STAGES": 5}),
        Tile("gemm_sm90_narrow", {"BM": 8, "BN": 64, "BK": 128, "SPLITS": 1, "STAGES": 11}),
        Tile("gemm_sm90_narrow", {"BM": 8, "BN": 128, "BK": 64, "SPLITS": 1, "STAGES": 12}),
        Tile("gemm_sm90_narrow", {"BM": 8, "BN": 128, "BK": 128, "SPLITS": 2, "STAGES": 5}),
        Tile("gemm_sm90_pingpong", {"CX": 1, "BN": 128}),
        Tile("gemm_sm90_halves", {"CX": 1, "BM": 128, "BN": 128}),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=150.0, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_starts.json")
    options = parser.parse_args()
    import torch

    started = time.perf_counter()
    record: dict[str, Any] = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}}
    gemms(record, argparse.Namespace(**vars(options), l2_times=3), started, SHAPES, lambda shape: tiles())
    near, record["figures"] = record["figures"], {}
    gemms(record, argparse.Namespace(**vars(options), l2_times=12), started, FARTHER, lambda shape: tiles())
    record |= {"farther": record["figures"], "figures": near, "seconds": round(time.perf_counter() - started, 1)}
    write(options.output, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
