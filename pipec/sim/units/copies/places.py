"""Where a copy puts its bytes in shared memory."""

from __future__ import annotations

from functools import cached_property

import numpy as np

_WORD = 8


class Places:
    """Bytes of shared memory that a copy fills or reads, by their `offsets` in copy order. Within each 16 bytes that it touches, a run
    of 8 or more bytes begins at a multiple of 8 bytes of the copy."""

    def __init__(self, offsets: np.ndarray) -> None:
        self.offsets, self.size = offsets, offsets.size

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The lowest and the highest offset."""
        return int(self.offsets.min()), int(self.offsets.max())

    @cached_property
    def granules(self) -> np.ndarray:
        """The sorted numbers of the 16-byte granules that they lie in."""
        found = self.offsets[::_WORD] >> 4
        if not found.size:
            return found
        first = int(found.min())
        marks = np.zeros(int(found.max()) - first + 1, bool)
        marks[found - first] = True
        return np.flatnonzero(marks) + first

    @cached_property
    def words(self) -> np.ndarray | None:
        """The numbers of the aligned 8-byte words that they form; None where they do not, as with padded types."""
        first = self.offsets[::_WORD]
        if self.size % _WORD or (first % _WORD).any() or (self.offsets[_WORD - 1 :: _WORD] - first != _WORD - 1).any():
            return None
        return first // _WORD
