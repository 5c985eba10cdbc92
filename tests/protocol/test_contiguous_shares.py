"""Tiles in portions that lie one behind the other, of which some blocks get one more: where a portion begins and ends, in other words."""

import textwrap

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K]):
    assume(K > 0)
    tiles = ceildiv(M, 64) * ceildiv(N, 64)
    kb = ceildiv(K, 64)
    grid({grid})
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        each = tiles // grid.x
        more = tiles % grid.x
{load}
    role take(warps=1) consumes p:
        each = tiles // grid.x
        more = tiles % grid.x
{take}
"""
FROM_TO = "for t in range(begin, end):\n    for k in range(kb):\n        {it}"
COUNTED = "for i in range(mine):\n    for k in range(kb):\n        {it}"
BEGIN, END = "begin = block.x * each + min(block.x, more)\n", "end = (block.x + 1) * each + min(block.x + 1, more)\n"
COUNT = "mine = each + (1 if block.x < more else 0)\n" + COUNTED
WORDS = {
    "ends": BEGIN + END + FROM_TO,
    "a share from the begin": BEGIN + "end = begin + each + (1 if block.x < more else 0)\n" + FROM_TO,
    "a difference": BEGIN + END + "mine = end - begin\n" + COUNTED,
    "a choice of products": "begin = block.x * (each + 1) if block.x < more else more * (each + 1) + (block.x - more) * each\n"
    "end = begin + (each + 1 if block.x < more else each)\n" + FROM_TO,
    "choices at the end of the rest": "begin = block.x * each + (block.x if block.x <= more else more)\n"
    "end = (block.x + 1) * each + (block.x + 1 if block.x < more else more)\n" + FROM_TO,
    "ifs": "begin = block.x * each + more\nend = begin + each\n"
    "if block.x < more:\n    begin = block.x * (each + 1)\n    end = begin + each + 1\n" + FROM_TO,
    "a larger one": "begin = block.x * (each + 1) - max(0, block.x - more)\nend = begin + each + (1 if block.x < more else 0)\n"
    + FROM_TO,
    "while": BEGIN + END + "t = begin\nwhile t < end:\n    for k in range(kb):\n        {it}\n    t += 1",
    "dealt in turn": "for t in range(block.x, tiles, grid.x):\n    for k in range(kb):\n        {it}",
    "one loop": BEGIN + END + "for i in range((end - begin) * kb):\n    {it}",
}
WRONG = {
    "one more at the begin": "begin = block.x * each + min(block.x, more + 1)\n" + END + FROM_TO,
    "the rest is counted from 1": BEGIN + "end = (block.x + 1) * each + min(block.x, more)\n" + FROM_TO,
    "the larger one": "begin = block.x * each + max(block.x, more)\n" + END + FROM_TO,
    "up to and with the rest": BEGIN + "end = begin + each + (1 if block.x <= more else 0)\n" + FROM_TO,
    "other choices": "begin = block.x * (each + 1) if block.x < more else more * each + (block.x - more) * each\n"
    "end = begin + (each if block.x < more else each + 1)\n" + FROM_TO,
    "the rest of other blocks": "mine = each + (1 if block.x >= grid.x - more else 0)\n" + COUNTED,
    "one more of each": BEGIN + "end = (block.x + 1) * (each + 1) + min(block.x + 1, more)\n" + FROM_TO,
    "two more": BEGIN + "end = begin + each + (2 if block.x < more else 0)\n" + FROM_TO,
}
LAST = {
    "counted": "mine = each + (1 if block.x >= grid.x - more else 0)\n" + COUNTED,
    "a sum": "mine = each\nif block.x + more >= grid.x:\n    mine += 1\n" + COUNTED,
    "ends": "begin = block.x * each + max(0, block.x - (grid.x - more))\n"
    "end = (block.x + 1) * each + max(0, block.x + 1 - (grid.x - more))\n" + FROM_TO,
}
LAST_WRONG = {
    "the first ones": COUNT,
    "one block further": LAST["counted"].replace(">=", ">"),
    "one more at the end": LAST["ends"].replace("block.x + 1 - (grid.x", "block.x + 2 - (grid.x"),
}
GRIDS = ["min(tiles, 132)", "132", "gpu.multiprocessors"]


def failed(load: str, take: str, grid: str = GRIDS[0]) -> bool:
    roles = {"load": load.format(it="p.producer_signal_and_step()"), "take": take.format(it="p.consumer_signal_and_step()")}
    text = TEXT.format(grid=grid, **{role: textwrap.indent(body, " " * 8) for role, body in roles.items()})
    return compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize("words", WORDS)
def test_they_are_one_number(words: str) -> None:
    assert not failed(WORDS[words], COUNT)


@pytest.mark.parametrize("grid", GRIDS[1:])
@pytest.mark.parametrize("words", ["ends", "a choice of products", "ifs"])
def test_of_other_grids(words: str, grid: str) -> None:
    assert not failed(WORDS["a share from the begin"], WORDS[words], grid)


@pytest.mark.parametrize("words", LAST)
def test_where_the_last_blocks_get_one_more(words: str) -> None:
    assert not failed(LAST[words], LAST["ends"])


@pytest.mark.parametrize("wrong", WRONG)
def test_its_neighbour_is_not(wrong: str) -> None:
    assert failed(WRONG[wrong], COUNT)


@pytest.mark.parametrize("wrong", LAST_WRONG)
def test_nor_is_that_of_the_last_blocks(wrong: str) -> None:
    assert failed(LAST_WRONG[wrong], LAST["ends"])


SUMS = """
kernel k(x: tensor[f32, M, K], y: tensor[f32, M, 32]):
    tiles = ceildiv(M, 32)
    grid(min(tiles, gpu.multiprocessors))
    assume(K > 0)
    kb = ceildiv(K, 32)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=3)
    role load(warps=1) produces p:
        each = tiles // grid.x
        more = tiles % grid.x
        begin = block.x * each + min(block.x, more)
        end = (block.x + 1) * each + min(block.x + 1, more)
        for t in range(begin, end):
            for k in range(kb):
                with p.produce() as s:
                    tma.load(s.x, x[t * 32, k * 32])
    role take(warps=1) consumes p:
        each = tiles // grid.x
        more = tiles % grid.x
        for i in range(each + (1 if block.x < more else 0)):
            t = block.x * each + min(block.x, more) + i
            total = registers(fill(0.0, f32, 32, 32))
            for k in range(kb):
                with p.consume() as s:
                    total = total + s.x
            store(y[t * 32, 0], total)
"""


@pytest.mark.parametrize(("rows", "depth"), [(32, 32), (224, 96), (70, 160)])
def test_what_it_adds_up(rows: int, depth: int) -> None:
    kernel = pipec.compile(SUMS, arch="sm_90a")["k"]
    x = np.random.default_rng(1).integers(-8, 8, (rows, depth)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, -depth % 32)))
    y = np.zeros((rows, 32), np.float32)
    kernel(x, y, device="sim", options=LaunchOptions(Simulation(timing="random"), multiprocessors=3))
    assert np.array_equal(y, padded.reshape(rows, -1, 32).sum(axis=1))
