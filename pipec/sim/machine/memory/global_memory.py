"""Global memory: allocations, including host arrays."""

from __future__ import annotations

import bisect
from typing import Any, NamedTuple

import numpy as np

from ...compiled import blocks as native
from ...compiled.pieces import extent
from ...errors import SimulationError
from ...ptx.types import Addresses, Bytes, LaneValues
from ..races.clocks import Knowledge
from ..races.detector import Races
from ..races.ledger import Access
from ..races.replaced import Same
from ..races.shadow import Shadow
from ..races.thread import Thread
from .spaces import BY_SIZE, GLOBAL_BASE, STEPS, check_alignment, replaced, unchanged, views_of


class Allocation:
    """`data` is a byte view of the caller's memory; results appear there."""

    shadow: Shadow | None = None  # for writable memory

    def __init__(self, base: int, data: Bytes, writable: bool, name: str) -> None:
        self.base, self.data, self.writable, self.name = base, data, writable, name
        self.address = data.ctypes.data  # for machine code
        self.views = views_of(data)
        if writable:
            self.shadow = Shadow("global", data.size, 4, self._place)
            self.shadow.origin = self.address
            self.shadow.keep_log()

    def _place(self, offset: int) -> str:
        return f"global address 0x{self.base + offset:x} (byte {offset} of {self.name})"

    @property
    def end(self) -> int:
        return self.base + self.data.size


def _in_runs(offsets: Addresses, size: int) -> bool:
    """Whether the offsets are those of whole, aligned pieces of `size` bytes."""
    if size == 1:
        return True
    if offsets.size % size:
        return False
    firsts = offsets[::size]
    return not (firsts & (size - 1)).any() and bool((offsets[size - 1 :: size] == firsts + (size - 1)).all())


def _bytes_of(starts: Addresses, length: int) -> Addresses:
    return (starts[:, None] + np.arange(length)).reshape(-1)


def _pieces_of(offsets: Addresses, length: int) -> tuple[Addresses, int]:
    """Splits runs of `length` bytes into the largest aligned pieces of up to 16 bytes: piece numbers [runs, pieces], and the piece size."""
    _, _, union = extent(offsets)
    union |= length | 16
    size = union & -union
    return offsets[:, None] // size + np.arange(length // size), size


