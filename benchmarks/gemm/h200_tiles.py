"""Tiles that the model of time has never seen, on a Hopper GPU: every candidate of a list at every shape, none dropped; and other kernels.

    python benchmarks/gemm/h200_tiles.py [--rounds 7] [--budget 300] [-o FILE]

Shapes are none of those in benchmarks/gemm/gemm_shapes.py, whose times the constants of the model were fitted to. All tiles take a turn in
every round, in shuffled order, from CUDA graphs over buffers that exceed the L2 cache; a figure is the median of a tile's rounds.
Attention and copies come first, at sizes of their own. What gives a wrong result is not timed.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_shapes import Shape, Tile

SHAPES = tuple(
    Shape(m, n, k, "odd")
    for m, n, k in (
        (384, 384, 6144),
        (640, 5120, 1280),
        (768, 3072, 768),
        (24, 8192, 8192),
        (48, 14336, 2048),
        (96, 5120, 5120),
        (192, 8192, 4096),
        (320, 11008, 4096),
        (1536, 1536, 1536),
        (1800, 2400, 3200),
        (3072, 3072, 3072),
        (2560, 5120, 2560),
        (5120, 640, 5120),
        (12288, 4096, 1024),
        (4096, 11008, 4096),
        (10240, 10240, 1280),
    )
)
_PERSISTENT = (
    (64, 32, 64, 8),
    (64, 64, 64, 8),
    (64, 64, 128, 6),
    (64, 96, 128, 5),
    (64, 128, 64, 8),
    (64, 176, 64, 5),
    (64, 256, 64, 5),
    (128, 32, 64, 8),
    (128, 64, 64, 8),
    (128, 96, 64, 6),
    (128, 128, 64, 4),
    (128, 128, 64, 6),
    (128, 176, 64, 5),
    (128, 192, 64, 5),
    (128, 224, 64, 4),
    (128, 256, 64, 3),
    (128, 256, 64, 4),
    (192, 96, 64, 5),
    (192, 128, 64, 5),
    (192, 176, 64, 4),
    (192, 192, 64, 4),
    (256, 96, 64, 4),
    (256, 128, 64, 4),
    (256, 176, 64, 3),
)


def tiles() -> list[Tile]:
    persistent = [
        Tile(
            "gemm_sm90_persistent",
            {"BM": m, "BN": n, "BK": k, "STAGES": stages, "WARPS": 4 if m == 64 else 12 if m == 192 else 8},
        )
        for m, n, k, stages in _PERSISTENT
    ]
    clusters = [
        Tile("gemm_sm90_cluster", {"CX": x, "CY": y, "BM": m, "BN": n, "STAGES": stages})
        for x, y, m, n, stages in ((2, 1, 128, 128, 6), (1, 2, 128, 176, 5), (2, 1, 128, 256, 4))
    ]
    return [*persistent, *clusters, Tile("gemm_sm90"), Tile("gemm_sm90", {"BM": 64, "BN": 64, "STAGES": 6, "WARPS": 4})]


def gemms(
    record: dict[str, Any],
    options: argparse.Namespace,
    started: float,
    shapes: Sequence[Shape],
    tiles_of: Callable[[Shape], Sequence[Tile]],
) -> None:
    """Adds a row to the record's figures for each shape. `options`: `rounds`, `budget`, `l2_times` and `output`."""
    import torch

    from benchmarks.gemm.gemm_build import build_all, key
    from benchmarks.gemm.gemm_contenders import Judge, OfPipec, buffers
    from pipec.tune.rounds import compare
    from pipec.tune.torch_clock import GpuClock

    every = list({key(tile): tile for shape in shapes for tile in tiles_of(shape)}.values())
    built = build_all(every, torch.cuda.get_device_properties(0).multi_processor_count)
    print(f"{len(built)} tiles built after {time.perf_counter() - started:.0f} s", flush=True)
    contenders = OfPipec(built)
    for shape in shapes:
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(str(shape))
            continue
        sets = buffers(shape, options.l2_times)
        judge = Judge(shape, sets)
        clock = GpuClock(len(sets), max(shape.flops / 400e12, shape.bytes / 2.5e12))
        ready, failed = [], {}
        for tile in tiles_of(shape):
            launch = contenders.launch(key(tile), shape)
            try:
                judge.difference(launch)
            except torch.AcceleratorError:
                raise
            except Exception as failure:  # noqa: BLE001 - one tile that fails must not hide the others
                failed[f"pipec {tile.name}"] = f"{type(failure).__name__}: {failure}"
                continue
            clock.add(f"pipec {tile.name}", lambda index, launch=launch, sets=sets: launch(*sets[index]))
            ready.append(f"pipec {tile.name}")
        found = compare(ready, clock, options.rounds, str(shape))
        times = {name: float(f"{found.time(name).median * 1e6:.5g}") for name in ready}
        record["figures"][str(shape)] = {
            "kind": shape.kind,
            "rounds": options.rounds,
            "clock_mhz": _clock_rate(),
            "screened": {"pipec": {"microseconds": dict(sorted(times.items(), key=lambda item: item[1]))}},
            "failed": failed,
        }
        print(
            f"{shape!s:20} best {min(times.values()):.1f} us, {len(times)} tiles, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
        del clock, sets, judge
        gc.collect()
        write(options.output, record)


def _clock_rate() -> int | None:
    import torch

    try:
        return int(torch.cuda.clock_rate())
    except Exception as missing:  # noqa: BLE001 - read through NVML, which need not be there
        print(f"no clock rate: {missing}", file=sys.stderr)
        return None


# --------------------------------------------------------------------------------------------------------- other kernels


def others(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Times of one kernel at a time, each with the sizes and the constants that `pipec predict` takes."""
    import torch

    def random(*shape: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.randn(*shape, device="cuda").to(dtype)

    rows = record["others"] = []
    for size, causal, heads, length in (
        (128, False, 16, 1536), (128, False, 32, 3072), (128, True, 16, 3072), (128, True, 8, 6144),
        (64, False, 32, 1536), (64, False, 16, 6144), (64, True, 32, 3072),
    ):  # fmt: skip
        q, k, v = (random(heads, length, size) for _ in range(3))
        out = torch.empty_like(q)
        given = {"D": size, "CAUSAL": causal}
        _timed(rows, options.rounds, "attention_sm90", given, {"H": heads, "S": length, "T": length}, (q, k, v, out, size**-0.5))
    for m, n in ((3000, 6144), (8192, 3072), (20000, 1536)):
        x, y = random(m, n), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        for constants in (
            {"BM": 8, "BN": 1024, "STAGES": 3, "BLOCKS": 264},
            {"BM": 16, "BN": 512, "STAGES": 3, "BLOCKS": 264},
            {},
        ):
            _timed(rows, options.rounds, "copy_tma", constants, {"M": m, "N": n}, (x, y))


def _timed(rows: list[Any], rounds: int, example: str, given: dict, sizes: dict, arguments: tuple) -> None:
    import torch

    import pipec
    from pipec.tune.rounds import compare
    from pipec.tune.torch_clock import GpuClock

    row: dict[str, Any] = {"example": example, "constants": given, "sizes": sizes}
    rows.append(row)
    try:
        kernel = pipec.compile(ROOT / "examples" / f"{example}.pipe", arch="sm_90a", constants=given)[example]

        def launch(index: int) -> None:
            kernel(*arguments, device="cuda", stream=torch.cuda.current_stream())

        launch(0)
        torch.cuda.synchronize()
        clock = GpuClock(1, 100e-6)
        clock.add("it", launch)
        row["microseconds"] = float(f"{compare(['it'], clock, rounds, example).time('it').median * 1e6:.5g}")
    except torch.AcceleratorError:
        raise
    except Exception as failure:  # noqa: BLE001 - one kernel that fails must not hide the others
        row["failed"] = f"{type(failure).__name__}: {failure}"
    print(row, flush=True)


def write(path: Path, record: dict[str, Any]) -> None:
    """One line for each shape, so that a diff shows which changed."""
    text = json.dumps(record | {"figures": {}}, indent=1)
    rows = ",\n".join(f"  {json.dumps(shape)}: {json.dumps(row)}" for shape, row in record["figures"].items())
    path.write_text(text.replace('"figures": {}', f'"figures": {{\n{rows}\n }}', 1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_tiles.json")
    parser.add_argument("--l2-times", type=int, default=3, help="what the buffers hold together, in sizes of the L2")
    options = parser.parse_args()
    import torch

    started = time.perf_counter()
    record: dict[str, Any] = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}}
    others(record, options)
    write(options.output, record)
    gemms(record, options, started, SHAPES, lambda shape: tiles())
    record["seconds"] = round(time.perf_counter() - started, 1)
    write(options.output, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
