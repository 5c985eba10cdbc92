"""Shared-memory swizzles (PTX ISA 5.5.7): an XOR within the absolute shared byte address."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from pipec.record import record


@record
class Swizzle:
    """`width` is the row pitch in bytes; address bits from `target` up are XORed with `bits` bits from `source` up."""

    width: int
    bits: int
    target: int
    source: int
    flip_halves: bool = False

    def apply(self, addresses: np.ndarray, base_offset: int = 0) -> np.ndarray:
        """Physical byte address of every linear byte address (int64, any shape).

        A base offset only shifts the phase of the pattern (measured with wgmma descriptors).
        """
        physical = addresses
        if self.bits:
            physical = physical ^ (((physical >> self.source) - base_offset & ((1 << self.bits) - 1)) << self.target)
        if self.flip_halves:
            # The 8-byte halves of each 16 bytes swap on alternate 128-byte lines. Only a figure says which lines: presumed odd.
            physical = physical ^ ((addresses >> 7 & 1) << 3)
        return physical

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern repeats, and so the alignment of a tile that starts at phase 0."""
        return 1 << (self.source + self.bits) if self.bits else 16


SwizzleName = Literal["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"]
SWIZZLES: Final[dict[SwizzleName, Swizzle]] = {
    "none": Swizzle(width=16, bits=0, target=4, source=7),
    "32B": Swizzle(width=32, bits=1, target=4, source=7),
    "64B": Swizzle(width=64, bits=2, target=4, source=7),
    "128B": Swizzle(width=128, bits=3, target=4, source=7),
    "128B_ATOM_32B": Swizzle(width=128, bits=2, target=5, source=7),
    "128B_ATOM_32B_FLIP_8B": Swizzle(width=128, bits=2, target=5, source=7, flip_halves=True),
    "128B_ATOM_64B": Swizzle(width=128, bits=1, target=6, source=7),
}
