"""Quick roundings of whole warps; everything else goes through pipec.sim.units.formats."""

from __future__ import annotations

import numpy as np


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
