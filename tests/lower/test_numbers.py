"""A number is stored as a tile of one element."""

import numpy as np
import pytest
from running import run

SOURCE = """
kernel numbers(x: tensor[f32, M, 64], count: tensor[i32, B], share: tensor[f32, B, 2], total: tensor[i32, 1]):
    grid(ceildiv(M, 64))

    role all(warps={warps}):
        n = load(x[block.x * 64, 0])
        store.direct(count[block.x], cast[i32](n) + block.x)
        store.direct(share[block.x, 1], n / 2.0)
        store.direct(share[block.x, 0], 1.5)
        store.direct(total[0], 3, reduce="add")
"""


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_numbers_are_stored_once(warps: int) -> None:
    x = np.random.default_rng(1).integers(0, 9, (192, 64)).astype(np.float32)
    count, share, total = np.zeros(3, np.int32), np.zeros((3, 2), np.float32), np.full(1, 5, np.int32)
    run(SOURCE.format(warps=warps), "numbers", x, count, share, total)
    assert np.array_equal(count, x[::64, 0].astype(np.int32) + np.arange(3))
    assert np.array_equal(share, np.stack([np.full(3, 1.5), x[::64, 0] / 2], 1).astype(np.float32))
    assert total[0] == 5 + 9
