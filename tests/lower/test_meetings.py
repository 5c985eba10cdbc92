"""Roles of several warps that wait together while one thread signals for all: no warp may fall behind a barrier by two phases."""

import re

import numpy as np
import pytest
from elected import ELECTED_MMA
from running import compiled, values

from pipec.runtime.launcher import LaunchOptions
from pipec.sim import Options

LOADS = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    p = InputTilePipeline(TilePayload(x=tile[f32, 8, 64]), stages={stages})
    role load(warps=4) produces p:
        for i in range(ceildiv(M, 8)):
            with p.produce() as s:
                {elect}tma.load(s.x, x[i * 8, 0])
    role compute(warps=1) consumes p:
        for i in range(ceildiv(M, 8)):
            with p.consume() as s:
                store(y[i * 8, 0], s.x)
"""

# A multi-warp consumer whose stage is given back by one thread, once its bulk stores have read it.
COPIES = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    p = InputTilePipeline(TilePayload(x=tile[f32, 8, 64]), stages={stages})
    role load(warps=1) produces p:
        for i in range(ceildiv(M, 8)):
            with p.produce() as s:
                tma.load(s.x, x[i * 8, 0])
    role write_back(warps=4) consumes p:
        for i in range(ceildiv(M, 8)):
            with p.consume() as s:
                {elect}tma.store(y[i * 8, 0], s.x)
"""


def launch(source: str, seed: int, *arguments: np.ndarray) -> None:
    options = LaunchOptions(simulation=Options(timing="random", seed=seed))
    compiled(source)["k"](*arguments, device="sim", options=options)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("source", [LOADS, COPIES], ids=["loads", "copies"])
def test_no_warp_is_left_behind_by_an_elected_copy(source: str, stages: int, seed: int) -> None:
    x = values((64, 64), "f32", seed)
    y = np.zeros_like(x)
    launch(source.format(stages=stages, elect="with elect():\n                    "), seed, x, y)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("seed", range(4))
def test_no_warp_is_left_behind_by_an_elected_mma(seed: int) -> None:
    a, b = values((128, 128), "bf16", 1), values((8, 128), "bf16", 2)
    d = np.zeros((128, 8), np.float32)
    launch(ELECTED_MMA, seed, a, b, d)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


def test_one_warp_does_not_meet_itself() -> None:
    one = LOADS.replace("warps=4", "warps=1").format(stages=2, elect="")
    several = LOADS.format(stages=2, elect="with elect():\n                    ")
    meeting = re.compile(r"bar(?:rier)?\.sync\s+1;|bar(?:rier)?\.sync\s+1,")
    assert [len(meeting.findall(compiled(source).ptx)) for source in (one, several)] == [0, 1]
