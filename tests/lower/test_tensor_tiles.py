"""Tiles in tensor memory that threads write: read back by threads, corrected in place, or as the first operand of an MMA."""

import numpy as np
import pytest
from running import exact, run, values

from pipec.driver import Options, compile_source
from pipec.source import Source

TIMINGS = ["order", "late", "random"]

OPERAND = """
kernel k(a: tensor[{type}, 128, K], b: tensor[{type}, K, 64], d: tensor[f32, 128, 64]):
    grid(1)
    input = InputTilePipeline(TilePayload(b=tile[{type}, 64, 64]), stages=2)
    ring  = RolePipeline(stages=2)
    left  = TensorTiles(tmem[{type}, 128, 64], count=2)
    out   = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.b, b[k * 64, 0])
    role copy(warps={warps}) produces ring:
        for k in range(ceildiv(K, 64)):
            ring.acquire()
            write(left[ring.index()], load(a[0, k * 64], 128, 64))
            ring.commit()
    role multiply(warps=1) consumes input, ring produces out:
        with out.produce() as acc:
            for k in range(ceildiv(K, 64)):
                ring.wait()
                with input.consume() as s:
                    mma(acc, left[ring.index()], s.b.T)
                ring.release()
    role drain(warps=4) consumes out:
        with out.consume() as acc:
            store(d[0, 0], acc)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize(("dtype", "warps"), [("bf16", 4), ("bf16", 8), ("f16", 4), ("e4m3", 4)])
def test_first_operand(dtype, warps, timing):
    a, b, d = values((128, 200), dtype, 1), values((200, 64), dtype, 2), np.full((128, 64), 7, np.float32)
    if dtype == "e4m3":  # row strides of 16 bytes
        a, b = values((128, 208), dtype, 1), values((208, 64), dtype, 2)
    run(OPERAND.format(type=dtype, warps=warps), "k", a, b, d, timing=timing)
    np.testing.assert_array_equal(exact(d), exact(a) @ exact(b))


BACK = """
kernel k(x: tensor[f32, 128, 96], y: tensor[f32, 128, 96], z: tensor[bf16, 128, 96]):
    grid(1)
    ring = RolePipeline(stages=1)
    wide = TensorTiles(tmem[f32, 128, 96], count=1)
    thin = TensorTiles(tmem[bf16, 128, 96], count=1)
    sums = TensorTiles(tmem[f32, 128, 1], count=1)
    role one(warps={warps}) produces ring:
        ring.acquire()
        write(wide[ring.index()], load(x[0, 0], 128, 96))
        write(thin[ring.index()], cast[bf16](load(x[0, 0], 128, 96)))
        write(sums[ring.index()], row_sum(load(x[0, 0], 128, 96)))
        ring.commit()
    role two(warps=4) consumes ring:
        ring.wait()
        write(wide[ring.index()], wide[ring.index()] * 2.0)     # in place
        store(y[0, 0], wide[ring.index()] + sums[ring.index()])
        store(z[0, 0], thin[ring.index()])
        ring.release()
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("warps", [4, 8, 12])
def test_read_back_and_changed_in_place(warps, timing):
    x, y = values((128, 96), "f32", 1), np.full((128, 96), 7, np.float32)
    z = np.full((128, 96), 7, values((1,), "bf16").dtype)
    run(BACK.format(warps=warps), "k", x, y, z, timing=timing)
    np.testing.assert_array_equal(exact(y), 2 * exact(x) + exact(x).sum(1, keepdims=True))
    np.testing.assert_array_equal(exact(z), exact(x))


COLUMNS = """
kernel k(x: tensor[f32, 128, 96], y: tensor[f32, 128, 32], z: tensor[f32, 128, 16]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 96]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps={warps}) consumes ring:
        with ring.consume() as s:
            kept = registers(s.x + 1.0)
            store(y[0, 0], columns(kept, 64, 32) - columns(s.x, 0, 32) + row_max(columns(kept, 16, 16)))
            store.direct(z[0, 0], columns(kept * 2.0, 48, 16) + column_index(16))
"""


@pytest.mark.parametrize("warps", [4, 2])
def test_columns_of_a_tile(warps):
    source = COLUMNS.format(warps=warps).replace("column_index(16)", "cast[f32](column_index(16))")
    x, y, z = values((128, 96), "f32", 1), np.zeros((128, 32), np.float32), np.zeros((128, 16), np.float32)
    run(source, "k", x, y, z)
    kept = x + 1
    np.testing.assert_array_equal(y, kept[:, 64:] - x[:, :32] + kept[:, 16:32].max(1, keepdims=True))
    np.testing.assert_array_equal(z, kept[:, 48:64] * 2 + np.arange(16))


HALF_WARPS = """
kernel k(a: tensor[bf16, 64, 64], b: tensor[bf16, 64, 64], d: tensor[f32, 64, 32]):
    grid(1)
    input = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 64, 64]), stages=1)
    out   = OutputTilePipeline(tmem[f32, 64, 64], stages=1)
    role load(warps=1) produces input:
        with input.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
    role multiply(warps=1) consumes input produces out:
        with out.produce() as acc, input.consume() as s:
            mma(acc, s.a, s.b)
    role drain(warps=4) consumes out:
        with out.consume() as acc:
            {first}
            store(d[0, 0], columns(x, 32, 32) - columns(x, 0, 32))
"""


@pytest.mark.parametrize("first", ["x = registers(acc * 2.0)", "x = acc * 2.0"])
def test_columns_of_rows_shared_by_half_warps(first):
    a, b, d = values((64, 64), "bf16", 1), values((64, 64), "bf16", 2), np.zeros((64, 32), np.float32)
    run(HALF_WARPS.format(first=first), "k", a, b, d)
    product = exact(a) @ exact(b).T * 2
    np.testing.assert_array_equal(exact(d), product[:, 32:] - product[:, :32])


def test_operands_are_packed():
    (plan,) = compile_source(Source("k.pipe", OPERAND.format(type="bf16", warps=4)), Options()).plans or []
    (left,) = plan.packed
    assert plan.column_stride[left] == 32
    assert plan.allocated_columns == 128
