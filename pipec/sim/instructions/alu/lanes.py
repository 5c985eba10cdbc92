"""Fast roundings of whole warps, and sums that a later rounding makes exact; everything else uses units.numbers.formats."""

from __future__ import annotations

import numpy as np

from ...ptx.types import LaneMask, LaneValues


def nowhere(mask: LaneMask) -> bool:
    """Whether no lane needs the code that follows, which does not change the others: a shortcut where values are known."""
    return isinstance(mask, np.ndarray) and not mask.any()


def flush(value: LaneValues) -> LaneValues:
    """Subnormals to zero of the same sign."""
    tiny = np.finfo(value.dtype).tiny
    return np.where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value)


def flush_halves(bits: LaneValues) -> LaneValues:
    """The same for the bits of f16, one or two in each word."""
    halves = np.ascontiguousarray(bits).view(np.uint16)
    return np.where(halves & np.uint16(0x7C00) == 0, halves & np.uint16(0x8000), halves).view(bits.dtype)


def from_bf16(bits: LaneValues) -> LaneValues:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(value: LaneValues) -> LaneValues:
    """float32 -> bf16 bits, round to nearest even, NaN to 0x7FFF."""
    bits = value.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    nan = np.isnan(value)
    if not nowhere(nan):
        rounded = np.where(nan, np.uint32(0x7FFF), rounded)
    return rounded.astype(np.uint16)


def to_odd_sum(a: LaneValues, b: LaneValues) -> LaneValues:
    """a + b in float64 with rounding to odd, so that a later rounding is the only one."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    inexact = (error != 0) & np.isfinite(total)
    if nowhere(inexact):
        return total
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact & even, bits + toward, bits).view(np.float64)


def down_sum(a: LaneValues, b: LaneValues) -> LaneValues:
    """to_odd_sum for rounding towards minus infinity, where an exact zero of mixed signs is -0."""
    total = to_odd_sum(a, b)
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)
