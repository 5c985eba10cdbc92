"""GEMM on a Hopper GPU: pipec against torch, tuned cuBLASLt and Triton's persistent TMA matmul, in one process.

    python benchmarks/gemm/h200.py [--shapes published,16x4096x14336] [--rounds 25] [--seed 0] [--budget 420] [-o FILE] [--dry-run]

D[M, N] = A[M, K] @ B[N, K].T; bf16 throughout, or with e4m3 operands and bf16 results for shapes that end in `:fp8`. Random data. The
method, in short (docs/benchmarks.md): every candidate's result is checked; the candidates of each contender are screened in shuffled
rounds; the winners meet again in shuffled rounds of their own, and a figure is the median of the ratios within a round. `--dry-run` goes
through all of it without a GPU.
"""

import argparse
import gc
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_automatic import plan, plan_all
from benchmarks.gemm.gemm_build import build_all, key
from benchmarks.gemm.gemm_method import COLUMNS, FAMILIES, Settings, measure, rounded
from benchmarks.gemm.gemm_shapes import SHAPES, Shape, Tile, named

METHOD = 2  # of the record: 1 ran the contenders in one fixed order
FRESH = ("512x512x512", "16x4096x14336", "4096x4096x4096")  # also called with an output of its own each time
FRESH_CALLS, FRESH_ROUNDS = 200, 9


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    started = time.perf_counter()
    shapes: list[Shape] = options.shapes
    gpu, machine = _gpu(shapes, options)
    settings = Settings(rounds=options.rounds, seed=options.seed)
    record = surroundings() | machine | {"method": METHOD, "source": source(options.commit), "seed": options.seed}
    record |= {"rounds": options.rounds, "columns": COLUMNS, "left_out": [], "figures": {}, "fresh": {}}
    for shape in shapes:
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(str(shape))
            continue
        field = gpu.open(shape)
        record["figures"][str(shape)] = row = measure(shape, field, settings)
        _say(shape, row, time.perf_counter() - started)
        if not options.dry_run and str(shape) in FRESH:
            record["fresh"][str(shape)] = fresh(field, row, options.seed)
        del field
        gc.collect()  # a field and its launches hold each other, and a shape's buffers may be gigabytes
        _write(options.output, record)  # after every shape: a run that is cut short leaves what it has
    record["seconds"] = round(time.perf_counter() - started, 1)
    _write(options.output, record)
    print(
        f"{len(record['figures'])} shapes in {record['seconds']} s, left out {len(record['left_out'])}; written to {options.output}"
    )
    return 0 if not record["left_out"] else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--shapes", type=_shapes, default=list(SHAPES), help="names or groups, with commas between (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=Settings().rounds)
    parser.add_argument("--seed", type=int, default=0, help="of the orders")
    parser.add_argument("--only", default=",".join(FAMILIES), help="contenders (default %(default)s)")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no further shape is begun")
    parser.add_argument("--commit", help="of pipec, where git cannot tell")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_gemm.json")
    parser.add_argument("--dry-run", action="store_true", help="pretended times, no GPU; needs -o")
    options = parser.parse_args(arguments)
    if options.dry_run and options.output == RESULTS / "h200_gemm.json":
        parser.error("--dry-run does not write over measured results: give -o FILE")
    return options


def _shapes(text: str) -> list[Shape]:
    try:
        return named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _gpu(shapes: Sequence[Shape], options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    if options.dry_run:
        from benchmarks.gemm.gemm_dry import DryGpu

        return DryGpu(), DryGpu().machine()
    import torch

    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    started = time.perf_counter()
    plan_all(shapes)
    print(f"{len(shapes)} shapes planned in {time.perf_counter() - started:.1f} s", flush=True)
    wanted: dict[str, Tile] = {key(tile): tile for shape in shapes for tile in plan(shape).contending}
    started = time.perf_counter()
    built = build_all(list(wanted.values()), blocks)
    print(f"{len(built)} tiles built in {time.perf_counter() - started:.1f} s", flush=True)
    from benchmarks.gemm.gemm_field import Gpu

    gpu = Gpu(built, options.only.split(","))
    return gpu, gpu.machine()


def source(commit: str | None) -> dict[str, str]:
    """The commit of pipec, and a hash over what compiles and launches, which holds also where there is no git."""
    digest = hashlib.sha256()
    for folder in ("pipec", "runtime", "grammar", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".lark", ".pipe"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"commit": commit or asked.stdout.strip() or "unknown", "sha256": digest.hexdigest()}


def fresh(field: Any, row: dict[str, Any], seed: int) -> dict[str, Any]:
    """Wall time of calls whose output is another tensor each time, which is what eager torch does."""
    from benchmarks.gemm.gemm_field import FreshClock
    from pipec.tune.rounds import compare

    compared = ("torch", "triton", "default", "automatic", "best")
    names = {column: row["columns"][column]["name"] for column in compared if column in row["columns"]}
    distinct = list(dict.fromkeys(names.values()))
    clock = FreshClock(field, FRESH_CALLS)
    clock(distinct)
    rounds = compare(distinct, clock, FRESH_ROUNDS, f"{seed} fresh")
    figures = {}
    for column, name in names.items():
        time_of_call = rounds.time(name)
        figures[column] = {"name": name} | {
            which: rounded(getattr(time_of_call, which) * 1e6) for which in ("median", "low", "high")
        }
    return {"calls": FRESH_CALLS, "rounds": FRESH_ROUNDS, "microseconds_per_call": figures}


def _say(shape: Shape, row: dict[str, Any], seconds: float) -> None:
    parts = [f"{shape!s:22}"]
    for column, figures in row["columns"].items():
        ratio = f" ({figures['ratio']['median']:.3f})" if "ratio" in figures else ""
        parts.append(f"{column} {figures['teraflops']:.0f}{ratio}")
    print("  ".join(parts) + f"   failed {len(row['failed'])}   {seconds:.0f} s", flush=True)


def _write(path: Path, record: dict[str, Any]) -> None:
    """One line for each shape, so that a diff shows which changed."""
    text = json.dumps(record | {"figures": {}}, indent=1)
    rows = ",\n".join(f"  {json.dumps(shape)}: {json.dumps(row)}" for shape, row in record["figures"].items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace('"figures": {}', f'"figures": {{\n{rows}\n }}', 1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
