"""`bitcast[dtype](x)`: the same bits, of scalars and of tiles; and what it is there for, functions made of a float's bits."""

import re
from pathlib import Path

import numpy as np
import pytest
from running import NUMPY, compiled, run

SOURCE = """
{functions}
kernel k(x: tensor[{source}, 64, 64], y: tensor[{target}, 64, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[{source}, 64, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps=2) consumes ring:
        with ring.consume() as s:
            store(y[0, 0], {value})
"""
PAIRS = [
    ("f32", "i32"),
    ("f32", "u32"),
    ("i32", "f32"),
    ("bf16", "u16"),
    ("i16", "f16"),
    ("f64", "i64"),
    ("u64", "f64"),
    ("e4m3", "u8"),
]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_bit_is_kept(source, target):
    x = np.random.default_rng(4).integers(0, 256, (64, 64 * NUMPY[source].itemsize), np.uint8).view(NUMPY[source])
    y = np.zeros((64, 64), NUMPY[target])
    run(SOURCE.format(functions="", source=source, target=target, value=f"bitcast[{target}](s.x)"), "k", x, y)
    assert y.tobytes() == x.tobytes()


def test_a_scalar() -> None:
    source = """
kernel k(y: tensor[i32, 128], x: f32):
    grid(1)
    role compute(warps=4):
        store.direct(y[0], fill(bitcast[i32](x) >> 23, i32, 128, 1))
"""
    y = np.zeros(128, np.int32)
    run(source, "k", y, 8.0)
    assert (y == 127 + 3).all()


def test_the_polynomial_of_attention() -> None:
    """To 1.1e-4 of 2 ** x, in pairs; 0 from -127 on, and what is left between has at most the size of the smallest normal number."""
    example = (Path(__file__).parents[2] / "examples" / "attention.pipe").read_text()
    function = re.search(r"^fn exp2_polynomial.*?\n\n", example, re.MULTILINE | re.DOTALL)
    assert function is not None
    source = SOURCE.format(functions=function[0], source="f32", target="f32", value="exp2_polynomial(s.x)")
    x = -np.random.default_rng(9).uniform(0, 130, (64, 64)).astype(np.float32)
    x[0], x[1], x[2] = -np.arange(64), -(2.0 ** -np.arange(64)), -1.0e30
    y = np.full_like(x, 77)
    run(source, "k", x, y)
    expected = np.exp2(x.astype(np.float64))
    normal = x >= -125
    assert (np.abs(y - expected) <= 1.1e-4 * expected)[normal].all()
    assert (np.abs(y - expected) <= 2.0**-125)[~normal].all() and (y[x <= -127] == 0).all()
    assert compiled(source).ptx.count("fma.rn.f32x2") >= 3
