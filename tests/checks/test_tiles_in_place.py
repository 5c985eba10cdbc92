"""Tiles of a scheduler that roles use one behind the other, in place: no cluster gets one twice, in whatever order they are handed out."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

TWO = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    tiles = TileScheduler({tiles}, mode="{mode}")
    p = InputTilePipeline(TilePayload(v=tile[f32, 8, 32]), stages=2)
    role load(warps=1) produces p:
        for tile in tiles:
            with p.produce() as s:
                tma.load(s.v, y[{read}])
    role save(warps=4) consumes p:
        for tile in tiles:
            with p.consume() as s:
                store(y[{write}], s.v * 2.0)
"""
THREE = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    tiles = TileScheduler({tiles}, mode="{mode}")
    p = ProducerConsumerPipeline(stages=2)
    q = ProducerConsumerPipeline(stages=2)
    role fill(warps=4) produces p:
        for tile in tiles:
            with p.produce():
                store.direct(y[{read}], load(x[{read}], 8, 32))
    role pass_on(warps=1) consumes p produces q:
        for tile in tiles:
            p.consumer_signal_and_step()
            q.producer_signal_and_step()
    role change(warps=4) consumes q:
        for tile in tiles:
            with q.consume():
                v = registers(load(y[{write}], 8, 32))
                store.direct(y[{write}], v + v)
"""
ROWS, BOTH = ("ceildiv(M, 8)", "tile.x * 8, 0"), ("ceildiv(M, 8), ceildiv(N, 32)", "tile.x * 8, tile.y * 32")


@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("text", [TWO, THREE])
@pytest.mark.parametrize(("tiles", "at"), [ROWS, BOTH])
def test_it_is_right(text: str, mode: str, tiles: str, at: str) -> None:
    kernel = pipec.compile(text.format(tiles=tiles, mode=mode, read=at, write=at))["k"]
    for timing in ("late", "random", "order"):
        x = np.random.default_rng(1).random((40, 32 if tiles == ROWS[0] else 96), np.float32)
        y = x.copy()
        kernel(x, y, device="sim", options=LaunchOptions(Simulation(timing=timing)))
        assert np.array_equal(y, 2 * x), timing


@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("text", [TWO, THREE])
@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("tile.x * 8, 0", "tile.x * 8 + 8, 0"),
        ("tile.x * 8 + 4, 0", "tile.x * 8, 0"),
        ("tile.x // 2 * 8, 0", "tile.x // 2 * 8, 0"),
        ("tile.x * 4, 0", "tile.x * 4, 0"),
        ("0, 0", "0, 0"),
    ],
)
def test_its_neighbour_is_refused(text: str, mode: str, read: str, write: str) -> None:
    source = Source("k.pipe", text.format(tiles=ROWS[0], mode=mode, read=read, write=write))
    assert {one.code for one in compile_source(source, Options("sm_100a")).diagnostics} & {"E0614", "E0616", "E0618"}
