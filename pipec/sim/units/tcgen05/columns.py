"""Which columns of B tcgen05.mma.ws takes for zero, and from which one on it counts (PTX ISA 9.7.16.4.3).

The text calls the runs of columns that are used and those that are zeroed by each other's names; the examples beside it, and
CUTLASS, have them as here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pipec.record import record

from ..errors import UnitError

# Columns that B may be shifted by, by the two bits of the instruction descriptor, and at most for each M.
_SHIFTS = (0, 8, 16, 32)
_MOST_SHIFT = {32: 16, 64: 32, 128: 32}


@record
class ColumnMask:
    """`zero` is true for the columns that count as zero; column j of the product is column j + `shift` of B."""

    zero: np.ndarray
    shift: int


@lru_cache(maxsize=256)
def column_mask(descriptor: int, m: int, n: int, maximum_shift: int) -> ColumnMask:
    """UnitError "illegal" for reserved bits and for shifts that are too large."""
    if not 0 <= descriptor < 1 << 64 or descriptor >> 36 & 7 or descriptor >> 62:
        raise UnitError("illegal", f"zero-column mask descriptor {descriptor:#018x}: reserved bits are not zero")
    shift = descriptor >> 56 & 63
    most = min(_MOST_SHIFT[m], _SHIFTS[maximum_shift])
    if shift > most:
        raise UnitError("illegal", f"zero-column mask descriptor {descriptor:#018x} shifts by {shift} columns, at most {most}")
    zero = np.zeros(n, bool)
    if descriptor >> 39 & 1:
        parts, zeroed, used = 128 // m, (descriptor >> 40 & 255) + 1, (descriptor >> 48 & 255) + 1
        for part in range(parts):
            start, first = descriptor >> 8 * part & 255, descriptor >> 32 + part & 1
            place = (np.arange(n // parts) + start) % (zeroed + used)
            zero[part * n // parts : (part + 1) * n // parts] = place < zeroed if first else place >= used
    return ColumnMask(zero, shift)
