"""A linear layer's bias and GELU in the GEMM's epilogue on a Hopper GPU: pipec against cuBLASLt, tuned, with its epilogue.

    python benchmarks/gemm/h200_epilogue.py [--rounds 15] [-o FILE]

D[M, N] = gelu(A[M, K] @ B[N, K].T + bias), bf16, gelu in its form with tanh. All of cuBLASLt's algorithms are screened with the epilogue
and without, pipec's tiles likewise; winners meet in shuffled rounds (pipec.tune.rounds). Buffers rotate as in h200.py. Every result is
compared with float32 before it is timed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import gelu

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.cublaslt import CublasLt, DataType, Product
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_contenders import WORKSPACE, Sets, buffers
from benchmarks.gemm.gemm_shapes import Shape, Tile
from pipec.tune.rounds import compare, screen
from pipec.tune.torch_clock import GpuClock

EXAMPLE = "gemm_sm90_bias_gelu"
SIZES = ((2048, 4096, 4096), (4096, 4096, 4096), (8192, 8192, 512), (2048, 28672, 4096), (8192, 8192, 2048))
TILES = {
    f"CX={cx} BN={bn} STAGES={stages}": Tile(EXAMPLE, {"CX": cx, "BN": bn, "STAGES": stages})
    for cx, (bn, stages) in product((1, 2), ((128, 6), (176, 5), (192, 4)))
}
PLAIN = {f"plain {name}": Tile("gemm_sm90_pingpong", tile.constants) for name, tile in TILES.items()}
LIMIT = 0.006  # of the norm, as for products alone
Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def of_cublaslt(library: CublasLt, shape: Shape, bias: torch.Tensor, workspace: torch.Tensor) -> dict[str, Launch]:
    found: dict[str, Launch] = {}
    for word, address in (("cublaslt", bias.data_ptr()), ("plain cublaslt", 0)):
        asked = Product(library, shape.m, shape.n, shape.k, DataType.BF16, bias=address)
        for candidate in asked.candidates():

            def run(
                a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, asked: Product = asked, candidate: Any = candidate
            ) -> None:
                stream = torch.cuda.current_stream().cuda_stream
                asked.run(candidate, a.data_ptr(), b.data_ptr(), d.data_ptr(), workspace.data_ptr(), WORKSPACE, stream)

            found[f"{word} {candidate.name}"] = run
    return found


def of_pipec(built: Mapping[str, Built], bias: torch.Tensor) -> dict[str, Launch]:
    found: dict[str, Launch] = {}
    for name, tile in (TILES | PLAIN).items():
        (kernel,) = launchers(built[key(tile)])
        between = (bias,) if tile.example == EXAMPLE else ()

        def run(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, kernel: Any = kernel, between: Any = between) -> None:
            kernel((a, b, *between, d), device="cuda", stream=torch.cuda.current_stream())

        found["plain pipec" + name.removeprefix("plain") if name in PLAIN else f"pipec {name}"] = run
    return found


def measure(shape: Shape, rounds: int, library: CublasLt, built: Mapping[str, Built], workspace: torch.Tensor) -> dict[str, Any]:
    sets: Sets = buffers(shape)
    bias = torch.randn(shape.n, device="cuda", dtype=torch.bfloat16)
    a, b, d = sets[0]
    alone = a.float() @ b.float().T
    wanted = {True: alone, False: gelu(alone + bias.float(), approximate="tanh")}
    clock = GpuClock(len(sets), shape.flops / 600e12)
    failed: dict[str, str] = {}
    families: dict[str, list[str]] = {}
    for name, run in (of_cublaslt(library, shape, bias, workspace) | of_pipec(built, bias)).items():
        try:
            d.fill_(float("nan"))
            run(a, b, d)
            right = wanted[name.startswith("plain")]
            error = float((d.float() - right).norm() / right.norm())
            if not error < LIMIT:
                raise ValueError(f"off by {error:.3g} in the norm")
            clock.add(name, lambda index, run=run: run(*sets[index]))
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {str(failure)[:200]}"
            continue
        family = " ".join(word for word in name.split() if word in ("plain", "cublaslt", "pipec"))
        families.setdefault(family, []).append(name)
    best = {family: screen(names, clock, seed=f"{shape} {family}").best for family, names in families.items()}
    done = compare(list(best.values()), clock, rounds, str(shape))
    row: dict[str, Any] = {}
    for family, name in best.items():
        ratio = done.ratio(name, best["cublaslt"])
        row[family] = {"name": name, "microseconds": done.time(name).median * 1e6}
        row[family] |= {"ratio": {"median": ratio.median, "low": ratio.low, "high": ratio.high}}
    return row | {"failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_epilogue.json")
    options = parser.parse_args()
    built = build_all([*TILES.values(), *PLAIN.values()], torch.cuda.get_device_properties(0).multi_processor_count)
    torch.matmul(*(torch.ones(8, 8, device="cuda", dtype=torch.bfloat16) for _ in "ab"))  # loads the library
    torch.backends.cuda.matmul.allow_tf32 = False
    library = CublasLt.of_process()
    workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cublaslt": library.version}
    record |= {"rounds": options.rounds, "figures": {}}
    for m, n, k in SIZES:
        shape = Shape(m, n, k, "published")
        record["figures"][str(shape)] = row = measure(shape, options.rounds, library, built, workspace)
        told = {
            family: (round(one["microseconds"], 1), round(one["ratio"]["median"], 3))
            for family, one in row.items()
            if family != "failed"
        }
        print(f"{shape!s:20} {told}", flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
