"""Cycles and clock, as multiprocessors note them, of products with scales by blocks and of attention on a Hopper GPU.

    python benchmarks/gpu/h200_clocks.py [--rounds 3] [-o FILE]         # under two minutes

As benchmarks/gemm/h200_cycles.py, whose tiles have threads that do little: here they scale sums and compute softmax, which takes power,
too. Turns of 0.2 s are long enough for the clock to fall to what each kernel can sustain, where those of h200_attention.json last 4 ms;
cycles hold for both.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm import h200_blockwise as blockwise
from benchmarks.gemm.gemm_build import Built, build_all, key
from benchmarks.gemm.gemm_shapes import Shape
from benchmarks.gemm.h200_cycles import LONG_SECONDS, Notes, graph_of, told, turns
from benchmarks.gpu import h200_attention as attention

PRODUCTS = ((8192, 8192, 8192), (4096, 4096, 7168), (4096, 24576, 1536))
# Two roles, with and without clusters, and three.
TILES = ("BN=128 CX=1 CY=1 GROUP=8", "BN=192 CX=1 CY=1 GROUP=8", "BN=192 CX=1 CY=2 GROUP=8", "ROLES=3 CX=1 CY=2 GROUP=8")
ATTENTION = [(size, length, causal) for size in (64, 128) for length in (2048, 8192) for causal in (False, True)]
_RATE = 600e12  # operations a second, as a guess of how long a launch takes


def note(
    title: str, runs: Mapping[str, Callable[[int], object]], sets: int, flops: float, rounds: int, notes: Notes
) -> dict[str, Any]:
    """Of each run, which is given the number of one of so many `sets` of operands: cycles, microseconds and MHz of a launch."""
    for run in runs.values():
        run(0)
    torch.cuda.synchronize()
    launches = max(sets, int(LONG_SECONDS * _RATE / flops))
    graphs = {name: graph_of(run, launches, sets) for name, run in runs.items()}
    found = told(turns(graphs, launches, rounds, notes, title))
    print(title, *found.items(), sep="\n    ", flush=True)
    return found


def products(size: tuple[int, int, int], built: Mapping[str, Built], rounds: int, notes: Notes) -> dict[str, Any]:
    m, n, k = size
    shape = Shape(m, n, k, "published", "fp8")
    sets = blockwise.operands(shape)
    launches = {name: blockwise.launch_of(built[key(blockwise.TILES[name])]) for name in TILES}
    runs = {name: (lambda index, launch=launch: launch(sets[index])) for name, launch in launches.items()}
    title = f"blockwise {shape}"
    return {title: note(title, runs, len(sets), shape.flops, rounds, notes)}


def heads(size: int, length: int, causal: bool, built: Mapping[str, Built], rounds: int, notes: Notes) -> dict[str, Any]:
    count = attention.TOKENS // length * attention.WIDTH // size
    q, k, v = (torch.randn(count, length, size, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    launches = attention.contenders(size, length, causal, ["pipec"], built)
    runs = {name: (lambda _, launch=launch: launch(q, k, v, out)) for name, launch in launches.items()}
    title = f"attention D={size} {'causal' if causal else 'full'} {length}"
    return {title: note(title, runs, 1, 4 * count * length**2 * size / (1 + causal), rounds, notes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_clocks.json")
    options = parser.parse_args()
    every = [*(blockwise.TILES[name] for name in TILES), *(tile for one in ATTENTION for tile in attention.tiles(*one))]
    built = build_all(
        list({key(tile): tile for tile in every}.values()), torch.cuda.get_device_properties(0).multi_processor_count
    )
    notes, figures = Notes(), {}
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rounds": options.rounds}
    for size in PRODUCTS:
        figures |= products(size, built, options.rounds, notes)
    for size, length, causal in ATTENTION:
        figures |= heads(size, length, causal, built, options.rounds, notes)
    options.output.write_text(json.dumps(record | {"figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
