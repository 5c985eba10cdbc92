"""What tiles take in cycles of a multiprocessor, and at which clock they ran, on a Hopper GPU.

    python benchmarks/gemm/h200_cycles.py [--rounds 9] [--budget 120] [-o FILE]

Between turns a kernel of one thread on every multiprocessor notes `%clock64` and `%globaltimer`. The two differences over a turn are its
cycles and its nanoseconds; so times are known in cycles, whatever the clock was, and the clock is an average over the turn, where NVML
reads one moment. `short` are the turns of 4 ms of h200.py, in shuffled rounds, in which all tiles of a shape share what power leaves of the
clock; `long` ones of 0.2 s let each tile run at its own. Tiles are those within 1.12 of the best in h200_overlap.json, and at two shapes
six that differ much.
"""

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_build import build_all, key
from benchmarks.gemm.gemm_contenders import Judge, OfPipec, buffers
from benchmarks.gemm.gemm_shapes import FP8, Shape, Tile
from benchmarks.gpu.foreign_instructions import Driver
from pipec.tune.torch_clock import TURN_SECONDS, l2_bytes

RECORD = RESULTS / "h200_overlap.json"
WITHIN, MOST = 1.12, 14  # of the best tile on record, and how many of them
LONG_SECONDS, LONG_MOST = 0.2, 4
SHAPES = (
    (8192, 8192, 8192, True),
    (8192, 8192, 512, True),
    (128, 8192, 8192, True),
    (4096, 4096, 4096, True),
    (2048, 2048, 2048, False),
    (256, 6144, 4096, False),
    (512, 28672, 4096, False),
    (4096, 4096, 14336, False),
    (8, 10240, 8192, False),
    (64, 6144, 4096, False),
    (32768, 256, 512, False),
)
# Tiles of which some are slow, for what their clock is in long turns.
UNLIKE = (
    Tile("gemm_sm90_pingpong", {"CX": 2, "BN": 192}),
    Tile("gemm_sm90_persistent", {"BM": 128, "BN": 256, "STAGES": 3}),
    Tile("gemm_sm90_persistent", {"BM": 128, "BN": 128, "STAGES": 4}),
    Tile("gemm_sm90"),
    Tile("gemm_sm90_pingpong", {"CX": 1, "BN": 128}),
    Tile("gemm_sm90_persistent", {"BM": 128, "BN": 64, "STAGES": 8}),
)
OF_UNLIKE = ((8192, 8192, 8192), (8192, 8192, 2048))
# As many blocks as fill every multiprocessor several times; the last one on each leaves what it noted.
PROBE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry note(.param .u64 out)
{
    .reg .b32 %at;
    .reg .b64 %place, %offset, %cycles, %nanoseconds;
    ld.param.u64 %place, [out];
    mov.u32 %at, %smid;
    mul.wide.u32 %offset, %at, 16;
    add.u64 %place, %place, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %nanoseconds, %globaltimer;
    st.global.v2.u64 [%place], {%cycles, %nanoseconds};
    ret;
}
"""
PROBES = 1056


class Notes:
    """Clocks of all multiprocessors, noted on the current stream."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")  # makes the context that the driver is asked in
        self._driver = Driver()
        self._note = self._driver.function(PROBE, "note")

    def take(self) -> torch.Tensor:
        found = torch.zeros(256, 2, dtype=torch.int64, device="cuda")
        stream = torch.cuda.current_stream().cuda_stream
        self._driver.launch(self._note, PROBES, 1, 0, stream, found.data_ptr())
        return found


def between(first: torch.Tensor, last: torch.Tensor) -> tuple[float, float]:
    """Cycles and seconds from one note to another: medians over the multiprocessors."""
    both = (first[:, 1] != 0) & (last[:, 1] != 0)
    passed = (last - first)[both].double()
    return float(passed[:, 0].median()), float(passed[:, 1].median()) / 1e9


def tiles(shape: Shape) -> list[Tile]:
    """The best on record, by their names there."""
    times = json.loads(RECORD.read_text(encoding="utf-8"))["figures"][str(shape)]["screened"]["pipec"]["microseconds"]
    names = sorted(times, key=times.__getitem__)
    found: list[Tile] = []
    for name in names:
        match = re.fullmatch(r"pipec (\w+)((?: \w+=\w+)*)", name)
        if match is None or times[name] > WITHIN * times[names[0]] or "split" in match[1]:
            continue
        constants: dict[str, Any] = {}
        for word in match[2].split():
            parameter, value = word.split("=")
            constants[parameter] = int(value) if value.isdigit() else value == "True" if value in ("True", "False") else value
        example = "gemm_sm90" if match[1] == "sm90" else f"gemm_sm90_{match[1]}"
        tile = Tile(example, constants | (FP8 if shape.kind == "fp8" else {}))
        if tile not in found:
            found.append(tile)
    return found[:MOST]


