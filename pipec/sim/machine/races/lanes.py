"""Races among the lanes of one warp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ...ptx.types import Addresses
from .ledger import Access, Ledger
from .shadow import Shadow
from .thread import OFFSET, Thread


def by_other_lanes(
    sets: Ledger, thread: Thread, access: Access, shadow: Shadow, numbers: Iterable[int]
) -> Iterator[tuple[int, Access]]:
    """Of these sets, the accesses in which another lane than now was at a place of the last execution of `access`.

    Lanes are distinguished by their addresses in the last executions; the ledger distinguishes only warps."""
    latest = thread.executions(access.pc)
    if not latest:
        return
    now = latest[-1]
    for number in numbers:
        for old in sets.members(number):
            if old.thread is not thread or old.ends is not None or old.scope is not None or not (old.writes or access.writes):
                continue
            lanes = thread.executions(old.pc)
            itself = old.pc == access.pc
            if len(lanes) <= itself:
                continue
            before = lanes[-2 if itself else -1]
            # Lanes that have the same element load it, and one stores the next value: as among warps (`replicated`), in global memory.
            shared = access.writes and not old.writes and shadow.kind != "global"
            if _met(now, before, shared):
                yield number, old


def stored_by_others(
    sets: Ledger, thread: Thread, numbers: set[int], pieces: Addresses, size: int
) -> Iterator[tuple[int, Access]]:
    """Of these sets, the stores of other lanes than those that now issue a copy from these pieces of shared memory, since all have met."""
    active = thread.active()
    if active is None:
        return
    for number in sets.of_lanes(thread, numbers):
        for old in sets.members(number):
            lanes = thread.executions(old.pc)[-1:] if old.thread is thread and old.plain and old.writes else []
            others = [row[~active & (row >= 0)] for row in lanes]
            if others and np.isin((others[0] & OFFSET) // size, pieces).any():
                yield number, old


def _met(now: Addresses, before: Addresses, shared: bool) -> bool:
    """Whether a lane is where another one was. A lane that returns to its own place meets no new lane there, except `shared`: those
    that were there together with it."""
    lanes = np.flatnonzero(now >= 0)
    back = lanes[now[lanes] == before[lanes]]
    if shared and back.size and ((now[back, None] == before).sum(1) > 1).any():
        return True
    others = now[lanes[now[lanes] != before[lanes]]]
    return bool(others.size) and bool((others[:, None] == before).any())
