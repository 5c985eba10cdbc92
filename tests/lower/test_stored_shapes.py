"""Tiles of every shape, as they are and transposed, stored to tensors of one, two and three dimensions: right, or refused."""

import numpy as np
import pytest
from running import run

from pipec import CompileError

SHAPES = [(1, 1), (1, 2), (1, 128), (128, 1), (4, 1), (1, 33), (4, 64), (128, 8)]
SOURCE = """
kernel stored(x: tensor[f32, M, N], y: tensor[f32, {sizes}]):
    grid(1)

    role compute(warps={warps}):
        t = {kept}
        store.direct(y[{at}], {stored})
"""
BESIDE = 8  # elements of an output, along each dimension, around what is stored


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True], ids=["as it is", "transposed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_element_is_stored_once_or_the_tile_refused(shape: tuple[int, int], transposed: bool, rank: int) -> None:
    x = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    given = x.T if transposed else x
    tile = f"load(x[0, 0], {shape[0]}, {shape[1]})"
    expected = given.reshape(-1) if rank == 1 else given.reshape((1,) * (rank - 2) + given.shape)
    sizes, at = ", ".join(f"D{axis}" for axis in range(rank)), ", ".join("2" for _ in range(rank))
    for warps in (1, 4):
        for kept in (tile, f"registers({tile})"):
            source = SOURCE.format(sizes=sizes, warps=warps, kept=kept, at=at, stored="t.T" if transposed else "t")
            y = np.full([size + BESIDE for size in expected.shape], np.nan, np.float32)
            wanted = y.copy()
            wanted[tuple(slice(2, 2 + size) for size in expected.shape)] = expected
            if rank == 1 and 1 not in shape:
                with pytest.raises(CompileError) as refused:
                    run(source, "stored", x, y)
                assert [found.code for found in refused.value.diagnostics] == ["E0708"]
                continue
            run(source, "stored", x, y)
            np.testing.assert_array_equal(y, wanted)
