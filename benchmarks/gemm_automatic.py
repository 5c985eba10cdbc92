"""What pipec chooses for a shape when nothing was measured: the tile of one kernel, the column "automatic" of benchmarks/h200.py, and
the kernel and its tile, the column "chosen"."""

from functools import cache
from pathlib import Path

from benchmarks.gemm_shapes import FP8, KERNEL, Kind, Shape, Tile, tiles
from pipec import library
from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.tune.choice import Choices
from pipec.tune.several import Several

_SOURCE = Path(__file__).resolve().parent.parent / "examples" / f"{KERNEL}.pipe"


@cache
def choices(kind: Kind) -> Choices:
    state = compile_source(read_source(str(_SOURCE)), Options(None, FP8 if kind == "fp8" else {}), until="analyse")
    assert not state.failed, state.diagnostics
    return Choices(state, KERNEL)


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
def chosen(shape: Shape) -> Tile:
    """Of pipec.library.gemm."""
    tuned = library.gemm(dtype="e4m3" if shape.kind == "fp8" else "bf16").tuned
    assert tuned is not None and isinstance(tuned.choices, Several)
    kernel, own = tuned.choices.split(tuned.choices.choose({"M": shape.m, "N": shape.n, "K": shape.k}))
    entry = library.GEMM["sm_90a"][tuned.choices.names.index(kernel)]
    return Tile(entry.file, {**entry.constants, **own.constants, **(FP8 if shape.kind == "fp8" else {})})  # type: ignore[dict-item]


def contending(shape: Shape) -> list[Tile]:
    """Every tile that is measured."""
    found = tiles(shape)
    for tile in (automatic(shape), chosen(shape)):
        if tile not in found:
            found.append(tile)
    return found
