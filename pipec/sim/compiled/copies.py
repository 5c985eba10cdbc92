"""The common case of a warp's issue of copies into shared memory (cp.async): aligned pieces, in the CTA's own memory, ordered after all
conflicting accesses."""

from __future__ import annotations

import numpy as np

from . import blocks
from .pieces import compiled, pointer_to
from .plain import i32, i64
from .sets import ordered

_HIGHEST = (1 << 63) - 1


def issued_at(state: int, number: int, offsets: int, count: int, size: int) -> int:
    """Checks pieces of `size` bytes that are about to be written, at `count` offsets, against earlier writers and readers, and marks
    them with the set `number`; or changes nothing and returns 1, and NumPy reports the problem."""
    low, high, union = _HIGHEST, -1, 0
    for one in range(count):
        offset = i64[offsets + 8 * one]
        union, low, high = union | offset, min(low, offset), max(high, offset)
    if union & (size - 1) != 0 or low < blocks.USER_SHARED or high + size > i64[state + blocks.SHARED_SIZE]:
        return 1
    shadow, ledger = i64[state + blocks.SHARED_SHADOW], i64[state + blocks.LEDGER]
    if shadow == 0:
        return 1
    writers, readers, shift = i64[shadow + blocks.WRITERS], i64[shadow + blocks.READERS], i64[shadow + blocks.SHIFT]
    if i64[shadow + blocks.LOG] != 0 or writers == 0 or size >> shift == 0:
        return 1
    fine, fine_readers, each = 0, 0, size >> shift
    for one in range(count):
        first = i64[offsets + 8 * one] >> shift
        for cell in range(first, first + each):
            stored, loaded = i32[writers + 4 * cell], i32[readers + 4 * cell]
            if stored != fine:
                if ordered(state, ledger, stored, i64[state + blocks.KNOWN_WRITERS]) == 0:
                    return 1
                fine = stored
            if loaded != fine_readers:
                if ordered(state, ledger, loaded, i64[state + blocks.KNOWN_READERS]) == 0:
                    return 1
                fine_readers = loaded
    for one in range(count):
        first = i64[offsets + 8 * one] >> shift
        for cell in range(first, first + each):
            i32[writers + 4 * cell] = number
            i32[readers + 4 * cell] = 0
    return 0


def issued(state: int, number: int, offsets: np.ndarray, size: int) -> bool:
    """Whether `issued_at` succeeded."""
    call = compiled(issued_at, 5)
    return call is not None and not call(state, number, pointer_to(offsets), offsets.size, size)
