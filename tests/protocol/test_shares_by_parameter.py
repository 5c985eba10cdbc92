"""Roles that walk over a block's share of K in different words, where how many shares there are is a parameter."""

from itertools import combinations

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, K], splits: i32):
    assume(K > 0)
    grid({grid})
    steps = ceildiv(K, 64)
{share}
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
{one}
    role b(warps=1) consumes p:
{other}
"""
BY_TILES = "first = block.y * steps // splits\nlast = (block.y + 1) * steps // splits"
TILES = [
    "for k in range(first, last):\n    STAGE",
    "for k in range(last - first):\n    STAGE",
    "for k in range(last - 1, first - 1, -1):\n    STAGE",
    "left = last - first\nwhile left > 0:\n    STAGE\n    left -= 1",
]
BY_ELEMENTS = "per = ceildiv(steps, splits) * 64\nstart = block.y * per\nstop = min(K, start + per)"
ELEMENTS = [
    "for k in range(start, stop, 64):\n    STAGE",
    "for k in range(ceildiv(stop - start, 64)):\n    STAGE",
    "for k in range((stop - start + 63) // 64):\n    STAGE",
    "for k in range(start // 64, ceildiv(stop, 64)):\n    STAGE",
    "left = stop - start\nwhile left > 0:\n    STAGE\n    left -= 64",
]
SHARES = [(BY_TILES, one, other) for one, other in combinations(TILES, 2)]
SHARES += [(BY_ELEMENTS, one, other) for one, other in combinations(ELEMENTS, 2)]


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


def compiled(share: str, one: str, other: str, grid: str = "ceildiv(M, 64), splits") -> Compilation:
    stages = (one.replace("STAGE", "p.producer_signal_and_step()"), other.replace("STAGE", "p.consumer_signal_and_step()"))
    sides = dict(zip(("one", "other"), (_indented(each, 8) for each in stages), strict=True))
    text = TEXT.format(grid=grid, share=_indented(share, 4), **sides)
    return compile_source(Source("k.pipe", text), Options("sm_90a", allow_undecided=True))


@pytest.mark.parametrize(("share", "one", "other"), SHARES)
def test_shares_of_a_number_of_blocks(share: str, one: str, other: str) -> None:
    """There is a block along the axis, so that there is a share."""
    found = compiled(share, one, other).protocol["k"]
    assert found.outcome == "proved" and "splits >= 1" not in found.sentence


@pytest.mark.parametrize(("share", "one", "other"), [SHARES[0], SHARES[9]])
def test_shares_of_another_number_are_asked_to_be_some(share: str, one: str, other: str) -> None:
    """By which is divided, but of which no block tells."""
    found = compiled(share, one, other, "ceildiv(M, 64), 8").protocol["k"]
    assert found.outcome == "proved" and "splits >= 1" in found.sentence


OTHERS = [
    (BY_TILES, TILES[0], TILES[1].replace("last - first", "last - first + 1")),
    (BY_TILES, TILES[0], TILES[2].replace("first - 1", "first")),
    (BY_TILES.replace("(block.y + 1) * steps", "(block.y + 1) * steps + 1"), TILES[1], TILES[0].replace("last", "(last - 1)")),
    (BY_ELEMENTS, ELEMENTS[0], ELEMENTS[1].replace("64)", "32)")),
    (BY_ELEMENTS, ELEMENTS[0], ELEMENTS[1].replace("stop - start", "stop - start + 1")),
    (BY_ELEMENTS, ELEMENTS[1], "for k in range(ceildiv(per, 64)):\n    STAGE"),
    (BY_ELEMENTS.replace(" * 64", " * 32"), ELEMENTS[1], ELEMENTS[3]),
]


@pytest.mark.parametrize(("share", "one", "other"), OTHERS)
def test_other_numbers_are_not(share: str, one: str, other: str) -> None:
    assert compiled(share, one, other).failed
