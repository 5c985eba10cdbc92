"""The lane and column that each register of tcgen05.ld / st accesses (PTX ISA 9.7.16.2, 9.7.16.8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pipec.record import record

from ..errors import UnitError

Mapping = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


@record
class FragmentShape:
    """`lanes` covered, registers per thread at .x1, largest .xN, and (thread, register, half offset) -> (lane, column)."""

    lanes: int
    registers: int
    maximum_count: int
    place: Mapping


FRAGMENTS = {
    "32x32b": FragmentShape(32, 1, 128, lambda t, r, half: (t + 0 * r, r + 0 * t)),
    "16x64b": FragmentShape(16, 1, 128, lambda t, r, half: (t // 4 + t % 2 * 8 + 0 * r, t // 2 % 2 + 2 * r)),
    "16x128b": FragmentShape(16, 2, 64, lambda t, r, half: (t // 4 + r % 2 * 8, t % 4 + r // 2 * 4)),
    "16x256b": FragmentShape(16, 4, 32, lambda t, r, half: (t // 4 + r // 2 % 2 * 8, t % 4 * 2 + r % 2 + r // 4 * 8)),
    "16x32bx2": FragmentShape(16, 1, 128, lambda t, r, half: (t % 16 + 0 * r, r + t // 16 * half)),
}


def fragment_shape(shape: str, count: int) -> FragmentShape:
    """The row of FRAGMENTS; UnitError for an unknown shape or a count that is no power of two within the shape's limit."""
    if shape not in FRAGMENTS:
        raise UnitError("illegal", f"tcgen05.ld/st shape {shape!r} is none of {', '.join(FRAGMENTS)}")
    row = FRAGMENTS[shape]
    if not 1 <= count <= row.maximum_count or count & (count - 1):
        raise UnitError("illegal", f"tcgen05.ld/st {shape}.x{count}: the count must be a power of two in 1..{row.maximum_count}")
    return row


@lru_cache(maxsize=128)
def fragment_map(shape: str, count: int, half_offset: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(lane, column), each int64 [32 threads, registers], relative to the instruction's address."""
    row = fragment_shape(shape, count)
    thread = np.arange(32, dtype=np.int64)[:, None]
    register = np.arange(row.registers * count, dtype=np.int64)[None, :]
    lane, column = row.place(thread, register, half_offset)
    for table in (lane, column):
        table.flags.writeable = False
    return lane, column
