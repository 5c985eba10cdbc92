"""One loop over the blocks of K of all tiles of a block, as persistent kernels of Triton have it, against loops over tiles and over K."""

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
    grid(min(ceildiv(M, 128) * ceildiv(N, 128), gpu.multiprocessors))
    assume(M > 0 and N > 0 and K > 0)
    tiles = ceildiv(M, 128) * ceildiv(N, 128)
    kb = ceildiv(K, 64)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
{load}
    role take(warps=1) consumes p:
{take}
"""
WALK = "for t in range(block.x, tiles, grid.x):\n    for k in range(kb):\n        {it}"
SHARE = "for i in range(ceildiv(tiles - block.x, grid.x) * kb):\n    {it}"
BY_HAND = """
mine = tiles // grid.x
if block.x < tiles % grid.x:
    mine += 1
for i in range(mine * kb):
    {it}
""".strip()
COUNTED = """
t = block.x - grid.x
k = -1
mine = tiles // grid.x
if block.x < tiles % grid.x:
    mine += 1
for i in range(mine * kb):
    k = 0 if k == kb - 1 else k + 1
    if k == 0:
        t += grid.x
    {it}
""".strip()
FLAT = {"a share": SHARE, "by hand": BY_HAND, "with counters": COUNTED}
ALL, ALL_FLAT = "for t in range(tiles):\n    for k in range(kb):\n        {it}", "for i in range(tiles * kb):\n    {it}"
WRONG = {
    "rounded down": "for i in range(tiles // grid.x * kb):\n    {it}",
    "from the next block on": SHARE.replace("tiles - block.x", "tiles - block.x - 1"),
    "the rest to all": BY_HAND.replace("block.x < tiles % grid.x", "block.x <= tiles % grid.x"),
    "one more of each tile": SHARE.replace("* kb", "* (kb + 1)"),
    "one more": BY_HAND.replace("mine * kb", "mine * kb + 1"),
}


def failed(load: str, take: str, text: str = TEXT) -> bool:
    produced = textwrap.indent(load.format(it="p.producer_signal_and_step()"), " " * 8)
    taken = textwrap.indent(take.format(it="p.consumer_signal_and_step()"), " " * 8)
    return compile_source(Source("k.pipe", text.format(load=produced, take=taken)), Options("sm_90a")).failed


@pytest.mark.parametrize("flat", FLAT)
def test_it_is_proved(flat: str) -> None:
    assert not failed(WALK, FLAT[flat])


def test_the_tiles_of_one_block_are_a_product_themselves() -> None:
    text = TEXT.replace("grid(min(ceildiv(M, 128) * ceildiv(N, 128), gpu.multiprocessors))", "grid(1)")
    assert not failed(ALL, ALL_FLAT, text)
    assert not failed(ALL_FLAT, ALL, text)
    assert failed(ALL, ALL_FLAT.replace("tiles * kb", "tiles * kb - 1"), text)
    assert failed(ALL, ALL_FLAT.replace("tiles * kb", "tiles * (kb - 1)"), text)


def test_more_blocks_than_tiles() -> None:
    text = TEXT.replace("grid(min(ceildiv(M, 128) * ceildiv(N, 128), gpu.multiprocessors))", "grid(gpu.multiprocessors)")
    assert not failed(WALK, SHARE, text)
    assert failed(WALK, SHARE.replace("tiles - block.x, grid.x)", "max(1, tiles - block.x), grid.x)"), text)


@pytest.mark.parametrize("wrong", WRONG)
def test_its_neighbour_is_not(wrong: str) -> None:
    assert failed(WALK, WRONG[wrong])


SUMS = """
kernel k(x: tensor[f32, M, K], y: tensor[f32, M, 32]):
    grid(min(ceildiv(M, 32), gpu.multiprocessors))
    assume(M > 0 and K > 0)
    tiles = ceildiv(M, 32)
    kb = ceildiv(K, 32)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=3)
    role load(warps=1) produces p:
        mine = tiles // grid.x
        if block.x < tiles % grid.x:
            mine += 1
        for i in range(mine * kb):
            row = block.x + i // kb * grid.x
            with p.produce() as s:
                tma.load(s.x, x[row * 32, i % kb * 32])
    role take(warps=1) consumes p:
        for t in range(block.x, tiles, grid.x):
            total = registers(fill(0.0, f32, 32, 32))
            for k in range(kb):
                with p.consume() as s:
                    total = total + s.x
            store(y[t * 32, 0], total)
"""


@pytest.mark.parametrize(("rows", "depth"), [(32, 32), (224, 96), (70, 160), (129, 4)])
def test_what_it_adds_up(rows: int, depth: int) -> None:
    kernel = pipec.compile(SUMS, arch="sm_90a")["k"]
    x = np.random.default_rng(1).integers(-8, 8, (rows, depth)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, -depth % 32)))
    for timing in ("late", "random", "order"):
        y = np.zeros((rows, 32), np.float32)
        kernel(x, y, device="sim", options=LaunchOptions(Simulation(timing=timing), multiprocessors=3))
        assert np.array_equal(y, padded.reshape(rows, -1, 32).sum(axis=1)), timing
