"""Series that tell terms of the model of time apart, and the choice at shapes that nothing was fitted to, on a Hopper GPU.

    python benchmarks/gemm/h200_terms.py [--rounds 7] [--budget 150] [-o FOLDER] [--dry-run] [--counters]

`h200_terms.json` has the series, at shapes that judge nothing; within one of them, one thing changes at a time:

- rows: rows of A and B start at multiples of 16, 32, 64 or 128 bytes.
- steps: ever more tiles for blocks that stay, whether their epilogues are hidden or not; the longer they run, the more they drift apart.
- rings: what a block has in flight, in stages of one or two boxes, where memory is the bound.
- splits: how many blocks add up to one tile.
- crowded: few blocks bound by memory, launches one after the other and overlapping.

`h200_fresh.json` has the candidates that the model ranks first at shapes that are in no other record: the choice is judged by it.
`--counters` launches the tiles of a step once each, for a profiler to count what they read.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_shapes import Shape, Tile
from benchmarks.gemm.h200_tiles import gemms, write

MOST = 40  # candidates at a fresh shape


def _tile(example: str, **constants: int | str) -> Tile:
    return Tile(f"gemm_sm90_{example}" if example else "gemm_sm90", constants)


def _narrow(rows: int, columns: int, depth: int, stages: int) -> Tile:
    return _tile("narrow", BM=rows, BN=columns, BK=depth, SPLITS=1, STAGES=stages)


ROWS = (
    _tile("persistent", BM=128, BN=128, STAGES=6),
    _tile("persistent", BM=128, BN=192, STAGES=4),
    _tile("persistent", BM=64, BN=128, STAGES=8, WARPS=4),
    _tile("persistent", BM=192, BN=176, STAGES=4, WARPS=12),
    _tile("persistent"),
    _tile("pingpong", CX=2, BN=160),
    _tile("pingpong", CX=2, BN=192),
    _tile("pingpong", CX=1, BN=192),
    _tile("cluster", CX=2, CY=1, BM=128, BN=128),
    _tile("cluster", CX=1, CY=2, BM=192, BN=176),
    _tile("halves", CX=1, BM=64, BN=256),
    _tile("halves", CX=1, BM=128, BN=192),
)
STEPS = (
    _tile("pingpong", CX=1, BN=128),
    _tile("pingpong", CX=1, BN=128, GROUP=4),
    _tile("pingpong", CX=1, BN=128, GROUP=16),
    _tile("pingpong", CX=1, BN=128, STAGES=4),
    _tile("pingpong", CX=1, BN=160),
    _tile("pingpong", CX=1, BN=192),
    _tile("pingpong", CX=2, BN=128),
    _tile("persistent", BM=128, BN=128, STAGES=6),
    _tile("persistent", BM=128, BN=128, STAGES=6, GROUP=16),
    _tile("halves", CX=1, BM=128, BN=128),
)
RINGS = tuple(
    _narrow(8, columns, depth, stages)
    for columns, depth, counts in (
        (128, 64, (5, 6, 8, 10, 12)),
        (128, 128, (3, 4, 5, 6)),
        (64, 64, (8, 11, 12)),
        (64, 128, (4, 5, 8, 11)),
    )
    for stages in counts
)
WIDE_RINGS = tuple(
    _narrow(64, 64, depth, stages) for depth, counts in ((64, (6, 8, 10, 12)), (128, (3, 4, 5, 6))) for stages in counts
)
SPLITS = tuple(
    _tile("split_k_sums", SPLITS=splits, BM=rows, BN=columns, STAGES=stages)
    for rows, columns, stages in ((64, 64, 12), (64, 128, 8), (128, 128, 6))
    for splits in (2, 3, 4, 6, 8, 11, 16)
)
CROWDED = (_narrow(8, 64, 128, 5), _narrow(8, 64, 64, 11), _tile("", BM=64, BN=64, STAGES=6, WARPS=4))

SERIES: Mapping[str, tuple[Sequence[Tile], Sequence[tuple[int, int, int]]]] = {
    "rows": (ROWS, [(2944, 3072, k) for k in (2048, 2016, 2032, 2040, 4096, 4080, 4072)]),
    "steps": (
        STEPS,
        [
            *((m, n, 4096) for m, n in ((1408, 2816), (2816, 2816), (2816, 5632), (5632, 5632), (5632, 11264))),
            *((m, n, k) for k in (5120, 8192) for m, n in ((2816, 5632), (5632, 11264))),
        ],
    ),
    "rings": (RINGS, [(8, 6400, k) for k in (4096, 8192, 8320, 14336)]),
    "wide rings": (WIDE_RINGS, [(64, 6400, k) for k in (4096, 8192)]),
    "splits": (SPLITS, [(256, 384, 8192), (256, 384, 16384), (128, 1024, 12288)]),
    "crowded": (CROWDED, [(8, 64 * blocks, 6144) for blocks in (60, 66, 72, 80, 90, 104, 118, 128)]),
}
FRESH = tuple(
    Shape(m, n, k, "odd")
    for m, n, k in (
        (4, 12288, 4096),
        (32, 5120, 13824),
        (128, 11008, 4096),
        (384, 7168, 5120),
        (512, 18432, 3072),
        (768, 4608, 8192),
        (1280, 1280, 1280),
        (1536, 8960, 1536),
        (3000, 4000, 2504),
        (2000, 3000, 4016),
        (3584, 3584, 3584),
        (6144, 6144, 2048),
        (5120, 13824, 5120),
        (384, 512, 24576),
    )
)


def series() -> dict[Shape, Sequence[Tile]]:
    return {Shape(*size, "odd"): tiles for tiles, sizes in SERIES.values() for size in sizes}


def contending(shape: Shape) -> Sequence[Tile]:
    """The candidates of pipec.library.gemm() that the model ranks first, and pass the checks."""
    from benchmarks.gemm.gemm_automatic import MULTIPROCESSORS, library_of, tile_of

    offer, sizes = library_of(shape.kind), {"M": shape.m, "N": shape.n, "K": shape.k}
    ranked = [one.candidate for one in offer.ranked(sizes, MULTIPROCESSORS)]
    passing = (one for one in ranked if not offer.refusal(one))
    return [tile_of(offer, one, shape.kind) for one, _ in zip(passing, range(MOST), strict=False)]


def launch_once(size: tuple[int, int, int], tiles: Sequence[Tile]) -> None:
    import torch

    from benchmarks.gemm.gemm_build import build, key
    from benchmarks.gemm.gemm_contenders import OfPipec, buffers

    shape = Shape(*size, "odd")
    a, b, d = buffers(shape)[0]
    for tile in tiles:
        OfPipec({key(tile): build(tile, 132)}).launch(key(tile), shape)(a, b, d)
        torch.cuda.synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=150.0, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS, help="folder of the two records")
    parser.add_argument("--dry-run", action="store_true", help="lists what would be measured; needs no GPU")
    parser.add_argument("--counters", action="store_true", help="launches the tiles of a step once, and measures nothing")
    options = parser.parse_args()
    if options.dry_run:
        for shape, tiles in series().items():
            print(shape, len(tiles))
        for shape in FRESH:
            print(shape, *(f"\n    {tile.example} {tile.name}" for tile in contending(shape)))
        return 0
    if options.counters:
        launch_once((5632, 11264, 8192), [STEPS[0], STEPS[5], STEPS[6], STEPS[7]])
        return 0
    import torch

    started = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:  # a child starts afresh, without CUDA
        fresh = dict(zip(FRESH, pool.map(contending, FRESH), strict=True))
    for name, tiles in (("h200_terms", series()), ("h200_fresh", fresh)):
        record: dict[str, Any] = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}}
        output = options.output / f"{name}.json"
        how = argparse.Namespace(rounds=options.rounds, budget=options.budget, l2_times=3, output=output)
        gemms(record, how, started, [*tiles], tiles.__getitem__)
        record["seconds"] = round(time.perf_counter() - started, 1)
        write(output, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
