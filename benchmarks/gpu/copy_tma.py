"""Copying on a GPU: examples/copy_tma.pipe against torch's copy_ and the driver's device-to-device copy, in one process.

    python benchmarks/gpu/copy_tma.py [--shapes 8192x8192,16384x16384] [--rounds 15] [--name copy_tma]

bfloat16 matrices of random bits, more of them than fit into the L2 cache; the contenders take turns, each timed by CUDA events around
several launches, and a figure is the median of the rounds. Bandwidth counts bytes read and bytes written. Every copy is compared with
its source, bit for bit, before it is timed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from cuda.bindings import driver

import pipec
from benchmarks.common import surroundings

SHAPES = "8192x8192,16384x16384,32768x32768,16384x16392"
# Compile-time parameters of the example; BLOCKS is per multiprocessor here. The fastest is compared, all are recorded.
EACH_ITS_OWN = 10_000  # more blocks than tiles: each copies one
VARIANTS: list[dict[str, int]] = [
    *(
        {"BM": bm, "BN": bn, "STAGES": 1, "BLOCKS": EACH_ITS_OWN}
        for bm, bn in ((2, 1024), (4, 512), (2, 2048), (4, 1024), (8, 256), (8, 1024))
    ),
    {"BM": 8, "BN": 1024, "STAGES": 3, "BLOCKS": 2},
    {"BM": 16, "BN": 512, "STAGES": 3, "BLOCKS": 2},
    {"BM": 4, "BN": 1024, "STAGES": 6, "BLOCKS": 2},
    {"BM": 4, "BN": 1024, "STAGES": 4, "BLOCKS": 4},
    {"BM": 64, "BN": 128, "STAGES": 6, "BLOCKS": 2},
]
SECONDS = 0.01  # of one timing

Pair = tuple[torch.Tensor, torch.Tensor]


def pairs(m: int, n: int) -> list[Pair]:
    """Sources and destinations; two pairs at least, so that no round reads what the last one left in the cache."""
    generator = torch.Generator(device="cuda").manual_seed(0)

    def bits() -> torch.Tensor:
        words = torch.randint(-(1 << 15), 1 << 15, (m, n), device="cuda", generator=generator, dtype=torch.int16)
        return words.view(torch.bfloat16)

    return [(bits(), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)) for _ in range(2)]


def driver_copy(x: torch.Tensor, y: torch.Tensor) -> None:
    stream = torch.cuda.current_stream().cuda_stream
    (status,) = driver.cuMemcpyDtoDAsync(y.data_ptr(), x.data_ptr(), x.nbytes, stream)
    if status:
        raise RuntimeError(f"cuMemcpyDtoDAsync returned {status}")


def ours(constants: dict[str, int]) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    properties = torch.cuda.get_device_properties(0)
    given: dict[str, object] = {**constants, "BLOCKS": constants["BLOCKS"] * properties.multi_processor_count}
    arch = f"sm_{properties.major}{properties.minor}a"
    kernel = pipec.compile(ROOT / "examples" / "copy_tma.pipe", arch=arch, constants=given)["copy_tma"]
    return lambda x, y: kernel(x, y, device="cuda", stream=torch.cuda.current_stream())


def contenders() -> dict[str, Callable[[torch.Tensor, torch.Tensor], Any]]:
    found: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
        "torch copy_": lambda x, y: y.copy_(x),
        "cuMemcpyDtoDAsync": driver_copy,
    }
    for constants in VARIANTS:
        found["pipec " + " ".join(f"{name}={value}" for name, value in constants.items())] = ours(constants)
    return found


def check(run: Callable, x: torch.Tensor, y: torch.Tensor) -> None:
    y.view(torch.int16).fill_(0x2A2A)
    run(x, y)
    if not torch.equal(x.view(torch.int16), y.view(torch.int16)):
        raise RuntimeError("the copy differs from its source")


def once(run: Callable, sets: list[Pair], count: int) -> float:
    """Seconds per launch."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for index in range(count):
        run(*sets[index % len(sets)])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def measure(shape: str, rounds: int, ways: dict[str, Callable]) -> dict[str, Any]:
    m, n = (int(part) for part in shape.split("x"))
    sets = pairs(m, n)
    moved = 2 * sets[0][0].nbytes
    count = max(2, int(SECONDS / (moved / 4e12)))
    for run in ways.values():
        check(run, *sets[0])
        once(run, sets, count)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            times[name].append(once(run, sets, count))
    figures: dict[str, Any] = {"bytes": moved}
    for name, taken in times.items():
        median = statistics.median(taken)
        figures[name] = {
            "microseconds": median * 1e6,
            "gigabytes_per_second": moved / median / 1e9,
            "spread": (max(taken) - min(taken)) / median,
        }
        print(f"{shape:14} {name:44} {moved / median / 1e9:8.0f} GB/s {median * 1e6:10.1f} us", flush=True)
    best = {
        kind: max(
            row["gigabytes_per_second"]
            for name, row in figures.items()
            if isinstance(row, dict) and name.startswith("pipec") == kind
        )
        for kind in (True, False)
    }
    figures["ratio to the faster copy"] = best[True] / best[False]
    print(f"{shape:14} {'best pipec / the faster copy':44} {figures['ratio to the faster copy']:8.3f}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--name", default="copy_tma")
    options = parser.parse_args()
    ways = contenders()
    figures = {}
    for shape in options.shapes.split(","):
        figures[shape] = measure(shape, options.rounds, ways)
        torch.cuda.empty_cache()
    gpu = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
    target = ROOT / "benchmarks" / "results" / f"{options.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(surroundings() | gpu | {"rounds": options.rounds, "figures": figures}, indent=2) + "\n")
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
