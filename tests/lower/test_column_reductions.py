"""Columns reduced over the rows of a tile, for every way in which the threads of a role have these rows; on the simulator, which
reports reads of shared memory that nothing orders behind their writes."""

import numpy as np
import pytest
from running import NUMPY, exact, run, values

from pipec.driver import Options, compile_source
from pipec.source import Source

pytestmark = pytest.mark.combinations(0.35)

SHARED = """
kernel k(x: tensor[{kind}, M, N], total: tensor[{wide}, T, N], y: tensor[{kind}, M, N]):
    grid(ceildiv(M, {rows}))
    ring = InputTilePipeline(TilePayload(x=tile[{kind}, {rows}, {columns}]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * {rows}, 0])
    role compute(warps={warps}) consumes ring:
        with ring.consume() as s:
            least = column_min(s.x)
            store.direct(total[block.x, 0], column_sum(s.x))
            store.direct(y[block.x * {rows}, 0], s.x - least)
"""


@pytest.mark.parametrize("kind", ["f32", "i32", "f64"])
@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(128, 64, 4), (128, 48, 8), (64, 32, 4), (256, 8, 4), (32, 16, 1), (96, 20, 3)]
)
def test_rows_of_a_stage(rows, columns, warps, kind):
    x, total, y = (
        values((2 * rows, columns), kind),
        np.full((2, columns), 7, NUMPY[kind]),
        np.full((2 * rows, columns), 7, NUMPY[kind]),
    )
    run(SHARED.format(rows=rows, columns=columns, warps=warps, kind=kind, wide=kind), "k", x, total, y, timing="random")
    tiles = exact(x).reshape(2, rows, columns)
    np.testing.assert_array_equal(exact(total), tiles.sum(1))
    np.testing.assert_array_equal(exact(y), (tiles - tiles.min(1)[:, None]).reshape(exact(x).shape))


STRIPED = """
kernel k(x: tensor[{kind}, M, N], total: tensor[f32, N], most: tensor[f32, N], y: tensor[f32, M, N]):
    grid(1)
    role compute(warps={warps}):
        total_of = registers(fill(0.0, f32, {rows}, {columns}))
        for t in range(ceildiv(M, {rows})):
            v = cast[f32](load(x[t * {rows}, 0], {rows}, {columns}))
            total_of = total_of + v
            store.direct(y[t * {rows}, 0], v + column_max(v))
        store.direct(total[0], column_sum(total_of), reduce="add")
        store.direct(most[0], column_max(total_of))
"""


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("rows", "columns", "warps"),
    [(64, 64, 4), (16, 128, 4), (12, 64, 4), (4, 256, 4), (3, 96, 4), (2, 512, 4), (2, 61, 8), (2, 8, 2)],
)
def test_rows_that_threads_share(rows, columns, warps, kind):
    for n in (columns, columns - 3):
        x, total, most, y = values((19, n), kind), np.ones(n, np.float32), np.zeros(n, np.float32), np.zeros((19, n), np.float32)
        run(STRIPED.format(rows=rows, columns=columns, warps=warps, kind=kind), "k", x, total, most, y, timing="random")
        padded = np.zeros((-(-19 // rows) * rows, n))
        padded[:19] = exact(x)
        tiles = padded.reshape(-1, rows, n)
        np.testing.assert_array_equal(exact(total), exact(x).sum(0) + 1)
        np.testing.assert_array_equal(exact(most), tiles.sum(0).max(0))
        np.testing.assert_array_equal(exact(y), (tiles + tiles.max(1)[:, None]).reshape(-1, n)[:19])


ONE_COLUMN = """
kernel k(x: tensor[{kind}, M, N], most: tensor[{kind}, M], total: tensor[{kind}, 1], least: tensor[{kind}, 1], y: tensor[{kind}, M, N]):
    grid(1)
    role compute(warps={warps}):
        v = registers(load(x[0, 0], {rows}, {columns}))
        largest = registers(row_max(v))
        store.direct(most[0], largest)
        store.direct(total[0], column_sum(row_sum(v)))
        store.direct(least[0], column_min(largest))
        store.direct(y[0, 0], v - column_max(largest))
"""


@pytest.mark.parametrize("kind", ["f32", "i32", "f64"])
@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(16, 128, 4), (12, 64, 4), (4, 256, 4), (3, 96, 4), (2, 512, 4), (1, 64, 2), (4, 32, 1)]
)
def test_one_number_of_each_row_that_threads_share(rows, columns, warps, kind):
    """A tile of one column has no vectors: all threads of a row have its element."""
    x, y = values((rows, columns), kind), np.zeros((rows, columns), NUMPY[kind])
    most, total, least = np.zeros(rows, NUMPY[kind]), np.zeros(1, NUMPY[kind]), np.zeros(1, NUMPY[kind])
    source = ONE_COLUMN.format(rows=rows, columns=columns, warps=warps, kind=kind)
    run(source, "k", x, most, total, least, y, timing="random")
    np.testing.assert_array_equal(exact(most), exact(x).max(1))
    np.testing.assert_array_equal(exact(total), [exact(x).sum()])
    np.testing.assert_array_equal(exact(least), [exact(x).max(1).min()])
    np.testing.assert_array_equal(exact(y), exact(x) - exact(x).max())


PRODUCT = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N], total: tensor[f32, T, N]):
    '''arch: sm_90a'''
    grid(ceildiv(M, {rows}))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, {rows}, 64], b=tile[bf16, {columns}, 64]), stages=2)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * {rows}, k * 64])
                tma.load(s.b, b[0, k * 64])
    role compute(warps={warps}) consumes input:
        acc = accumulator(f32, {rows}, {columns})
        for k in range(ceildiv(K, 64)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
        most = column_max(acc)
        x = registers(acc - most)
        for i in range(2):
            total_of = column_sum(x)
            store.direct(total[block.x * 2 + i, 0], total_of)
            x = x + 1.0
        store.direct(d[block.x * {rows}, 0], acc * 2.0 - most)
"""


@pytest.mark.parametrize(("rows", "columns", "warps"), [(64, 64, 4), (128, 112, 8), (128, 24, 4), (192, 8, 12), (128, 40, 8)])
def test_accumulators_in_registers(rows, columns, warps):
    a, b = values((2 * rows, 80), "bf16", 1), values((columns, 80), "bf16", 2)
    d, total = np.zeros((2 * rows, columns), np.float32), np.zeros((4, columns), np.float32)
    run(PRODUCT.format(rows=rows, columns=columns, warps=warps), "k", a, b, d, total, timing="random")
    tiles = (exact(a) @ exact(b).T).reshape(2, rows, columns)
    most = tiles.max(1)[:, None]
    np.testing.assert_array_equal(exact(d), (2 * tiles - most).reshape(-1, columns))
    sums = np.stack([(tiles - most).sum(1), (tiles - most + 1).sum(1)], axis=1)
    np.testing.assert_array_equal(exact(total), sums.reshape(4, columns))


TENSOR = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N], total: tensor[f32, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, {rows}, 64], b=tile[bf16, {columns}, 64]), stages=2)
    out = OutputTilePipeline(tmem[f32, {rows}, {columns}], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[0, k * 64])
                tma.load(s.b, b[0, k * 64])
    role multiply(warps=1) consumes input produces out:
        with out.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with input.consume() as s:
                    mma(acc, s.a, s.b, accumulate=k > 0)
    role drain(warps={warps}) consumes out:
        with out.consume() as acc:
            {first}
            store.direct(total[0], column_sum(x))
            store.direct(d[0, 0], x * column_min(x))
"""


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "first"),
    [
        *((rows, columns, warps, "x = acc") for rows in (128, 64) for columns, warps in ((64, 4), (48, 8))),
        *((rows, 64, 4, "x = registers(acc)") for rows in (128, 64)),  # what is kept, one warpgroup keeps
    ],
)
def test_accumulators_in_tensor_memory(rows, columns, warps, first):
    a, b = values((rows, 80), "bf16", 1), values((columns, 80), "bf16", 2)
    d, total = np.zeros((rows, columns), np.float32), np.zeros(columns, np.float32)
    run(TENSOR.format(rows=rows, columns=columns, warps=warps, first=first), "k", a, b, d, total, timing="random")
    product = exact(a) @ exact(b).T
    np.testing.assert_array_equal(exact(total), product.sum(0))
    np.testing.assert_array_equal(exact(d), product * product.min(0))


