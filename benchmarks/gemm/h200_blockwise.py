"""GEMM with 8-bit operands and scales by blocks on a Hopper GPU: pipec against cuBLASLt, tuned, and torch.

    python benchmarks/gemm/h200_blockwise.py [--rounds 15] [--budget 100] [-o FILE]

D[M, N] = (A * scales) @ (B * scales).T, e4m3 to bf16, with one scale for each row of A and 128 elements of K, and one for each 128 x 128
elements of B. Shapes are those of DeepSeek-V3's linear layers, and a square. All of cuBLASLt's algorithms and all of pipec's tiles are
screened; winners meet in shuffled rounds (pipec.tune.rounds). Buffers rotate as in h200.py. Every result is compared with a product in
float32 before it is timed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.cublaslt import CublasLt, DataType, Product
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_contenders import L2_TIMES, MOST_SETS, WORKSPACE
from benchmarks.gemm.gemm_shapes import Shape, Tile
from pipec.tune.rounds import compare, screen
from pipec.tune.torch_clock import GpuClock, l2_bytes

EXAMPLE = "gemm_sm90_blockwise_fp8"
BLOCK = 128
SIZES = (
    (8192, 8192, 8192),
    (4096, 4096, 7168),
    (4096, 7168, 2048),
    (4096, 7168, 16384),
    (4096, 24576, 1536),
    (4096, 32768, 512),
    (4096, 2112, 7168),
    (128, 7168, 16384),
    (128, 24576, 1536),
)
TILES = {
    f"BN={bn} CX={cx} CY={cy} GROUP={group}": Tile(EXAMPLE, {"BN": bn, "CX": cx, "CY": cy, "GROUP": group})
    for bn, cx, cy, group in (
        (64, 1, 1, 8),
        (128, 1, 1, 8),
        (128, 2, 1, 8),
        (128, 1, 2, 8),
        (128, 2, 1, 4),
        (192, 1, 1, 8),
        (192, 2, 1, 8),
        (192, 1, 2, 8),
        (192, 2, 1, 4),
        (192, 1, 1, 16),
        (192, 1, 2, 16),
        (128, 1, 2, 16),
        (128, 2, 1, 16),
    )
}
# 128 blocks, where tiles are a multiple of them: all begin and end together, so that each group of tiles stays in the L2 cache.
TILES |= {f"BN=128 GROUP={group} BLOCKS=128": Tile(EXAMPLE, {"BN": 128, "GROUP": group, "BLOCKS": 128}) for group in (8, 16, 32)}
# A third role, for tiles of 192 rows.
TILES |= {
    f"ROLES=3 CX={cx} CY={cy} GROUP={group}": Tile(EXAMPLE, {"ROLES": 3, "CX": cx, "CY": cy, "GROUP": group})
    for cx, cy, group in ((1, 1, 4), (1, 1, 8), (1, 1, 16), (2, 1, 8), (1, 2, 4), (1, 2, 8), (1, 2, 16))
}
FEW_ROWS = 128  # up to which a split of K is screened
SPLIT = {
    f"split BN={bn} SPLITS={splits} STAGES={stages}": Tile(
        "gemm_sm90_blockwise_fp8_split", {"BN": bn, "SPLITS": splits, "STAGES": stages}
    )
    for bn, splits, stages in ((128, 2, 4), (128, 4, 4), (64, 2, 6), (64, 4, 6))
}
LIMIT = 0.006  # of the norm: a bfloat16 result is off by 0.0017 in the mean square
Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # A, B, scales of A, scales of B, D
Launch = Callable[[Operands], object]


def operands(shape: Shape) -> list[Operands]:
    """Random operands and poisoned results, in as many sets as exceed the L2 cache several times."""
    count = max(2, min(MOST_SETS, -(-L2_TIMES * l2_bytes() // shape.bytes)))
    generator = torch.Generator(device="cuda").manual_seed(shape.m * 31 + shape.n * 17 + shape.k)
    blocks = -(-shape.k // BLOCK)

    def draw(rows: int) -> torch.Tensor:
        return torch.randn(rows, shape.k, device="cuda", generator=generator, dtype=torch.bfloat16).to(torch.float8_e4m3fn)

    def scales(*sizes: int) -> torch.Tensor:
        return torch.rand(*sizes, device="cuda", generator=generator) + 0.5

    def result() -> torch.Tensor:
        return torch.full((shape.m, shape.n), float("nan"), device="cuda", dtype=torch.bfloat16)

    return [
        (draw(shape.m), draw(shape.n), scales(blocks, shape.m), scales(-(-shape.n // BLOCK), blocks), result())
        for _ in range(count)
    ]


def wanted(given: Operands) -> torch.Tensor:
    a, b, a_scales, b_scales, _ = given
    wide = a_scales.T.repeat_interleave(BLOCK, 1)[:, : a.shape[1]]
    square = b_scales.repeat_interleave(BLOCK, 0)[: b.shape[0]].repeat_interleave(BLOCK, 1)[:, : b.shape[1]]
    return (a.float() * wide) @ (b.float() * square).T


def of_torch(given: Operands) -> object:
    a, b, a_scales, b_scales, d = given
    return torch._scaled_mm(a, b.T, a_scales.T, b_scales.T, out_dtype=torch.bfloat16, out=d)


def of_cublaslt(library: CublasLt, shape: Shape, workspace: torch.Tensor) -> dict[str, Launch]:
    """Addresses of scales are part of what is asked for, so each set of operands has a product of its own."""
    asked: dict[int, Product] = {}

    def product(given: Operands) -> Product:
        place = given[2].data_ptr()
        if place not in asked:
            scales = (place, given[3].data_ptr())
            asked[place] = Product(library, shape.m, shape.n, shape.k, DataType.E4M3, scales, blockwise=True)
        return asked[place]

    found: dict[str, Launch] = {}
    first = Product(library, shape.m, shape.n, shape.k, DataType.E4M3, (workspace.data_ptr(),) * 2, blockwise=True)
    for candidate in first.candidates():

        def run(given: Operands, candidate: Any = candidate) -> None:
            a, b, _, _, d = (one.data_ptr() for one in given)
            stream = torch.cuda.current_stream().cuda_stream
            product(given).run(candidate, a, b, d, workspace.data_ptr(), WORKSPACE, stream)

        found[f"cublaslt {candidate.name}"] = run
    return found


def launch_of(built: Built) -> Launch:
    (kernel,) = launchers(built)
    return lambda given: kernel(given, device="cuda", stream=torch.cuda.current_stream())


def of_pipec(built: Mapping[str, Built], shape: Shape) -> dict[str, Launch]:
    offered = TILES | SPLIT if shape.m <= FEW_ROWS else TILES
    return {f"pipec {name}": launch_of(built[key(tile)]) for name, tile in offered.items()}


def measure(shape: Shape, rounds: int, library: CublasLt, built: Mapping[str, Built], workspace: torch.Tensor) -> dict[str, Any]:
    sets = operands(shape)
    right = wanted(sets[0])
    clock = GpuClock(len(sets), shape.flops / 1000e12)
    failed: dict[str, str] = {}
    families: dict[str, list[str]] = {}
    contenders: dict[str, Launch] = {"torch": of_torch, **of_cublaslt(library, shape, workspace), **of_pipec(built, shape)}
    errors: dict[str, float] = {}
    for name, run in contenders.items():
        try:
            sets[0][4].fill_(float("nan"))
            run(sets[0])
            errors[name] = error = float((sets[0][4].float() - right).norm() / right.norm())
            if not error < LIMIT:
                raise ValueError(f"off by {error:.3g} in the norm")
            clock.add(name, lambda index, run=run: run(sets[index]))
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {str(failure)[:200]}"
            continue
        families.setdefault(name.partition(" ")[0], []).append(name)
    screened = {family: screen(names, clock, seed=f"{shape} {family}") for family, names in families.items()}
    best = {family: one.best for family, one in screened.items()}
    done = compare(list(best.values()), clock, rounds, str(shape))
    row: dict[str, Any] = {}
    for family, name in best.items():
        time_of = done.time(name).median
        row[family] = {"name": name, "microseconds": time_of * 1e6, "teraflops": shape.flops / time_of / 1e12}
        row[family]["difference"] = errors[name]
        for rival in ("cublaslt", "torch"):
            if rival in best:
                ratio = done.ratio(name, best[rival])
                row[family][f"to {rival}"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high}
    times = {
        family: {name: float(f"{one.rounds.time(name).median * 1e6:.5g}") for name in one.ranking}
        for family, one in screened.items()
    }
    return row | {"screened": times, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=100, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_blockwise.json")
    options = parser.parse_args()
    started = time.perf_counter()
    built = build_all([*TILES.values(), *SPLIT.values()], torch.cuda.get_device_properties(0).multi_processor_count)
    torch.matmul(*(torch.ones(8, 8, device="cuda", dtype=torch.bfloat16) for _ in "ab"))  # loads the library
    torch.backends.cuda.matmul.allow_tf32 = False
    library = CublasLt.of_process()
    workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cublaslt": library.version}
    record |= {"rounds": options.rounds, "left_out": [], "figures": {}}
    for m, n, k in SIZES:
        shape = Shape(m, n, k, "published", "fp8")
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(str(shape))
            continue
        record["figures"][str(shape)] = row = measure(shape, options.rounds, library, built, workspace)
        told = {
            family: (
                one["name"],
                round(one["microseconds"], 1),
                round(one["teraflops"]),
                one.get("to cublaslt", {}).get("median"),
            )
            for family, one in row.items()
            if family not in ("failed", "screened")
        }
        print(f"{shape!s:20} {told}", flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
