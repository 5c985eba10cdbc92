"""Grouped GEMM on a Hopper GPU, as in a mixture of experts: pipec against torch's grouped product (CUTLASS).

    python benchmarks/gemm/h200_grouped.py [--rounds 15] [--budget 60] [-o FILE]

D[rows of group g] = A[rows of group g] @ B[g].T, bf16. How many rows a group has is drawn at random and known on the GPU only; groups
differ by a factor of about three. All of pipec's tiles are screened; the winner meets torch in shuffled rounds (pipec.tune.rounds).
Every result is compared with float32 before it is timed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from operator import sub
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_shapes import Tile
from pipec.tune.rounds import compare, screen
from pipec.tune.torch_clock import GpuClock, l2_bytes

EXAMPLE = "gemm_sm90_grouped"
SIZES = (  # rows of all groups, columns, K, groups
    (4096, 14336, 4096, 8),
    (4096, 4096, 14336, 8),
    (16384, 4096, 4096, 8),
    (8192, 4096, 7168, 32),
    (8192, 7168, 2048, 32),
    (8192, 1536, 2048, 128),
    (512, 7168, 2048, 64),
)
TILES = {
    f"BM={bm} BN={bn}": Tile(EXAMPLE, {"BM": bm, "BN": bn}) for bm in (64, 128) for bn in (64, 128, 192, 256) if bm + bn > 128
}
LIMIT = 0.006  # of the norm: a bfloat16 result is off by 0.0017 in the mean square
Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # A, B, where groups begin, D
Launch = Callable[[Operands], torch.Tensor]  # which gives D, torch's a new one


def operands(m: int, n: int, k: int, groups: int) -> list[Operands]:
    count = max(2, min(16, -(-3 * l2_bytes() // (2 * (m * k + groups * n * k + m * n)))))
    generator = torch.Generator(device="cuda").manual_seed(m * 31 + n * 17 + k)
    shares = torch.rand(groups, device="cuda", generator=generator) + 0.5
    ends = (shares.cumsum(0) / shares.sum() * m).round().int()
    begins = torch.cat([torch.zeros(1, device="cuda", dtype=torch.int32), ends])

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", generator=generator, dtype=torch.bfloat16)

    def result() -> torch.Tensor:
        return torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)

    return [(draw(m, k), draw(groups, n, k), begins, result()) for _ in range(count)]


def of_torch(given: Operands) -> torch.Tensor:
    a, b, begins, _ = given
    return torch._grouped_mm(a, b.transpose(1, 2), offs=begins[1:])


def of_pipec(built: Mapping[str, Built]) -> dict[str, Launch]:
    found: dict[str, Launch] = {}
    for name, tile in TILES.items():
        (kernel,) = launchers(built[key(tile)])

        def run(given: Operands, kernel: Any = kernel) -> torch.Tensor:
            kernel(given, device="cuda", stream=torch.cuda.current_stream())
            return given[3]

        found[f"pipec {name}"] = run
    return found


def measure(sizes: tuple[int, int, int, int], rounds: int, built: Mapping[str, Built]) -> dict[str, Any]:
    m, n, k = sizes[:3]
    sets = operands(*sizes)
    a, b, begins, d = sets[0]
    limits = begins.tolist()
    right = torch.cat([a[first:last].float() @ b[group].float().T for group, (first, last) in enumerate(pairwise(limits))])
    clock = GpuClock(len(sets), 2 * m * n * k / 500e12)
    failed: dict[str, str] = {}
    ready: list[str] = []
    for name, run in {"torch": of_torch, **of_pipec(built)}.items():
        try:
            d.fill_(float("nan"))
            error = float((run(sets[0]).float() - right).norm() / right.norm())
            if not error < LIMIT:
                raise ValueError(f"off by {error:.3g} in the norm")
            clock.add(name, lambda index, run=run: run(sets[index]))
            ready.append(name)
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {str(failure)[:200]}"
    ours = screen([name for name in ready if name != "torch"], clock, seed=str(sizes))
    contenders = [name for name in (ours.best, "torch") if name in ready]
    done = compare(contenders, clock, rounds, str(sizes))
    row: dict[str, Any] = {
        "failed": failed,
        "rows": {"least": min(map(sub, limits[1:], limits)), "most": max(map(sub, limits[1:], limits))},
    }
    row["screened"] = {name: float(f"{ours.rounds.time(name).median * 1e6:.5g}") for name in ours.ranking}
    for name in contenders:
        seconds = done.time(name).median
        row[name.partition(" ")[0]] = figure = {
            "name": name,
            "microseconds": seconds * 1e6,
            "teraflops": 2 * m * n * k / seconds / 1e12,
        }
        if "torch" in contenders:
            ratio = done.ratio(name, "torch")
            figure["to torch"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=60, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_grouped.json")
    options = parser.parse_args()
    started = time.perf_counter()
    built = build_all([*TILES.values()], torch.cuda.get_device_properties(0).multi_processor_count)
    torch.backends.cuda.matmul.allow_tf32 = False
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    record |= {"rounds": options.rounds, "left_out": [], "figures": {}}
    for sizes in SIZES:
        label = "{}x{}x{} in {} groups".format(*sizes)
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(label)
            continue
        record["figures"][label] = row = measure(sizes, options.rounds, built)
        print(label, {name: row[name] for name in ("pipec", "torch") if name in row}, row["failed"], flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
