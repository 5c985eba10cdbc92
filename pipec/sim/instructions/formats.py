"""Floating-point formats and exact rounding between them (PTX ISA 9.7.9.21 and 5.2.3).

Everything is rounded from float64, into which every operand format embeds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format: `exponent` and `mantissa` bits, and what its largest codes mean.

    infinity: has inf and NaN like IEEE; `maximum` is the largest finite value; `nan` its NaN code (None: has none).
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    maximum: float
    infinity: bool
    nan: int | None

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def sign(self) -> int:
        return 1 << self.exponent + self.mantissa


FORMATS = {
    "f16": Format("f16", 16, 5, 10, 65504.0, True, 0x7FFF),
    "bf16": Format("bf16", 16, 8, 7, float.fromhex("0x1.fep127"), True, 0x7FFF),
    "tf32": Format("tf32", 32, 8, 10, float.fromhex("0x1.ffcp127"), True, 0x3FFFF),
    "f32": Format("f32", 32, 8, 23, float.fromhex("0x1.fffffep127"), True, 0x7FFFFFFF),
    "e4m3": Format("e4m3", 8, 4, 3, 448.0, False, 0x7F),
    "e5m2": Format("e5m2", 8, 5, 2, 57344.0, True, 0x7F),
    "e2m3": Format("e2m3", 6, 2, 3, 7.5, False, None),
    "e3m2": Format("e3m2", 6, 3, 2, 28.0, False, None),
    "e2m1": Format("e2m1", 4, 2, 1, 6.0, False, None),
}


def flush(value: np.ndarray) -> np.ndarray:
    """Subnormals to zero of the same sign."""
    tiny = np.finfo(value.dtype).tiny
    return np.where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(value: np.ndarray) -> np.ndarray:
    """float32 -> bf16 bits, round to nearest even, NaN to 0x7FFF."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    if np.isnan(value).any():
        rounded = np.where(np.isnan(value), np.uint32(0x7FFF), rounded)
    return rounded.astype(np.uint16)


@lru_cache
def _codes(name: str) -> np.ndarray:
    """float64 value of every code of a format up to 8 bits."""
    fmt = FORMATS[name]
    out = np.zeros(1 << fmt.bits)
    for code in range(1 << fmt.bits):
        sign = -1.0 if code & fmt.sign else 1.0
        magnitude = code & (fmt.sign - 1)
        field, fraction = magnitude >> fmt.mantissa, magnitude & ((1 << fmt.mantissa) - 1)
        if fmt.nan is not None and magnitude == fmt.nan:
            out[code] = np.nan
        elif fmt.infinity and field == (1 << fmt.exponent) - 1:
            out[code] = np.nan if fraction else sign * np.inf
        elif field == 0:
            out[code] = sign * fraction * 2.0 ** (1 - fmt.bias - fmt.mantissa)
        else:
            out[code] = sign * (1 + fraction / (1 << fmt.mantissa)) * 2.0 ** (field - fmt.bias)
    return out


def decode(bits: np.ndarray, name: str) -> np.ndarray:
    """Values (float64, float32 or float16) of format codes."""
    if name == "f16":
        return bits.astype(np.uint16).view(np.float16)
    if name == "bf16":
        return from_bf16(bits)
    if name in ("f32", "tf32"):
        return bits.astype(np.uint32).view(np.float32)
    return _codes(name)[bits & ((1 << FORMATS[name].bits) - 1)]


def encode(value: np.ndarray, name: str, mode: str = "rn", saturate: bool = False) -> np.ndarray:
    """Format codes (int64) of float64 values, correctly rounded by `mode`: rn, rz, rm, rp, rna.

    Beyond the range: the largest finite code if `saturate` or the format has no infinity, else by IEEE rules.
    """
    fmt = FORMATS[name]
    value = np.asarray(value, np.float64)
    magnitude = np.abs(value)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    _, exponent = np.frexp(finite)
    exponent = np.where(finite == 0, 1 - fmt.bias, np.maximum(exponent - 1, 1 - fmt.bias))
    steps = np.ldexp(finite, fmt.mantissa - exponent)
    whole = _round_steps(steps, mode, np.signbit(value))
    # Carry into the next binade falls out of the arithmetic: codes are consecutive integers.
    codes = (whole + ((exponent - 1 + fmt.bias).astype(np.int64) << fmt.mantissa)).astype(np.int64)
    codes = _limit(codes, magnitude, np.signbit(value), fmt, mode, saturate)
    nan = fmt.nan if fmt.nan is not None else _largest(fmt)
    codes = np.where(np.isnan(value), nan, codes | np.where(np.signbit(value), fmt.sign, 0))
    return codes << 13 if name == "tf32" else codes


def _round_steps(steps: np.ndarray, mode: str, negative: np.ndarray) -> np.ndarray:
    if mode in ("rn", "rni"):
        return np.rint(steps)
    if mode == "rna":
        return np.floor(steps + 0.5)
    up = negative if mode == "rm" else ~negative if mode == "rp" else np.zeros_like(negative)
    return np.where(up, np.ceil(steps), np.floor(steps))


def _largest(fmt: Format) -> int:
    field = fmt.maximum
    _, exponent = np.frexp(field)
    steps = int(np.ldexp(field, fmt.mantissa - (exponent - 1)))
    return steps + (exponent - 2 + fmt.bias << fmt.mantissa)


def _limit(codes, magnitude, negative, fmt: Format, mode: str, saturate: bool) -> np.ndarray:
    largest = _largest(fmt)
    if saturate or not fmt.infinity:
        return np.minimum(np.where(np.isinf(magnitude), largest, codes), largest)
    infinity = ((1 << fmt.exponent) - 1) << fmt.mantissa
    away = (
        np.ones_like(negative)
        if mode in ("rn", "rna")
        else negative
        if mode == "rm"
        else ~negative
        if mode == "rp"
        else np.zeros_like(negative)
    )
    limited = np.where(codes > largest, np.where(away, infinity, largest), codes)
    return np.where(np.isinf(magnitude), infinity, limited)
