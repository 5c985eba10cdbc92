"""The addresses that a warp accessed recently."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np

from ...compiled import blocks as native
from ...ptx.types import Addresses, LaneMask

# Addresses of the active lanes in lane order, and which lanes these are (None: all).
Lanes = tuple[Addresses, LaneMask | None]


class Executions:
    """A warp's record of its ordinary loads and stores (`compiled.access`): the addresses of the last executions of each, by lane, -1
    for an inactive one. `numbers` maps program counters to indices, the `loads` first, then the stores, together the `ordinary` ones;
    matrix loads and stores, whose lanes have no addresses of their own, come last."""

    def __init__(self, numbers: Mapping[int, int], loads: int, ordinary: int) -> None:
        self.numbers, self.loads, self.ordinary = numbers, loads, ordinary
        records = native.RECORD_BYTES * len(numbers)
        self.data = np.zeros(records + native.PLACE_BYTES * len(numbers), np.uint8)
        self.records = self.data[:records]
        self.address = self.data.ctypes.data
        self.place_address = self.address + records
        self.words = words = self.records.view(np.int64).reshape(-1, native.RECORD_BYTES // 8)
        self.times = words[:, native.TIMES // 8]
        self.copied = words[:, native.COPIED // 8 : native.COPIED // 8 + native.COPIES]
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
        if number >= self.loads:
            self._compare(number, row, times)

    def _compare(self, number: int, row: Addresses, times: int) -> None:
        """`remembered.remember` for a store."""
        if times == 0:
            found = self._loads_of(row)[: native.COPIES]
            self.copied[number, : len(found)] = found
            return
        for place, one in enumerate(self.copied[number].tolist()):
            if one and not self._same_as_loaded(one, row):
                self.copied[number, place] = 0

    def _loads_of(self, row: Addresses) -> list[int]:
        """The executions of loads with these addresses: usually none, and there may be hundreds of loads."""
        active = row >= 0
        lane = int(np.argmax(active))
        loads, slots = np.nonzero(self.lanes[: self.loads, :, lane] == row[lane])
        executed = slots < self.times[loads]
        loads, slots = loads[executed], slots[executed]
        same = ((self.lanes[loads, slots] == row) | ~active).all(axis=1)
        backs = (self.times[loads] - 1 - slots) % native.REMEMBERED
        return sorted((1 + native.REMEMBERED * loads + backs)[same].tolist())

    def _same_as_loaded(self, one: int, row: Addresses) -> bool:
        load, back = divmod(one - 1, native.REMEMBERED)
        times = int(self.times[load]) - 1 - back
        return times >= 0 and bool(((row == self.lanes[load, times % native.REMEMBERED]) | (row < 0)).all())

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        """The program counters by number."""
        return {number: pc for pc, number in self.numbers.items()}

    def stored_by_others(self, lanes: LaneMask) -> Iterator[tuple[int, int]]:
        """The stores that other lanes than these have executed last, by program counter, with the number of the set that machine code has
        made of each, which may be another one by now."""
        times = self.times[self.loads : self.ordinary]
        rows = self.lanes[np.arange(self.loads, self.ordinary), (times - 1) % native.REMEMBERED]
        for store in (np.flatnonzero((times > 0) & ((rows >= 0) & ~lanes).any(1)) + self.loads).tolist():
            yield self._places[store], int(self.words[store, native.NUMBER // 8])

    def copies(self, store: int, load: int) -> bool:
        """Whether, at every execution of the store, the load had returned to each lane the address that it stored to."""
        if store not in self.numbers or load not in self.numbers:
            return False
        first = 1 + native.REMEMBERED * self.numbers[load]
        return any(first <= one < first + native.REMEMBERED for one in self.copied[self.numbers[store]].tolist())

    def of(self, pc: int) -> list[Addresses]:
        """The oldest first."""
        number = self.numbers.get(pc)
        if number is None or number >= self.ordinary:
            return []
        times = int(self.times[number])
        return [self.lanes[number, one % native.REMEMBERED] for one in range(max(0, times - native.REMEMBERED), times)]

    def of_matrices(self, pc: int) -> bool:
        return self.numbers.get(pc, -1) >= self.ordinary

    def lay_out(self, pc: int, addresses: Addresses) -> bool:
        """Keeps the row addresses of a matrix load's or store's last execution; returns whether it is one."""
        number = self.numbers.get(pc, -1)
        if number < self.ordinary:
            return False
        self.lanes[number, 0], self.times[number] = addresses, 1
        return True

    def laid_out(self, pc: int) -> Addresses | None:
        """By lane, the addresses of a load's or store's last execution."""
        number = self.numbers.get(pc)
        if number is None or not self.times[number]:
            return None
        latest: Addresses = self.lanes[number, int(self.times[number] - 1) % native.REMEMBERED]
        return latest
