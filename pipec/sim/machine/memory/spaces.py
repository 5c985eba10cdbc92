"""Simulated memories and the map of generic addresses.

Addresses are 64-bit. Shared addresses follow hardware: CTA rank << 24 | offset, user data from offset 0x400.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from ...errors import SimulationError
from ...ptx.types import LANES, Addresses, Bytes, LaneValues
from ...units.layouts import Reading
from ..races.clocks import Knowledge, Thread
from ..races.detector import Races, Same
from ..races.shadow import Access, ReadLog, Shadow

SHARED_BASE = 0x400
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
SHARED_LIMIT = 232_448

# Above all addresses that the host can have: those of arrays are addresses of global memory, too.
SHARED_WINDOW = 0x1_7F00_0000_0000
LOCAL_WINDOW = 0x1_7E00_0000_0000
PARAM_WINDOW = 0x1_7D00_0000_0000
CONST_WINDOW = 0x1_7C00_0000_0000
# Functions have addresses that no memory answers to.
CODE_WINDOW = 0x1_7B00_0000_0000
WINDOW_MASK = ~0xFF_FFFF_FFFF & 0xFFFF_FFFF_FFFF_FFFF
# Where a generic address can lead; instructions also name "generic" itself and "cluster", shared memory of any CTA.
Window = Literal["shared", "local", "param", "const", "global"]
Space = Literal["shared", "local", "param", "const", "global", "generic", "cluster"]
WINDOWS: dict[Window, int] = {
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "const": CONST_WINDOW,
    "global": 0,
}
SPACE_OF_WINDOW = {base: space for space, base in WINDOWS.items() if base}
GLOBAL_BASE = 0x10_0000_0000

WRITTEN, BARRIER = 1, 2
# The bytes of a memory as whole numbers of each size, by that size.
Views = dict[int, LaneValues]
_BY_SIZE: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_ALL_WRITTEN = {size: np.frombuffer(bytes([WRITTEN] * size), dtype)[0] for size, dtype in _BY_SIZE.items()}
_STATE = {size: np.frombuffer(bytes([WRITTEN | BARRIER] * size), dtype)[0] for size, dtype in _BY_SIZE.items()}
_STEPS = {count: np.arange(count, dtype=np.int64) for count in (1, 2, 4, 8)}
_ANY_BARRIER = {size: np.frombuffer(bytes([BARRIER] * size), dtype)[0] for size, dtype in _BY_SIZE.items()}


def space_of(address: int) -> Window:
    """Which state space a generic address lies in."""
    return SPACE_OF_WINDOW.get(address & WINDOW_MASK, "global")


def _views(data: Bytes) -> Views:
    return {size: data[: data.size // size * size].view(dtype) for size, dtype in _BY_SIZE.items()}


def check_alignment(addresses: Addresses, size: int, what: str) -> None:
    # One pass over the addresses: any bit set in any of them is set in their union.
    if size > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
        bad = int(addresses[np.flatnonzero(addresses & (size - 1))[0]])
        raise SimulationError("misaligned", f"{what} of {size} bytes at 0x{bad:x}, which is not a multiple of {size}")


class FlatMemory:
    """A zero-based byte array: parameters, constants, local memory of one warp."""

    def __init__(self, name: str, data: Bytes, writable: bool = True) -> None:
        self.name, self.data, self.writable = name, data, writable
        self.views = _views(data)
        self._fixed: dict[tuple[int, int], LaneValues] = {}

    def _check(self, addresses: Addresses, size: int, what: str) -> None:
        check_alignment(addresses, size, f"{what} in {self.name} memory")
        if addresses.size and (int(addresses.max()) + size > self.data.size or int(addresses.min()) < 0):
            raise SimulationError(
                "out_of_bounds",
                f"{what} of {size} bytes at offset 0x{int(addresses.max()):x} of "
                f"{self.name} memory, which has 0x{self.data.size:x} bytes",
            )

    def load(self, addresses: Addresses, size: int) -> LaneValues:
        self._check(addresses, size, "load")
        return self.views[size][addresses // size]

    def fixed(self, offset: int, size: int) -> LaneValues:
        """What all lanes load at one place of a memory that nobody writes."""
        found = self._fixed.get((offset, size))
        if found is None:
            found = self._fixed[offset, size] = self.load(np.full(LANES, offset, np.int64), size)
        return found

    def store(self, addresses: Addresses, values: LaneValues, size: int) -> None:
        if not self.writable:
            raise SimulationError("out_of_bounds", f"store to {self.name} memory, which is read-only")
        self._check(addresses, size, "store")
        self.views[size][addresses // size] = values


class SharedMemory:
    """Shared memory of one CTA, indexed by offset (user data from `SHARED_BASE` up to `size`).

    Tracks per byte whether it was written and whether a live mbarrier sits there; `shadow` has who touched what last, `races`
    what follows from that (None: nobody watches).
    """

    def __init__(self, size: int, rank: int, races: Races | None = None) -> None:
        self.size, self.rank, self.races = size, rank, races
        self.shadow = Shadow("shared", size, 4, lambda address: f"shared address 0x{address:x}")
        self.shadow.filled_by = self._filled_by
        if races is not None:
            races.shadows.add(self.shadow)
        padded = (size + 15) // 16 * 16
        self.data = np.zeros(padded, np.uint8)
        self.state = np.zeros(padded, np.uint8)
        self.views, self.state_views = _views(self.data), _views(self.state)
        # The mbarrier that last counted bytes for each granule (-1: none): it tells which stage of which ring this is.
        self.filled_by = np.full(padded // 16, -1, np.int32)

    def check(self, offsets: Addresses, size: int, what: str) -> None:
        check_alignment(offsets, size, f"{what} in shared memory")
        self.check_range(offsets, size, what)

    def check_range(self, offsets: Addresses, size: int, what: str) -> None:
        if not offsets.size:
            return
        low, high = int(np.minimum.reduce(offsets, axis=None)), int(np.maximum.reduce(offsets, axis=None)) + size
        if low < SHARED_BASE or high > self.size:
            bad = low if low < SHARED_BASE else high - size
            raise SimulationError(
                "out_of_bounds",
                f"{what} of {size} bytes at shared address 0x{bad:x}; the CTA owns 0x{SHARED_BASE:x} to 0x{self.size:x}",
            )

    def written(self, offsets: Addresses) -> bool:
        """Whether something has written all these bytes, which lie in the CTA's memory."""
        self.check_range(offsets, 1, "access")
        return bool((self.state[offsets] & WRITTEN).all())

    def load(self, offsets: Addresses, size: int, by: Thread | None = None, span: int = 0) -> LaneValues:
        """`by` loads `span` bytes from each offset on (0: `size`), of which these are the first."""
        self.check(offsets, size, "load")
        index = offsets // size
        raced = False
        if by is not None and self.races is not None:
            raced = self.races.load(by, self.shadow, offsets // span if span else index, span or size)
        state = self.state_views[size][index]
        if ((state & _ALL_WRITTEN[size]) != _ALL_WRITTEN[size]).any() or (state & _ANY_BARRIER[size]).any():
            self._explain_load(offsets, state, size, raced)
        return self.views[size][index]

    def load_words(self, offsets: Addresses, unit: int, count: int, by: Thread | None) -> LaneValues | None:
        """`count` words of `unit` bytes from each offset on, aligned as a whole, [offsets, count]; None, with nothing done, where
        anything stands against it: loads one by one then tell what."""
        index = self._words(offsets, unit, count)
        if index is None:
            return None
        state = self.state_views[unit][index]
        if (state & _STATE[unit] != _ALL_WRITTEN[unit]).any():
            return None
        if by is not None and self.races is not None:
            self.races.load(by, self.shadow, offsets // (unit * count), unit * count)
        return self.views[unit][index]

    def store_words(self, offsets: Addresses, words: LaneValues, unit: int, by: Thread | None, same: Same | None) -> bool:
        """Stores [offsets, count] words as `load_words` loads them; whether it did."""
        size = unit * words.shape[1]
        index = self._words(offsets, unit, words.shape[1])
        if index is None:
            return False
        states = self.state_views[unit]
        state = states[index]
        if (state & _ANY_BARRIER[unit]).any():
            return False
        if by is not None and self.races is not None:
            known = same or (lambda: bool((self.views[unit][index] == words).all()))
            self.races.store(by, self.shadow, offsets // size, size, known)
        states[index] = state | _ALL_WRITTEN[unit]
        self.views[unit][index] = words
        return True

    def _words(self, offsets: Addresses, unit: int, count: int) -> Addresses | None:
        """The numbers of the words, [offsets, count]; None where they are misaligned or out of bounds."""
        size = unit * count
        if not offsets.size or int(np.bitwise_or.reduce(offsets)) & (size - 1):
            return None
        if int(np.minimum.reduce(offsets)) < SHARED_BASE or int(np.maximum.reduce(offsets)) + size > self.size:
            return None
        return offsets[:, None] // unit + _STEPS[count]

    def _explain_load(self, offsets: Addresses, state: LaneValues, size: int, raced: bool) -> None:
        barrier = (state & _ANY_BARRIER[size]) != 0
        if barrier.any():
            raise SimulationError(
                "undefined", f"load of {size} bytes from the live mbarrier at shared address 0x{int(offsets[barrier][0]):x}"
            )
        bad = (state & _ALL_WRITTEN[size]) != _ALL_WRITTEN[size]
        if not raced:
            self._unwritten(f"load of {size} bytes at shared address 0x{int(offsets[bad][0]):x}, which nothing has written")

    def _unwritten(self, message: str) -> None:
        error = SimulationError("uninitialised", message)
        if self.races is None:
            raise error
        self.races.unwritten(error)

    def store(
        self,
        offsets: Addresses,
        values: LaneValues,
        size: int,
        by: Thread | None = None,
        span: int = 0,
        same: Same | None = None,
    ) -> None:
        """A generic-proxy store; `by`, `span` as in `load`. `same`: whether all that is stored is there already."""
        self.check(offsets, size, "store")
        index = offsets // size
        states = self.state_views[size]
        state = states[index]
        if (state & _ANY_BARRIER[size]).any():
            raise SimulationError(
                "undefined",
                f"store of {size} bytes over a live mbarrier, shared address "
                f"0x{int(offsets[(state & _ANY_BARRIER[size]) != 0][0]):x}",
            )
        if by is not None and self.races is not None:
            known = same or (lambda: bool((self.views[size][index] == values).all()))
            self.races.store(by, self.shadow, offsets // span if span else index, span or size, known)
        states[index] = state | _ALL_WRITTEN[size]
        self.views[size][index] = values

    def async_read(self, offsets: Addresses, what: str, require_written: bool = True) -> LaneValues:
        """Bytes at `offsets` as the async proxy sees them."""
        self.check_range(offsets, 1, what)
        state = self.state[offsets]
        if require_written and not (state & WRITTEN).all():
            bad = int(offsets[(state & WRITTEN) == 0][0])
            self._unwritten(f"{what} reads shared address 0x{bad:x}, which nothing has written")
        return self.data[offsets]

    def async_write(self, offsets: Addresses, values: LaneValues, what: str) -> None:
        self.check_range(offsets, 1, what)
        if (self.state[offsets] & BARRIER).any():
            raise SimulationError("undefined", f"{what} writes over a live mbarrier")
        self.data[offsets] = values
        self.state[offsets] |= WRITTEN

    def begin(self, thread: Thread, access: Access, granules: Addresses) -> None:
        """An asynchronous operation is issued that touches these granules of 16 bytes."""
        self.check_range(granules * 16, 1, access.what)
        if self.races is not None and granules.size:
            self.races.begin(thread, access, self.shadow, self.shadow.pieces(granules, 16))

    def operands(self, access: Access, readings: Sequence[Reading]) -> None:
        """An MMA is issued that reads these operands."""
        if self.races is not None:
            self.races.operands(access, self.shadow, readings)

    def _filled_by(self, address: int) -> int:
        return int(self.filled_by[address // 16])

    def mark_barrier(self, offset: int, live: bool) -> None:
        if live:
            self.state[offset : offset + 8] |= BARRIER
        else:
            self.state[offset : offset + 8] &= ~np.uint8(BARRIER | WRITTEN)


@dataclass
class Allocation:
    """`data` is a byte view of memory the caller owns; results appear there."""

    base: int
    data: Bytes
    writable: bool
    name: str
    views: Views = field(default_factory=dict)
    shadow: Shadow | None = None  # of what can be written

    def __post_init__(self) -> None:
        self.views = _views(self.data)
        if self.writable:
            self.shadow = Shadow("global", self.data.size, 4, self._place)
            self.shadow.log = ReadLog()

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


class Region(NamedTuple):
    """The host's memory from `low` to `high` is the allocation at `base`."""

    low: int
    high: int
    base: int


class GlobalMemory:
    """Separate allocations, 256-byte aligned, with unmapped gaps of at least 64 KiB between them.

    An array of the host also answers at the address that it has there (`Region`), so that kernels can follow pointers that they find
    in memory.
    """

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.bases: list[int] = []
        self.regions: list[Region] = []
        self.next_base = GLOBAL_BASE
        self.races: Races | None = None

    def add(self, data: Bytes, writable: bool, name: str) -> Allocation:
        allocation = Allocation(self.next_base, data, writable, name)
        self.allocations.append(allocation)
        self.bases.append(allocation.base)
        self.next_base = (allocation.end + 0x1_0000 + 0xFFFF) // 0x1_0000 * 0x1_0000
        self._watched(allocation)
        return allocation

    def answer_at(self, low: int, high: int, base: int) -> None:
        """The allocation at `base` is the host's memory from `low` to `high`."""
        bisect.insort(self.regions, Region(low, high, base))

    def placed(self, addresses: Addresses) -> Addresses:
        """`addresses`, those of the host translated; others as they are."""
        if not self.regions or not addresses.size or int(addresses.max()) < self.regions[0].low:
            return addresses
        found = addresses
        for region in self.regions:
            inside = (addresses >= region.low) & (addresses < region.high)
            if inside.any():
                found = np.where(inside, addresses + (region.base - region.low), found)
        return found

    def watch(self, races: Races) -> None:
        """From now on accesses that say whose they are leave marks."""
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
        """The allocation that holds all accesses, None if they are spread over several; and the addresses as it has them."""
        low, high = int(np.minimum.reduce(addresses, axis=None)), int(np.maximum.reduce(addresses, axis=None))
        allocation = self.find(low)
        if allocation is not None and high + size <= allocation.end:
            return allocation, addresses
        placed = self.placed(addresses)
        if placed is not addresses:
            return self._one_allocation(placed, size, what)
        for address in addresses.tolist():
            owner = self.find(address)
            if owner is None or address + size > owner.end:
                raise SimulationError(
                    "out_of_bounds", f"{what} of {size} bytes at global address 0x{address:x}{self._nearest(address)}"
                )
        return None, addresses

    def by_allocation(self, addresses: Addresses) -> list[tuple[Allocation, Addresses]]:
        """Allocations and offsets in them, of addresses that lie in some."""
        addresses = self.placed(addresses)
        bases = np.searchsorted(np.array(self.bases), addresses, "right") - 1
        found = [(self.allocations[number], addresses[bases == number]) for number in np.unique(bases).tolist() if number >= 0]
        return [(allocation, part - allocation.base) for allocation, part in found]

    def _nearest(self, address: int) -> str:
        index = bisect.bisect_right(self.bases, address) - 1
        if index < 0:
            return ", which belongs to no argument"
        near = self.allocations[index]
        return f", {address - near.end} bytes past the end of {near.name} ({near.data.size} bytes)"

    def load(self, addresses: Addresses, size: int, by: Thread | None = None, span: int = 0) -> LaneValues:
        """`by` and `span` as for shared memory."""
        if not addresses.size:
            return np.zeros(0, _BY_SIZE[size])
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
    ) -> None:
        if not addresses.size:
            return
        check_alignment(addresses, size, "store to global memory")
        allocation, addresses = self._one_allocation(addresses, size, "store")
        if allocation is None:
            for i in range(addresses.size):
                self.store(addresses[i : i + 1], values[i : i + 1], size, by, span, same)
            return
        if not allocation.writable:
            raise SimulationError("out_of_bounds", f"store to {allocation.name}, which was passed as read-only")
        offsets = addresses - allocation.base
        index = offsets // size
        if by is not None and allocation.shadow is not None and self.races is not None:
            known = same or (lambda: bool((allocation.views[size][index] == values).all()))
            self.races.store(by, allocation.shadow, offsets // span if span else index, span or size, known)
        allocation.views[size][index] = values

    def load_words(self, addresses: Addresses, unit: int, count: int, by: Thread | None) -> LaneValues | None:
        """As for shared memory."""
        allocation, offsets = self._holder(addresses, unit * count)
        if allocation is None:
            return None
        if by is not None and allocation.shadow is not None and self.races is not None:
            self.races.load(by, allocation.shadow, offsets // (unit * count), unit * count)
        words: LaneValues = allocation.views[unit][offsets[:, None] // unit + _STEPS[count]]
        return words

    def store_words(self, addresses: Addresses, words: LaneValues, unit: int, by: Thread | None, same: Same | None) -> bool:
        """As for shared memory."""
        count = words.shape[1]
        allocation, offsets = self._holder(addresses, unit * count)
        if allocation is None or not allocation.writable:
            return False
        index, view = offsets[:, None] // unit + _STEPS[count], allocation.views[unit]
        if by is not None and allocation.shadow is not None and self.races is not None:
            known = same or (lambda: bool((view[index] == words).all()))
            self.races.store(by, allocation.shadow, offsets // (unit * count), unit * count, known)
        view[index] = words
        return True

    def _holder(self, addresses: Addresses, size: int) -> tuple[Allocation | None, Addresses]:
        """The allocation that holds all these pieces of `size` bytes, aligned as they must be, and their offsets in it; None where
        there is none such."""
        if not addresses.size or int(np.bitwise_or.reduce(addresses)) & (size - 1):
            return None, addresses
        allocation = self.find(int(np.minimum.reduce(addresses)))
        if allocation is None or int(np.maximum.reduce(addresses)) + size > allocation.end:
            placed = self.placed(addresses)
            return (None, addresses) if placed is addresses else self._holder(placed, size)
        return allocation, addresses - allocation.base

    def begin(self, thread: Thread, access: Access, addresses: Addresses, knowledge: Knowledge) -> None:
        """An asynchronous operation touches the bytes at `addresses`, runs of them as a rule; `thread` knew that much at its issue."""
        if not addresses.size:
            return
        allocation, addresses = self._one_allocation(addresses, 1, access.what)
        if self.races is None or allocation is None or allocation.shadow is None:
            return
        offsets, shadow = addresses - allocation.base, allocation.shadow
        size = next(size for size in (4, 2, 1) if _in_runs(offsets, size))
        self.races.begin(thread, access, shadow, shadow.pieces(offsets[::size] // size, size), knowledge)

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
