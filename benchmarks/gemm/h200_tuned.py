"""How close `tune` comes to the best tile that is known, and the choice at shapes drawn by chance, on a Hopper GPU.

    python benchmarks/gemm/h200_tuned.py [--seed 1] [--budget 200] [-o FOLDER] [--dry-run]

`h200_tuned.json`: pipec.library.gemm() is tuned at published shapes and at linear layers of language models, with the rounds of
`pipec tune` (pipec.tune.measure.best), on tiles that were built before. The winner then meets, in shuffled rounds, the fastest tiles of
earlier records at that shape, of any example, the other finalists and the model's choice. The winner has two turns in each round: the ratio
of the two says what a ratio means nothing below.

`h200_drawn.json`: the candidates that the model ranks first at shapes drawn from a seed that nobody has used before.
"""

import argparse
import gc
import json
import os
import random
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_automatic import MULTIPROCESSORS, library_of, tile_of
from benchmarks.gemm.gemm_build import build_all, key
from benchmarks.gemm.gemm_method import rounded
from benchmarks.gemm.gemm_shapes import FP8, SHAPES, Shape, Tile, named
from benchmarks.gemm.h200_terms import contending
from benchmarks.gemm.h200_tiles import gemms, write
from pipec.tune.choice import Candidate
from pipec.tune.measure import best, considered

RECORDS = ("h200_gemm", "h200_choice", "h200_overlap")
TUNED = (
    "published,16x6144x4096,64x4096x14336,128x28672x4096,256x6144x4096,512x28672x4096,2048x6144x4096,1024x10240x8192,8x8192x28672"
)
RIVALS, ROUNDS, SLOWER = 3, 25, 1.03
_AGAIN = " (again)"


def rivals(shape: Shape) -> list[Tile]:
    """The fastest tiles of each record, of any example."""
    found: dict[str, Tile] = {}
    for record in RECORDS:
        figures = json.loads((RESULTS / f"{record}.json").read_text(encoding="utf-8"))["figures"]
        if str(shape) not in figures:
            continue
        screened = figures[str(shape)]["screened"]["pipec"]
        stayed = [name for name in screened["microseconds"] if name not in screened["dropped"]]
        fastest = min(screened["microseconds"][name] for name in stayed)
        near = [name for name in stayed if screened["microseconds"][name] <= SLOWER * fastest]
        found |= {key(one): one for one in map(partial(_tile, shape), near[:RIVALS])}
    return list(found.values())


def _tile(shape: Shape, name: str) -> Tile:
    """By its name in a record."""
    words = re.fullmatch(r"pipec (\w+)((?: \w+=\w+)*)", name)
    assert words is not None, name
    constants = dict(word.split("=") for word in words[2].split())
    given = {one: int(value) if value.isdecimal() else value == "True" for one, value in constants.items()}
    example = "gemm_sm90" if words[1] == "sm90" else f"gemm_sm90_{words[1]}"
    return Tile(example, {**given, **(FP8 if shape.kind == "fp8" else {})})


def sizes_of(shape: Shape) -> dict[str, int]:
    return {"M": shape.m, "N": shape.n, "K": shape.k}


def searched(shape: Shape) -> list[Tile]:
    """What `tune` measures."""
    offer = library_of(shape.kind)
    found = considered(offer, sizes_of(shape), MULTIPROCESSORS)
    return [tile_of(offer, candidate, shape.kind) for candidate, reason in found if reason is None]


