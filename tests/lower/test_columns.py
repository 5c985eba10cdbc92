"""Columns of stages, copies by cp.async and barriers by hand on the simulator, against NumPy."""

import numpy as np
import pytest
from running import compiled, exact, run, values

pytestmark = pytest.mark.combinations(0.35)

PANELS = """
kernel k[BM: int = {rows}, W: int = {width}](a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, BM))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, BM, 64], b=tile[bf16, 96, 64]), stages=2)
    output = OutputTilePipeline(tmem[f32, BM, 96], stages=2)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * BM, k * 64])
                tma.load(s.b, b[0, k * 64])
    role mma(warps=1) consumes input produces output:
        for t in range(2):
            with output.produce() as acc:
                if t == 0:
                    for k in range(ceildiv(K, 64)):
                        with input.consume() as s:
                            mma(acc, s.a, s.b)
    role epilogue(warps={warps}) consumes output:
        for t in range(2):
            with output.consume() as acc:
                for j in range(96 // W):
                    if t == 0:
                        {store}
"""


@pytest.mark.parametrize(("rows", "width", "warps"), [(128, 32, 4), (128, 16, 8), (64, 32, 4), (64, 48, 8), (128, 1, 4)])
@pytest.mark.parametrize("path", ["store", "store.direct"])
def test_columns_of_an_accumulator(rows: int, width: int, warps: int, path: str) -> None:
    if width == 1 and path == "store":
        return  # a TMA row has at least 16 bytes
    source = PANELS.format(rows=rows, width=width, warps=warps, store=f"{path}(d[block.x * BM, j * W], columns(acc, j * W, W))")
    a, b, d = values((2 * rows, 64), "bf16", 1), values((96, 64), "bf16", 2), np.full((2 * rows, 96), 7, np.float32)
    run(source, "k", a, b, d, timing="random")
    np.testing.assert_array_equal(exact(d), exact(a) @ exact(b).T)


def test_columns_keep_their_start_in_a_tile_variable() -> None:
    store = (
        "x = columns(acc, 96 - W - j * W, W)\n                        store(d[block.x * BM, j * W], x + columns(acc, j * W, W))"
    )
    source = PANELS.format(rows=128, width=32, warps=4, store=store)
    a, b, d = values((128, 64), "bf16", 1), values((96, 64), "bf16", 2), np.zeros((128, 96), np.float32)
    run(source, "k", a, b, d)
    product = exact(a) @ exact(b).T
    expected = product + np.concatenate([product[:, 64:], product[:, 32:64], product[:, :32]], axis=1)
    np.testing.assert_array_equal(exact(d), expected)


def test_rows_of_columns_are_reduced() -> None:
    store = "store.direct(d[block.x * BM, j], row_sum(columns(acc, j * W, W)))"
    source = PANELS.format(rows=128, width=32, warps=4, store=store)
    a, b, d = values((128, 64), "bf16", 1), values((96, 64), "bf16", 2), np.zeros((128, 3), np.float32)
    run(source.replace("d: tensor[f32, M, N]", "d: tensor[f32, M, P]"), "k", a, b, d)
    np.testing.assert_array_equal(exact(d), (exact(a) @ exact(b).T).reshape(128, 3, 32).sum(axis=2))


SHARED = """
kernel k[W: int = {width}](x: tensor[{dtype}, M, N], y: tensor[{dtype}, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[{dtype}, 128, 128]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            for j in range(128 // W):
                store(y[0, 128 - W - j * W], columns(s.x, j * W, W))
"""


@pytest.mark.parametrize(("dtype", "width"), [("f32", 32), ("f32", 4), ("bf16", 64), ("i8", 16), ("bf16", 128)])
def test_columns_of_a_shared_tile(dtype: str, width: int) -> None:
    x = values((128, 128), dtype, 1)
    y = np.zeros_like(x)
    run(SHARED.format(dtype=dtype, width=width), "k", x, y)
    blocks = exact(x).reshape(128, 128 // width, width)[:, ::-1].reshape(128, 128)
    np.testing.assert_array_equal(exact(y), blocks)


COPIED = """
kernel k(v: tensor[{dtype}, N], y: tensor[{dtype}, M, N], skip: i32):
    grid(ceildiv(N, {columns}))
    vector = InputTilePipeline(TilePayload(v=tile[{dtype}, 1, {columns}]), stages=2)
    role load(warps={warps}) produces vector:
        for t in range(3):
            {fill}
    role compute(warps=4) consumes vector:
        for t in range(3):
            with vector.consume() as s:
                store.direct(y[t * 128, block.x * {columns}], fill({one}, {dtype}, 128, {columns}) * s.v)
"""
SCOPED = "with vector.produce() as s:\n                cp.async(s.v, v[block.x * {columns} + skip], s.mbar())"
BY_HAND = """vector.wait_consumer()
            cp.async(vector.payload.v[vector.producer_stage()], v[block.x * {columns} + skip])
            vector.producer_step()"""


@pytest.mark.parametrize(
    ("dtype", "columns", "warps"), [("f32", 128, 1), ("f32", 12, 1), ("i32", 72, 2), ("i64", 48, 1), ("f64", 2, 1)]
)
@pytest.mark.parametrize("fill", [SCOPED, BY_HAND], ids=["scoped", "by_hand"])
@pytest.mark.parametrize("timing", ["late", "random"])
def test_copies_by_threads(dtype: str, columns: int, warps: int, fill: str, timing: str) -> None:
    one = "1" if dtype.startswith("i") else "1.0"
    source = COPIED.format(dtype=dtype, columns=columns, warps=warps, one=one, fill=fill.format(columns=columns))
    numpy = {"f32": np.float32, "i32": np.int32, "i64": np.int64, "f64": np.float64}[dtype]
    size = 2 * columns + 1
    v = np.arange(1, size + 1).astype(numpy)
    y = np.zeros((384, size), numpy)
    run(source, "k", v, y, 1, timing=timing)
    expected = np.append(v[1:], 0)  # one element beyond the end, which reads as zero
    np.testing.assert_array_equal(y, np.broadcast_to(expected, y.shape))


def test_a_peek_is_one_try_wait_and_a_wait_that_is_left_out() -> None:
    ring = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
    role compute(warps=4) consumes ring:
        seen = 0
        for k in range(ceildiv(N, 32)):
            {take}
            store(y[0, k * 32], s.x)
            s.release()
"""
    plain = ring.format(take="s = ring.acquire_consumer()")
    peeked = ring.format(
        take="ready = ring.try_acquire_consumer()\n"
        "            if ready:\n                seen += 1\n"
        "            s = ring.consumer().acquire_if_needed(ready)"
    )
    waits = [compiled(source).ptx.count("mbarrier.try_wait") for source in (plain, peeked)]
    assert waits[1] == waits[0] + 1
    for timing in ("order", "late", "random"):
        x, y = values((128, 200), "f32", 1), np.zeros((128, 200), np.float32)
        run(peeked, "k", x, y, timing=timing)
        np.testing.assert_array_equal(y, x)
