"""Simulated memories and the map of generic addresses.

Addresses are 64-bit. Shared addresses follow hardware: CTA rank << 24 | offset, user data from offset 0x400.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from ...compiled.pieces import extent, gather, move
from ...errors import SimulationError
from ...ptx.types import LANES, Addresses, Bytes, LaneValues
from ...units.copies.places import Places
from ...units.layouts import Reading, Tile
from ...units.limits import RESERVED_BYTES
from ...units.products import Product
from ..races.detector import Races
from ..races.ledger import NOBODY, Access
from ..races.replaced import Same
from ..races.shadow import Shadow
from ..races.thread import Thread

SHARED_BASE = RESERVED_BYTES
# The reserved bytes at the start, which are zero when a CTA starts (%reserved_smem_offset_end).
RESERVED_END = 0x120
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1

# Above all possible host addresses: those of arrays are also addresses of global memory.
SHARED_WINDOW = 0x1_7F00_0000_0000
LOCAL_WINDOW = 0x1_7E00_0000_0000
PARAM_WINDOW = 0x1_7D00_0000_0000
CONST_WINDOW = 0x1_7C00_0000_0000
# Functions have addresses that are not mapped in any memory.
CODE_WINDOW = 0x1_7B00_0000_0000
WINDOW_MASK = ~0xFF_FFFF_FFFF & 0xFFFF_FFFF_FFFF_FFFF
# Targets of generic addresses; instructions also use "generic" itself and "cluster", shared memory of any CTA.
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
# The bytes of a memory as integers of each size.
Views = dict[int, LaneValues]
BY_SIZE: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_ALL_WRITTEN = {size: np.frombuffer(bytes([WRITTEN] * size), dtype)[0] for size, dtype in BY_SIZE.items()}
_STATE = {size: np.frombuffer(bytes([WRITTEN | BARRIER] * size), dtype)[0] for size, dtype in BY_SIZE.items()}
STEPS = {count: np.arange(count, dtype=np.int64) for count in (1, 2, 4, 8)}
_ANY_BARRIER = {size: np.frombuffer(bytes([BARRIER] * size), dtype)[0] for size, dtype in BY_SIZE.items()}


def space_of(address: int) -> Window:
    """The state space of a generic address."""
    return SPACE_OF_WINDOW.get(address & WINDOW_MASK, "global")


def views_of(data: Bytes) -> Views:
    return {size: data[: data.size // size * size].view(dtype) for size, dtype in BY_SIZE.items()}


def check_alignment(addresses: Addresses, size: int, what: str) -> None:
    # One pass over the addresses: a bit set in any of them is set in their OR.
    if size > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
        bad = int(addresses[np.flatnonzero(addresses & (size - 1))[0]])
        raise SimulationError("misaligned", f"{what} of {size} bytes at 0x{bad:x}, which is not a multiple of {size}")


def _refused(places: Addresses, message: str) -> None:
    raise SimulationError("undefined", message)


def _nothing_left(offsets: Iterable[int], access: Access | None) -> None:
    """There are no mbarriers."""


def _bytes_of(granules: Addresses) -> Addresses:
    return (granules[:, :, None] * 16 + np.arange(16)).reshape(len(granules), -1)


def replaced(view: LaneValues, index: Addresses, values: LaneValues) -> bool:
    """Stores, and returns whether that changed anything: storing the same values again is still spinning."""
    changed = bool((view[index] != values).any())
    view[index] = values
    return changed


def unchanged(places: Addresses, there: LaneValues, values: LaneValues, rows: np.ndarray) -> bool:
    """Whether a store changes nothing in these of its rows: of the lanes that store to one place, the last one's value remains."""
    differ = (there != values).reshape(len(values), -1).any(axis=1) & rows
    if not differ.any():
        return True
    pieces = places.reshape(len(differ), -1)[::-1, 0]
    return not differ[::-1][np.unique(pieces, return_index=True)[1]].any()


