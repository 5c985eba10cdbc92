"""Tiles whose rows stand anywhere in a tensor: `load(t[i, j], rows, columns, at=...)`, however the rows are spread over threads."""

import ml_dtypes
import numpy as np
import pytest
from running import run

import pipec
from pipec.driver import compile_source
from pipec.source import Source

SOURCE = """
kernel gather(x: tensor[{dtype}, M, N], at: tensor[i32, ROWS], y: tensor[{dtype}, ROWS, D]):
    grid(1)

    role all(warps={warps}):
        {tile}
        store.direct(y[0, 0], t)
"""
TILES = {
    "at once": "t = load(x[2, {column}], {rows}, {columns}, at=per_row(at[0], {rows}))",
    "kept": "t = registers(load(x[2, {column}], {rows}, {columns}, at=per_row(at[0], {rows})))",
    "rows kept": "r = registers(per_row(at[0], {rows}))\n        t = load(x[2, {column}], {rows}, {columns}, at=r)",
    "computed": "t = load(x[1, {column}], {rows}, {columns}, at=1 + 2 * per_row(at[0], {rows}) - per_row(at[0], {rows}))",
}
# One row to several warps, one to a few threads, one to each, several to each; not all threads have one.
SHAPES = [(4, 2, 64), (4, 16, 40), (4, 128, 8), (2, 128, 24), (4, 100, 8), (4, 16, 33)]


@pytest.mark.parametrize("tile", TILES.values(), ids=list(TILES))
@pytest.mark.parametrize(("warps", "rows", "columns"), SHAPES)
@pytest.mark.parametrize("column", [0, 5])
def test_rows_are_those_that_the_numbers_say(tile: str, warps: int, rows: int, columns: int, column: int) -> None:
    """Numbers may repeat; rows outside of the tensor, above and below, read as zero, as columns beyond its end do."""
    source = SOURCE.format(warps=warps, dtype="f32", tile=tile.format(rows=rows, columns=columns, column=column))
    generator = np.random.default_rng(rows + columns)
    x = generator.integers(1, 100, (24, columns)).astype(np.float32)
    at = generator.integers(-5, 26, rows).astype(np.int32)
    y = np.full((rows, columns), np.nan, np.float32)
    run(source, "gather", x, at, y)
    around = np.zeros((24 + 40, columns + column), np.float32)
    around[20:44, :columns] = x
    assert np.array_equal(y, around[20 + 2 + at][:, column : column + columns])


@pytest.mark.parametrize("first", [0, 3, -3, 2**31 - 1, -(2**31)])
def test_rows_far_outside_read_as_zero(first: int) -> None:
    """Numbers and first rows at the ends of their type: no sum comes back into the tensor."""
    tile = "t = load(x[first, 0], 32, 8, at=per_row(at[0], 32))"
    source = SOURCE.format(warps=1, dtype="f32", tile=tile).replace(
        "y: tensor[f32, ROWS, D]", "y: tensor[f32, ROWS, D], first: i32"
    )
    x = np.arange(1, 24 * 8 + 1, dtype=np.float32).reshape(24, 8)
    at = np.array(
        [base + step for base in (-(2**31), 0, 2**31 - 8, -first if first + 2**31 else 0) for step in range(8)], np.int64
    )
    at = np.clip(at, -(2**31), 2**31 - 1).astype(np.int32)
    y = np.full((32, 8), np.nan, np.float32)
    run(source, "gather", x, at, y, first)
    rows = first + at.astype(np.int64)
    assert np.array_equal(y, np.where((rows[:, None] >= 0) & (rows[:, None] < 24), x[np.clip(rows, 0, 23)], 0))


ADDED = """
kernel added(a: tensor[bf16, 64, 64], b: tensor[bf16, N, 64], x: tensor[f32, R, N], at: tensor[i32, 64], d: tensor[f32, 64, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 40, 64]), stages=1)

    role fill(warps=1) produces input:
        with input.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])

    role compute(warps=4) consumes input:
        acc = accumulator(f32, 64, 40)
        with input.consume() as s:
            mma(acc, s.a, s.b)
        {store}(d[0, 0], acc + load(x[0, 0], 64, 40, at=per_row(at[0], 64)))
"""


