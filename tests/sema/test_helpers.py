"""Helpers are inlined, and the names that they assign are their own, whatever the kernel that calls them calls its tensors."""

import numpy as np
import pytest

import pipec

SOURCE = """
fn doubled(a):
    {name} = a + a
    for i in range(2):
        {name} = {name} + 1.0
    return {name}

fn added(a, b):
    {name} = registers(a + b)
    return {name}

kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32], alpha: f32):
    grid(ceildiv(M, 32))
    rows = block.x * 32

    role all(warps=1):
        t = load(x[rows, 0], 32, 32)
        store.direct(y[rows, 0], added(t, doubled(alpha) * t))
        before = registers(load(y[rows, 0], 32, 32))
        store.direct(y[rows, 0], before + alpha)
"""


@pytest.mark.parametrize("name", ["own", "x", "y", "M", "alpha", "rows", "all", "t"])
def test_names_of_a_helper_are_its_own(name: str) -> None:
    x, y = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) / 64, np.zeros((64, 32), np.float32)
    pipec.compile(SOURCE.format(name=name))["k"](x, y, 2.0, device="sim")
    assert np.allclose(y, x + 6 * x + 2)
