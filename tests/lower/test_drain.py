"""A drain waits for every stage that was filled and leaves the ring as it was, so that filling goes on."""

import ml_dtypes
import numpy as np
import pytest
from running import run, values

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options

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


LAST_COMMIT_FREES = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    flag = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=1)

    role load(warps=1) produces input, flag:
        with flag.produce() as s:
            tma.load(s.a, a[block.x * 128, 0])
            tma.load(s.b, b[block.y * 64, 0])
        for k in range(1, ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role mma(warps=1) consumes input, flag produces output:
        with flag.consume() as f:
            with output.produce() as acc:
                mma(acc, f.a, f.b)
                for k in range(1, ceildiv(K, 64)):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_the_block_does_not_end_before_the_last_commit_arrives(timing: str) -> None:
    # The stage of `flag` is given back after the accumulator was handed on: nobody in the program waits for that commit.
    program = pipec.compile(LAST_COMMIT_FREES)
    generator = np.random.default_rng(2)
    a, b = (generator.integers(-3, 4, (rows, 128)).astype(ml_dtypes.bfloat16) for rows in (128, 64))
    d = np.zeros((128, 64), np.float32)
    program["k"](a, b, d, device="sim", options=LaunchOptions(Options(timing=timing, seed=5)))
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)
