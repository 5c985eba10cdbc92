"""Votes of a role's threads, for each way in which a tile is spread over them, against NumPy."""

import numpy as np
import pytest
from running import run

SOURCE = """
kernel k(x: tensor[f32, B, M, N], y: tensor[i32, B, 8]):
    grid(B)
    role vote(warps={warps}):
        t = registers(load(x[block.x, 0, 0], {rows}, {columns}))
        found = 0
        if any(t > 9.0):
            found = found + 1
        if all(t < 11.0):
            found = found + 2
        if all(row_max(t) > 0.0) and any(row_max(t) > 20.0):
            found = found + 4
        if any(role_thread() == block.x) and not all(role_thread() == block.x):
            found = found + 8
        n = 0
        while any(row_min(t) + cast[f32](n) < 0.0):
            n = n + 1
        store.direct(y[block.x, 0], fill(found + 100 * n, i32, 1, 8))
"""
SPREADS = {
    "a row for each thread": (4, 128, 4),
    "one warp": (1, 32, 8),
    "several rows for each thread": (2, 256, 3),
    "threads that share rows": (8, 64, 16),
    "threads without a row": (4, 96, 2),
    "warps that share a row": (4, 2, 640),
}


@pytest.mark.parametrize("warps, rows, columns", SPREADS.values(), ids=SPREADS.keys())
def test_a_vote_is_of_all_elements(warps: int, rows: int, columns: int) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, (8, rows, columns)).astype(np.float32)
    x[1, rows - 1, columns - 1] = 10
    x[2, 0, 0] = 12
    x[3, :, columns // 2] = 3
    x[4, :, 0] = 30
    x[5, rows // 2, 0] = -3.5
    x[6] = 1
    y = np.full((8, 8), -1, np.int32)
    run(SOURCE.format(warps=warps, rows=rows, columns=columns), "k", x, y)
    rows_max, rows_min = x.max(axis=2), x.min(axis=2)
    found = (x > 9).any(axis=(1, 2)) + 2 * (x < 11).all(axis=(1, 2)) + 8
    found += 4 * ((rows_max > 0).all(axis=1) & (rows_max > 20).any(axis=1))
    steps = np.maximum(0, np.ceil(-rows_min.min(axis=1))).astype(int)
    np.testing.assert_array_equal(y, np.repeat((found + 100 * steps)[:, None], 8, axis=1))


HELPER = """
fn before(i, end):
    return i < end

kernel k(y: tensor[i32, M]):
    grid(1)
    role count(warps=1):
        i = 0
        while before(i * 32, M):
            store.direct(y[i * 32], fill(i, i32, 32, 1))
            i += 1
"""


def test_the_arguments_of_a_helper_are_evaluated_before_each_iteration() -> None:
    y = np.full(96, 7, np.int32)
    run(HELPER, "k", y)
    np.testing.assert_array_equal(y, np.arange(96) // 32)
