"""Whole pipelines on the simulator, with asynchronous work done at once, as late as possible, and at random times."""

import numpy as np
import pytest
from running import NUMPY, compiled, exact, run, values

TIMINGS = ["order", "late", "random"]

PERSISTENT = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    comptime BLOCKS = 2
    grid(BLOCKS)
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    down  = ceildiv(M, 128)
    tiles = down * ceildiv(N, 64)
    role load(warps=1, registers=40) produces input:
        for t in range(block.x, tiles, BLOCKS):
            for k in range(ceildiv(K, 64)):
                with input.produce() as s:
                    tma.load(s.a, a[t % down * 128, k * 64])
                    tma.load(s.b, b[t // down * 64, k * 64])
    role mma(warps=1) consumes input produces output:
        for t in range(block.x, tiles, BLOCKS):
            with output.produce() as acc:
                for k in range(ceildiv(K, 64)):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)
    role epilogue(warps=4, registers=232) consumes output:
        for t in range(block.x, tiles, BLOCKS):
            with output.consume() as acc:
                store(d[t % down * 128, t // down * 64], acc * 0.5)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("k", [0, 200])
def test_persistent_gemm_with_register_budgets(timing, k):
    a, b, d = values((264, k), "bf16", 1), values((136, k), "bf16", 2), np.full((264, 136), 7, np.float32)
    run(PERSISTENT, "k", a, b, d, timing=timing)
    np.testing.assert_array_equal(exact(d), exact(a) @ exact(b).T * 0.5)


def test_budgets_are_set_by_warpgroup():
    ptx = compiled(PERSISTENT).ptx
    assert ".maxnreg 248" in ptx
    assert ptx.count("setmaxnreg") == 2


# The trips of the K loop depend on the tile: no launch value tells whether an MMA ran, so the MMA role takes note.
NOTED = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, P, N], n: i32):
    grid(1)
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    role load(warps=1) produces input:
        for t in range(n):
            for k in range(t):
                with input.produce() as s:
                    tma.load(s.a, a[0, k * 64])
                    tma.load(s.b, b[0, k * 64])
    role mma(warps=1) consumes input produces output:
        for t in range(n):
            with output.produce() as acc:
                for k in range(t):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output:
        for t in range(n):
            with output.consume() as acc:
                store(d[t * 128, 0], acc)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_an_accumulator_that_no_mma_wrote_is_zero(timing):
    a, b, d = values((128, 256), "bf16", 1), values((64, 256), "bf16", 2), np.full((512, 64), 77, np.float32)
    run(NOTED, "k", a, b, d, 4, timing=timing)
    expected = [exact(a)[:, : 64 * t] @ exact(b)[:, : 64 * t].T for t in range(4)]
    np.testing.assert_array_equal(exact(d), np.concatenate(expected))


RESIDUAL = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], c: tensor[bf16, M, N], d: tensor[bf16, M, N], alpha: f32):
    grid(ceildiv(M, 64), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 64, 64]), stages=3)
    rest   = InputTilePipeline(TilePayload(c=tile[bf16, 64, 64]), stages=1)
    output = OutputTilePipeline(tmem[f32, 64, 64], stages=1)
    out    = InputTilePipeline(TilePayload(d=tile[bf16, 64, 64]), stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 64, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
    role load_rest(warps=1) produces rest:
        with rest.produce() as s:
            tma.load(s.c, c[block.x * 64, block.y * 64])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with input.consume() as s:
                    mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output, rest produces out:
        with output.consume() as acc, rest.consume() as s, out.produce() as o:
            y = acc * alpha + s.c
            write(o.d, cast[bf16](y - row_sum(y)))
    role writer(warps=2) consumes out:
        with out.consume() as o:
            with elect():
                tma.store(d[block.x * 64, block.y * 64], o.d)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_four_pipelines_and_half_warp_rows(timing):
    size = 72
    a, b, c = (values((size, size), "bf16", seed) for seed in (1, 2, 3))
    d = np.full((size, size), 7, NUMPY["bf16"])
    run(RESIDUAL, "k", a, b, c, d, 0.5, timing=timing)
    y = np.pad(exact(a) @ exact(b).T * 0.5 + exact(c), ((0, 0), (0, 128 - size)))
    parts = [y[:, first : first + 64] for first in (0, 64)]
    expected = np.concatenate([part - part.sum(1, keepdims=True) for part in parts], 1)[:, :size]
    np.testing.assert_array_equal(exact(d), exact(expected.astype(NUMPY["bf16"])))


TWO_HELD = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    pairs = ceildiv(K, 128)
    role load(warps=1) produces input:
        for k in range(2 * pairs):
            s = input.acquire_producer()
            if k % 2 == 0:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
            else:
                tma.load(s.b, b[block.y * 64, k * 64])
                tma.load(s.a, a[block.x * 128, k * 64])
            s.release()
        input.drain_producer()
    role mma(warps=1) consumes input produces output:
        acc = output.acquire_mma_linear()
        for k in range(pairs):
            s = input.acquire_consumer()
            t = input.acquire_consumer()
            mma(acc, s.a, s.b)
            mma(acc, t.a, t.b)
            mma.commit(s.mbar())
            t.release()
            s.release()
        acc.release()
    role epilogue(warps=4) consumes output:
        acc = output.acquire_epilogue_linear()
        store(d[block.x * 128, block.y * 64], acc)
        acc.release()
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_two_stages_held_at_once_and_released_out_of_order(timing):
    a, b, d = values((136, 320), "bf16", 1), values((72, 320), "bf16", 2), np.full((136, 72), 7, np.float32)
    run(TWO_HELD, "k", a, b, d, timing=timing)
    np.testing.assert_array_equal(exact(d), exact(a) @ exact(b).T)


ELECTED = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N], z: tensor[f32, M, N]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    out  = InputTilePipeline(TilePayload(y=tile[f32, 128, 32]), stages=2)
    role load(warps=2) produces ring:
        for k in range(ceildiv(N, 32)):
            s = ring.acquire_producer()
            with elect():
                tma.load(s.x, x[block.x * 128, k * 32])
            s.release()
    role compute(warps=4) consumes ring produces out:
        for k in range(ceildiv(N, 32)):
            s = ring.acquire_consumer()
            with out.produce() as o:
                write(o.y, s.x + 1.0)
            store.direct(z[block.x * 128, k * 32], s.x)
            if lane_id() < 8:
                s.arrive()
            s.release_without_signal()
    role writer(warps=1) consumes out:
        for k in range(ceildiv(N, 32)):
            with out.consume() as o:
                tma.store(y[block.x * 128, k * 32], o.y)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_elected_threads_and_some_lanes_that_speak_for_the_rest(timing):
    x = values((136, 136), "f32", 1)
    y, z = np.zeros_like(x), np.zeros_like(x)
    run(ELECTED, "k", x, y, z, timing=timing)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, x)
