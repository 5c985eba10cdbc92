"""The columns of B that tcgen05.mma.ws zeroes, and their shift (PTX ISA 9.7.16.4.3).

The text of the ISA swaps the names of the used and the zeroed column runs; its examples, and CUTLASS, agree with this code.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pipec.record import record

from ..errors import UnitError

# Column shifts of B by the two bits of the instruction descriptor, and the largest for each M.
_SHIFTS = (0, 8, 16, 32)
_MOST_SHIFT = {32: 16, 64: 32, 128: 32}


@record
class ColumnMask:
    """`zero` is true for zeroed columns; column j of the product is column j + `shift` of B."""

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