def graph_of(launch: Callable[[int], object], launches: int, sets: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(launches):
            launch(number % sets)
    return graph


def turns(graphs: dict[str, Any], launches: int, rounds: int, notes: Notes, seed: str) -> dict[str, dict[str, list[float]]]:
    """Of each tile, cycles and seconds of a launch in every round; orders are drawn anew for each."""
    flushed, drawn = torch.ones(2 * l2_bytes() // 4, device="cuda"), random.Random(seed)
    found: dict[str, dict[str, list[float]]] = {name: {"cycles": [], "seconds": []} for name in graphs}
    for number in range(rounds + 1):
        order = list(graphs)
        drawn.shuffle(order)
        taken = []
        for name in order:
            flushed.sum()
            first = notes.take()
            graphs[name].replay()
            taken.append((name, first, notes.take()))
        torch.cuda.synchronize()
        for name, first, last in taken if number else []:  # the first round warms up
            cycles, seconds = between(first, last)
            found[name]["cycles"].append(cycles / launches)
            found[name]["seconds"].append(seconds / launches)
    return found


def told(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    rows = {}
    for name, one in found.items():
        cycles, seconds = median(one["cycles"]), median(one["seconds"])
        clock = median(c / s for c, s in zip(one["cycles"], one["seconds"], strict=True))
        rows[name] = {"cycles": round(cycles), "microseconds": round(seconds * 1e6, 3), "clock_mhz": round(clock / 1e6)}
    return dict(sorted(rows.items(), key=lambda item: item[1]["microseconds"]))


def measure(shape: Shape, offered: Sequence[Tile], long: int, contenders: OfPipec, rounds: int, notes: Notes) -> dict[str, Any]:
    """`long`: how many of the fastest take long turns as well."""
    sets = buffers(shape)
    judge, ready, failed = Judge(shape, sets), {}, {}
    for tile in offered:
        launch = contenders.launch(key(tile), shape)
        try:
            judge.difference(launch)
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one tile that fails must not hide the others
            failed[tile.name] = f"{type(failure).__name__}: {failure}"
            continue
        ready[tile.name] = lambda index, launch=launch: launch(*sets[index])
    guess = max(shape.flops / 600e12, shape.bytes / 3.5e12)
    launches = max(min(len(sets), 400), min(400, int(TURN_SECONDS / guess)))
    graphs = {name: graph_of(launch, launches, len(sets)) for name, launch in ready.items()}
    row: dict[str, Any] = {"launches": launches, "failed": failed}
    row["short"] = told(turns(graphs, launches, rounds, notes, str(shape)))
    row["nvml_mhz"] = torch.cuda.clock_rate()
    if long:
        graphs.clear()
        launches = max(launches, int(LONG_SECONDS / guess))
        several = {name: graph_of(ready[name], launches, len(sets)) for name in list(row["short"])[:long]}
        row["long"] = told(turns(several, launches, 2, notes, f"{shape} long"))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=120, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_cycles.json")
    options = parser.parse_args()
    started = time.perf_counter()
    asked: list[tuple[str, Shape, Sequence[Tile], int]] = []
    for m, n, k, with_long in SHAPES:
        shape = Shape(m, n, k, "published")
        asked.append((str(shape), shape, tiles(shape), LONG_MOST * with_long))
    for m, n, k in OF_UNLIKE:
        shape = Shape(m, n, k, "published")
        asked.append((f"{shape}, unlike tiles", shape, UNLIKE, len(UNLIKE)))
    every = {key(tile): tile for _, _, offered, _ in asked for tile in offered}
    built = build_all(list(every.values()), torch.cuda.get_device_properties(0).multi_processor_count)
    print(f"{len(built)} tiles built after {time.perf_counter() - started:.0f} s", flush=True)
    contenders, notes = OfPipec(built), Notes()
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rounds": options.rounds}
    record |= {"left_out": [], "figures": {}}
    for title, shape, offered, long in asked:
        if time.perf_counter() - started > options.budget:
            record["left_out"].append(title)
            continue
        record["figures"][title] = row = measure(shape, offered, long, contenders, options.rounds, notes)
        best = next(iter(row["short"].items()))
        print(f"{title:34} {best} nvml {row['nvml_mhz']} {time.perf_counter() - started:.0f} s", flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
