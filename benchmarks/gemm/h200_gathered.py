"""The first product of a mixture of experts on a Hopper GPU, whose rows are gathered: pipec against torch and Triton.

    python benchmarks/gemm/h200_gathered.py [--rounds 15] [--budget 60] [-o FILE]

D[rows of group g] = A[token[rows of group g]] @ B[g].T, bf16: tokens are drawn at random, each appears as often as experts that it goes
to, and how many rows a group has is known on the GPU only. Contenders: `examples/gemm_sm90_gathered.pipe`; a copy of the rows by torch's
`index_select`, then torch's grouped product (CUTLASS) or `examples/gemm_sm90_grouped.pipe`; and a Triton kernel that loads rows through
pointers, as fused mixtures of experts do. All tiles are screened; the winners meet in shuffled rounds (pipec.tune.rounds). Every result is
compared with float32 before it is timed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from operator import sub
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm import h200_grouped
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_shapes import Tile
from pipec.tune.rounds import compare, screen
from pipec.tune.torch_clock import GpuClock, l2_bytes

SIZES = (  # rows of all groups, columns, K, groups, tokens
    (8192, 14336, 4096, 8, 4096),
    (16384, 4096, 4096, 8, 8192),
    (8192, 4096, 7168, 32, 1024),
    (8192, 1536, 2048, 128, 1024),
    (512, 4096, 7168, 64, 64),
)
TILES = {
    f"BM={bm} BN={bn} PARTS={parts}": Tile("gemm_sm90_gathered", {"BM": bm, "BN": bn, "PARTS": parts})
    for bm, bn, parts in product((64, 128), (64, 96, 128, 192, 256), (1, 2))
    if bn <= 128 or (bm == 64 and parts == 1)
}
BEFORE = "index_select, "  # in front of contenders whose rows are copied first


class Operands(NamedTuple):
    a: torch.Tensor
    token: torch.Tensor
    b: torch.Tensor
    begins: torch.Tensor
    d: torch.Tensor


Launch = Callable[[Operands], torch.Tensor]  # which gives D, torch's a new one


def operands(m: int, n: int, k: int, groups: int, tokens: int) -> list[Operands]:
    count = max(2, min(16, -(-3 * l2_bytes() // (2 * (tokens * k + groups * n * k + m * n)))))
    generator = torch.Generator(device="cuda").manual_seed(m * 31 + n * 17 + k)
    shares = torch.rand(groups, device="cuda", generator=generator) + 0.5
    ends = (shares.cumsum(0) / shares.sum() * m).round().int()
    begins = torch.cat([torch.zeros(1, device="cuda", dtype=torch.int32), ends])
    token = (torch.randperm(m, device="cuda", generator=generator) % tokens).int()

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", generator=generator, dtype=torch.bfloat16)

    def result() -> torch.Tensor:
        return torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)

    return [Operands(draw(tokens, k), token, draw(groups, n, k), begins, result()) for _ in range(count)]


def of_torch(given: Operands) -> torch.Tensor:
    rows = given.a.index_select(0, given.token)
    return torch._grouped_mm(rows, given.b.transpose(1, 2), offs=given.begins[1:])


def of_pipec(built: Mapping[str, Built]) -> dict[str, Launch]:
    found: dict[str, Launch] = {}
    for name, tile in TILES.items():
        (kernel,) = launchers(built[key(tile)])

        def run(given: Operands, kernel: Any = kernel) -> torch.Tensor:
            kernel(list(given), device="cuda", stream=torch.cuda.current_stream())
            return given.d

        found[f"pipec {name}"] = run
    for name, tile in h200_grouped.TILES.items():
        (kernel,) = launchers(built[key(tile)])

        def after_a_copy(given: Operands, kernel: Any = kernel) -> torch.Tensor:
            rows = given.a.index_select(0, given.token)
            kernel([rows, given.b, given.begins, given.d], device="cuda", stream=torch.cuda.current_stream())
            return given.d

        found[f"{BEFORE}pipec {name}"] = after_a_copy
    return found


def of_triton(first: Operands) -> dict[str, Launch]:
    """With the list of tiles computed beforehand, which a launch on its own would have to do first."""
    from benchmarks.gemm.h200_gathered_triton import CONFIGURATIONS, multiply, tiles_of

    found: dict[str, Launch] = {}
    for one in CONFIGURATIONS:
        tiles = tiles_of(first.begins, one.bm)

        def run(given: Operands, one: Any = one, tiles: Any = tiles) -> torch.Tensor:
            multiply(one, tiles, given.a, given.token, given.b, given.d)
            return given.d

        found[f"triton {one.name}"] = run
    return found


def family(name: str) -> str:
    """pipec, torch, triton, or pipec with the rows copied before: all of a name but the tile."""
    return BEFORE + "pipec" if name.startswith(BEFORE) else name.partition(" ")[0]


def measure(sizes: tuple[int, int, int, int, int], rounds: int, built: Mapping[str, Built]) -> dict[str, Any]:
    m, n, k = sizes[:3]
    sets = operands(*sizes)
    first = sets[0]
    limits = first.begins.tolist()
    right = torch.cat(
        [
            first.a[first.token[start:end].long()].float() @ first.b[group].float().T
            for group, (start, end) in enumerate(pairwise(limits))
        ]
    )
    clock = GpuClock(len(sets), 2 * m * n * k / 500e12)
    failed: dict[str, str] = {}
    ready: dict[str, list[str]] = {}
    for name, run in {"torch": of_torch, **of_pipec(built), **of_triton(first)}.items():
        try:
            first.d.fill_(float("nan"))
            error = float((run(first).float() - right).norm() / right.norm())
            if not error < h200_grouped.LIMIT:
                raise ValueError(f"off by {error:.3g} in the norm")
            clock.add(name, lambda index, run=run: run(sets[index]))
            ready.setdefault(family(name), []).append(name)
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {str(failure)[:200]}"
    screened = {side: screen(names, clock, seed=f"{sizes} {side}") for side, names in ready.items()}
    best = {side: found.best for side, found in screened.items()}
    done = compare(list(best.values()), clock, rounds, str(sizes))
    heights = list(map(sub, limits[1:], limits))
    row: dict[str, Any] = {"failed": failed, "rows": {"least": min(heights), "most": max(heights)}, "screened": {}}
    for side, name in best.items():
        times = screened[side].rounds
        row["screened"][side] = {one: float(f"{times.time(one).median * 1e6:.5g}") for one in screened[side].ranking}
        seconds = done.time(name).median
        row[side] = {"name": name, "microseconds": seconds * 1e6, "teraflops": 2 * m * n * k / seconds / 1e12}
        if "torch" in best:
            ratio = done.ratio(name, best["torch"])
            row[side]["to torch"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=60, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_gathered.json")
    options = parser.parse_args()
    started = time.perf_counter()
    wanted = [*TILES.values(), *h200_grouped.TILES.values()]
    built = build_all(wanted, torch.cuda.get_device_properties(0).multi_processor_count)
    torch.backends.cuda.matmul.allow_tf32 = False
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    record |= {"rounds": options.rounds, "left_out": [], "figures": {}}
    for sizes in SIZES:
        label = "{}x{}x{} in {} groups, {} tokens".format(*sizes)
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(label)
            continue
        record["figures"][label] = row = measure(sizes, options.rounds, built)
        told = {side: (one["name"], one["to torch"]) for side, one in row.items() if side not in ("failed", "rows", "screened")}
        print(label, told, row["failed"], flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
