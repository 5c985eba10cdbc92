"""Sums of products in f32 and whole numbers of 32 bits, against those in f64: the same bits wherever they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim.compiled.products import narrow, truncated_product
from pipec.sim.units.numbers.formats import ZERO_EXPONENT, Decomposed, decompose

ROWS, COLUMNS, TRIALS = 8, 32, 40


def operand(rng: np.random.Generator, rows: int, depth: int, name: str, spread: int) -> Decomposed:
    """Numbers whose exponents reach over `spread` powers of two, some of them zero."""
    values = rng.standard_normal((rows, depth)) * np.exp2(rng.integers(-spread, spread // 2 + 1, (rows, depth)))
    if name == "f16":
        bits = values.astype(np.float16).view(np.uint16)
    else:
        bits = values.astype(np.float32).view(np.uint32)
        bits = bits if name == "tf32" else (bits >> 16).astype(np.uint16)
    parts = decompose(bits, name)
    none = ~np.isfinite(parts.value) | (rng.random((rows, depth)) < rng.choice([0, 0.3, 0.95]))
    exponents = np.where(none, np.int16(ZERO_EXPONENT), parts.exponent)
    return Decomposed(np.where(none, 0.0, parts.value), exponents, parts.lowest, parts.digits)


@pytest.mark.parametrize("fraction_bits", [25, 13])
@pytest.mark.parametrize(("name", "depth"), [("bf16", 16), ("f16", 16), ("tf32", 8)])
@pytest.mark.parametrize("spread", [1, 8, 20])
def test_narrow_sums_are_exact_ones(name: str, depth: int, spread: int, fraction_bits: int) -> None:
    rng, taken = np.random.default_rng(depth + spread + fraction_bits), 0
    for trial in range(TRIALS):
        a, b = operand(rng, ROWS, depth, name, spread), operand(rng, COLUMNS, depth, name, spread)
        # Beside the terms, far above them, far below them, and absent.
        low, high = [(-10, 10), (60, 127), (-148, -60), (0, 1)][trial % 4]
        c = rng.standard_normal((ROWS, COLUMNS)) * np.exp2(rng.integers(low, high, (ROWS, COLUMNS)))
        c = np.where(rng.random(c.shape) < 0.2, 0.0, c.astype(np.float32)).astype(np.float64)
        given = (a.value, b.value, a.exponent, b.exponent, None if trial % 4 == 3 else c, fraction_bits, 0xFFFFFFFF)
        assert np.array_equal(truncated_product(*given), truncated_product(*given, a.digits + b.digits)), trial
        taken += narrow(a.exponent, b.exponent, COLUMNS, fraction_bits)
    assert taken > TRIALS // 2


def test_what_f32_cannot_hold_is_left_to_f64() -> None:
    """A large element meets a zero where the sum is small: the two would be infinity times nothing."""
    a, b = (decompose(np.array(bits, np.uint16), "bf16") for bits in ([[0x7E80, 0x0080]], [[0, 0x3F80]] * 16))
    assert not narrow(a.exponent, b.exponent, 16, 25)
    assert not narrow(np.zeros((8, 32), np.int16), np.zeros((16, 32), np.int16), 16, 25)
