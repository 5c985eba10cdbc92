"""Stores whose rows go anywhere: `store.direct(t[i, j], tile, at=..., reduce=...)`, however the rows are spread over threads."""

import ml_dtypes
import numpy as np
import pytest
from running import NUMPY, run

import pipec

SOURCE = """
kernel scatter(x: tensor[{dtype}, ROWS, D], at: tensor[i32, ROWS], y: tensor[{dtype}, M, N]):
    grid(1)

    role all(warps={warps}):
        {tile}
        store.direct(y[2, {column}], {stored}, reduce="{reduce}"{limit})
"""
TILES = {
    "at once": ("pass", "load(x[0, 0], {rows}, {columns}), at=per_row(at[0], {rows})"),
    "kept": ("t = registers(load(x[0, 0], {rows}, {columns}))", "t, at=per_row(at[0], {rows})"),
    "numbers kept": ("n = registers(per_row(at[0], {rows}))", "load(x[0, 0], {rows}, {columns}), at=n"),
    "computed": (
        "n = 1 + 2 * per_row(at[0], {rows})",
        "load(x[0, 0], {rows}, {columns}), at=n - per_row(at[0], {rows}) - 1",
    ),
}
# One row to several warps, one to a few threads, one to each, several to each; not all threads have one; one column.
SHAPES = [(4, 2, 64), (4, 16, 40), (4, 128, 8), (2, 128, 24), (4, 100, 8), (4, 16, 33), (4, 128, 1), (2, 16, 1), (1, 96, 1)]


def _expected(y: np.ndarray, x: np.ndarray, rows: np.ndarray, column: int, reduce: str) -> np.ndarray:
    found = y.copy()
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[reduce]
    for row, values in zip(rows, x, strict=True):
        if 0 <= row < len(y):
            kept = min(len(values), y.shape[1] - column)
            part = found[row, column : column + kept]
            part[:] = ufunc(part, values[:kept]).astype(y.dtype)
    return found


@pytest.mark.parametrize("tile", TILES.values(), ids=list(TILES))
@pytest.mark.parametrize(("warps", "rows", "columns"), SHAPES)
@pytest.mark.parametrize(
    ("dtype", "reduce", "column"), [("f32", "add", 0), ("bf16", "add", 5), ("i32", "max", 0), ("u32", "min", 5)]
)
@pytest.mark.combinations(0.3)
def test_rows_are_added_where_the_numbers_say(
    tile: tuple[str, str], warps: int, rows: int, columns: int, dtype: str, reduce: str, column: int
) -> None:
    """Numbers may repeat; rows outside of the tensor, above and below, are not stored, nor are columns beyond its end."""
    named, stored = (text.format(rows=rows, columns=columns) for text in tile)
    source = SOURCE.format(warps=warps, dtype=dtype, tile=named, stored=stored, column=column, reduce=reduce, limit="")
    generator = np.random.default_rng(rows + columns)
    x = generator.integers(1, 5, (rows, columns)).astype(NUMPY[dtype])
    y = generator.integers(1, 5, (24, columns + 3)).astype(NUMPY[dtype])
    at = generator.integers(-5, 26, rows).astype(np.int32)
    expected = _expected(y, x, 2 + at, column, reduce)
    run(source, "scatter", x, at, y)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("limit", [0, 7, 16, 99])
@pytest.mark.parametrize(("rows", "columns"), [(16, 40), (16, 1), (128, 8)])
def test_only_the_first_rows_are_scattered(limit: int, rows: int, columns: int) -> None:
    stored = f"load(x[0, 0], {rows}, {columns}), at=per_row(at[0], {rows})"
    source = SOURCE.format(warps=4, dtype="f32", tile="pass", stored=stored, column=0, reduce="add", limit=f", rows={limit}")
    x, y = np.ones((rows, columns), np.float32), np.zeros((24, columns), np.float32)
    at = np.random.default_rng(rows).integers(-2, 22, rows).astype(np.int32)
    run(source, "scatter", x, at, y)
    assert np.array_equal(y, _expected(np.zeros_like(y), x[:limit], 2 + at[:limit], 0, "add"))


