"""Minima and maxima of floats in global memory, which are made of integer reductions: special values, and many threads to one element."""

from itertools import product

import numpy as np
import pytest

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options

ROWS, COLUMNS = 8, 64
FLOATS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}
PLAIN = {"min": np.minimum, "max": np.maximum}

# Every row of x is reduced into the one row of y, element by element.
SOURCE = """
kernel k(x: tensor[T, M, N], y: tensor[T, 1, N]):
    grid(ceildiv(M, 8), ceildiv(N, 64))
    role compute(warps=4):
        v = registers(load(x[block.x * 8, block.y * 64], 8, 64))
        store.direct(y[0, block.y * 64], v, at=fill(0, i32, 8, 1), reduce="OP", rows=M - block.x * 8)
"""


def reduced(reduce: str, dtype: str, x: np.ndarray, before: np.ndarray, *, device: str, arch: str, timing: str) -> np.ndarray:
    """What is in memory after all rows of x [M, N] are reduced into the elements `before` [N]."""
    program = pipec.compile(SOURCE.replace("OP", reduce).replace("[T,", f"[{dtype},"), arch=arch)
    assert program.cubin()
    y = before[None].copy()
    program["k"](x, y, device=device, options=LaunchOptions(simulation=Options(timing=timing, seed=5)))
    return y[0]


def special(dtype: str) -> np.ndarray:
    """Numbers where orders of bits and of values could differ, each with both signs."""
    limits = np.finfo(FLOATS[dtype][0])
    sizes = [0.0, limits.smallest_subnormal, limits.tiny, 1.0, 1.0 + limits.eps, limits.max, np.inf, np.nan]
    return np.array([*sizes, *(-size for size in sizes)], FLOATS[dtype][0])


def in_order(values: np.ndarray) -> list[int]:
    """Places in the order -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN, from the sign and the magnitude of the bits."""
    bits = values.view(f"u{values.itemsize}")
    last = 8 * values.itemsize - 1
    return [-1 - (bit & ((1 << last) - 1)) if bit >> last else bit for bit in bits.tolist()]


def check_special(reduce: str, dtype: str, device: str = "sim", arch: str = "sm_100a", timing: str = "random") -> None:
    """All triples of special values: one of them in memory before, the others reduced into it."""
    values = special(dtype)
    first, second, third = (np.array(column) for column in zip(*product(values, repeat=3), strict=True))
    y = reduced(reduce, dtype, np.stack([second, third]), first, device=device, arch=arch, timing=timing)
    words = np.dtype(f"i{values.itemsize}")
    nan = np.array(-1 if reduce == "min" else np.iinfo(words).max, words).view(values.dtype)
    choose = min if reduce == "min" else max
    stored = [np.where(np.isnan(one), nan, one) for one in (second, third)]
    expected = [choose(places) for places in zip(*map(in_order, (first, *stored)), strict=True)]
    assert in_order(y) == expected
    numbers = ~np.isnan(first)
    assert np.array_equal(y[numbers], PLAIN[reduce].reduce([first, second, third])[numbers], equal_nan=True)


def check_many(
    reduce: str, dtype: str, rows: int, device: str = "sim", arch: str = "sm_100a", timing: str = "random", columns: int = COLUMNS
) -> None:
    """Rows of random bits without NaN from many blocks, into elements that hold the infinity that says nothing yet."""
    kind, words = FLOATS[dtype]
    bits = np.random.default_rng(rows).integers(0, np.iinfo(words).max, (rows, columns), words, endpoint=True)
    x = np.nan_to_num(bits.view(kind), nan=1.0)
    x[:, : columns // 4] = -np.abs(x[:, : columns // 4])  # columns of one sign, too
    x[:, -columns // 4 :] = np.abs(x[:, -columns // 4 :])
    before = np.full(columns, np.inf if reduce == "min" else -np.inf, kind)
    y = reduced(reduce, dtype, x, before, device=device, arch=arch, timing=timing)
    assert np.array_equal(y, PLAIN[reduce].reduce(x, axis=0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduce", PLAIN)
def test_special_values(reduce: str, dtype: str) -> None:
    check_special(reduce, dtype)


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("reduce", PLAIN)
def test_many_blocks(reduce: str, timing: str) -> None:
    check_many(reduce, "f32", 5 * ROWS + 3, timing=timing)


@pytest.mark.parametrize("reduce", PLAIN)
def test_no_result_is_asked_for(reduce: str) -> None:
    """Reductions without a result are `red`: an `atom` would wait for the answer of the memory system."""
    text = pipec.compile(SOURCE.replace("OP", reduce).replace("[T,", "[f32,"), arch="sm_90a").ptx
    assert "atom" not in text
    other = {"min": "max", "max": "min"}[reduce]
    assert f"red.relaxed.gpu.global.{reduce}.s32" in text and f"red.relaxed.gpu.global.{other}.u32" in text