def drawn(seed: int, count: int = 14) -> list[Shape]:
    """Of at most a millisecond or so; rows of whole 16 bytes."""
    chance, found = random.Random(seed), list[Shape]()
    while len(found) < count:
        m, n, k = (int(2 ** chance.uniform(*bits)) for bits in ((0, 13), (9, 15), (8, 14)))
        shape = Shape(m, n // 8 * 8, k // 8 * 8, "odd")
        if 2e9 < shape.flops < 6e11 and shape not in SHAPES:
            found.append(shape)
    return found


class _Bench:
    """pipec.tune.gpu.TorchBench over launches that were prepared in advance."""

    def __init__(self, shape: Shape, contenders: Any, sets: Any) -> None:
        from pipec.tune.gpu import TorchBench, describe

        gpu = describe(0)
        self.device, self.multiprocessors = gpu.name, gpu.multiprocessors
        offer = library_of(shape.kind)

        @cache
        def kernel_of(candidate: Candidate) -> Any:
            launch = contenders.launch(key(tile_of(offer, candidate, shape.kind)), shape)
            return lambda a, b, d, device, stream: launch(a, b, d)

        self._bench = TorchBench(kernel_of, sets[0])
        self.prepare, self.clock = self._bench.prepare, self._bench.clock


def tuned(shape: Shape, contenders: Any) -> dict[str, Any]:
    import torch

    from benchmarks.gemm.gemm_contenders import Judge, buffers
    from pipec.tune.rounds import compare
    from pipec.tune.torch_clock import GpuClock

    started, offer, sets = time.perf_counter(), library_of(shape.kind), buffers(shape)
    outcome = best(offer, sizes_of(shape), _Bench(shape, contenders, sets))
    spent = time.perf_counter() - started
    winner = tile_of(offer, outcome.winner, shape.kind)
    finalists = [tile_of(offer, one, shape.kind) for one, _ in outcome.ranking[:4]]
    model = tile_of(offer, offer.choose(sizes_of(shape), MULTIPROCESSORS), shape.kind)
    judge, clock = Judge(shape, sets), GpuClock(len(sets), outcome.seconds.median)
    names: list[str] = []
    for tile in {key(one): one for one in (winner, model, *finalists, *rivals(shape))}.values():
        launch = contenders.launch(key(tile), shape)
        try:
            judge.difference(launch)
        except torch.AcceleratorError:
            raise
        except Exception as failure:  # noqa: BLE001 - one tile that fails must not hide the others
            print(f"{tile.example} {tile.name}: {failure}", file=sys.stderr)
            continue
        clock.add(tile.name, lambda index, launch=launch: launch(*sets[index]))
        names.append(tile.name)
    again = winner.name + _AGAIN
    found = compare([*names, again], lambda order: clock([one.removesuffix(_AGAIN) for one in order]), ROUNDS, str(shape))
    fastest = min(names, key=lambda name: found.time(name).median)
    return {
        "kind": shape.kind,
        "seconds": round(spent, 2),
        "measured": len(outcome.ranking),
        "tuned": winner.name,
        "model": model.name,
        "fastest": fastest,
        "microseconds": {
            name: rounded(found.time(name).median * 1e6) for name in sorted(names, key=lambda one: found.time(one).median)
        },
        "tuned_to_fastest": rounded(found.ratio(fastest, winner.name).median),
        "model_to_fastest": rounded(found.ratio(fastest, model.name).median),
        "noise": rounded(found.ratio(again, winner.name).median),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="of the drawn shapes")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds after which no further shape is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS, help="folder of the two records")
    parser.add_argument("--dry-run", action="store_true", help="lists what would be measured; needs no GPU")
    options = parser.parse_args()
    started, shapes, chance = time.perf_counter(), named(TUNED), drawn(options.seed)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:  # a child starts afresh, without CUDA
        found, first = pool.map(searched, shapes), pool.map(contending, chance)
        tiles = {shape: [*own, *rivals(shape)] for shape, own in zip(shapes, found, strict=True)}
        ranked = dict(zip(chance, first, strict=True))
    if options.dry_run:
        for shape in shapes:
            print(shape, len(tiles[shape]), *(f"\n    {tile.example} {tile.name}" for tile in rivals(shape)))
        print(*(f"{shape} {len(ranked[shape])}" for shape in chance), sep="\n")
        return 0
    import torch

    from benchmarks.gemm.gemm_contenders import OfPipec

    every = list({key(tile): tile for shape in shapes for tile in tiles[shape]}.values())
    contenders = OfPipec(build_all(every, MULTIPROCESSORS))
    print(f"{len(every)} tiles built after {time.perf_counter() - started:.0f} s", flush=True)
    record: dict[str, Any] = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}}
    for shape in shapes:
        if time.perf_counter() - started > options.budget * 0.7:
            record["left_out"].append(str(shape))
            continue
        record["figures"][str(shape)] = row = tuned(shape, contenders)
        print(
            f"{shape!s:20} {row['tuned_to_fastest']:.3f} model {row['model_to_fastest']:.3f} noise {row['noise']:.3f}", flush=True
        )
        gc.collect()
        write(options.output / "h200_tuned.json", record)
    write(options.output / "h200_tuned.json", record)
    output = options.output / "h200_drawn.json"
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "left_out": [], "figures": {}, "seed": options.seed}
    how = argparse.Namespace(rounds=5, budget=options.budget, l2_times=3, output=output)
    gemms(record, how, started, chance, ranked.__getitem__)
    write(output, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