COUNTS = """
kernel histogram(x: tensor[i32, N], counts: tensor[i32, BINS], first: i32):
    grid(ceildiv(N, 256))

    role count(warps={warps}):
        at = block.x * 256
        v = per_row(x[at], 256)
        store.direct(counts[first], fill(1, i32, 256, 1), at=v, rows=N - at, reduce="add")
"""


@pytest.mark.parametrize("warps", [1, 4, 8, 16])
@pytest.mark.parametrize("first", [0, 3, -3])
def test_elements_are_counted(warps: int, first: int) -> None:
    """A tensor of one dimension takes a number for each element."""
    x = np.random.default_rng(warps).integers(-5, 40, 700).astype(np.int32)
    counts = np.arange(30, dtype=np.int32)
    bins = x + first
    expected = counts + np.bincount(bins[(bins >= 0) & (bins < 30)], minlength=30)
    run(COUNTS.format(warps=warps), "histogram", x, counts, first)
    assert np.array_equal(counts, expected)


@pytest.mark.parametrize("first", [0, 3, -3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("columns", [1, 8])
def test_rows_far_outside_are_not_stored(first: int, columns: int) -> None:
    """Numbers and first rows at the ends of their type: no sum comes back into the tensor."""
    stored = f"load(x[0, 0], 32, {columns}), at=per_row(at[0], 32)"
    source = SOURCE.format(warps=1, dtype="f32", tile="pass", stored=stored, column=0, reduce="add", limit="")
    source = source.replace("y[2, 0]", "y[first, 0]").replace("M, N]", "M, N], first: i32")
    x, y = np.ones((32, columns), np.float32), np.zeros((24, columns), np.float32)
    ends = [base + step for base in (-(2**31), 0, 2**31 - 8, -first) for step in range(8)]
    at = np.clip(np.array(ends, np.int64), -(2**31), 2**31 - 1).astype(np.int32)
    run(source, "scatter", x, at, y, first)
    assert np.array_equal(y, _expected(np.zeros_like(y), x, first + at.astype(np.int64), 0, "add"))


PRODUCT = {
    "sm_90a": """
    role compute(warps={warps}) consumes input:
        acc = accumulator(f32, {rows}, 40)
        with input.consume() as s:
            mma(acc, s.a, s.b)
        store.direct(y[0, 0], {stored}, at=per_row(at[0], {rows}), reduce="add")
""",
    "sm_100a": """
    output = OutputTilePipeline(tmem[f32, {rows}, 40], stages=1)

    role multiply(warps=1) consumes input produces output:
        with input.consume() as s, output.produce() as acc:
            mma(acc, s.a, s.b)

    role epilogue(warps={warps}) consumes output:
        with output.consume() as acc:
            store.direct(y[0, 0], {stored}, at=per_row(at[0], {rows}), reduce="add")
""",
}


@pytest.mark.parametrize("arch", PRODUCT)
@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 4), (128, 8)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_of_a_product_are_scattered(arch: str, rows: int, warps: int, dtype: str) -> None:
    """As the experts of a mixture add their outputs to those of the tokens."""
    stored = "2.0 * acc" if dtype == "f32" else "cast[bf16](acc + acc)"
    head = f"""
kernel product(a: tensor[bf16, {rows}, 64], b: tensor[bf16, N, 64], at: tensor[i32, {rows}], y: tensor[{dtype}, M, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, {rows}, 64], b=tile[bf16, 40, 64]), stages=1)

    role fill(warps=1) produces input:
        with input.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
"""
    generator = np.random.default_rng(rows)
    a, b = (generator.integers(0, 2, (count, 64)).astype(ml_dtypes.bfloat16) for count in (rows, 40))
    a[:, 4:] = 0  # sums that bf16 holds exactly
    at = generator.integers(-3, 30, rows).astype(np.int32)
    y = np.zeros((24, 40), NUMPY[dtype])
    source = head + PRODUCT[arch].format(rows=rows, warps=warps, stored=stored)
    pipec.compile(source, arch=arch)["product"](a, b, at, y, device="sim")
    assert np.array_equal(y, _expected(np.zeros_like(y), 2 * (a.astype(np.float32) @ b.astype(np.float32).T), at, 0, "add"))