class FlatMemory:
    """A zero-based byte array: parameters, constants, local memory of one warp."""

    def __init__(self, name: str, data: Bytes, writable: bool = True) -> None:
        self.name, self.data, self.writable = name, data, writable
        self.views = views_of(data)
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
        """A uniform load from read-only memory, cached."""
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
    """Shared memory of one CTA, indexed by offset: it may access `base` up to `size`.

    Tracks per byte whether it was written and whether it belongs to a live mbarrier; `shadow` records the last accesses, `races` checks
    them (None: no checks).
    """

    def __init__(
        self, size: int, rank: int, races: Races | None = None, base: int = SHARED_BASE, filling: int = 0, granule: int = 4
    ) -> None:
        self.size, self.rank, self.races, self.base, self.filling = size, rank, races, base, filling
        self.shadow = Shadow("shared", size, granule, lambda address: f"shared address 0x{address:x}")
        self.shadow.filled_by = self._filled_by
        self.reclaim: Callable[[Addresses, str], None] = _refused  # invalidates mbarriers at places that are about to be written
        self.mbarriers: Collection[int] = ()  # the offsets of the live ones
        # Checks what is done with these mbarriers against what is issued over them, or stored now (None).
        self.left: Callable[[Iterable[int], Access | None], None] = _nothing_left
        if races is not None:
            races.shadows.add(self.shadow)
            self.shadow.of(granule)
        padded = (size + 15) // 16 * 16
        self.data = np.full(padded, filling, np.uint8) if filling else np.zeros(padded, np.uint8)
        self.state = np.zeros(padded, np.uint8)
        self.data[:RESERVED_END] = 0
        self.state[base:RESERVED_END] = WRITTEN
        self.views, self.state_views = views_of(self.data), views_of(self.state)
        # The mbarrier that last counted bytes for each granule (-1: none): it identifies the stage of a ring.
        self.filled_by = np.full(padded // 16, -1, np.int32)
        # Addresses for machine code. Asking NumPy takes longer than many a CTA runs.
        self.data_address, self.state_address = self.data.ctypes.data, self.state.ctypes.data
        self.shadow_address: int = self.shadow.block.ctypes.data

    def check(self, offsets: Addresses, size: int, what: str) -> None:
        check_alignment(offsets, size, f"{what} in shared memory")
        self.check_range(offsets, size, what)

    def check_range(self, offsets: Addresses, size: int, what: str) -> None:
        if not offsets.size:
            return
        low, high, _ = extent(offsets)
        if low < self.base or high + size > self.size:
            bad = low if low < self.base else high
            raise SimulationError(
                "out_of_bounds",
                f"{what} of {size} bytes at shared address 0x{bad:x}; the CTA owns 0x{self.base:x} to 0x{self.size:x}",
            )

    def written(self, offsets: Addresses) -> bool:
        """Whether all these bytes, which must be in the CTA's memory, have been written."""
        self.check_range(offsets, 1, "access")
        return bool((self.state[offsets] & WRITTEN).all())

    def load(self, offsets: Addresses, size: int, by: Thread | None = None, span: int = 0) -> LaneValues:
        """`by` loads `span` bytes from each offset (0: `size`), of which these are the first."""
        self.check(offsets, size, "load")
        index = offsets // size
        raced = False
        if by is not None and self.races is not None:
            raced = self.races.load(by, self.shadow, offsets // span if span else index, span or size)
        state = self.state_views[size][index]
        if ((state & _ALL_WRITTEN[size]) != _ALL_WRITTEN[size]).any() or (state & _ANY_BARRIER[size]).any():
            self._explain_load(offsets, state, size, raced)
        return self.views[size][index]

    def load_words(self, offsets: Addresses, dtype: np.dtype[Any], count: int, by: Thread | None) -> LaneValues | None:
        """`count` elements from each offset, aligned as a whole, [offsets, count]; None, without effect, if there is any problem, which
        element-wise loads then report."""
        size = dtype.itemsize * count
        unit = min(8, size)
        index = self._words(offsets, unit, size)
        if index is None:
            return None
        state = self.state_views[unit][index]
        if (state & _STATE[unit] != _ALL_WRITTEN[unit]).any():
            return None
        if by is not None and self.races is not None:
            self.races.load(by, self.shadow, offsets // size, size)
        return self.views[unit][index].view(dtype)

    def store_words(self, offsets: Addresses, elements: LaneValues, by: Thread | None, same: Same | None) -> bool | None:
        """Stores [offsets, count] elements as `load_words` loads them; returns whether any changed, or None where it did not store."""
        size = elements.itemsize * elements.shape[1]
        unit = min(8, size)
        index = self._words(offsets, unit, size)
        if index is None:
            return None
        words = elements.view(BY_SIZE[unit])
        states = self.state_views[unit]
        state = states[index]
        if (state & _ANY_BARRIER[unit]).any():
            return None
        if by is not None and self.races is not None:
            known = same or (lambda rows: unchanged(index, self.views[unit][index], words, rows))
            self.races.store(by, self.shadow, offsets // size, size, known)
        states[index] = state | _ALL_WRITTEN[unit]
        return replaced(self.views[unit], index, words)

    def has(self, offsets: Addresses, elements: LaneValues, rows: np.ndarray) -> bool:
        """Whether memory already holds these rows of [offsets, elements]."""
        found = self.load_words(offsets, elements.dtype, elements.shape[1], None)
        return found is not None and bool((found == elements)[rows].all())

    def move_in(self, data: int, origins: Addresses, offsets: Addresses, size: int) -> bool | None:
        """Writes an operation's data to offsets that were checked at its issue: `size` bytes each from the memory at the address `data`,
        at `origins` (-1: zeros). False, without effect, where there are mbarriers now; None: there is no machine code."""
        return move(data, origins, self.data_address, self.state_address, offsets, size)

    def put(self, offsets: Addresses, words: LaneValues) -> bool:
        """Writes an operation's data to offsets that were checked at its issue, [offsets, words]; false, without effect, where there are
        mbarriers now."""
        unit = words.itemsize
        index, states = offsets[:, None] // unit + STEPS[words.shape[1]], self.state_views[unit]
        state = states[index]
        if np.bitwise_or.reduce(state, axis=None) & _ANY_BARRIER[unit]:
            return False
        states[index] = state | _ALL_WRITTEN[unit]
        self.views[unit][index] = words
        return True

    def _words(self, offsets: Addresses, unit: int, size: int) -> Addresses | None:
        """The indices of the words of `unit` bytes in accesses of `size` bytes, [offsets, words]; None where they are misaligned or out
        of bounds."""
        if not offsets.size:
            return None
        low, high, union = extent(offsets)
        if union & (size - 1) or low < self.base or high + size > self.size:
            return None
        return offsets[:, None] // unit + STEPS[size // unit]

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
    ) -> bool:
        """A generic-proxy store; `by`, `span` as in `load`. `same`: whether memory already holds what is stored. Returns whether any
        value changed."""
        self.check(offsets, size, "store")
        index = offsets // size
        states = self.state_views[size]
        state = states[index]
        if (state & _ANY_BARRIER[size]).any():
            places = offsets[(state & _ANY_BARRIER[size]) != 0]
            self.left({place // 8 * 8 for place in places.tolist()}, None)
            self.reclaim(places, f"store of {size} bytes over a live mbarrier, shared address 0x{int(places[0]):x}")
            state = states[index]
        if by is not None and self.races is not None:
            known = same or (lambda rows: unchanged(index, self.views[size][index], values, rows))
            self.races.store(by, self.shadow, offsets // span if span else index, span or size, known)
        states[index] = state | _ALL_WRITTEN[size]
        return replaced(self.views[size], index, values)

    def async_read(self, offsets: Addresses, what: str, require_written: bool = True) -> LaneValues:
        """Bytes at `offsets` as the async proxy sees them."""
        self.check_range(offsets, 1, what)
        state = self.state[offsets]
        if require_written and not (state & WRITTEN).all():
            bad = int(offsets[(state & WRITTEN) == 0][0])
            self._unwritten(f"{what} reads shared address 0x{bad:x}, which nothing has written")
        return self.data[offsets]

    def async_read_granules(self, granules: Addresses, what: str) -> Bytes:
        """The bytes of lines of 16-byte granules as the async proxy sees them."""
        low, high, _ = extent(granules)
        if low * 16 < self.base or high * 16 + 16 > self.size:
            return self.async_read(_bytes_of(granules), what)
        if (found := gather(self.data_address, self.state_address, granules)) is not None:
            return found
        state = self.state.reshape(-1, 16).take(granules, axis=0).view(np.uint64)
        if ~np.bitwise_and.reduce(state, axis=None) & _ALL_WRITTEN[8]:
            return self.async_read(_bytes_of(granules), what)
        return self.data.reshape(-1, 16).take(granules, axis=0).reshape(len(granules), -1)

    def async_read_places(self, places: Places, what: str) -> Bytes:
        """The bytes that a copy reads."""
        if places.words is None:
            return self.async_read(places.offsets, what)
        self.check_places(places, what)
        state = self.state_views[8].take(places.words)
        if ~np.bitwise_and.reduce(state) & _ALL_WRITTEN[8]:
            return self.async_read(places.offsets, what)
        return self.views[8].take(places.words).view(np.uint8)

    def check_places(self, places: Places, what: str) -> None:
        if places.size and (places.reach[0] < self.base or places.reach[1] >= self.size):
            self.check_range(places.offsets, 1, what)

    def async_write(self, places: Places, values: LaneValues, what: str, start: int = 0) -> None:
        """Writes a copy's data to its places, beginning with the one at index `start`."""
        self.check_places(places, what)
        end = start + values.size
        if places.words is None or (start | end) % 8:
            index, data, state = places.offsets[start:end], self.data, self.state
        else:
            index, data, state = places.words[start // 8 : end // 8], self.views[8], self.state_views[8]
            values = np.ascontiguousarray(values).view(np.uint64)
        size = data.itemsize
        states = state[index]
        if np.bitwise_or.reduce(states) & _ANY_BARRIER[size]:
            offsets = places.offsets[start:end]
            self.reclaim(offsets[(self.state[offsets] & BARRIER) != 0], f"{what} writes over a live mbarrier")
            states = state[index]
        data[index] = values
        state[index] = states | _ALL_WRITTEN[size]

    def begin(self, thread: Thread, access: Access, granules: Addresses) -> None:
        """Records the issue of an asynchronous operation that accesses these 16-byte granules."""
        low, high, _ = extent(granules) if granules.size else (self.base, 0, 0)
        if low * 16 < self.base or high * 16 >= self.size:
            self.check_range(granules * 16, 1, access.what)
        if self.races is not None and granules.size:
            if access.writes:
                self.over_mbarriers(access, granules, low, high)
            self.races.begin(thread, access, self.shadow, granules, size=16)

    def over_mbarriers(self, access: Access, granules: Addresses, low: int, high: int) -> None:
        """`access` is issued to write these granules, from the one at `low` to that at `high`."""
        near = [offset for offset in self.mbarriers if low <= offset // 16 <= high]
        if near and (met := [offset for offset in near if (granules == offset // 16).any()]):
            self.left(met, access)

    def undetermined(self, offsets: Addresses) -> None:
        """These bytes have been written, and nothing says what stands there."""
        self.data[offsets] = self.filling
        self.state[offsets] &= ~np.uint8(WRITTEN)

    def operands(self, access: Access, readings: Sequence[Reading]) -> None:
        """Records the issue of an MMA that reads these operands."""
        if self.races is not None:
            self.races.layouts.operands(access, self.shadow, readings, self.data.reshape(-1, 16))

    def whole(self, reading: Reading) -> bool:
        """Whether something has been written to each row of an operand."""
        if not self.shadow.writes.size:
            return False
        found = self.shadow.writes[reading.granules * (16 // self.shadow.granule)] != NOBODY
        return bool(found.any(axis=0 if reading.mn_major else 1).all())

    def added(self, access: Access, product: Product, place: object, group: int) -> None:
        """Records the issue of an MMA that adds this to the accumulator in some registers; `group`: as `Sums.added` has it."""
        if self.races is not None:
            # Where A is in registers, only B's tile shows which products belong together.
            tile = self.races.layouts.writer(self.shadow, product.b) if product.a is None else None
            self.races.sums.added(access, product, (access.thread.cta, place), tile, group)

    def copied_out(self, access: Access, granules: Addresses, tile: Tile | None) -> None:
        """Records the issue of a tensor copy that reads these granules as a tile."""
        if self.races is not None and granules.size:
            self.races.layouts.copied_out(access, self.shadow, granules, tile, self.data.reshape(-1, 16))

    def _filled_by(self, address: int) -> int:
        return int(self.filled_by[address // 16])

    def mark_barrier(self, offset: int, live: bool) -> None:
        if live:
            self.state[offset : offset + 8] |= BARRIER
        else:
            self.state[offset : offset + 8] &= ~np.uint8(BARRIER | WRITTEN)
