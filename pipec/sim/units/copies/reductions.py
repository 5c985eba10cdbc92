"""Element arithmetic of cp.reduce.async.bulk(.tensor) (PTX ISA 9.7.9.25.5.3; special values as measured)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from ..errors import UnitError
from ..numbers.formats import decode, encode

Reduction = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]

_STORAGE = {
    "u8": "<u1",
    "u16": "<u2",
    "u32": "<u4",
    "s32": "<i4",
    "u64": "<u8",
    "s64": "<i8",
    "f16": "<u2",
    "bf16": "<u2",
    "f32": "<u4",
    "f32_ftz": "<u4",
    "tf32": "<u4",
    "tf32_ftz": "<u4",
    "f64": "<u8",
    # Bulk reductions without a tensor map give only the width.
    "b32": "<u4",
    "b64": "<u8",
}


def reduce_elements(dtype: str, op: Reduction, old: np.ndarray, source: np.ndarray) -> np.ndarray:
    """New bytes (uint8, 1-D) of elements with bytes `old` after combining them with `source`."""
    function = _find(dtype, op)
    storage = _STORAGE[dtype]
    old_elements = np.ascontiguousarray(old, np.uint8).view(storage)
    source_elements = np.ascontiguousarray(source, np.uint8).view(storage)
    result = function(old_elements, source_elements)
    return np.ascontiguousarray(result.astype(storage)).view(np.uint8)


def _find(dtype: str, op: Reduction) -> Binary:
    if (op, dtype) in _OPERATIONS:
        return _OPERATIONS[op, dtype]
    allowed = sorted(known for name, known in _OPERATIONS if name == op)
    raise UnitError("illegal", f"reduction {op!r} on {dtype!r}; {op!r} is defined for {', '.join(allowed) or 'no type'}")


def _add_f32(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        total = old.view(np.float32) + source.view(np.float32)
    return np.where(np.isnan(total), np.uint32(0x7FFFFFFF), total.view(np.uint32))


def _add_f64(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A NaN operand is kept, quietened; an invalid sum is the negative quiet NaN (measured)."""
    left, right = old.view(np.float64), source.view(np.float64)
    with np.errstate(all="ignore"):
        total = left + right
    operand = np.where(np.isnan(left), old, np.where(np.isnan(right), source, np.uint64(0xFFF8 << 48)))
    return np.where(np.isnan(total), operand | np.uint64(1 << 51), total.view(np.uint64))


def _flush(words: np.ndarray) -> np.ndarray:
    return np.where(words & 0x7F800000 == 0, words & 0x80000000, words).astype(np.uint32)


def _add_f32_ftz(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    return _flush(_add_f32(_flush(old), _flush(source)))


def _add_half(format_name: str) -> Binary:
    # The float64 sum of two halves is exact for f16; for bf16 it can lose bits only far below the rounding position (53 bits
    # against 8), where a tie cannot be faked because the larger operand has no bits there.
    def add(old: np.ndarray, source: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return encode(decode(old, format_name) + decode(source, format_name), format_name)

    return add


def _pick_half(format_name: str, want_larger: bool) -> Binary:
    """min/max: a NaN loses against a number, and -0 < +0."""

    def pick(old: np.ndarray, source: np.ndarray) -> np.ndarray:
        left, right = decode(old, format_name), decode(source, format_name)
        with np.errstate(invalid="ignore"):
            left_larger = (left > right) | ((left == right) & ~np.signbit(left))
        take_left = np.where(want_larger, left_larger, ~left_larger)
        picked = np.where(take_left, old, source)
        picked = np.where(np.isnan(left), source, np.where(np.isnan(right), old, picked))
        return np.where(np.isnan(left) & np.isnan(right), 0x7FFF, picked)

    return pick


def _increment(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    return np.where(old >= source, 0, old + np.uint32(1))


def _decrement(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > source), source, old - np.uint32(1))


_INTEGERS = ("u32", "s32", "u64", "s64")
_BIT_TYPES = ("u8", "u16", "b32", "b64", *_INTEGERS)

_OPERATIONS: dict[tuple[Reduction, str], Binary] = {
    **{("add", dtype): np.add for dtype in ("u32", "s32", "u64")},
    # Two's complement addition is the same for both signs; s64 maps are added as u64.
    ("add", "s64"): np.add,
    ("add", "f32"): _add_f32,
    ("add", "tf32"): _add_f32,
    ("add", "tf32_ftz"): _add_f32,
    ("add", "f32_ftz"): _add_f32_ftz,
    ("add", "f64"): _add_f64,
    ("add", "f16"): _add_half("f16"),
    ("add", "bf16"): _add_half("bf16"),
    **{("min", dtype): np.minimum for dtype in _INTEGERS},
    **{("max", dtype): np.maximum for dtype in _INTEGERS},
    **{("min", dtype): _pick_half(dtype, want_larger=False) for dtype in ("f16", "bf16")},
    **{("max", dtype): _pick_half(dtype, want_larger=True) for dtype in ("f16", "bf16")},
    ("inc", "u32"): _increment,
    ("dec", "u32"): _decrement,
    **{("and", dtype): np.bitwise_and for dtype in _BIT_TYPES},
    **{("or", dtype): np.bitwise_or for dtype in _BIT_TYPES},
    **{("xor", dtype): np.bitwise_xor for dtype in _BIT_TYPES},
}
