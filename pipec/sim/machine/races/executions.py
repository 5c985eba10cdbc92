"""Which addresses a warp touched lately."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...compiled import access as native
from ...ptx.types import Addresses, LaneMask

# Addresses of the active lanes in lane order, and which lanes these are (None: all).
Lanes = tuple[Addresses, LaneMask | None]


class Executions:
    """What a warp has of its ordinary loads and stores (`compiled.access`): the addresses of the last executions of each by lane, -1 for
    one that was not active. `numbers` has the instructions in order, by program counter."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self.numbers = numbers
        records = native.RECORD_BYTES * len(numbers)
        self.data = np.zeros(records + native.PLACE_BYTES * len(numbers), np.uint8)
        self.records = self.data[:records]
        self.times = self.records.view(np.int64)[native.TIMES // 8 :: native.RECORD_BYTES // 8]
        self.lanes = self.data[records:].view(np.int64).reshape(-1, native.REMEMBERED, native.LANES)

    def clear(self) -> None:
        self.records[:] = 0

    def note(self, pc: int, lanes: Lanes) -> None:
        number = self.numbers[pc]
        times = int(self.times[number])
        row = self.lanes[number, times % native.REMEMBERED]
        addresses, mask = lanes
        if mask is None:
            row[:] = addresses
        else:
            row[:] = -1
            row[mask] = addresses
        self.times[number] = times + 1

    def of(self, pc: int) -> list[Addresses]:
        """The oldest first."""
        number = self.numbers.get(pc)
        if number is None:
            return []
        times = int(self.times[number])
        return [self.lanes[number, one % native.REMEMBERED] for one in range(max(0, times - native.REMEMBERED), times)]
