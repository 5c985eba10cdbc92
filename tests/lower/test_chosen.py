"""A select whose condition is known for each element computes what it chooses, and nothing else."""

import numpy as np
import pytest
from running import run

from pipec.driver import Options, compile_source
from pipec.source import Source

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
            v = registers(s.x)
            w = registers({value})
            store(y[0, 0], w)
"""
COLUMN = np.arange(64)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("select(column_index(64) % 16 < 14, v + 1.0, v * 2.0)", lambda x, z: np.where(COLUMN % 16 < 14, x + 1, x * 2)),
        ("select(column_index(64) % 3 == 1, v + s.z, v)", lambda x, z: np.where(COLUMN % 3 == 1, x + z, x)),
        ("select(column_index(64) < 64, v, s.z)", lambda x, z: x),
        (
            "select(column_index(64) < 40, select(column_index(64) >= 7, v - s.z, s.z), max(v, s.z))",
            lambda x, z: np.where(COLUMN < 40, np.where(COLUMN >= 7, x - z, z), np.maximum(x, z)),
        ),
        (
            "v + select(column_index(64) // 8 == 3, cast[f32](cast[bf16](columns(s.z, 0, 64))), 0.0)",
            lambda x, z: x + np.where(COLUMN // 8 == 3, z, 0),
        ),
    ],
)
def test_elements_come_from_the_side_that_is_chosen(value: str, expected: object) -> None:
    x, z = (np.random.default_rng(seed).integers(-100, 100, (64, 64)).astype(np.float32) for seed in (1, 2))
    y = np.full_like(x, 77)
    run(SOURCE.format(value=value), "k", x, z, y)
    np.testing.assert_array_equal(y, expected(x, z))  # type: ignore[operator]


def test_what_is_not_chosen_is_not_written() -> None:
    """Two of sixteen elements are exponentials: LLVM is given no more of them."""
    source = SOURCE.format(value="select(column_index(64) % 16 < 14, v, exp2(v))")
    state = compile_source(Source("k.pipe", source), Options(arch="sm_100a"), until="lower")
    assert state.llvm is not None and not state.failed
    assert state.llvm.count("call float @llvm.nvvm.ex2.approx") == 64 * 2 // 16