@pytest.mark.parametrize("store", ["store", "store.direct"])
def test_rows_are_added_to_an_accumulator(store: str) -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-3, 4, (rows, 64)).astype(ml_dtypes.bfloat16) for rows in (64, 40))
    x, at = generator.integers(0, 99, (20, 40)).astype(np.float32), generator.integers(0, 20, 64).astype(np.int32)
    d = np.full((64, 40), np.nan, np.float32)
    pipec.compile(ADDED.format(store=store), arch="sm_90a")["added"](a, b, x, at, d, device="sim")
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T + x[at])


BROUGHT = """
kernel bring(x: tensor[{dtype}, M, N], at: tensor[i32, ROWS], y: tensor[{dtype}, ROWS, D]):
    grid(1)
    ring = InputTilePipeline(TilePayload(t=tile[{dtype}, {rows}, {columns}]), stages=2)

    role load(warps={warps}) produces ring:
        numbers = registers(per_row(at[0], {rows}))
        for i in range(ceildiv(D, {columns})):
            {loaded}
            with ring.produce() as s:
                write(s.t, {written})

    role pass_on(warps=4) consumes ring:
        for i in range(ceildiv(D, {columns})):
            with ring.consume() as s:
                store.direct(y[0, i * {columns}], s.t)
"""
WAYS = {
    "at once": ("pass", "load(x[0, i * {columns}], {rows}, {columns}, at=numbers)"),
    "kept": ("t = registers(load(x[0, i * {columns}], {rows}, {columns}, at=numbers))", "t"),
    "computed": ("t = registers(2 * load(x[0, i * {columns}], {rows}, {columns}, at=numbers))", "t - t / 2"),
    "by row": ("pass", "load(x[0, i * {columns}], {rows}, {columns}) + cast[{dtype}](numbers)"),
    "reduced": ("t = registers(load(x[0, i * {columns}], {rows}, {columns}, at=numbers))", "t + row_sum(t) - row_sum(t)"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("warps", "rows", "columns"), [(4, 128, 32), (8, 128, 64), (2, 64, 40), (1, 64, 8), (4, 96, 4), (3, 96, 16)]
)
@pytest.mark.parametrize("beside", [0, 1])
def test_tiles_that_are_brought_from_memory_to_a_stage(way: str, warps: int, rows: int, columns: int, beside: int) -> None:
    """Threads have a row of each block of rows; rows that are not aligned, or end inside a vector, are read by elements."""
    loaded, written = (text.format(rows=rows, columns=columns, dtype="f32") for text in WAYS[way])
    source = BROUGHT.format(dtype="f32", warps=warps, rows=rows, columns=columns, loaded=loaded, written=written)
    generator = np.random.default_rng(rows + columns)
    wide = 2 * columns + beside
    x = generator.integers(1, 100, (rows + 5, wide)).astype(np.float32)
    at = generator.integers(0, rows + 5, rows).astype(np.int32)
    y = np.full((rows, wide), np.nan, np.float32)
    run(source, "bring", x, at, y)
    assert np.array_equal(y, x[:rows] + at[:, None] if way == "by row" else x[at])


@pytest.mark.parametrize("threads", [128, 256])
def test_lanes_that_bring_rows_lie_side_by_side(threads: int) -> None:
    """Eight lanes load the 128 bytes of a row, where one or two threads for each row would touch a line of their own with every load."""
    loaded, written = (text.format(rows=128, columns=64, dtype="bf16") for text in WAYS["kept"])
    source = BROUGHT.format(dtype="bf16", warps=threads // 32, rows=128, columns=64, loaded=loaded, written=written)
    plans = compile_source(Source("bring.pipe", source), until="plan").plans
    assert plans is not None
    maps = [one for one in plans[0].row_maps.values() if one.vector]
    assert {(one.split, one.block_rows) for one in maps} == {(8, threads // 8)}
