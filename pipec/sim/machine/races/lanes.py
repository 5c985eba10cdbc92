"""Races among the lanes of one warp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .ledger import Access, Ledger
from .thread import Thread


def by_other_lanes(sets: Ledger, thread: Thread, access: Access, numbers: Iterable[int]) -> Iterator[tuple[int, Access]]:
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
            # A lane that returns to its own place meets no new lane there.
            others = now[(now != before) & (now >= 0)]
            if others.size and (others[:, None] == before).any():
                yield number, old
