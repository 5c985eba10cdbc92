"""Address resolution: the memories that a thread of a CTA reaches, by state space."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...compiled import blocks as native
from ...compiled.pieces import extent
from ...errors import SimulationError
from ...ptx.types import LANE, LANES, Addresses, LaneMask, LaneValues
from ...units.limits import CLUSTER_CTAS
from ..image import Image
from ..machine import Machine
from ..memory.spaces import OFFSET_MASK, RANK_SHIFT, FlatMemory, SharedMemory, Space, space_of, unchanged
from ..races.detector import StrongUse
from ..races.replaced import Same
from ..races.thread import Thread

_MATRIX = 8  # rows and columns of a matrix of ldmatrix
_INSIDE = 2 * np.arange(_MATRIX)  # of the elements in a row, in bytes
# The subset of a warp's active lanes that a part of an access belongs to.
Chosen = slice | LaneMask


class Accessing(Protocol):
    """The warp whose lanes access memory; `watched` is None without race checks."""

    active: LaneMask
    local: FlatMemory | None
    watched: Thread | None


class Owner(Protocol):
    """A CTA as the owner of shared memory."""

    shared: SharedMemory


def _apart(held: LaneValues, stored: LaneValues) -> bool:
    """Whether any two words differ by more than sums do that were rounded differently (`compiled.access`)."""
    differ = held.view(np.uint8) != stored.view(np.uint8)
    if stored.itemsize != 4 or not differ.any():
        return bool(differ.any())
    old, new = held.view(np.int32).astype(np.int64), stored.view(np.int32).astype(np.int64)
    rounded = ((new & 0x7FFFFFFF) >= native.NORMAL) & (abs(old - new) <= native.ROUNDED)
    return bool(((old != new) & ~rounded).any())


class AddressSpaces:
    """The address spaces of the CTA with this `rank` in its cluster."""

    machine: Machine
    image: Image
    rank: int
    shared: SharedMemory

    def peer(self, address: int, what: str) -> Owner:
        """The CTA of the cluster that a shared::cluster address names."""
        raise NotImplementedError

    def own_offset(self, addresses: Addresses) -> Addresses:
        """Offsets of `.shared::cta` addresses; a foreign rank byte faults (measured)."""
        # One operation for the check and the offset: the rank bits cancel where the address is this CTA's, and remain otherwise.
        offsets = addresses ^ (self.rank << RANK_SHIFT)
        if int(np.bitwise_or.reduce(offsets, axis=None)) & ~OFFSET_MASK:
            bad = int(addresses[addresses >> RANK_SHIFT != self.rank][0])
            if bad >> RANK_SHIFT < 0 or bad >> RANK_SHIFT >= CLUSTER_CTAS:
                raise SimulationError("out_of_bounds", f"shared address 0x{bad:x} is outside the shared window")
            raise SimulationError(
                "out_of_bounds",
                f"shared::cta address 0x{bad:x} belongs to CTA rank {bad >> RANK_SHIFT}, executed by rank {self.rank}",
            )
        return offsets

    def own_pieces(self, addresses: Addresses, size: int, what: str) -> Addresses:
        """The offsets of pieces of `size` bytes in this CTA's memory, which `what` accesses."""
        offsets = addresses ^ (self.rank << RANK_SHIFT)
        low, high, union = extent(offsets)
        if low < self.shared.base or high + size > self.shared.size or union & (size - 1):
            # One by one, to report the exact problem.
            self.shared.check(self.own_offset(addresses), size, what)
        return offsets

    def local_memory(self, warp: Accessing) -> FlatMemory:
        if warp.local is None:
            warp.local = FlatMemory("local", np.zeros(max(1, self.image.local_bytes) * LANES, np.uint8))
        return warp.local

    def load(
        self,
        warp: Accessing,
        space: Space,
        addresses: Addresses,
        size: int,
        by: Thread | None = None,
        span: int = 0,
        lanes: Addresses | None = None,
    ) -> LaneValues:
        """Unsigned values of `size` bytes; `addresses` are those of the active lanes only, in lane order, or of these `lanes`. `by`: the
        thread whose access this is, of `span` bytes (0: `size`) of which these are the first; None: no thread's."""
        if space == "global":
            return self.machine.memory.load(addresses, size, by, span)
        if space == "shared":
            return self.shared.load(self.own_offset(addresses), size, by, span)
        if space == "generic":
            parts = self._by_window(addresses)
            # Lanes of one instruction may address several windows.
            return _joined(
                addresses.size,
                [
                    (self.load(warp, one, part, size, by, span, _lanes_of(warp, one, lanes, chosen)), chosen)
                    for one, part, chosen in parts
                ],
            )
        if space == "cluster":
            owners = self._by_owner(addresses)
            return _joined(
                addresses.size, [(owner.shared.load(offsets, size, by, span), chosen) for owner, offsets, chosen in owners]
            )
        return self._flat(warp, space).load(self._flat_address(warp, space, addresses, size, lanes), size)

    def store(
        self,
        warp: Accessing,
        space: Space,
        addresses: Addresses,
        values: LaneValues,
        size: int,
        by: Thread | None = None,
        span: int = 0,
        same: Same | None = None,
        lanes: Addresses | None = None,
    ) -> None:
        """`by`, `span` and `lanes` as in `load`; `same`: whether memory already holds what the instruction stores."""
        if space == "global":
            self.machine.progress += self.machine.memory.store(addresses, values, size, by, span, same)
        elif space == "shared":
            self.machine.progress += self.shared.store(self.own_offset(addresses), values, size, by, span, same)
        elif space == "generic":
            for one, part, chosen in self._by_window(addresses):
                self.store(warp, one, part, values[chosen], size, by, span, same, _lanes_of(warp, one, lanes, chosen))
        elif space == "cluster":
            for owner, offsets, chosen in self._by_owner(addresses):
                self.machine.progress += owner.shared.store(offsets, values[chosen], size, by, span, same)
        else:
            self._flat(warp, space).store(self._flat_address(warp, space, addresses, size, lanes), values, size)

    def load_words(
        self, space: Space, addresses: Addresses, dtype: np.dtype[Any], count: int, by: Thread | None
    ) -> LaneValues | None:
        """The common case of an ordinary load in one step (`SharedMemory.load_words`); None otherwise."""
        if space == "global":
            return self.machine.memory.load_words(addresses, dtype, count, by)
        if space == "shared":
            return self.shared.load_words(addresses ^ (self.rank << RANK_SHIFT), dtype, count, by)
        return None

    def store_words(self, space: Space, addresses: Addresses, elements: LaneValues, by: Thread | None, same: Same | None) -> bool:
        """The same for a store; returns whether it was that case."""
        changed = None
        if space == "global":
            changed = self.machine.memory.store_words(addresses, elements, by, same)
        elif space == "shared":
            changed = self.shared.store_words(addresses ^ (self.rank << RANK_SHIFT), elements, by, same)
        self.machine.progress += bool(changed)
        if changed is not None and by is not None and len(addresses) > 1:
            held = self.load_words(space, addresses, elements.dtype, elements.shape[1], None)
            if held is not None and _apart(held, elements):
                by.stored_unlike = by.pc()
        return changed is not None

    def holds(self, space: Space, addresses: Addresses, values: Sequence[LaneValues], rows: np.ndarray) -> bool:
        """Whether memory already holds these rows of elements, given as consecutive lists. Where the lanes store to memories of several
        kinds or CTAs, `rows` are those of one of them, and all lanes are asked about."""
        elements = np.stack(values, axis=1)
        if len(rows) != len(elements):
            rows = np.ones(len(elements), bool)
        if space == "generic":
            parts = self._by_window(addresses)
            return all(self.holds(one, part, [each[chosen] for each in values], rows[chosen]) for one, part, chosen in parts)
        count = elements.shape[1]
        if space == "cluster":
            owners = self._by_owner(addresses)
            found = [owner.shared.load_words(offsets, elements.dtype, count, None) for owner, offsets, _ in owners]
            pairs = zip(found, owners, strict=True)
            return all(old is not None and unchanged(own, old, elements[lanes], rows[lanes]) for old, (_, own, lanes) in pairs)
        old = self.load_words(space, addresses, elements.dtype, count, None)
        return old is not None and unchanged(addresses, old, elements, rows)

    def load_matrices(self, addresses: Addresses, count: int, places: Addresses, by: Thread | None) -> LaneValues:
        """`count` matrices of 8x8 16-bit elements, a row at each address, as words of the lanes; `places` maps the halves of all words
        to positions in a matrix."""
        offsets = self.own_pieces(addresses[: _MATRIX * count], 16, "ldmatrix")
        if by is not None:
            by.lay_out(offsets)
            self.machine.races.load(by, self.shared.shadow, offsets // 16, 16)
        rows = self.shared.load_words(offsets, np.dtype(np.uint16), _MATRIX, None)
        if rows is None:  # the element-wise path reports the problem
            rows = self.shared.load((offsets[:, None] + _INSIDE).reshape(-1), 2)
        return np.ascontiguousarray(rows.reshape(count, _MATRIX**2)[:, places]).view(np.uint32)

    def store_matrices(self, addresses: Addresses, words: Sequence[LaneValues], places: Addresses, by: Thread | None) -> None:
        """The inverse of `load_matrices`."""
        count = len(words)
        offsets = self.own_pieces(addresses[: _MATRIX * count], 16, "stmatrix")
        values = np.empty((count, _MATRIX**2), np.uint16)
        values[:, places] = np.stack(words).view(np.uint16)
        rows = values.reshape(-1, _MATRIX)
        if by is not None:
            by.lay_out(offsets)
            # Warps that hold copies of a matrix store the same values.
            same = functools.partial(self.shared.has, offsets, rows)
            self.machine.races.store(by, self.shared.shadow, offsets // 16, 16, same)
        changed = self.shared.store_words(offsets, rows, None, None)
        if changed is None:  # the element-wise path reports the problem
            changed = self.shared.store((offsets[:, None] + _INSIDE).reshape(-1), rows.reshape(-1), 2)
        self.machine.progress += changed

    def strong(self, warp: Accessing, space: Space, addresses: Addresses, size: int, use: StrongUse) -> None:
        """Strong accesses (atomic, volatile, relaxed, acquire, release) of the active lanes: marks, and synchronisation between threads."""
        if warp.watched is None or not addresses.size:
            return
        if space == "generic":
            for one, part, _ in self._by_window(addresses):
                self.strong(warp, one, part, size, use)
        elif space == "global":
            for allocation, offsets in self.machine.memory.by_allocation(addresses):
                if allocation.shadow is not None:
                    data = allocation.data
                    inside = _inside(offsets, size, data.size)
                    self.machine.races.strong(warp.watched, allocation.shadow, inside, size, use, data)
        elif space in ("shared", "cluster"):
            for owner, offsets, _ in self._by_owner(addresses):
                shared = owner.shared
                inside = _inside(offsets, size, shared.size)
                self.machine.races.strong(warp.watched, shared.shadow, inside, size, use, shared.data)

    def _flat(self, warp: Accessing, space: Space) -> FlatMemory:
        if space == "param":
            return self.machine.parameters
        return self.machine.constants if space == "const" else self.local_memory(warp)

    def _flat_address(self, warp: Accessing, space: Space, addresses: Addresses, size: int, lanes: Addresses | None) -> Addresses:
        if space != "local":
            return addresses
        own = self.image.local_bytes
        if ((addresses < 0) | (addresses + size > own)).any():
            raise SimulationError(
                "out_of_bounds", f"local address 0x{int(addresses.max()):x} is outside the {own} bytes of the thread"
            )
        if lanes is None:
            lanes = LANE if addresses.size == LANES else np.flatnonzero(warp.active)
        return addresses + lanes * own

    def _by_window(self, addresses: Addresses) -> list[tuple[Space, Addresses, Chosen]]:
        """Generic addresses by window. A warp nearly always accesses one."""
        # No lane is active, so there is no first address to determine the window.
        if not addresses.size:
            return [("global", addresses, slice(None))]
        windows = addresses & ~0xFF_FFFF_FFFF
        first = int(windows[0])
        if (windows == first).all():
            return [(*_in_window(first, addresses), slice(None))]
        split = [(int(window), windows == window) for window in np.unique(windows)]
        return [(*_in_window(window, addresses[chosen]), chosen) for window, chosen in split]

    def _by_owner(self, addresses: Addresses) -> list[tuple[Owner, Addresses, Chosen]]:
        """shared::cluster addresses by the CTA that they name."""
        ranks = addresses >> RANK_SHIFT
        if not addresses.size or (ranks == ranks[0]).all():
            owner = self.peer(int(addresses[0]), "memory access") if addresses.size else self
            return [(owner, addresses & OFFSET_MASK, slice(None))]
        split = [(int(rank) << RANK_SHIFT, ranks == rank) for rank in np.unique(ranks)]
        return [(self.peer(owner, "memory access"), addresses[chosen] & OFFSET_MASK, chosen) for owner, chosen in split]

    def read_bytes(self, space: Space, address: int, count: int, warp: Accessing) -> bytes:
        """`count` bytes anywhere, for descriptors; `space` as in `load`."""
        saved, warp.active = warp.active, np.zeros(LANES, bool)
        try:
            return self.load(warp, space, np.arange(address, address + count, dtype=np.int64), 1).tobytes()
        finally:
            warp.active = saved


def _lanes_of(warp: Accessing, space: Space, lanes: Addresses | None, chosen: Chosen) -> Addresses | None:
    """Whose addresses a part is, as `lanes` says of the whole: each lane has local memory of its own. Elsewhere the addresses need not
    be by lane: those of an atomic operation are by place."""
    if isinstance(chosen, slice) or space != "local":
        return lanes
    return (np.flatnonzero(warp.active) if lanes is None else lanes)[chosen]


def _in_window(window: int, addresses: Addresses) -> tuple[Space, Addresses]:
    space = space_of(window)
    if space == "global":
        return space, addresses
    return "cluster" if space == "shared" else space, addresses - window


def _joined(count: int, parts: list[tuple[LaneValues, Chosen]]) -> LaneValues:
    """The parts of a split load, put back into the order of its addresses."""
    if len(parts) == 1:
        return parts[0][0]
    whole = np.zeros(count, parts[0][0].dtype)
    for part, chosen in parts:
        whole[chosen] = part
    return whole


def _inside(offsets: Addresses, size: int, end: int) -> Addresses:
    """Where a rejected access leaves marks: only inside the memory."""
    return offsets[(offsets >= 0) & (offsets + size <= end)]
