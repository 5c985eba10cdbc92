"""Gradients of layer normalisation on a Hopper GPU: pipec against torch.

    python benchmarks/gpu/h200_layer_norm_backward.py [--rounds 25] [--budget 60] [-o FILE]

`examples/layer_norm_backward.pipe`, one kernel that adds the gradients of weights and bias to zeros (their clearing is timed with it),
against torch's `native_layer_norm_backward`, two kernels, and the same compiled by torch.compile. All tiles are screened; the winner meets
torch in shuffled rounds (pipec.tune.rounds); buffers rotate so that every launch finds its rows in memory. Every result is compared with
float64 before it is timed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_build import EXAMPLES, Built, launchers
from benchmarks.gemm.gemm_shapes import Tile
from pipec.tune.rounds import compare, screen
from pipec.tune.torch_clock import GpuClock, l2_bytes

EXAMPLE = "layer_norm_backward"
SHAPES = ((4096, 1024), (16384, 1024), (16384, 2048), (4096, 4096), (8192, 8192))
COMPILED = ((16384, 2048), (4096, 4096))  # torch.compile compiles for seconds
EPSILON = 1e-5
LIMITS = (0.01, 0.002, 0.002)  # of the norms: rows are rounded to bf16, sums over them are not
_REGISTERS_OF_MULTIPROCESSOR = 65536
_KEPT = 8  # bytes of registers for each element of a row: both sums
_LOADED = 14  # of the row and its gradient, those of the next, the weights, and what is computed of them
_BESIDE = 28  # registers for everything else
_BANDWIDTH = 4e12  # about, to say how many launches make a turn


class Operands(NamedTuple):
    x: torch.Tensor
    dy: torch.Tensor
    weight: torch.Tensor
    mean: torch.Tensor
    rstd: torch.Tensor
    dx: torch.Tensor
    dweight: torch.Tensor
    dbias: torch.Tensor


Launch = Callable[[Operands], tuple[torch.Tensor, ...]]


def tiles(columns: int) -> list[Tile]:
    """As many threads for a row as leave each 8 to 32 of its elements, and as many blocks as a multiprocessor has registers for."""
    found = []
    for elements in (8, 16, 32):
        of_row = columns // elements // 32  # warps
        for rows in (1, 2, 4, 8):
            warps = of_row * rows
            registers = (elements * (_KEPT + _LOADED) // 4 + _BESIDE + 7) // 8 * 8
            per = min(4, _REGISTERS_OF_MULTIPROCESSOR // (32 * warps * registers)) if 4 <= warps <= 32 else 0
            for one in range(max(1, per - 1), per + 1):
                found.append(
                    Tile(EXAMPLE, {"BM": rows, "BN": columns, "WARPS": warps, "REGISTERS": min(registers, 248), "PER": one})
                )
    return found


def build(tile: Tile) -> Built:
    import pipec
    from pipec.interface import to_json

    try:
        program = pipec.compile(EXAMPLES / f"{tile.example}.pipe", constants=dict(tile.constants), arch="sm_90a")
    except pipec.CompileError as error:
        return Built(tile, failed="; ".join(diagnostic.title for diagnostic in error.diagnostics))
    return Built(tile, tuple(to_json(kernel.interface) for kernel in program.values()), program.cubin())


def operands(rows: int, columns: int) -> list[Operands]:
    count = max(2, min(16, -(-3 * l2_bytes() // (6 * rows * columns))))
    generator = torch.Generator(device="cuda").manual_seed(rows + columns)

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", generator=generator, dtype=torch.bfloat16)

    made = []
    for _ in range(count):
        x = draw(rows, columns)
        wide = x.float()
        rstd = (wide.var(1, unbiased=False) + EPSILON).rsqrt()
        sums = torch.zeros(2, columns, device="cuda")
        made.append(Operands(x, draw(rows, columns), draw(columns), wide.mean(1), rstd, torch.full_like(x, float("nan")), *sums))
    return made


def wanted(given: Operands) -> tuple[torch.Tensor, ...]:
    x, dy, weight, mean, rstd = (one.double() for one in given[:5])
    z, g = (x - mean[:, None]) * rstd[:, None], dy * weight
    dx = (g - g.mean(1, keepdim=True) - z * (g * z).mean(1, keepdim=True)) * rstd[:, None]
    return dx, (dy * z).sum(0), dy.sum(0)


def of_torch(given: Operands) -> tuple[torch.Tensor, ...]:
    shape, bias = [given.x.shape[1]], given.weight
    return torch.ops.aten.native_layer_norm_backward(
        given.dy, given.x, shape, given.mean[:, None], given.rstd[:, None], given.weight, bias, [True, True, True]
    )


def of_pipec(built: Built) -> Launch:
    (kernel,) = launchers(built)

    def run(given: Operands) -> tuple[torch.Tensor, ...]:
        torch.as_strided(given.dweight, (2, given.x.shape[1]), (given.x.shape[1], 1)).zero_()  # both sums are of one tensor
        kernel(list(given), device="cuda", stream=torch.cuda.current_stream())
        return given.dx, given.dweight, given.dbias

    return run


def measure(shape: tuple[int, int], rounds: int, built: list[Built]) -> dict[str, Any]:
    sets = operands(*shape)
    first, right = sets[0], wanted(sets[0])
    moved = 6 * shape[0] * shape[1]  # bytes: two reads and a write of bf16
    clock = GpuClock(len(sets), moved / _BANDWIDTH)
    runs: dict[str, Launch] = {"torch": of_torch}
    if shape in COMPILED:
        compiled = torch.compile(of_torch, dynamic=False)
        runs["compiled"] = lambda given: compiled(given)
    failed = {one.tile.name: one.failed for one in built if one.failed}
    runs |= {f"pipec {one.tile.name.removeprefix(EXAMPLE).strip()}": of_pipec(one) for one in built if not one.failed}
    ready = []
    for name, run in runs.items():
        try:
            errors = [float((got.double() - want).norm() / want.norm()) for got, want in zip(run(first), right, strict=True)]
            if not all(
                error < limit for error, limit in zip(errors, LIMITS if name.startswith("pipec") else (0.01,) * 3, strict=True)
            ):
                raise ValueError(f"off by {errors} in the norms")
            clock.add(name, lambda index, run=run: run(sets[index]))
            ready.append(name)
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {str(failure)[:200]}"
    ours = screen([name for name in ready if name.startswith("pipec")], clock, seed=str(shape))
    contenders = [ours.best, *(name for name in ("torch", "compiled") if name in ready)]
    done = compare(contenders, clock, rounds, str(shape))
    row: dict[str, Any] = {"failed": failed}
    row["screened"] = {name: float(f"{ours.rounds.time(name).median * 1e6:.5g}") for name in ours.ranking}
    for name in contenders:
        seconds, ratio = done.time(name).median, done.ratio(name, "torch")
        row[name.partition(" ")[0]] = {
            "name": name,
            "microseconds": seconds * 1e6,
            "terabytes_per_second": moved / seconds / 1e12,
            "to torch": {"median": ratio.median, "low": ratio.low, "high": ratio.high},
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--budget", type=float, default=60, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_layer_norm_backward.json")
    options = parser.parse_args()
    started = time.perf_counter()
    asked = [tile for columns in sorted({columns for _, columns in SHAPES}) for tile in tiles(columns)]
    # A child starts afresh: a fork of a process that has used CUDA could not.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        built = list(pool.map(build, asked))
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    record |= {"rounds": options.rounds, "left_out": [], "figures": {}}
    for shape in SHAPES:
        label = f"{shape[0]}x{shape[1]}"
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(label)
            continue
        row = measure(shape, options.rounds, [one for one in built if one.tile.constants["BN"] == shape[1]])
        record["figures"][label] = row
        told = {side: (one["name"], round(one["microseconds"], 1), one["to torch"]) for side, one in row.items() if "name" in one}
        print(label, told, row["failed"], flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
