"""What was last done to each place of a memory: the shadow on which races show.

A place is some bytes (or 16 lanes by one column of tensor memory). For each the shadow has a number for the set of accesses that
wrote it last, and one for those that read it since. Sets are made once and shared, so that a tile is marked by one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...ptx.types import Addresses
from ...units.layouts import Tile
from .clocks import Clock, Signal, Thread

Proxy = Literal["generic", "async", "either", "tensor"]
Scope = Literal["cta", "cluster", "gpu", "sys"]
Memory = Literal["shared", "global", "tensor"]
Cells = np.ndarray
Index = Addresses | slice  # one number for each piece, or a run of places
NOBODY = 0
_FEW = 128
_COLLECT = 1 << 17
# Of the accesses to one place that nothing orders: who comes after so many of the last has almost surely waited for all.
_MOST = 31
_LOGGED_CELLS, _LOGGED_ENTRIES = 1 << 22, 1 << 14


@dataclass(eq=False, slots=True)
class Access:
    """One thing that the warp `thread` did, or set going, at the instruction `pc` and at its `time`.

    `what` names an operation; an access that is over at once is called as its instruction is. `ends`: any of these (actor, time)
    tells that it is over; None: it is over at once, empty: it is under way. `pipe`: it went through the tensor pipe, which keeps
    the order of issue. `scope`: of an access that is strong (atomic, volatile, relaxed, acquire, release).
    `tile`: of a tensor copy, what it writes.
    """

    what: str
    thread: Thread
    pc: int
    time: int
    writes: bool
    proxy: Proxy = "generic"
    ends: tuple[tuple[int, int], ...] | None = None
    pipe: bool = False
    scope: Scope | None = None
    tile: Tile | None = None

    def over(self, clock: Clock, actor: int = -1) -> bool:
        """Whether `clock` knows that it is over; for `actor` itself its own accesses are."""
        if self.ends is None:
            return self.issued(clock, actor)
        reached = self.thread.actors.reached
        return any(reached(clock, one, time) for one, time in self.ends)

    def issued(self, clock: Clock, actor: int) -> bool:
        return self.thread.number == actor or self.thread.actors.reached(clock, self.thread.number, self.time)


class Sets:
    """All sets of accesses that some place has, by number; 0 is the empty one."""

    def __init__(self) -> None:
        self.members: list[tuple[Access, ...]] = [()]
        self.numbers: dict[tuple[Access, ...], int] = {(): NOBODY}
        self.successors: dict[tuple[int, Access], int] = {}
        self.free: list[int] = []
        self.limit = _COLLECT

    def number(self, members: tuple[Access, ...]) -> int:
        found = self.numbers.get(members)
        if found is not None:
            return found
        if self.free:
            found = self.free.pop()
            self.members[found] = members
        else:
            found = len(self.members)
            self.members.append(members)
        self.numbers[members] = found
        return found

    def alone(self, access: Access) -> int:
        return self.number((access,))

    def joined(self, old: int, access: Access, clock: Clock) -> int:
        """`old` and `access`, without those that `access` comes after."""
        if old == NOBODY:
            return self.number((access,))
        key = old, access
        found = self.successors.get(key)
        if found is None:
            left = tuple(one for one in self.members[old] if not _covered(one, access, clock))[-_MOST:]
            found = self.successors[key] = self.number((*left, access))
        return found

    @property
    def full(self) -> bool:
        return len(self.members) - len(self.free) > self.limit

    def collect(self, used: Iterable[Cells]) -> None:
        """Forgets the sets that no shadow has."""
        live = np.zeros(len(self.members), bool)
        live[NOBODY] = True
        for cells in used:
            live[cells] = True
        self.successors.clear()
        known = set(self.free)
        for number in np.flatnonzero(~live).tolist():
            if number not in known:
                del self.numbers[self.members[number]]
                self.members[number] = ()
                self.free.append(number)
        self.limit = max(_COLLECT, 2 * (len(self.members) - len(self.free)))


def _covered(old: Access, new: Access, clock: Clock) -> bool:
    """Whoever comes after `new` comes after `old`."""
    if old is new:
        return True
    if new.scope is not None and old.scope is None:
        # Other strong accesses need not come after `new`.
        return False
    if old.ends is None:
        return old.over(clock, new.thread.number if new.ends is None else -1)
    if new.ends and old.ends and old.ends[0][0] == new.ends[0][0]:
        return old.ends[0][1] <= new.ends[0][1]
    return old.over(clock)


class Shadow:
    """Of `size` bytes, in places of `granule` bytes; finer once something smaller is touched. Made on first use."""

    def __init__(self, kind: Memory, size: int, granule: int, place: Callable[[int], str]) -> None:
        self.kind, self.size, self.granule, self.place = kind, size, granule, place
        self.writes = self.reads = np.zeros(0, np.int32)
        self.rows: dict[int, tuple[Cells, Cells]] = {}
        self.log: ReadLog | None = None
        self.signals: dict[int, Signal] = {}  # by address
        self.filled_by: Callable[[int], int] = lambda address: -1  # the mbarrier that tells which stage an address belongs to

    def of(self, size: int) -> tuple[Cells, Cells]:
        """(writers, readers) of pieces of `size` bytes, by the number of the piece; a piece may be several places."""
        found = self.rows.get(size)
        return found if found is not None else self._made(size)

    def _made(self, size: int) -> tuple[Cells, Cells]:
        if not self.writes.size:
            self.granule = min(self.granule, size)
            count = -(-self.size // 128) * 128 // self.granule
            self.writes, self.reads = np.zeros(count, np.int32), np.zeros(count, np.int32)
        if size < self.granule:
            times = self.granule // size
            self.writes, self.reads = np.repeat(self.writes, times), np.repeat(self.reads, times)
            self.granule = size
            self.rows.clear()
        each = size // self.granule
        shape = (-1, each) if each > 1 else (-1,)
        self.rows[size] = found = self.writes.reshape(shape), self.reads.reshape(shape)
        return found

    @property
    def cells(self) -> tuple[Cells, Cells]:
        return self.of(self.granule)

    def pieces(self, places: Addresses, size: int) -> Index:
        """The places of pieces of `size` bytes."""
        self.of(size)
        each = size // self.granule
        return places if each == 1 else (places[:, None] * each + np.arange(each)).reshape(-1)


class ReadLog:
    """Reads of a memory that nobody has written: they matter once somebody does."""

    def __init__(self) -> None:
        self.entries: list[tuple[Access, Addresses, int]] = []
        self.cells = 0

    def note(self, access: Access, index: Addresses, size: int) -> bool:
        """Whether there is room for more."""
        self.entries.append((access, index, size))
        self.cells += index.size
        return self.cells < _LOGGED_CELLS and len(self.entries) < _LOGGED_ENTRIES


def distinct(cells: Cells) -> set[int]:
    """The numbers in `cells`; few as a rule."""
    if cells.size <= _FEW:
        return set(cells.ravel().tolist())
    low, high = int(cells.min()), int(cells.max())
    if low == high:
        return {low}
    between = cells[(cells != low) & (cells != high)]
    return {low, high, *(np.unique(between).tolist() if between.size else ())}
