"""What pipec chooses for a shape when nothing was measured: the tile of one kernel, the column "automatic" of benchmarks/gemm/h200.py, and
the kernel and its tile, the column "chosen"; and among which tiles `tune` then chooses by measuring, the column "tuned"."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from benchmarks.gemm.gemm_shapes import FP8, KERNEL, Kind, Shape, Tile, tiles
from pipec import library
from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.tune.choice import Candidate, Choices
from pipec.tune.measure import considered
from pipec.tune.several import Several

MULTIPROCESSORS = 132  # of the H200
_SOURCE = Path(__file__).resolve().parents[2] / "examples" / f"{KERNEL}.pipe"


@cache
def choices(kind: Kind) -> Choices:
    state = compile_source(read_source(str(_SOURCE)), Options(None, FP8 if kind == "fp8" else {}), until="analyse")
    assert not state.failed, state.diagnostics
    return Choices(state, KERNEL)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured at a shape: the tiles that are listed for it, those that are chosen, and those that `tune` of pipec.library.gemm
    would measure, the file's own first and then those that the model takes for the fastest."""

    automatic: Tile
    chosen: Tile
    searched: tuple[Tile, ...]
    contending: tuple[Tile, ...]

    @property
    def dozen(self) -> tuple[Tile, ...]:
        return self.searched[:DOZEN]


DOZEN = 12
_PLANS: dict[Shape, Plan] = {}


def plan(shape: Shape) -> Plan:
    if shape not in _PLANS:
        _PLANS[shape] = _planned(shape)
    return _PLANS[shape]


def plan_all(shapes: Sequence[Shape]) -> None:
    """Side by side: the checks of what `tune` measures take seconds for each shape."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        _PLANS.update(zip(shapes, pool.map(_planned, shapes), strict=True))


def _planned(shape: Shape) -> Plan:
    offer, sizes = library_of(shape.kind), {"M": shape.m, "N": shape.n, "K": shape.k}
    worth = [candidate for candidate, reason in considered(offer, sizes, MULTIPROCESSORS) if reason is None]
    found = tiles(shape)

    def known(tile: Tile) -> Tile:
        """By the name under which it is measured: the same values in another order are the same tile."""
        if tile not in found:
            found.append(tile)
        return found[found.index(tile)]

    alone, best = known(automatic(shape)), known(tile_of(offer, offer.choose(sizes), shape.kind))
    searched = tuple(known(tile_of(offer, candidate, shape.kind)) for candidate in worth)
    return Plan(alone, best, searched, tuple(found))


@cache
def automatic(shape: Shape) -> Tile:
    """By the name under which it is tried anyway, where it is."""
    offered = choices(shape.kind)
    chosen = offered.choose({"M": shape.m, "N": shape.n, "K": shape.k}).constants
    own = offered.file.constants
    for tile in tiles(shape):
        if tile.example == KERNEL and own | {name: tile.constants.get(name, own[name]) for name in own} == chosen:
            return tile
    different = {name: value for name, value in chosen.items() if value != own[name]}
    return Tile(KERNEL, {**different, **(FP8 if shape.kind == "fp8" else {})})  # type: ignore[dict-item]


@cache
def library_of(kind: Kind) -> Several:
    tuned = library.gemm(dtype="e4m3" if kind == "fp8" else "bf16").tuned
    assert tuned is not None and isinstance(tuned.choices, Several)
    return tuned.choices


def tile_of(offer: Several, candidate: Candidate, kind: Kind) -> Tile:
    kernel, own = offer.split(candidate)
    entry = library.GEMM["sm_90a"][offer.names.index(kernel)]
    return Tile(entry.file, {**entry.constants, **own.constants, **(FP8 if kind == "fp8" else {})})  # type: ignore[dict-item]
