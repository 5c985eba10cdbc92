"""The lanes of a warp, split into fragments by divergence.

A fragment is a set of lanes with one program counter. A divergent branch makes two fragments and a Join at the
branch's immediate post-dominator, where they wait for each other; a join is given up only when nothing else in the
cluster can move, so that independent thread progress (PTX ISA 3.1) holds and `.aligned` instructions after an if
still see the whole warp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from pipec.record import mutable, record

from ...ptx.flow import NOWHERE
from ...ptx.types import LANES, LaneMask, LaneValues

WaitKind = Literal["mbarrier", "barrier", "cluster", "group", "tmem", "registers", "sleep", "converge", "merged"]


class Join:
    """Lanes of `expected` reconverge at `pc`; those of `arrived` are there already."""

    __slots__ = ("arrived", "expected", "parents", "pc", "progress", "since")

    def __init__(self, pc: int, expected: LaneMask, parents: tuple[Join, ...]) -> None:
        self.pc, self.expected, self.parents = pc, expected, parents
        self.arrived = np.zeros(LANES, bool)
        self.since = self.progress = 0


# Shared by most fragments; read-only.
ALL_LANES = np.ones(LANES, bool)
ALL_LANES.flags.writeable = False
_ALL_ADDRESS = ALL_LANES.ctypes.data
_NO_LANES = np.zeros(LANES, bool)


class Fragment:
    """`wait` is what the fragment is blocked on; `give_up` makes a retried wait return unfulfilled."""

    __slots__ = ("active", "address", "count", "full", "give_up", "join_pc", "joins", "pc", "polls", "wait")

    def __init__(self, pc: int, active: LaneMask, joins: tuple[Join, ...]) -> None:
        self.pc, self.active, self.joins = pc, active, joins
        # `address` is that of the mask, one byte per lane.
        if active is ALL_LANES:
            self.address, self.count = _ALL_ADDRESS, LANES
        else:
            self.address, self.count = active.ctypes.data, int(np.count_nonzero(active))
        self.full = self.count == LANES
        self.join_pc = joins[-1].pc if joins else NOWHERE
        self.wait: Wait | None = None
        self.give_up = False
        self.polls: tuple[int, int] | None = None  # (program counter, progress) of the last failed test


@record
class AwaitedPhase:
    """The mbarrier at shared address `address` is to complete `phase`; `current` was its phase at that time."""

    address: int
    phase: int
    current: int


@mutable(eq=False)
class Wait:
    """Why a fragment cannot run. `retry`: execute the same instruction again once woken (otherwise continue behind it).

    `may_fail`: it may return unfulfilled; `until`: the time at which it does, where the program states a limit. `awaited` is what a wait
    of kind "mbarrier" waits for, `barrier` the number of a wait of kind "barrier", `members` the mask of a wait of kind "converge" and
    `collective` the instruction that its lanes are to execute together. `aligned`: it waits for all lanes of the warp. `over` returns
    whether a wait of kind "group" is fulfilled.
    """

    kind: WaitKind
    text: str | Callable[[], str]  # evaluated when it is reported
    retry: bool
    may_fail: bool = False
    until: int | None = None
    awaited: AwaitedPhase | None = None
    barrier: int | None = None
    over: Callable[[], bool] | None = None
    members: int | None = None
    collective: object = None
    aligned: bool = False


# The executing fragment no longer exists: it was merged or split.
MERGED: Final = Wait("merged", "", retry=True)


@record
class Diverge:
    """Lanes of `taken` go to `target`, the other active ones fall through."""

    taken: LaneMask
    target: int


@record
class Scatter:
    """Each active lane goes to its own target (brx.idx)."""

    targets: LaneValues


class Exit:
    """The active lanes exit."""


EXIT: Final = Exit()

# The effect of an instruction on its fragment: None continues behind it, an int jumps there.
Outcome = None | int | Wait | Diverge | Scatter | Exit


class Divergence:
    """The `live` lanes, in fragments. `polls` counts failed tests of memory, `meetings` arrivals at barriers."""

    def __init__(self, live: LaneMask) -> None:
        self.live = live
        self.fragments = [Fragment(0, live, ())]
        self.live_count = self.fragments[0].count
        self.joins: list[Join] = []
        self.turn = 0
        self.polls = self.meetings = 0

    @property
    def alive(self) -> bool:
        return bool(self.fragments) or bool(self.joins)

    @property
    def blocked(self) -> bool:
        return all(fragment.wait is not None for fragment in self.fragments)

    def runnable(self) -> Fragment | None:
        """The next fragment to run, in rotation."""
        fragments = self.fragments
        count = len(fragments)
        for step in range(count):
            candidate = fragments[(self.turn + step) % count]
            if candidate.wait is None:
                self.turn = (self.turn + step + 1) % count
                return candidate
        return None

    def split(self, fragment: Fragment, parts: list[tuple[int, LaneMask]], meeting: int) -> None:
        """Replaces `fragment` by one fragment per (pc, lanes), to reconverge at `meeting`."""
        joins = fragment.joins
        # If they reconverge at the join that they wait for anyway, another one would only be waited for twice.
        if meeting != NOWHERE and meeting != fragment.join_pc:
            join = Join(meeting, fragment.active.copy(), joins)
            self.joins.append(join)
            joins = (*joins, join)
        self.fragments.remove(fragment)
        self.fragments.extend(Fragment(pc, lanes, joins) for pc, lanes in parts)

    def arrive_at_join(self, fragment: Fragment, progress: int) -> None:
        """`fragment` has reached the program counter of its innermost join; `progress` is the machine's."""
        join = fragment.joins[-1]
        self.fragments.remove(fragment)
        if not join.arrived.any():
            join.since, join.progress = self.polls, progress
        join.arrived = join.arrived | fragment.active
        self.try_release(join)

    def try_release(self, join: Join, force: bool = False) -> bool:
        if join not in self.joins:
            return False
        if not join.expected.any():
            self.joins.remove(join)
            return True
        if not join.arrived.any() or not (force or (join.arrived == join.expected).all()):
            return False
        lanes = join.arrived
        join.expected = join.expected & ~lanes
        join.arrived = np.zeros(LANES, bool)
        if not join.expected.any():
            self.joins.remove(join)
        self.fragments.append(Fragment(join.pc, lanes, join.parents))
        return True

    def forget(self, lanes: LaneMask, joins: tuple[Join, ...]) -> None:
        """`lanes` will never arrive at `joins`."""
        for join in reversed(joins):
            join.expected = join.expected & ~lanes
            join.arrived = join.arrived & ~lanes
            self.try_release(join)

    def exit(self, fragment: Fragment, lanes: LaneMask) -> None:
        if lanes is ALL_LANES and not fragment.joins:
            # The whole warp exits, as most do: no lanes are left to wait for it.
            self.live, self.live_count = _NO_LANES, 0
            self.fragments.clear()
            return
        self.live = self.live & ~lanes
        self.live_count = int(np.count_nonzero(self.live))
        remaining = fragment.active & ~lanes
        self.fragments.remove(fragment)
        if remaining.any():
            self.fragments.append(Fragment(fragment.pc + 1, remaining, fragment.joins))
        self.forget(lanes, fragment.joins)
        # Fragments that wait for the whole warp need not wait for lanes that have exited.
        for other in self.fragments:
            if other.wait is not None and other.wait.kind == "converge":
                other.wait = None

    def force_joins(self) -> bool:
        """Lets lanes that wait for reconvergence continue alone. True if any did."""
        released = [self.try_release(join, force=True) for join in list(self.joins)]
        return any(released)

    def merge(self, fragments: list[Fragment]) -> Fragment:
        """Merges several fragments at the same instruction."""
        first = fragments[0]
        if len(fragments) == 1:
            return first
        common = first.joins
        for other in fragments[1:]:
            # A join that only some of them were to reach is dropped.
            common = tuple(join for join in common if join in other.joins)
        lanes = np.logical_or.reduce([fragment.active for fragment in fragments])
        merged = Fragment(first.pc, lanes, common)
        for fragment in fragments:
            self.fragments.remove(fragment)
        self.fragments.append(merged)
        for fragment in fragments:
            self.forget(fragment.active, fragment.joins[len(common) :])
        return merged
