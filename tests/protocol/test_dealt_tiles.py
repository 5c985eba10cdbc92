"""Tiles that are dealt out to as many blocks as there are: how many a block has, counted in the ways in which it is written."""

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, K], y: tensor[f32, N, K]):
    tiles = {tiles}
    grid(min(tiles, 132))
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for t in range(block.x, tiles, grid.x):
            {filled}
    role mma(warps=1) consumes p:
        for i in range({count}):
            p.consumer_signal_and_step()
"""
ONE, FOUR = "p.producer_signal_and_step()", "for part in range(4):\n                p.producer_signal_and_step()"
LISTED, OF_PRODUCT = "M", "ceildiv(M, 128) * ceildiv(N, 128)"
RIGHT = [
    (LISTED, ONE, "ceildiv(tiles - block.x, grid.x)"),
    (LISTED, ONE, "(tiles - block.x + grid.x - 1) // grid.x"),
    (LISTED, ONE, "(tiles + grid.x - 1 - block.x) // grid.x"),
    (LISTED, ONE, "(tiles - 1 - block.x) // grid.x + 1"),
    (LISTED, ONE, "-((block.x - tiles) // grid.x)"),
    (LISTED, FOUR, "4 * ceildiv(tiles - block.x, grid.x)"),
    (LISTED, FOUR, "((tiles - 1 - block.x) // grid.x + 1) * 4"),
    (OF_PRODUCT, ONE, "(tiles - block.x + grid.x - 1) // grid.x"),
    (OF_PRODUCT, ONE, "(tiles - 1 - block.x) // grid.x + 1"),
]
WRONG = [
    (LISTED, ONE, "ceildiv(tiles, grid.x)"),
    (LISTED, ONE, "(tiles - block.x) // grid.x"),
    (LISTED, ONE, "(tiles - block.x + grid.x) // grid.x"),
    (LISTED, ONE, "(tiles - 1 - block.x) // grid.x"),
    (LISTED, ONE, "-((tiles - block.x) // grid.x)"),
    (LISTED, FOUR, "4 * ceildiv(tiles - block.x, grid.x) + 1"),
    (LISTED, FOUR, "ceildiv(4 * (tiles - block.x), grid.x)"),
    (OF_PRODUCT, ONE, "(tiles - block.x + grid.x) // grid.x"),
]


def compiled(tiles: str, filled: str, count: str) -> Compilation:
    text = KERNEL.format(tiles=tiles, filled=filled, count=count)
    return compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True))


@pytest.mark.parametrize(("tiles", "filled", "count"), RIGHT)
def test_right_counts_are_proved(tiles: str, filled: str, count: str) -> None:
    assert compiled(tiles, filled, count).protocol["k"].outcome == "proved"


@pytest.mark.parametrize(("tiles", "filled", "count"), WRONG)
def test_wrong_counts_are_not(tiles: str, filled: str, count: str) -> None:
    assert compiled(tiles, filled, count).protocol["k"].outcome != "proved"
