"""A drain waits for every stage that was filled and leaves the ring as it was, so that filling goes on."""

import numpy as np
import pytest
from running import run, values

DRAINED = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=3)
    role load(warps=1) produces ring:
        ring.drain_producer()
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
            if k % 2 == 1:
                ring.drain_producer()
        ring.drain_producer()
        ring.drain_producer()
    role compute(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(y[0, k * 32], s.x * 2.0)
"""

ONE_SIGNAL = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
    role compute(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            s = ring.acquire_consumer()
            store(y[0, k * 32], s.x * 2.0)
            if lane_id() < 3:
                s.arrive()
            s.release()
"""


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("source", [DRAINED, ONE_SIGNAL], ids=["drained", "signalled by some lanes, then released"])
def test_copies(source, timing):
    x, y = values((128, 160), "f32", 1), np.zeros((128, 160), np.float32)
    run(source, "k", x, y, timing=timing)
    np.testing.assert_array_equal(y, x * 2)
