"""Races: two accesses to one place, one of them a write, that are not ordered, whatever the timing was.

Each access is checked against the shadow's record of its place, and then recorded there. What is missing between two accesses is
reported in the order in which it would be fixed: a wait, a sufficient scope, a proxy fence.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from pipec.record import record

from ...compiled import blocks as native
from ...compiled.pieces import distinct
from ...errors import SimulationError
from ...ptx.types import Addresses, Bytes, LaneMask
from ..practice import PracticeName
from .accepted import Gap, accepted
from .clocks import Knowledge
from .lanes import by_other_lanes, stored_by_others
from .layouts import Layouts, Misreading
from .ledger import NOBODY, Access, Cells, Ledger, Scope
from .missing import ALLOCATION, Missing, all_over, missing_between, together
from .replaced import Same, forgiven, keep_replaced, replicated
from .shadow import Index, Shadow, places_of, where
from .signals import Signal, seen
from .sums import Sums
from .thread import Thread
from .unseen import Unseen

_NOW = 1 << 62  # later than any time of a warp
_FEW = 4  # sets of accesses that are checked one by one
_SIGNALS = 4  # places of one read-modify-write on which others may be waiting


@record
class StrongUse:
    """The effect of a strong instruction, and who observes it: threads within `scope`."""

    reads: bool
    writes: bool
    scope: Scope
    acquires: bool
    releases: bool


@record
class Race:
    """`old` came first in this run; `address` is the first byte (or place of tensor memory) where they overlap in `shadow`."""

    old: Access
    new: Access
    missing: Missing
    shadow: Shadow
    address: int


# An access, and the bytes that it touches of the memory with this shadow.
Early = Callable[[Access, Shadow, int, int], None]


class Races:
    """`complain` receives every race, with repetitions; `misread` as for `Layouts`, `by_fence` and `hides` as for `Unseen`. `unfenced`: the
    strong loads that may find nothing of a store before the signal that they come after."""

    def __init__(
        self,
        complain: Callable[[Race], None],
        misread: Callable[[Misreading], None] | None,
        unwritten: Callable[[SimulationError], None],
        practised: Callable[[PracticeName], bool],
        by_fence: bool = False,
        hides: bool = False,
    ) -> None:
        self.complain, self.unwritten, self.practised = complain, unwritten, practised
        # Loads, by program counter, of values that an atomic operation then checks.
        self.guesses: Callable[[], frozenset[int]] = frozenset
        self.preceding = 0  # the preceding grid, as an actor whose completion griddepcontrol.wait covers
        self._early: Early | None = None
        self.lanes = True  # whether to check for races among the lanes of a warp
        self.raced = self.forgiven = 0
        self.sets = Ledger()
        self.unseen, self.unfenced = Unseen(self.sets, by_fence, hides), list[Race]()
        self.layouts, self.sums = Layouts(self.sets, misread), Sums(misread)
        self.shadows: weakref.WeakSet[Shadow] = weakref.WeakSet()

    def watch_early(self, told: Early, watched: int) -> None:
        """`told` of accesses to global memory that are not ordered after a griddepcontrol.wait: 1 of stores, 2 of loads as well."""
        self._early, self.sets.early = told, watched

    def end(self) -> None:
        """No queries follow: frees thousands of access objects at once, which Python's garbage collector would have to find otherwise."""
        self.sets.forget()
        for shadow in self.shadows:
            shadow.drop_log()

    # ---- what warps do themselves

    def load(self, thread: Thread, shadow: Shadow, index: Index, size: int, scope: Scope | None = None) -> bool:
        """A load of pieces of `size` bytes, by number; returns whether it races. `scope`: of a strong load."""
        if self._early is not None and shadow.kind == "global":
            self._after_grid(thread.knowledge, self._own(thread, False, scope), shadow, index, size)
        if shadow.log is not None:
            access = self._own(thread, False, scope)
            if shadow.log.note(access, np.asarray(index), size):
                return False
            self._replay(shadow)
        before = self.raced
        writers, _ = shadow.of(size)
        found, loaded = shadow.marks(size).standing(index)
        access = self._own(thread, False, scope)
        if not found <= thread.after_writers:
            self._after_writers(thread, access, shadow, size, index, found)
        if scope is None and self.lanes and (stored := self.sets.of_lanes(thread, found)):
            self._among_lanes(thread, access, shadow, size, index, writers, stored)
        made = self._read(thread, access, shadow, size, index, loaded)
        if scope is None and self.lanes:
            self.sets.touched(thread, made)
        return self.raced != before

    def store(
        self, thread: Thread, shadow: Shadow, index: Index, size: int, same: Same | None = None, scope: Scope | None = None
    ) -> None:
        """`same`: whether memory already holds what some of the pieces are to hold."""
        if shadow.log is not None:
            self._replay(shadow)
        access = self._own(thread, True, scope)
        if self._early is not None and shadow.kind == "global":
            self._after_grid(thread.knowledge, access, shadow, index, size)
        writers, readers = shadow.of(size)
        marks = shadow.marks(size)
        found, loaded = marks.standing(index)
        forgiven_before = self.forgiven
        if not found <= thread.after_writers:
            self._after_writers(thread, access, shadow, size, index, found, same)
        before = readers[index].copy() if scope is None and shadow.kind != "tensor" else None
        if scope is None and self.lanes:
            if stored := self.sets.of_lanes(thread, found):
                self._among_lanes(thread, access, shadow, size, index, writers, stored)
            if own := self.sets.of_lanes(thread, loaded):
                self._among_lanes(thread, access, shadow, size, index, readers, own)
        self._after_readers(thread, access, shadow, size, index, readers, loaded)
        if scope is None:
            # A write ordered after all previous accesses stands for them: whatever comes after the write comes after the rest. Those that
            # may still have to be checked are kept separately.
            if before is not None and (found != {NOBODY} or before.any()):
                keep_replaced(self.sets, access, shadow, index, size, before, thread.knowledge.order)
            if self.forgiven == forgiven_before:
                number = self.sets.alone(access)
                marks.written(index, number)
                self.sets.touched(thread, (number,))
            else:
                # Accesses after this store need not be ordered after the store that it may race with, which may come late and overwrite
                # them.
                readers[index] = NOBODY
                self.sets.touched(thread, self._add(thread, access, writers, index))
            if self.sets.full:
                self._collect()
        else:
            readers[index] = NOBODY
            self._add(thread, access, writers, index)

    def _own(self, thread: Thread, writes: bool, scope: Scope | None) -> Access:
        """The access of the executing instruction; one object for all its executions until the warp signals to others."""
        thread.touched = True
        key, time = (thread.pc(), writes), thread.time
        access = thread.accesses.get(key)
        if access is None or access.time != time:
            access = thread.accesses[key] = Access("", thread, key[0], time, writes, scope=scope)
        return access

    def strong(self, thread: Thread, shadow: Shadow, offsets: Addresses, size: int, use: StrongUse, data: Bytes) -> None:
        """Accesses of some lanes to places where threads signal to each other; `data`: what the memory holds."""
        places = set(offsets.tolist())
        for place in places:
            if use.writes:
                self.unseen.stored(thread, shadow, place, data[place : place + size].tobytes())
            elif shadow.signals:
                for old in self.unseen.loaded(thread, shadow, place, size, data):
                    self.unfenced.append(Race(old, self._own(thread, False, use.scope), "fence", shadow, place))
        if use.reads:
            # Lanes may synchronise with each other this way.
            thread.lanes_met()
            for place in places:
                signal = shadow.signals.get(place)
                if signal is not None:
                    signal.read(thread, use.scope, use.acquires)
        mark = self.store if use.writes else self.load
        mark(thread, shadow, offsets // size, size, scope=use.scope)
        # A read-modify-write of many places at once is a count, not a signal.
        if use.writes and (not use.reads or len(places) <= _SIGNALS):
            if (lanes := thread.active()) is not None:
                self.some_signal(thread, lanes)
            for place in places:
                signal = shadow.signals.get(place)
                if signal is None:
                    signal = shadow.signals[place] = Signal(thread.actors)
                signal.write(thread, use.scope, use.releases)
            thread.in_part = False

    def some_signal(self, thread: Thread, lanes: LaneMask) -> None:
        """These lanes of a warp are about to signal: that does not cover what other lanes have stored since all have met."""
        if thread.executed is None or not self.lanes:
            return
        stores = []
        for pc, made in thread.executed.stored_by_others(lanes):
            if not self.sets.stored(thread, pc, made):
                access = thread.accesses.get((pc, True))
                made = NOBODY if access is None else self.sets.numbers.get((access,), NOBODY)
            if made and self.sets.of_lanes(thread, {made}):
                stores.append((pc, self.sets.cells[native.OF_TIME][made]))
        stores += thread.copied_by_others(lanes)
        thread.some_signal(stores)
        if stores:
            self.sets.loosen(thread, stores)

    # ---- what they set going

    def begin(
        self,
        thread: Thread,
        access: Access,
        shadow: Shadow,
        index: Index,
        knowledge: Knowledge | None = None,
        size: int = 0,
        same: Same | None = None,
    ) -> None:
        """An operation that `thread` issues; `index` are pieces of `size` bytes (0: places). `knowledge`: what the warp knew at the
        issue, if that is past. `same`: as for `store`."""
        if self._early is not None and shadow.kind == "global":
            self._after_grid(knowledge or thread.knowledge, access, shadow, index, size or shadow.granule)
        if shadow.log is not None:
            if not access.writes and shadow.log.note(access, np.asarray(index), size or shadow.granule):
                return
            self._replay(shadow)
        size = size or shadow.granule
        writers, readers = shadow.of(size)
        marks = shadow.marks(size)
        found, loaded = marks.standing(index)
        if found != {NOBODY}:
            self._check(thread, access, shadow, size, index, writers, found, knowledge, same)
            if self.lanes and not access.writes and shadow.kind == "shared":
                for number, old in stored_by_others(self.sets, thread, found, np.asarray(_numbers(index)), size):
                    self.complain(Race(old, access, _between_lanes(old), shadow, where(writers, index, number, size)))
        if not access.writes:
            self._read(thread, access, shadow, size, index, loaded)
            return
        if loaded != {NOBODY}:
            self._check(thread, access, shadow, size, index, readers, loaded, knowledge)
        if access.lanes is not None and self.lanes:
            for cells, numbers in ((writers, found), (readers, loaded)):
                if own := self.sets.of_lanes(thread, numbers):
                    self._among_lanes(thread, access, shadow, size, index, cells, own)
        # An atomic does not replace the recorded accesses: others to the same place are concurrent with it, and all of them have to be
        # ordered before an ordinary access.
        if access.scope is None:
            marks.written(index, self.sets.alone(access))
        else:
            readers[index] = NOBODY
            self._add(thread, access, writers, index)

    def _after_grid(self, knowledge: Knowledge, access: Access, shadow: Shadow, index: Index, size: int) -> None:
        """Reports accesses that are not ordered after a griddepcontrol.wait."""
        if self._early is None or self.sets.early + access.writes < 2 or self.preceding in knowledge.order:
            return
        first, last = (index.start, index.stop - 1) if isinstance(index, slice) else (int(np.min(index)), int(np.max(index)))
        self._early(access, shadow, first * size, (last + 1) * size)

    # ---- tensor maps

    def map_used(self, thread: Thread, shadow: Shadow, index: Index, size: int) -> None:
        """A tensor copy reads its map there, through a proxy of its own."""
        if not shadow.writes.size:
            return
        writers, _ = shadow.of(size)
        fenced = thread.maps_read_after()
        for number in distinct(writers[index]):
            for old in self.sets.members(number):
                if any(old.over(clock) for clock in fenced):
                    continue
                # With the order alone the map may still be read from the tensormap proxy's own cache (PTX ISA, fence.proxy.tensormap).
                missing: Missing = "tensormap" if old.over(thread.knowledge.order, thread.number) else "wait"
                self.raced += 1
                access = Access("tensor map", thread, thread.pc(), thread.time, False, "async", ())
                self.complain(Race(old, access, missing, shadow, where(writers, index, number, size)))

    def forget(self, shadow: Shadow, index: Index) -> None:
        """Later accesses to these places are not checked against earlier ones."""
        for cells in shadow.of(shadow.granule):
            cells[index] = NOBODY

    def on_object(self, thread: Thread, old: Access, writes: bool, shadow: Shadow, address: int, missing: Missing) -> None:
        """`thread` uses the object at `address` without being ordered after `old`, its initialisation, or ends its life (`writes`)
        without being ordered after `old`, a use."""
        self.raced += 1
        self.complain(Race(old, self._own(thread, writes, None), missing, shadow, address))

    # ---- marks

    def note(self, access: Access, shadow: Shadow, index: Index, size: int) -> None:
        """Later accesses are checked against `access`, which itself is not checked."""
        if shadow.log is not None:
            self._replay(shadow)
        _, loaded = shadow.marks(size).standing(index)
        self._read(access.thread, access, shadow, size, index, loaded)

    def _read(self, thread: Thread, access: Access, shadow: Shadow, size: int, index: Index, found: set[int]) -> set[int]:
        """`access` has read these pieces, whose reader sets are `found`; returns their reader sets now."""
        made = {one: self.sets.joined(one, access, thread.knowledge.settled) for one in found}
        marks = shadow.marks(size)
        if len(made) > 1:
            marks.read_after(index, made)
        else:
            for one, new in made.items():
                if new != one:
                    marks.read(index, new)
        if self.sets.full:
            self._collect()
        return set(made.values())

    def _add(self, thread: Thread, access: Access, cells: Cells, index: Index) -> set[int]:
        """The sets recorded there now."""
        clock, old = thread.knowledge.settled, cells[index]
        made = {one: self.sets.joined(one, access, clock) for one in distinct(old)}
        marks = np.empty_like(old)
        for one, new in made.items():
            marks[old == one] = new
        cells[index] = marks
        if self.sets.full:
            self._collect()
        return set(made.values())

    def _collect(self) -> None:
        shadows = list(self.shadows)
        cells = [one for shadow in shadows for one in (shadow.writes, shadow.reads, shadow.replaced)]
        self.sets.collect([*cells, *(shadow.log.numbers for shadow in shadows if shadow.log is not None)])

    def _replay(self, shadow: Shadow) -> None:
        """Marks the reads that were only logged so far."""
        for access, index, size in shadow.end_log(self.sets):
            _, readers = shadow.of(size)
            old = readers[index]
            marks = np.empty_like(old)
            for one in distinct(old):
                marks[old == one] = self.sets.joined(one, access, {})
            readers[index] = marks

    # ---- verdicts

    def _after_writers(
        self, thread: Thread, access: Access, shadow: Shadow, size: int, index: Index, found: set[int], same: Same | None = None
    ) -> None:
        writers, _ = shadow.of(size)
        ordered = self._check(thread, access, shadow, size, index, writers, found - thread.after_writers, None, same)
        thread.comes_after_writers(ordered)

    def _after_readers(
        self, thread: Thread, access: Access, shadow: Shadow, size: int, index: Index, readers: Cells, found: set[int]
    ) -> None:
        if found != {NOBODY} and not found <= thread.after_readers:
            found = found - thread.after_readers
            thread.comes_after_readers(self._check(thread, access, shadow, size, index, readers, found, None))

    def _check(
        self,
        thread: Thread,
        access: Access,
        shadow: Shadow,
        size: int,
        index: Index,
        cells: Cells,
        found: set[int],
        knowledge: Knowledge | None,
        same: Same | None = None,
    ) -> set[int]:
        """Reports accesses that are not ordered before `access`; returns the sets all of whose accesses are."""
        # For an operation issued earlier: its own warp's accesses since then are not ordered with it.
        issued = _NOW if knowledge is None else access.time
        knowledge, ordered = knowledge or thread.knowledge, set[int]()
        if len(found) > _FEW and all_over(self.sets, thread, knowledge, access, shadow, found, issued):
            return found
        # The most common case, recognised here, since operations ask this of every piece of a ring again and again.
        plainly = shadow.kind != "tensor" and access.proxy == "generic" and knowledge.values is knowledge.order
        for number in found:
            clean = True
            for old in self.sets.members(number):
                if plainly and old.scope is None and old.over(knowledge.order, thread.number):
                    continue
                # An instruction that accesses a place twice does not race with itself.
                if old is access:
                    continue
                if old.thread is thread and old.unwaited:
                    clean = False  # `_among_lanes` judges it
                    continue
                if old.scope is not None and together(old, access):
                    clean = False
                    continue
                since = old.time > issued and old.thread is thread and old.ends is None
                missing = "wait" if since else missing_between(thread, knowledge, old, access, shadow)
                if missing is None:
                    continue
                clean = False
                if missing == "values" and access.writes and old.scope is not None:
                    places = places_of(cells, index, number, size)
                    if seen(thread, old.thread.number, old.time, shadow.signals, places):
                        continue
                if accepted(Gap(thread, old, access, missing, shadow, self.guesses), self.practised):
                    continue
                if old.what == ALLOCATION and access.proxy == "async" and not access.writes:
                    place = shadow.place(where(cells, index, number, size))
                    self.unwritten(
                        SimulationError(
                            "uninitialised", f"{access.what} reads {place}, where there is but an address of tensor memory"
                        )
                    )
                    continue
                if forgiven(old, access, shadow, cells, index, number, same, self.practised):
                    self.forgiven += 1
                    if old.writes and shadow.kind != "tensor":
                        self._check_replaced(thread, knowledge, access, shadow, size, index, cells[index] == number)
                    continue
                self.raced += 1
                self.complain(Race(old, access, missing, shadow, where(cells, index, number, size)))
            if clean:
                ordered.add(number)
        return ordered

    def _check_replaced(
        self, thread: Thread, knowledge: Knowledge, access: Access, shadow: Shadow, size: int, index: Index, marks: np.ndarray
    ) -> None:
        """Reports races with what the last store replaced at the marked places: that this store is harmless says nothing about the
        accesses before it. In another run `access` might have come between the two."""
        cells = shadow.replaced_by(size)
        for number in distinct(cells[index][marks]) - {NOBODY}:
            for old in self.sets.members(number):
                # Whether an overwritten store stored the same value is unknown.
                if old.writes == access.writes or missing_between(thread, knowledge, old, access, shadow) is None:
                    continue
                if not replicated(old, access, shadow, cells, index, number):
                    self.raced += 1
                    self.complain(Race(old, access, "wait", shadow, where(cells, index, number, size)))

    def _among_lanes(
        self, thread: Thread, access: Access, shadow: Shadow, size: int, index: Index, cells: Cells, numbers: set[int]
    ) -> None:
        """Reports where another lane of the warp has accessed these places and the lanes have not converged since."""
        if not isinstance(index, slice):
            for number, old in by_other_lanes(self.sets, thread, access, shadow, size, numbers):
                self.complain(Race(old, access, _between_lanes(old), shadow, where(cells, index, number, size)))


def _between_lanes(old: Access) -> Missing:
    return "lanes of a wait" if old.unwaited else "lanes"


def _numbers(index: Index) -> Addresses:
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index.reshape(-1)
