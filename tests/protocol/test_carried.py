"""Loops whose bounds are carried from turn to turn, and are found in memory: proved where all roles compute them alike, and only there."""

import pytest
from effort import give_up_soon

from pipec.driver import Options, compile_source
from pipec.source import Source

FRAME = """
kernel k(x: tensor[f32, 128, 32], s: tensor[i32, M]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
PRODUCER
    role use(warps=4) consumes ring:
CONSUMER
"""
STAGE = {
    "PRODUCER": "with ring.produce() as t: tma.load(t.x, x[0, 0])",
    "CONSUMER": "with ring.consume() as t: y = registers(t.x)",
}


def verdict(producer: str, consumer: str, grid: str = "grid(1)") -> str:
    """`STAGE` in a body is a stage filled or taken."""
    text = FRAME.replace("grid(1)", grid)
    for side, body in (("PRODUCER", producer), ("CONSUMER", consumer)):
        lines = []
        for line in body.strip("\n").split("\n"):
            indent = " " * (len(line) - len(line.lstrip()) + 8)
            with_, _, inside = STAGE[side].partition(": ")
            lines += [f"{indent}{with_}:", f"{indent}    {inside}"] if line.strip() == "STAGE" else [indent + line.strip()]
        text = text.replace(side, "\n".join(lines))
    state = compile_source(Source("k.pipe", text), Options(allow_undecided=True))
    return state.protocol["k"].outcome if state.protocol else ", ".join(one.title for one in state.diagnostics)


WALK = """
before = 0
for g in range(M):
    tiles = load(s[g])
    for t in range(min(before, tiles)):
        STAGE
    before = tiles
"""
WHILE = """
g = 0
while g + 1 < M and load(s[g]) > 3:
    g += 1
for k in range(load(s[g])):
    STAGE
"""
TILES = 'tiles = TileScheduler(M, mode="static")'
TILED = """
for tile in tiles:
    g = 0
    behind = load(s[0])
    while behind <= tile.index and g + 1 < M:
        g += 1
        behind = load(s[g])
    if tile.index < behind:
        for k in range(3):
            STAGE
"""


@pytest.mark.parametrize("body", [WALK, WHILE], ids=["the last one", "two conditions"])
def test_alike_in_both_roles(body: str) -> None:
    assert verdict(body, body) == "proved"


def test_a_value_has_no_name() -> None:
    assert verdict(WALK, WALK.replace("before", "base").replace("tiles", "many")) == "proved"


def test_groups_that_are_found_anew_for_each_tile() -> None:
    """Some tiles have nothing to do: whoever finds that waits until the others have found it, too."""
    assert verdict(TILED, TILED, 'tiles = TileScheduler(M, mode="static")') == "proved"


OTHER = {
    "another element": (WALK, WALK.replace("load(s[g])", "load(s[g + 1])")),
    "another start": (WALK, WALK.replace("before = 0", "before = 1")),
    "another value": (WALK, WALK.replace("before = tiles", "before = g")),
    "an end more": (WHILE, WHILE.replace("g + 1 < M", "g < M")),
    "another condition": (WHILE, WHILE.replace("> 3", "> 2")),
    "or for and": (WHILE, WHILE.replace(" and ", " or ")),
}


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("name", OTHER)
def test_not_alike(name: str) -> None:
    assert verdict(*OTHER[name]) == "open"


def test_groups_that_are_found_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as those below are given up."""
    give_up_soon(monkeypatch)
    assert verdict(TILED, TILED, TILES) == "proved"


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("change", [("+= 1", "+= 2"), ("tile.index < behind", "tile.index <= behind"), ("s[0]", "s[1]")])
def test_groups_that_are_found_in_another_way(change: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched as long as it takes to prove those that are found alike, and longer."""
    give_up_soon(monkeypatch)
    assert verdict(TILED, TILED.replace(*change), TILES) == "open"


def test_elements_that_the_kernel_writes_are_not_the_same_to_all() -> None:
    written = "with ring.consume() as t:\n    store.direct(s[0], cast[i32](row_sum(t.x)))\n"
    assert verdict("STAGE\n" + WALK, written + WALK) != "proved"


def test_inside_a_loop_is_not_behind_it() -> None:
    inside = "n = 0\nfor i in range(M):\n    n += 1\n    for k in range(n):\n        STAGE"
    behind = "n = 0\nfor i in range(M):\n    n += 1\nfor j in range(M):\n    for k in range(n):\n        STAGE"
    assert verdict(inside, inside) == "proved" and verdict(behind, behind) == "proved"
    assert verdict(inside, behind) == "refuted"
