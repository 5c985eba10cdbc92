"""All sets of accesses recorded for any place, by number: in columns, where machine code reads and writes them (`compiled.access`), and
as tuples where the columns do not suffice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from pipec.record import mutable

from ...compiled import blocks as native
from ...ptx.types import Addresses
from ...units.layouts import Tile
from .clocks import Clock, Knowledge
from .thread import COPY, Thread

Proxy = Literal["generic", "async", "either", "tensor"]
Scope = Literal["cta", "cluster", "gpu", "sys"]
Cells = np.ndarray
NOBODY = 0
_COLLECT = 1 << 14
# Maximum number of sets created without a check whether old ones should be freed.
_SPARE = 1 << 10
_COLUMNS = (native.OF_THREAD, native.OF_PC, native.OF_TIME, native.OF_MEET, native.OF_REST, native.OF_DEPTH)


@mutable(eq=False)
class Access:
    """An access that the warp `thread` performed or started at the instruction `pc` and at its `time`.

    `what` names an operation; a synchronous access is named after its instruction. `ends`: any of these (actor, time) shows its
    completion; None: it is synchronous, empty: it is in progress. `pipe`: it went through the tensor pipe, which keeps the order of
    issue. `scope`: of a strong access (atomic, volatile, relaxed, acquire, release). `tile`: what a tensor copy writes or takes;
    `copied`: source and destination of any copy. `behind`: what its warp knew when it issued a copy to shared memory. `lanes`: the offset
    in shared memory, by lane, to which each one's cp.async copies so many bytes, -1 for an inactive lane.
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
    copied: object = None
    behind: Knowledge | None = None
    lanes: tuple[Addresses, int] | None = None

    @property
    def made(self) -> tuple[Thread, int, int]:
        """By whom, at which instruction and when."""
        return self.thread, self.pc, self.time

    @property
    def plain(self) -> bool:
        """Whether it is an ordinary load or store."""
        return self.ends is None and self.scope is None and self.proxy == "generic"

    def over(self, clock: Clock, actor: int = -1) -> bool:
        """Whether `clock` covers its completion; `actor`'s own accesses always count as complete for it."""
        if self.ends is None:
            return self.issued(clock, actor)
        if self.lanes is not None and (self.unwaited or (actor != self.thread.number and self._loose(clock))):
            return False
        return self._ended(clock)

    @property
    def unwaited(self) -> bool:
        """Whether it is a copy for which some of its lanes have waited, and others have not."""
        return self.lanes is not None and bool(self.ends) and self.ends is not None and self.ends[0][1] in self.thread.unwaited

    def _ended(self, clock: Clock) -> bool:
        reached = self.thread.actors.reached
        # A loop, since this is evaluated for every pair of conflicting operations.
        for one, time in self.ends or ():
            if clock.get(one, 0) >= time or reached(clock, one, time):
                return True
        return False

    def _loose(self, clock: Clock) -> bool:
        """Whether other lanes than those of a copy have signalled behind a wait for it, and `clock` covers no meeting of theirs since."""
        late, ends = self.thread.late, self.ends or ()
        time = late.get((COPY, ends[0][1]), 0) if late and ends else 0
        return time > 0 and not self.thread.actors.reached(clock, self.thread.number, time)

    def issued(self, clock: Clock, actor: int) -> bool:
        thread = self.thread
        if thread.number == actor:
            return True
        time = thread.late.get((self.pc, self.time), self.time) if thread.late and self.writes else self.time
        return thread.actors.reached(clock, thread.number, time)

    def passed(self, clock: Clock) -> bool:
        """Whether `clock` covers its completion, or a time behind it, such as that of a fence by all lanes or of a signal by some."""
        return self._ended(clock) if self.ends is not None else self.thread.actors.reached(clock, self.thread.number, self.time)


