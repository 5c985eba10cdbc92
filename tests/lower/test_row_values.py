"""A value for each row handed from one role's threads to another's through shared memory, in a tile of one column."""

import re

import numpy as np
import pytest
from running import compiled, run

SOURCE = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    ring    = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=2)
    factors = RolePipeline(stages=2)
    factor  = SharedTiles(tile[{kind}, 64, {columns}], count=2)
    role load(warps=1) produces ring:
        for i in range(ceildiv(M, 64)):
            with ring.produce() as s:
                tma.load(s.x, x[i * 64, 0])
    role largest(warps=2) produces factors:
        for i in range(ceildiv(M, 64)):
            factors.acquire()
            write(factor[factors.index()], cast[{kind}](row_max(load(x[i * 64, 0], 64, 64))))
            factors.commit()
    role scale(warps=2) consumes ring, factors:
        for i in range(ceildiv(M, 64)):
            with ring.consume() as s:
                factors.wait()
                store(y[i * 64, 0], s.x * factor[factors.index()])
                factors.release()
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_a_value_for_each_row(timing):
    x = np.random.default_rng(8).standard_normal((192, 64)).astype(np.float32)
    y = np.full_like(x, 77)
    run(SOURCE.format(kind="f32", columns=1), "k", x, y, timing=timing)
    np.testing.assert_array_equal(y, x * x.max(axis=1, keepdims=True))


def test_threads_alone_need_no_fence_between_proxies():
    """The factors are written and read by threads; the tile that TMA fills again is fenced when it is given back."""
    fenced = re.findall(r"// (.*)\n\tfence\.proxy\.async\.shared::cta", compiled(SOURCE.format(kind="f32", columns=1)).ptx)
    assert fenced and not any("factors" in line for line in fenced)
