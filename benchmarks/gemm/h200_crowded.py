"""What launches of few blocks cost when they overlap, what narrow tiles cost, and the choice at shapes drawn by chance, on a Hopper GPU.

    python benchmarks/gemm/h200_crowded.py [--rounds 5] [--budget 170] [-o FOLDER] [--dry-run]

`h200_crowded.json` has one tile with 48 to 132 blocks, in launches that overlap and, in a copy of the example without
`programmatic_launch()`, in launches that do not; rows of A and B fill whole cache lines or not. Beside them, tiles of 32 to 256 columns at
shapes that judge nothing. `h200_random.json` has the candidates that the model ranks first at shapes that are drawn anew with each seed.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_shapes import Shape, Tile
from benchmarks.gemm.h200_terms import contending
from benchmarks.gemm.h200_tiles import gemms, write

SHAPES = 14
BLOCKS = (48, 60, 66, 69, 75, 81, 90, 102, 117, 132)
SEED = 20261128
LAUNCH = "    programmatic_launch()\n"


def persistent(rows: int, columns: int, depth: int, stages: int) -> Tile:
    threads = {"WARPS": 4} if rows == 64 else {}
    return Tile("gemm_sm90_persistent", {"BM": rows, "BN": columns, "BK": depth, "STAGES": stages} | threads)


NARROW = (
    *(persistent(128, columns, 64, 6) for columns in (32, 48, 64, 72, 80, 88, 96, 112, 128)),
    *(persistent(64, columns, 64, 6) for columns in (64, 96, 128, 192)),
    *(persistent(256, columns, 64, 4) for columns in (64, 96, 128)),
    *(persistent(128, columns, 32, 8) for columns in (64, 128, 256)),
    Tile("gemm_sm90_swapped", {"CX": 1, "BM": 72, "BN": 128, "STAGES": 8}),
    Tile("gemm_sm90_swapped", {"CX": 2, "BM": 72, "BN": 128, "STAGES": 8}),
    Tile("gemm_sm90_swapped", {"CX": 2, "CY": 2, "BM": 80, "BN": 128, "STAGES": 7}),
)


def apart(folder: Path) -> Tile:
    """The persistent example whose launches do not overlap."""
    text = (ROOT / "examples" / "gemm_sm90_persistent.pipe").read_text(encoding="utf-8")
    assert LAUNCH in text
    (folder / "gemm_sm90_persistent_apart.pipe").write_text(text.replace(LAUNCH, ""), encoding="utf-8")
    return Tile(str(folder / "gemm_sm90_persistent_apart"), {"BM": 128, "BN": 128, "STAGES": 6})


def series(folder: Path) -> Mapping[Shape, Sequence[Tile]]:
    few = (
        Tile("gemm_sm90_persistent", {"BM": 128, "BN": 128, "STAGES": 6}),
        apart(folder),
        Tile("gemm_sm90_pingpong", {"CX": 1, "BN": 128}),
    )
    crowded = {Shape(384, 128 * blocks // 3, k, "odd"): few for k in (808, 832, 3072) for blocks in BLOCKS}
    narrow = [(2304, 5632, 2048), (1152, 2816, 4096), (2304, 5632, 6144)]
    return crowded | {Shape(*size, "odd"): NARROW for size in narrow}


def drawn(seed: int) -> list[Shape]:
    chance = random.Random(seed)

    def size(low: float, high: float) -> int:
        return max(1, int(2 ** chance.uniform(low, high)))

    return [Shape(size(3, 12.5), 8 * size(5, 10.6), 8 * size(5, 10.6), "odd") for _ in range(SHAPES)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=170.0, help="seconds after which no further shape is begun")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS, help="folder of the two records")
    parser.add_argument("--dry-run", action="store_true", help="lists what would be measured; needs no GPU")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(options, series(Path(folder)), drawn(options.seed))


def measure(options: argparse.Namespace, tiles: Mapping[Shape, Sequence[Tile]], shapes: Sequence[Shape]) -> int:
    if options.dry_run:
        for shape in tiles:
            print(shape, len(tiles[shape]))
        print(*shapes)
        return 0
    import torch

    started = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:  # a child starts afresh, without CUDA
        ranked = dict(zip(shapes, pool.map(contending, shapes), strict=True))
    for name, of_shape in (("h200_crowded", tiles), ("h200_random", ranked)):
        record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}}
        output = options.output / f"{name}.json"
        how = argparse.Namespace(rounds=options.rounds, budget=options.budget, l2_times=3, output=output)
        gemms(record, how, started, [*of_shape], of_shape.__getitem__)
        write(output, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