class Ledger:
    """Sets of accesses by number; 0 is the empty one. `block` is the pointer table through which machine code finds the columns."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self.known: dict[int, tuple[Access, ...]] = {NOBODY: ()}
        self.numbers: dict[tuple[Access, ...], int] = {(): NOBODY}
        self.successors: dict[tuple[int, Access], int] = {}
        self.block = np.zeros(native.LEDGER_WORDS, np.int64)
        self.words = self.block.data
        self.free = np.zeros(0, np.int32)
        self.columns = {place: np.zeros(0, np.int32) for place in _COLUMNS}
        self.words[native.NEXT // 8] = 1
        self._limit(_COLLECT)

    def _limit(self, limit: int) -> None:
        """Makes room for `limit` sets."""
        self.limit = limit
        room = limit + _SPARE
        for place, column in self.columns.items():
            self.columns[place] = whole = np.empty(room, np.int32)
            whole[: column.size] = column
            whole[NOBODY] = 0
            self.words[place // 8] = whole.ctypes.data
        free = np.empty(room, np.int32)
        free[: self.free.size] = self.free
        self.free = free
        self.words[native.FREE // 8] = free.ctypes.data
        self.words[native.LIMIT // 8] = limit
        self.cells = {place: column.data for place, column in self.columns.items()}

    def enter(self, threads: Sequence[Thread]) -> range:
        """The numbers of a CTA's warps as accessing threads, followed by those of their copies (cp.async)."""
        first, count = len(self.threads), len(threads)
        self.threads += [*threads, *threads]
        return range(first, first + count)

    def actor(self, number: int) -> int:
        """The actor whose clock times the accesses of a warp, or of its copies."""
        thread = self.threads[number]
        return thread.number if number == thread.who_number else thread.agents["cp.async"]

    @property
    def early(self) -> int:
        """Whether accesses to global memory are told that do not come after the preceding grid: 1 stores, 2 loads as well."""
        return int(self.words[native.EARLY // 8])

    @early.setter
    def early(self, told: int) -> None:
        self.words[native.EARLY // 8] = told

    # ---- sets

    def members(self, number: int) -> tuple[Access, ...]:
        found = self.known.get(number)
        if found is None:
            cells = self.cells
            thread, code = self.threads[cells[native.OF_THREAD][number]], cells[native.OF_PC][number]
            access = _ordinary(thread, code >> 1, cells[native.OF_TIME][number], bool(code & 1))
            others = self.members(cells[native.OF_REST][number])
            found = self.known[number] = (*(one for one in others if one is not access), access)
            self.numbers.setdefault(found, number)
        return found

    def number(self, members: tuple[Access, ...]) -> int:
        found = self.numbers.get(members)
        if found is not None:
            return found
        rest = NOBODY
        if len(members) > 1 and all(one.plain for one in members):
            # The columns have room for one access and the number of the remaining set.
            known = next((size for size in range(len(members) - 1, 0, -1) if members[:size] in self.numbers), 0)
            rest = self.numbers[members[:known]]
            for size in range(known + 1, len(members)):
                rest = self._entered(members[:size], rest)
        return self._entered(members, rest)

    def _entered(self, members: tuple[Access, ...], rest: int) -> int:
        """A number for a set that has none; `rest`: the number of all but its last member, where all are ordinary."""
        words = self.words
        if words[native.FREE_COUNT // 8]:
            words[native.FREE_COUNT // 8] -= 1
            found = int(self.free[words[native.FREE_COUNT // 8]])
        else:
            found = words[native.NEXT // 8]
            words[native.NEXT // 8] = found + 1
            if found + 1 >= self.free.size:
                self._limit(2 * self.limit)
        self.known[found] = members
        self.numbers[members] = found
        last, cells = members[-1], self.cells
        thread, time, depth = -1, last.time, 0
        if last.plain:
            thread, depth = last.thread.who_number, len(members) if rest or len(members) == 1 else 0
        elif len(members) == 1 and (copied := last.thread.copy_over(last.ends)) is not None and last.writes:
            (thread, time), depth = copied, 1
        cells[native.OF_THREAD][found] = thread
        cells[native.OF_PC][found] = 2 * last.pc + last.writes
        cells[native.OF_TIME][found] = time
        cells[native.OF_MEET][found] = -1
        cells[native.OF_REST][found] = rest
        cells[native.OF_DEPTH][found] = depth
        return found

    def alone(self, access: Access) -> int:
        return self.number((access,))

    def joined(self, old: int, access: Access, clock: Clock) -> int:
        """`old` and `access`, without the members that precede `access`."""
        if old == NOBODY:
            return self.number((access,))
        key = old, access
        found = self.successors.get(key)
        if found is None:
            # Anything ordered after the new access is ordered after those that it covers, so they need not be kept.
            left = tuple(one for one in self.members(old) if not _covered(one, access, clock))[-native.MOST :]
            found = self.successors[key] = self.number((*left, access))
        return found

    def replaced(self, earlier: int, stored: int, loaded: int, access: Access, clock: Clock) -> int:
        """What the store `access` replaces: the accesses `earlier`, the set `stored` if that is one ordinary store that precedes it, and
        the ordinary loads `loaded`. For each instruction of a warp, the last execution stands for those before it."""
        stores, loads = self.members(stored), self.members(loaded)
        fresh = [one for one in (*stores, *loads) if one.plain and one.over(clock, access.thread.number)]
        if len(stores) > 1 or (stores and stores[0].thread is access.thread and stores[0].pc == access.pc):
            fresh = [one for one in fresh if not one.writes]
        if not fresh:
            return earlier
        places = {(one.thread.number, one.pc, one.writes) for one in fresh}
        kept = [one for one in self.members(earlier) if (one.thread.number, one.pc, one.writes) not in places]
        return self.number((*kept, *fresh)[-native.MOST :])

    def latest(self, numbers: Iterable[int]) -> tuple[dict[int, int], dict[int, int], list[int]]:
        """For sets of ordinary accesses and of cp.async copies, without creating objects for them: the last time at which each thread
        has read and written, by its number; and the other sets."""
        cells = self.cells
        threads, codes, times, rests = cells[native.OF_THREAD], cells[native.OF_PC], cells[native.OF_TIME], cells[native.OF_REST]
        depths, read, written, others = cells[native.OF_DEPTH], dict[int, int](), dict[int, int](), list[int]()
        for number in numbers:
            if number and not depths[number]:
                others.append(number)
                continue
            while number:
                by = written if codes[number] & 1 else read
                who, time = threads[number], times[number]
                if by.get(who, -1) < time:
                    by[who] = time
                number = rests[number]
        return read, written, others

    def stores(self, numbers: Iterable[int]) -> frozenset[tuple[int, int]] | None:
        """The (warp, program counter) of each store or cp.async copy among sets of ordinary accesses; None where there are others."""
        cells, warps = self.cells, self.threads
        threads, codes, rests, depths = (
            cells[native.OF_THREAD],
            cells[native.OF_PC],
            cells[native.OF_REST],
            cells[native.OF_DEPTH],
        )
        found = set[tuple[int, int]]()
        for number in numbers:
            if number and not depths[number]:
                return None
            while number:
                if codes[number] & 1:
                    found.add((warps[threads[number]].index, codes[number] >> 1))
                number = rests[number]
        return frozenset(found)

    def others(self, numbers: Iterable[int]) -> list[int]:
        """The sets that contain more than ordinary accesses."""
        depths = self.cells[native.OF_DEPTH]
        return [number for number in numbers if number and not depths[number]]

    # ---- the lanes of a warp

    def touched(self, thread: Thread, numbers: Iterable[int]) -> None:
        """`thread` has just marked places with these sets."""
        meets, meet = self.cells[native.OF_MEET], thread.meet
        for number in numbers:
            meets[number] = meet

    def of_lanes(self, thread: Thread, numbers: set[int]) -> set[int]:
        """The sets with which `thread` has marked places since its lanes last converged, and those of its copies that waits have covered
        since then."""
        who, meets = self.cells[native.OF_THREAD], self.cells[native.OF_MEET]
        own, meet = thread.who_number, thread.meet
        found = {number for number in numbers if number and who[number] == own and meets[number] >= meet}
        covered, unwaited = thread.covered_alone, thread.unwaited
        if covered or unwaited:
            times, copies = self.cells[native.OF_TIME], own + len(thread.peers)
            own_copies = (number for number in numbers if number and who[number] == copies)
            found |= {number for number in own_copies if times[number] in covered or times[number] in unwaited}
        return found

    def stored(self, thread: Thread, pc: int, number: int) -> bool:
        """Whether this set is a store of that thread alone."""
        cells = self.cells
        whose = cells[native.OF_THREAD][number], cells[native.OF_PC][number], cells[native.OF_REST][number]
        return number != NOBODY and whose == (thread.who_number, 2 * pc + 1, NOBODY)

    def loosen(self, thread: Thread, stores: Iterable[tuple[int, int]]) -> None:
        """Machine code no longer judges what these stores, by program counter and time, and copies (`COPY`) are ordered with."""
        used = slice(self.words[native.NEXT // 8])
        of = {place: self.columns[place][used] for place in (native.OF_THREAD, native.OF_TIME, native.OF_PC)}
        own = np.flatnonzero(of[native.OF_THREAD] == thread.who_number)
        copies = np.flatnonzero(of[native.OF_THREAD] == thread.who_number + len(thread.peers))
        for pc, time in stores:
            if pc == COPY:
                found = copies[of[native.OF_TIME][copies] == time]
            else:
                found = own[(of[native.OF_TIME][own] == time) & (of[native.OF_PC][own] == 2 * pc + 1)]
            self.columns[native.OF_DEPTH][found] = 0

    # ---- forgetting

    def forget(self) -> None:
        """Frees all sets: no queries follow."""
        for one in (self.threads, self.known, self.numbers, self.successors):
            one.clear()

    @property
    def full(self) -> bool:
        return self.words[native.NEXT // 8] - self.words[native.FREE_COUNT // 8] >= self.limit

    def collect(self, used: Iterable[Cells]) -> None:
        """Frees the sets that no shadow refers to."""
        words, rests = self.words, self.columns[native.OF_REST]
        count, free = words[native.NEXT // 8], words[native.FREE_COUNT // 8]
        live = np.zeros(count, bool)
        live[NOBODY] = True
        for cells in used:
            live[cells] = True
        fresh: Cells = np.flatnonzero(live)
        while fresh.size:
            rest: Cells = np.unique(rests[fresh])
            fresh = rest[~live[rest]]
            live[fresh] = True
        # They refer to sets by numbers that may now be reused.
        self.successors.clear()
        for number in [number for number in self.known if not live[number]]:
            members = self.known.pop(number)
            if self.numbers.get(members) == number:
                del self.numbers[members]
        dead = ~live
        dead[self.free[:free]] = False
        found = np.flatnonzero(dead)
        self.free[free : free + found.size] = found
        words[native.FREE_COUNT // 8] = free + found.size
        left = count - free - found.size
        # Otherwise the next collection would come soon, and free as little.
        if 2 * left > self.limit:
            self._limit(2 * left)
        for thread in self.threads:
            thread.numbers_changed()


def _ordinary(thread: Thread, pc: int, time: int, writes: bool) -> Access:
    """That thread's load or store at that time: the same object until it signals to others."""
    access: Access | None = thread.accesses.get((pc, writes))
    if access is None or access.time != time:
        access = Access("", thread, pc, time, writes)
        # (The record of a warp that has exited belongs to another one.)
        if thread.executed is not None and time == thread.time:
            thread.accesses[pc, writes] = access
    return access


def _covered(old: Access, new: Access, clock: Clock) -> bool:
    """Whether anything ordered after `new` is also ordered after `old`."""
    if old is new:
        return True
    if new.scope is not None and old.scope is None:
        # Other strong accesses need not be ordered after `new`.
        return False
    if old.ends is None:
        return old.over(clock, new.thread.number if new.ends is None else -1)
    if new.ends and old.ends and old.ends[0][0] == new.ends[0][0]:
        return old.ends[0][1] <= new.ends[0][1]
    return old.over(clock)
