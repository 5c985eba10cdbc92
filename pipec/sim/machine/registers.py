"""The registers of a warp: one block of memory that compiled code can address, with a row of 32 lanes per slot.

Writing changes a row in place, so readers take a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ptx.types import LANES, Addresses, LaneValues, unsigned

_ALIGNMENT = 64
_BYTES = {1: LANES, 8: LANES, 16: 2 * LANES, 32: 4 * LANES, 64: 8 * LANES, 128: 16 * LANES}


class Layout:
    """The positions of the rows; `widths` has the bits of each slot. Rows of the same width are contiguous."""

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        self.offsets = [0] * len(widths)
        self.sections: list[tuple[int, int, list[int]]] = []  # (bits, offset, slots), widest first
        end = 0
        for bits in sorted(_BYTES, reverse=True):
            slots = [slot for slot, width in enumerate(widths) if width == bits]
            if slots:
                self.sections.append((bits, end, slots))
            for slot in slots:
                self.offsets[slot] = end
                end += _BYTES[bits]
        self.size = max(_ALIGNMENT, end)

    def words(self, slots: Sequence[int]) -> slice | Addresses:
        """The positions of 32-bit slots among all 32-bit ones (`RegisterFile.words`)."""
        first = next(offset for bits, offset, _ in self.sections if bits == 32)
        places = [(self.offsets[slot] - first) // _BYTES[32] for slot in slots]
        following = slice(places[0], places[0] + len(places))
        return following if places == list(range(following.start, following.stop)) else np.array(places, np.int64)


class RegisterFile:
    """`rows` by slot; `words` are the 32-bit ones, [registers, lanes]; `address` is that of the block."""

    words = np.zeros((0, LANES), np.uint32)

    def __init__(self, layout: Layout) -> None:
        raw = np.zeros(layout.size + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        self.data = raw[start : start + layout.size]
        self.address = self.data.ctypes.data
        rows: list[LaneValues | None] = [None] * len(layout.widths)
        for bits, offset, slots in layout.sections:
            whole = self.data[offset : offset + len(slots) * _BYTES[bits]]
            shape = (-1, LANES, 2) if bits == 128 else (-1, LANES)
            dtype = np.uint64 if bits == 128 else unsigned(bits).dtype
            for slot, row in zip(slots, whole.view(dtype).reshape(shape), strict=True):
                rows[slot] = row
            if bits == 32:
                self.words = whole.view(np.uint32).reshape(-1, LANES)
        self.rows = [row for row in rows if row is not None]
