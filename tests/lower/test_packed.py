"""Arithmetic on pairs (sm_100) gives what two single operations give, bit for bit; Hopper has none."""

import re

import numpy as np
import pytest
from running import compiled, run

import pipec.api.embed

SOURCE = """
kernel k(x: tensor[f32, 64, 64], z: tensor[f32, 64, 64], y: tensor[f32, 64, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 64], z=tile[f32, 64, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.z, z[0, 0])
    role compute(warps=2) consumes ring:
        with ring.consume() as s:
            store(y[0, 0], {value})
"""
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 3.4e38, 16777217.0], np.float32)


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, z = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    x[:16], z[:16] = rng.choice(SPECIAL, (2, 16, 64))
    return x, z


@pytest.mark.parametrize(
    ("value", "function", "instruction"),
    [
        ("s.x + s.z", lambda x, z: x + z, "add"),
        ("s.x - s.z", lambda x, z: x - z, "sub"),
        ("1.5 - s.x", lambda x, z: np.float32(1.5) - x, "sub"),
        ("s.x * s.z", lambda x, z: x * z, "mul"),
        ("fma(s.x, s.z, s.x)", lambda x, z: (x.astype(np.longdouble) * z + x).astype(np.float32), "fma"),
    ],
)
def test_pairs_round_as_single_operations(value, function, instruction):
    x, z = operands()
    y = np.full_like(x, 77)
    source = SOURCE.format(value=value)
    run(source, "k", x, z, y)
    with np.errstate(all="ignore"):
        expected = function(x, z)
    np.testing.assert_array_equal(y, expected)
    assert re.search(rf"\b{instruction}\.rn\.f32x2", compiled(source).ptx)


@pytest.mark.parametrize("reduction", ["row_sum", "row_max", "row_min"])
def test_rows_are_folded_whole(reduction):
    """Whole numbers, so that the order does not matter: every element is counted once."""
    x = np.random.default_rng(6).integers(-1000, 1000, (64, 64)).astype(np.float32)
    y = np.full_like(x, 77)
    run(SOURCE.format(value=f"{reduction}(s.x) + 0.0 * s.z"), "k", x, np.ones_like(x), y)
    folded = {"row_sum": np.sum, "row_max": np.max, "row_min": np.min}[reduction](x, axis=1, keepdims=True)
    np.testing.assert_array_equal(y, np.broadcast_to(folded, y.shape))


def test_a_value_that_repeats_is_computed_once():
    """`row_sum` has one value for a row: what is computed of it alone is not computed by pairs."""
    ptx = compiled(SOURCE.format(value="select(s.x > (row_max(s.z) + 1.0), s.x, s.z)")).ptx
    assert "add.rn.f32 " in ptx and "f32x2" not in ptx


def test_hopper_has_no_pairs():
    assert "f32x2" not in pipec.api.embed.compile(SOURCE.format(value="s.x + s.z"), arch="sm_90a").ptx


def test_a_product_and_a_sum_round_twice():
    x, z = operands()
    y = np.full_like(x, 77)
    run(SOURCE.format(value="s.x * s.z + s.x"), "k", x, z, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, x * z + x)
