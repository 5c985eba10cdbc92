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


OUTSIDE = """
fn share(b, total):
    {body}

fn tiles(n):
    t = n + 63
    t //= 64
    return t

kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    assume(tiles(M) + 1 > 1)
    total = tiles(M)
    grid(min(tiles(M), 5))
    begin = share(block.x, total)
    end = share(block.x + 1, total)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=2)

    role load(warps=1) produces ring:
        for i in range(begin, end):
            with ring.produce() as s:
                tma.load(s.x, x[i * 64, 0])

    role store(warps=1) consumes ring:
        for i in range(begin, end):
            with ring.consume() as s:
                tma.store(y[i * 64, 0], s.x)
"""


@pytest.mark.parametrize(
    "body",
    [
        "return b * total // grid.x",
        "start = b * total\n    return start // grid.x",
        "start: i32 = b\n    start *= total\n    start = start // grid.x\n    return start",
    ],
)
def test_outside_of_roles_the_names_of_a_helper_stand_for_their_expressions(body: str) -> None:
    x = np.random.default_rng(1).standard_normal((500, 64), np.float32)
    y = np.zeros_like(x)
    pipec.compile(OUTSIDE.format(body=body), arch="sm_90a")["k"](x, y, device="sim")
    np.testing.assert_array_equal(y, x)
