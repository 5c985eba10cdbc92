"""What is missing between two accesses to one place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .clocks import Knowledge
from .ledger import Access, Ledger
from .shadow import Shadow
from .thread import Thread

Missing = Literal[
    "wait",
    "values",
    "values to a copy",
    "read",
    "read here",
    "scopes",
    "init",
    "proxy",
    "proxy of another CTA",
    "overwrite",
    "tensormap",
    "lanes",
    "lanes of a signal",
    "lanes of a wait",
    "tcgen05.wait::ld",
    "tcgen05.wait::ld of what was used",
    "tcgen05.wait::st",
    "tcgen05.commit",
    "given back",
    "before",
    "after",
    "stale",
    "fence",
]

DEALLOCATION = "tcgen05.dealloc"
REQUEST = "clusterlaunchcontrol.try_cancel"
ALLOCATION = "tcgen05.alloc"  # writes an address, which is not data of the async proxy


def together(old: Access, new: Access) -> bool:
    """Strong accesses whose scopes include each other never race."""
    if old.scope is None or new.scope is None:
        return False
    if old.thread.cta == new.thread.cta:
        return True
    neighbours = old.thread.cluster == new.thread.cluster
    return all(one.scope in ("gpu", "sys") or (one.scope == "cluster" and neighbours) for one in (old, new))


def missing_between(thread: Thread, knowledge: Knowledge, old: Access, new: Access, shadow: Shadow) -> Missing | None:
    """What is missing between the two; None if they are ordered."""
    if shadow.kind == "tensor":
        return _missing_in_tensor_memory(thread, knowledge, old, new)
    if not old.over(knowledge.order, thread.number):
        if (old.thread.late or old.unwaited) and old.writes and old.passed(knowledge.order):
            return "lanes of a wait" if old.unwaited else "lanes of a signal"
        return "scopes" if old.scope and new.scope else "wait"
    if not old.writes:
        # A reader that signals a writer has read, whatever the scope of its signal.
        return None if old.over(knowledge.settled, thread.number) else _missing_before_relaxed(thread, old, shadow)
    if new.writes and old.proxy != "generic":
        # Nor need the overwriting thread see what no thread wrote.
        return None
    if not old.over(knowledge.values, thread.number):
        # Threads do not delay asynchronous writes to shared memory, nor read them on behalf of others; and CTA pairs hand over their
        # halves of an operand by arrivals at the leader without a scope. That is no reason to leave out the proxy fence.
        copied = shadow.kind == "shared" and new.proxy == "async" and (old.proxy == "async" or old.thread.cta != thread.cta)
        if copied and not new.writes and old.proxy == "generic" and not old.passed(knowledge.shared):
            return "proxy"
        return "scopes" if old.scope and new.scope else "values to a copy" if copied else "values"
    if new.proxy == "async" and old.proxy == "generic":
        fenced = knowledge.shared if shadow.kind == "shared" else knowledge.global_
        if old.passed(fenced):
            return None
        far = shadow.kind == "global" and old.thread.cta != thread.cta
        return "overwrite" if new.writes else "proxy of another CTA" if far else "proxy"
    return None


def _missing_before_relaxed(thread: Thread, old: Access, shadow: Shadow) -> Missing | None:
    """What is missing after a read that only a relaxed cluster barrier orders before `thread`."""
    if old.thread.cta == thread.cta or shadow.kind != "shared":
        return None
    return "read here" if old.proxy == "generic" and old.thread.cta == shadow.owner else "read"


def all_over(
    sets: Ledger, thread: Thread, knowledge: Knowledge, new: Access, shadow: Shadow, numbers: Iterable[int], issued: int
) -> bool:
    """Whether nothing is missing between `new` and any access of some sets, as far as a fast test shows: this is the common case, and a
    tile that threads wrote has a hundred of them. `issued`: up to which time accesses of `thread` itself precede it."""
    order, values, reached = knowledge.order, knowledge.values, thread.actors.reached
    if shadow.kind == "tensor" or new.scope is not None:
        return False
    read, written, others = sets.latest(numbers)
    if others:
        # The common case of copies in a ring.
        if new.proxy != "generic" or values is not order:
            return False
        for number in others:
            for old in sets.members(number):
                if old.scope is not None or not old.over(order, thread.number):
                    return False
    own = thread.who_number
    for who, time in read.items():
        if time > issued if who == own else not reached(knowledge.settled, sets.actor(who), time):
            return False
    fenced = None if new.proxy != "async" else knowledge.shared if shadow.kind == "shared" else knowledge.global_
    for who, time in written.items():
        actor = sets.actor(who)
        if (
            time > issued
            if who == own
            else not (reached(order, actor, time) and (values is order or reached(values, actor, time)))
        ):
            return False
        if fenced is not None and not reached(fenced, actor, time):
            return False
    return True


def _missing_in_tensor_memory(thread: Thread, knowledge: Knowledge, old: Access, new: Access) -> Missing | None:
    """The tensor pipe keeps issue order; between threads, the tcgen05 fences must surround the synchronisation."""
    own = old.thread is thread
    # mma and cp of a CTA or pair execute in issue order (PTX ISA 9.7.16), so only the order of their issue counts, not whether the first
    # is complete.
    if old.pipe and new.pipe:
        if not old.issued(knowledge.order, thread.number):
            return "wait"
        if own or old.issued(thread.usable, -1):
            return None
        return "after" if old.issued(knowledge.tensor, -1) else "before"
    if not old.over(knowledge.order, thread.number if old.ends is None else -1):
        if not old.issued(knowledge.order, thread.number):
            return "wait"
        if old.pipe or old.writes:
            unwaited: Missing = "given back" if new.what == DEALLOCATION else "tcgen05.commit"
            return unwaited if old.pipe else "tcgen05.wait::st"
        used = any(old.thread.used(number, knowledge.order) for _, number in old.ends or ())
        return "tcgen05.wait::ld of what was used" if used else "tcgen05.wait::ld"
    if DEALLOCATION in (old.what, new.what) or (own and not old.pipe) or old.over(thread.usable):
        return None
    return "after" if old.over(knowledge.tensor) else "before"