def _read_runs(allocation: Allocation, offsets: Addresses, length: int) -> LaneValues:
    pieces, size = _pieces_of(offsets, length)
    whole = allocation.data[: allocation.data.size // size * size].reshape(-1, size)
    return whole.take(pieces.reshape(-1), axis=0).reshape(-1, length)


# The allocation of some pieces, and their offsets in it.
Held = tuple[Allocation | None, Addresses]


class Region(NamedTuple):
    """The host memory from `low` to `high` is the allocation at `base`."""

    low: int
    high: int
    base: int


class GlobalMemory:
    """Separate allocations, 256-byte aligned, with unmapped gaps of at least 64 KiB between them.

    A host array is also mapped at its host address (`Region`), so that kernels can follow pointers that they find in memory.
    """

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.bases: list[int] = []
        self.regions: list[Region] = []
        self.next_base = GLOBAL_BASE
        self.races: Races | None = None
        self._rows = np.zeros((0, native.ALLOCATION_WORDS), np.int64)
        self.table = np.zeros(2, np.int64)  # through which machine code finds them

    def add(self, data: Bytes, writable: bool, name: str) -> Allocation:
        allocation = Allocation(self.next_base, data, writable, name)
        self.allocations.append(allocation)
        self.bases.append(allocation.base)
        self.next_base = (allocation.end + 0x1_0000 + 0xFFFF) // 0x1_0000 * 0x1_0000
        self._watched(allocation)
        shadow = allocation.shadow.block.ctypes.data if allocation.shadow is not None else 0
        row = [allocation.base, allocation.end, data.ctypes.data, writable, shadow]
        self._rows = np.vstack([self._rows, np.array([row], np.int64)])
        self.table[:] = len(self._rows), self._rows.ctypes.data
        return allocation

    def answer_at(self, low: int, high: int, base: int) -> None:
        """Maps the host memory from `low` to `high` to the allocation at `base`."""
        bisect.insort(self.regions, Region(low, high, base))

    def placed(self, addresses: Addresses) -> Addresses:
        """`addresses` with host addresses translated and others unchanged."""
        if not self.regions or not addresses.size or int(addresses.max()) < self.regions[0].low:
            return addresses
        found = addresses
        for region in self.regions:
            inside = (addresses >= region.low) & (addresses < region.high)
            if inside.any():
                found = np.where(inside, addresses + (region.base - region.low), found)
        return found

    def watch(self, races: Races) -> None:
        """From now on accesses with a known thread leave marks."""
        self.races = races
        for allocation in self.allocations:
            self._watched(allocation)

    def _watched(self, allocation: Allocation) -> None:
        if self.races is not None and allocation.shadow is not None:
            self.races.shadows.add(allocation.shadow)

    def find(self, address: int) -> Allocation | None:
        index = bisect.bisect_right(self.bases, address) - 1
        if index < 0:
            return None
        allocation = self.allocations[index]
        return allocation if address < allocation.end else None

    def _one_allocation(self, addresses: Addresses, size: int, what: str) -> tuple[Allocation | None, Addresses]:
        """The allocation that contains all accesses, None if they are spread over several; and the translated addresses."""
        low, high, _ = extent(addresses)
        allocation = self.find(low)
        if allocation is not None and high + size <= allocation.end:
            return allocation, addresses
        placed = self.placed(addresses)
        if placed is not addresses:
            return self._one_allocation(placed, size, what)
        for address in addresses.tolist():
            owner = self.find(address)
            if owner is None or address + size > owner.end:
                # Asynchronous operations access memory byte by byte, so the size of a piece is meaningless.
                much = f" of {size} bytes" if what in ("load", "store") else ""
                raise SimulationError("out_of_bounds", f"{what}{much} at global address 0x{address:x}{self._nearest(address)}")
        return None, addresses

    def by_allocation(self, addresses: Addresses) -> list[tuple[Allocation, Addresses]]:
        """Allocations and offsets in them, for addresses that must be mapped."""
        addresses = self.placed(addresses)
        bases = np.searchsorted(np.array(self.bases), addresses, "right") - 1
        found = [(self.allocations[number], addresses[bases == number]) for number in np.unique(bases).tolist() if number >= 0]
        return [(allocation, part - allocation.base) for allocation, part in found]

    def _nearest(self, address: int) -> str:
        """The allocation whose end is nearest below the address, where its memory is on the host or here."""
        ends = [(region.high, region.base) for region in self.regions if region.low <= address]
        ends += [(one.end, one.base) for one in self.allocations if one.base <= address]
        past = [(address - end, base) for end, base in ends]
        if not past:
            return ", which belongs to no argument"
        bytes_past, base = min(past)
        near = self.allocations[bisect.bisect_right(self.bases, base) - 1]
        return f", {bytes_past} bytes past the end of {near.name} ({near.data.size} bytes)"

    def load(self, addresses: Addresses, size: int, by: Thread | None = None, span: int = 0) -> LaneValues:
        """`by` and `span` as for shared memory."""
        if not addresses.size:
            return np.zeros(0, BY_SIZE[size])
        check_alignment(addresses, size, "load from global memory")
        allocation, addresses = self._one_allocation(addresses, size, "load")
        if allocation is None:
            parts = [self.load(addresses[i : i + 1], size, by, span) for i in range(addresses.size)]
            return np.concatenate(parts)
        offsets = addresses - allocation.base
        if by is not None and allocation.shadow is not None and self.races is not None:
            self.races.load(by, allocation.shadow, offsets // (span or size), span or size)
        return allocation.views[size][offsets // size]

    def store(
        self,
        addresses: Addresses,
        values: LaneValues,
        size: int,
        by: Thread | None = None,
        span: int = 0,
        same: Same | None = None,
    ) -> bool:
        """Returns whether any value changed."""
        if not addresses.size:
            return False
        check_alignment(addresses, size, "store to global memory")
        allocation, addresses = self._one_allocation(addresses, size, "store")
        if allocation is None:
            # Evaluates all of them, whatever the first ones changed.
            return (
                sum(self.store(addresses[i : i + 1], values[i : i + 1], size, by, span, same) for i in range(addresses.size)) > 0
            )
        if not allocation.writable:
            raise SimulationError("out_of_bounds", f"store to {allocation.name}, which was passed as read-only")
        offsets = addresses - allocation.base
        index = offsets // size
        if by is not None and allocation.shadow is not None and self.races is not None:
            known = same or (lambda rows: unchanged(index, allocation.views[size][index], values, rows))
            self.races.store(by, allocation.shadow, offsets // span if span else index, span or size, known)
        return replaced(allocation.views[size], index, values)

    def load_words(self, addresses: Addresses, dtype: np.dtype[Any], count: int, by: Thread | None) -> LaneValues | None:
        """As for shared memory."""
        size = dtype.itemsize * count
        unit = min(8, size)
        allocation, offsets = self.holder(addresses, size)
        if allocation is None:
            return None
        if by is not None and allocation.shadow is not None and self.races is not None:
            self.races.load(by, allocation.shadow, offsets // size, size)
        words: LaneValues = allocation.views[unit][offsets[:, None] // unit + STEPS[size // unit]]
        return words.view(dtype)

    def store_words(self, addresses: Addresses, elements: LaneValues, by: Thread | None, same: Same | None) -> bool | None:
        """As for shared memory."""
        size = elements.itemsize * elements.shape[1]
        unit = min(8, size)
        allocation, offsets = self.holder(addresses, size)
        if allocation is None or not allocation.writable:
            return None
        words = elements.view(BY_SIZE[unit])
        index, view = offsets[:, None] // unit + STEPS[size // unit], allocation.views[unit]
        if by is not None and allocation.shadow is not None and self.races is not None:
            known = same or (lambda rows: unchanged(index, view[index], words, rows))
            self.races.store(by, allocation.shadow, offsets // size, size, known)
        return replaced(view, index, words)

    def holder(self, addresses: Addresses, size: int) -> Held:
        """The allocation that contains all these pieces of `size` bytes, correctly aligned, and their offsets in it; None where there is
        none."""
        if not addresses.size:
            return None, addresses
        low, high, union = extent(addresses)
        if union & (size - 1):
            return None, addresses
        allocation = self.find(low)
        if allocation is None or high + size > allocation.base + allocation.data.size:
            placed = self.placed(addresses)
            return (None, addresses) if placed is addresses else self.holder(placed, size)
        return allocation, addresses - allocation.base

    def begin(
        self, thread: Thread, access: Access, addresses: Addresses, knowledge: Knowledge, values: LaneValues | None = None
    ) -> None:
        """An asynchronous operation accesses the bytes at `addresses`, usually in runs; `knowledge` is what `thread` had observed at its
        issue. `values`: the bytes that it writes there."""
        if not addresses.size:
            return
        allocation, addresses = self._one_allocation(addresses, 1, access.what)
        if self.races is None or allocation is None or allocation.shadow is None:
            return
        offsets, shadow = addresses - allocation.base, allocation.shadow
        size = next(size for size in (4, 2, 1) if _in_runs(offsets, size))
        same = None if values is None else lambda _: bool((allocation.data[offsets] == values).all())
        self.races.begin(thread, access, shadow, shadow.pieces(offsets[::size] // size, size), knowledge, same=same)

    def begin_runs(
        self,
        thread: Thread,
        access: Access,
        starts: Addresses,
        length: int,
        knowledge: Knowledge,
        values: LaneValues | None = None,
    ) -> None:
        """The same for `length` bytes from each of `starts`."""
        allocation, offsets = self._runs(starts, length)
        if allocation is None:
            self.begin(thread, access, _bytes_of(starts, length), knowledge, None if values is None else values.reshape(-1))
        elif self.races is not None and allocation.shadow is not None:
            same = None if values is None else lambda _: bool((_read_runs(allocation, offsets, length) == values).all())
            pieces, size = _pieces_of(offsets, length)
            self.races.begin(thread, access, allocation.shadow, pieces.reshape(-1), knowledge, size, same=same)

    def begin_pieces(
        self, thread: Thread, access: Access, addresses: Addresses, size: int, knowledge: Knowledge, held: Held
    ) -> None:
        """The same for `size` bytes from each address, located by `holder`."""
        allocation, offsets = held
        if allocation is None:
            self.begin(thread, access, (addresses[:, None] + np.arange(size)).reshape(-1), knowledge)
        elif self.races is not None and allocation.shadow is not None:
            self.races.begin(thread, access, allocation.shadow, offsets // size, knowledge, size)

    def map_used(self, thread: Thread, address: int, count: int) -> None:
        """`thread` starts a copy through the tensor map of `count` bytes at `address`, a multiple of 64."""
        for allocation, offsets in self.by_allocation(np.array([address], np.int64)):
            first = int(offsets[0])
            if self.races is not None and allocation.shadow is not None and first % 8 == 0:
                self.races.map_used(thread, allocation.shadow, np.arange(first // 8, (first + count) // 8, dtype=np.int64), 8)

    def gather(self, addresses: Addresses) -> LaneValues:
        """Bytes at `addresses` (any shape flattened); the protocol of the TMA model."""
        return self.load(np.asarray(addresses, np.int64), 1)

    def scatter(self, addresses: Addresses, values: LaneValues) -> None:
        self.store(np.asarray(addresses, np.int64), np.asarray(values, np.uint8), 1)

    def _runs(self, starts: Addresses, length: int) -> Held:
        """The allocation that contains `length` bytes from each of `starts`, and their offsets in it; None where there is none."""
        low, high, _ = extent(starts)
        allocation = self.find(low)
        if allocation is not None and high + length <= allocation.end:
            return allocation, starts - allocation.base
        placed = self.placed(starts)
        return (None, starts) if placed is starts else self._runs(placed, length)

    def gather_runs(self, starts: Addresses, length: int) -> LaneValues:
        """`length` bytes from each of `starts`, [starts, length]."""
        allocation, offsets = self._runs(starts, length)
        if allocation is None:
            return self.gather(_bytes_of(starts, length)).reshape(-1, length)
        return _read_runs(allocation, offsets, length)

    def scatter_runs(self, starts: Addresses, values: LaneValues) -> None:
        """The inverse of `gather_runs`."""
        length = values.shape[1]
        allocation, offsets = self._runs(starts, length)
        if allocation is None or not allocation.writable:
            self.scatter(_bytes_of(starts, length), values.reshape(-1))
            return
        pieces, size = _pieces_of(offsets, length)
        whole = allocation.data[: allocation.data.size // size * size].reshape(-1, size)
        whole[pieces.reshape(-1)] = values.reshape(-1, size)