def test_one_column_and_one_row():
    source = """
kernel k(x: tensor[f32, M, N], all_of: tensor[f32, T], y: tensor[f32, M, N]):
    grid(1)
    role compute(warps=4):
        v = load(x[0, 0], 128, 32)
        store.direct(all_of[0], column_sum(row_sum(v)))
        store.direct(y[0, 0], v * column_sum(load(x[1, 0], 1, 32)))
"""
    x, total, y = values((128, 32), "f32"), np.zeros(1, np.float32), np.zeros((128, 32), np.float32)
    run(source, "k", x, total, y)
    np.testing.assert_array_equal(exact(total), [exact(x).sum()])
    np.testing.assert_array_equal(exact(y), exact(x) * exact(x)[1])


def test_a_column_with_a_nan_is_nan():
    source = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, T, N]):
    grid(1)
    role compute(warps=4):
        v = load(x[0, 0], 128, 16)
        store.direct(y[0, 0], column_max(v))
        store.direct(y[1, 0], column_min(v))
        store.direct(y[2, 0], column_sum(v))
"""
    x, y = values((128, 16), "f32"), np.zeros((3, 16), np.float32)
    x[70, 3] = np.nan
    run(source, "k", x, y)
    np.testing.assert_array_equal(y, [np.max(x, 0), np.min(x, 0), np.sum(x, 0)])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("        if lane_id() < 8:\n            store.direct(y[0], column_sum(load(x[0, 0], 128, 8)))", "E0411"),
        ("        store.direct(y[0], column_sum(load(x[0, 0], 128, 8) > 0.0))", "E0205"),
        ("        store.direct(y[0], column_sum(1.0))", "E0203"),
    ],
)
def test_refusals(body, code):
    source = f"kernel k(x: tensor[f32, M, 8], y: tensor[f32, 8]):\n    grid(1)\n    role compute(warps=4):\n{body}\n"
    found = compile_source(Source("k.pipe", source), Options()).diagnostics
    assert code in {diagnostic.code for diagnostic in found}, [(diagnostic.code, diagnostic.title) for diagnostic in found]
