"""Races among the lanes of one warp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ...ptx.types import Addresses
from .ledger import Access, Ledger
from .shadow import Shadow
from .thread import OFFSET, Thread


def by_other_lanes(
    sets: Ledger, thread: Thread, access: Access, shadow: Shadow, size: int, numbers: Iterable[int]
) -> Iterator[tuple[int, Access]]:
    """Of these sets, the accesses in which another lane than now was at a place of the last execution of `access`, in pieces of `size`
    bytes.

    Lanes are distinguished by their addresses in the last executions; the ledger distinguishes only warps."""
    for number in numbers:
        for old in sets.members(number):
            if old.thread is not thread or old.scope is not None or not (old.writes or access.writes):
                continue
            if _met_between(thread, access, old, shadow, size):
                yield number, old


def _met_between(thread: Thread, access: Access, old: Access, shadow: Shadow, size: int) -> bool:
    if thread.of_matrices(access.pc) or thread.of_matrices(old.pc):
        # Each row is of several lanes.
        return access.pc != old.pc
    now, before = _rows(thread, access), _rows(thread, old)
    copy = old.lanes or access.lanes
    if copy is not None:
        return bool(now and before) and _met_a_copy(now[-1], before[-1], size, copy[1])
    itself = old.pc == access.pc
    if old.ends is not None or not now or len(before) <= itself:
        return False
    # Lanes that have the same element load it, and one stores the next value: as among warps (`replicated`), in global memory.
    shared = access.writes and not old.writes and shadow.kind != "global"
    return _met(now[-1], before[-2 if itself else -1], shared)


def _rows(thread: Thread, access: Access) -> list[Addresses]:
    """Its last executions, the oldest first: the addresses by lane, -1 for an inactive one."""
    return thread.executions(access.pc) if access.lanes is None else [access.lanes[0]]


def stored_by_others(
    sets: Ledger, thread: Thread, numbers: set[int], pieces: Addresses, size: int
) -> Iterator[tuple[int, Access]]:
    """Of these sets, the stores and copies of other lanes than those that now issue a copy from these pieces of shared memory, since all
    have met."""
    active = thread.active()
    if active is None:
        return
    for number in sets.of_lanes(thread, numbers):
        for old in sets.members(number):
            if old.thread is not thread or not old.writes or not (old.plain or old.lanes):
                continue
            others = [row[~active & (row >= 0)] for row in _rows(thread, old)[-1:]]
            if thread.of_matrices(old.pc) or (others and np.isin((others[0] & OFFSET) // size, pieces).any()):
                yield number, old


def _met_a_copy(now: Addresses, before: Addresses, size: int, copied: int) -> bool:
    """The same where one of the two is a copy of `copied` bytes by each lane: whether a lane is where another one was, in pieces of `size`
    bytes now, and not itself. (Lanes may copy the same.)"""
    unit = max(size, copied)
    here, there = np.where(now < 0, -1, (now & OFFSET) // unit), np.where(before < 0, -2, (before & OFFSET) // unit)
    met = here[:, None] == there
    # What it has copied itself covers no more than that.
    alone = met.diagonal() & (size <= copied)
    np.fill_diagonal(met, False)
    return bool(met[~alone].any())


def _met(now: Addresses, before: Addresses, shared: bool) -> bool:
    """Whether a lane is where another one was. A lane that returns to its own place meets no new lane there, except `shared`: those
    that were there together with it."""
    lanes = np.flatnonzero(now >= 0)
    back = lanes[now[lanes] == before[lanes]]
    if shared and back.size and ((now[back, None] == before).sum(1) > 1).any():
        return True
    others = now[lanes[now[lanes] != before[lanes]]]
    return bool(others.size) and bool((others[:, None] == before).any())
