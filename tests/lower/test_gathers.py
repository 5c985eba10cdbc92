"""Tiles whose rows stand anywhere in a tensor: `load(t[i, j], rows, columns, at=...)`, however the rows are spread over threads."""

import numpy as np
import pytest
from running import run

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
