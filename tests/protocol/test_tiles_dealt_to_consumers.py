"""Ping-pong: a block takes several tiles in each turn, one for each of its consumers, which count their own from where they begin."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

GRIDS = ("min(ceildiv(tiles, {n}), 3)", "ceildiv(tiles, {n})", "G", "3")


def kernel(consumers: int, grid: str, *, first: str = "{n} * block.x + {at}", asked: str = "t + {at} < tiles") -> str:
    """`first`: the tile with which the consumer `at` begins; `asked`: whether a tile is loaded for it."""
    n, numbers = consumers, range(consumers)
    names = ", ".join(f"p{at}" for at in numbers)
    lines = [
        "kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], z: tensor[f32, G, 4]):",
        "    tiles = ceildiv(M, 64)",
        f"    grid({grid.format(n=n)})",
        *[f"    p{at} = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=2)" for at in numbers],
        f"    role load(warps=1) produces {names}:",
        f"        for t in range({n} * block.x, tiles, {n} * grid.x):",
    ]
    for at in numbers:
        lines += [f"            if {asked.format(at=at)}:"] if at else []
        lines += [f"{'    ' * bool(at)}            with p{at}.produce() as s:"]
        lines += [f"{'    ' * bool(at)}                tma.load(s.x, x[(t + {at}) * 64, 0])"]
    for at in numbers:
        begins = first.format(n=n, at=at) if at else f"{n} * block.x"
        lines += [f"    role c{at}(warps=2) consumes p{at}:", f"        for t in range({begins}, tiles, {n} * grid.x):"]
        lines += [f"            with p{at}.consume() as s:", "                store(y[t * 64, 0], s.x)"]
    return "\n".join(lines) + "\n"


def outcome(text: str) -> str:
    state = compile_source(Source("k.pipe", text), Options(allow_undecided=True))
    found = state.protocol.get("k")
    return "refused" if state.failed or found is None else found.outcome


# (Three times a number of blocks that nobody bounds may be more than 2^32.)
@pytest.mark.parametrize(("consumers", "grid"), [*((2, grid) for grid in GRIDS), *((3, grid) for grid in GRIDS if grid != "G")])
def test_consumers_that_begin_with_their_own_tile(consumers: int, grid: str) -> None:
    assert outcome(kernel(consumers, grid)) == "proved"


@pytest.mark.parametrize("grid", [GRIDS[0], GRIDS[2]])
@pytest.mark.parametrize(
    "wrong",
    [
        {"first": "{n} * block.x"},
        {"first": "{n} * block.x + {at} + 1"},
        {"first": "{n} * block.x - {at}"},
        {"first": "block.x + {at}"},
        {"asked": "t + {at} <= tiles"},
        {"asked": "t < tiles"},
        {"asked": "t + {at} + 1 < tiles"},
    ],
    ids=str,
)
def test_a_neighbour_is_not_proved(wrong: dict[str, str], grid: str) -> None:
    assert outcome(kernel(2, grid, **wrong)) != "proved"
