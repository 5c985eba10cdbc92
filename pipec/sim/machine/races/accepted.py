"""Gaps between two accesses that shipped code has, and that the rules of practice accept: one row for each."""

from __future__ import annotations

from collections.abc import Callable

from pipec.record import record

from ..practice import PracticeName
from .ledger import Access
from .missing import ALLOCATION, REQUEST, Missing
from .shadow import Shadow
from .thread import Thread


@record
class Gap:
    """What is `missing` between two accesses in `shadow`, of which `thread` makes the second. `guesses` as in `Races`."""

    thread: Thread
    old: Access
    new: Access
    missing: Missing
    shadow: Shadow
    guesses: Callable[[], frozenset[int]]


def _overwrites(gap: Gap) -> bool:
    """Also of the address that tcgen05.alloc wrote, which no copy reads."""
    return gap.missing == "overwrite" or (gap.missing == "values to a copy" and gap.new.writes and gap.old.what == ALLOCATION)


def _loaded_before(gap: Gap) -> bool:
    return gap.missing == "read here"


def _in_own_memory(gap: Gap) -> bool:
    """Threads of one CTA conflict in its shared memory after a cluster barrier at which they have arrived relaxed."""
    if gap.missing != "values" or gap.shadow.kind != "shared" or gap.old.thread.cta != gap.new.thread.cta:
        return False
    return gap.new.proxy == "generic" and gap.old.over(gap.thread.neighbours)


def _read_before_a_copy(gap: Gap) -> bool:
    """An operation of another CTA, whose completion the thread has waited for, was issued behind the read."""
    return gap.missing == "wait" and not gap.old.writes and gap.old.thread is not gap.thread and gap.old.over(gap.thread.came)


def _stored_before_copies(gap: Gap) -> bool:
    """The thread has waited for an arrival behind copies (cp.async) of a warp that had stored before."""
    near = gap.shadow.kind == "shared" and gap.old.thread.cta == gap.thread.cta
    return gap.missing == "wait" and near and gap.old.plain and gap.old.writes and gap.old.over(gap.thread.landed)


def _requests_in_order(gap: Gap) -> bool:
    return gap.old.what == gap.new.what == REQUEST and gap.old.thread is gap.thread


def _checked_by_an_atomic(gap: Gap) -> bool:
    load, atomic = (gap.new, gap.old) if gap.old.writes else (gap.old, gap.new)
    if load.writes or not load.plain or atomic.scope is None or gap.missing not in ("wait", "values"):
        return False
    return load.pc in gap.guesses()


_ROWS: tuple[tuple[PracticeName, Callable[[Gap], bool]], ...] = (
    ("overwriting without a proxy fence", _overwrites),
    ("loads before a relaxed cluster barrier", _loaded_before),
    ("own memory behind a relaxed cluster barrier", _in_own_memory),
    ("requests for clusters in order", _requests_in_order),
    ("reads before another CTA's copy", _read_before_a_copy),
    ("stores before an arrival of copies", _stored_before_copies),
    ("loads that an atomic checks", _checked_by_an_atomic),
)


def accepted(gap: Gap, practised: Callable[[PracticeName], bool]) -> bool:
    """`practised` notes what a run relies on, so it is asked only about a practice that applies."""
    return any(applies(gap) and practised(name) for name, applies in _ROWS)
