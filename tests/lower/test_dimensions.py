"""Tiles and vectors of tensors of three dimensions, by plain loads: inside the tensor and past its ends."""

import numpy as np
import pytest
from running import run

SOURCE = """
kernel scaled[BM: int = 128, BN: int = 40](
    x: tensor[f32, H, M, N], w: tensor[f32, H, N], b: tensor[f32, H, M], y: tensor[f32, H, M, N],
):
    grid(ceildiv(M, BM), H)

    role compute(warps=4):
        m = block.x * BM
        tile = load(x[block.y, m, 0], BM, BN) * per_column(w[block.y, 0], BN) + per_row(b[block.y, m], BM)
        store.direct(y[block.y, m, 0], tile)
"""


@pytest.mark.parametrize("rows", [128, 8], ids=["a row to a thread", "threads share rows"])
@pytest.mark.parametrize("shape", [(3, 130, 40), (2, 7, 33)], ids=str)
def test_each_head_has_its_own(rows: int, shape: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(0)
    heads, count, columns = shape
    x, w, b = (generator.integers(-8, 9, size).astype(np.float32) for size in (shape, (heads, columns), (heads, count)))
    y = np.full(shape, np.nan, np.float32)
    run(SOURCE.replace("BM: int = 128", f"BM: int = {rows}"), "scaled", x, w, b, y)
    assert (y == x * w[:, None] + b[:, :, None]).all()
