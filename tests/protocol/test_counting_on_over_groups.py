"""Tiles of groups whose sizes are in memory, numbered from the first group to the last: each role counts on from group to group, as in
Triton's grouped GEMM."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

KERNEL = """
kernel k(sizes: tensor[i32, G], depths: tensor[i32, G], x: tensor[f32, G, M, 32], y: tensor[f32, G, M, 32]):
    grid(3)
    ring = ProducerConsumerPipeline(stages=2)
    out = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=2)

    role load(warps=1) produces ring:
{load}
    role work(warps=1) consumes ring produces out:
{work}
    role save(warps=4) consumes out:
{save}
"""
TRITON = """
tile = block.x
end = 0
for g in range(G):
    tiles = ceildiv(load(sizes[g]), 32)
    while tile >= end and tile < end + tiles:
        {it}
        tile += grid.x
    end += tiles
"""
ENDS = """
tile = block.x
start = 0
for g in range(G):
    stop = start + ceildiv(load(sizes[g]), 32)
    end = start
    while tile < stop:
        {it}
        tile = tile + grid.x
    start = stop
"""
WHILE = """
g = 0
tile = block.x
end = 0
while g < G:
    tiles = ceildiv(load(sizes[g]), 32)
    while tile - end < tiles:
        {it}
        tile += grid.x
    end = end + tiles
    g += 1
"""
LEFT = """
tile = block.x
end = 0
for g in range(G):
    tiles = ceildiv(load(sizes[g]), 32)
    while tile < tiles:
        {it}
        tile += grid.x
    tile -= tiles
"""
LARGER = """
tile = block.x
end = 0
for g in range(G):
    tiles = ceildiv(load(sizes[g]), 32)
    while max(tile, end) < end + tiles:
        {it}
        tile += grid.x
    end += tiles
"""
WORDS = {"triton": TRITON, "larger": LARGER, "ends": ENDS, "while": WHILE, "left": LEFT}
IT = {
    "load": "for k in range({depth}):\n            ring.producer_signal_and_step()",
    "work": "for k in range({depth}):\n            ring.consumer_signal_and_step()\n"
    "        with out.produce() as s:\n            tma.load(s.x, x[g, (tile - end) * 32, 0])",
    "save": "with out.consume() as s:\n            store(y[g, (tile - end) * 32, 0], s.x + 1.0)",
}


def source(*words: str, depth: str = "3") -> str:
    texts = {}
    for role, word in zip(IT, words, strict=True):
        text = word.strip().replace("{it}", IT[role].replace("{depth}", depth))
        texts[role] = "\n".join(" " * 8 + line for line in text.split("\n"))
    return KERNEL.format(**texts)


def failed(text: str) -> bool:
    return compile_source(Source("k.pipe", text), Options("sm_90a")).failed


LOADED = "ceildiv(load(depths[g]), 64)"


@pytest.mark.parametrize(
    ("load", "work", "save", "depth"),
    [
        ("triton", "triton", "triton", "3"),
        ("triton", "triton", "triton", LOADED),
        ("ends", "ends", "ends", LOADED),
        ("while", "while", "while", LOADED),
        ("triton", "ends", "while", "3"),
        ("left", "ends", "triton", "3"),
        ("triton", "larger", "triton", "3"),
    ],
)
def test_it_is_proved_and_right(load: str, work: str, save: str, depth: str) -> None:
    text = source(WORDS[load], WORDS[work], WORDS[save], depth=depth)
    program = pipec.compile(text, arch="sm_90a")
    assert "if arithmetic on numbers in memory, and counting up to them, does not wrap around" in str(program.report)
    sizes = np.array([40, 0, 96, 1, 33], np.int32)
    depths = np.array([64, 130, 0, 65, 1], np.int32)
    for timing in ("late", "random", "order"):
        x = np.random.default_rng(1).random((5, 96, 32), np.float32)
        y = np.zeros_like(x)
        program["k"](sizes, depths, x, y, device="sim", options=LaunchOptions(Simulation(timing=timing)))
        for group, size in enumerate(sizes):
            rows = -(-size // 32) * 32
            assert np.array_equal(y[group, :rows], x[group, :rows] + 1), (timing, group)
            assert not y[group, rows:].any()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tile < end + tiles", "tile <= end + tiles"),
        ("tile = block.x", "tile = block.x + 1"),
        ("ceildiv(load(sizes[g]), 32)", "(load(sizes[g]) // 32)"),
        ("end += tiles", "end = tiles"),
        ("range(G)", "range(G - 1)"),
        ("range(G)", "range(1, G)"),
        ("load(sizes[g])", "load(depths[g])"),
        ("tile += grid.x", "tile += grid.x + 1"),
        ("end = 0", "end = 1"),
    ],
)
def test_its_neighbour_is_refused(old: str, new: str) -> None:
    assert old in TRITON
    assert failed(source(TRITON, TRITON, TRITON.replace(old, new)))
    assert failed(source(TRITON.replace(old, new), TRITON, TRITON))


def test_tiles_that_sizes_count_are_not_followed() -> None:
    """These are no numbers in memory, and what they add up to may leave 32 bits."""
    words = TRITON.replace("ceildiv(load(sizes[g]), 32)", "g + M")
    found = compile_source(Source("k.pipe", source(words, words, words)), Options("sm_90a")).diagnostics
    assert [one.code for one in found] == ["E0604"]
    assert "it counts on where it has ended in the turn before" in found[0].labels[0].text
