"""Events with the reason for their time: who waits for what, and the critical path to an event."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple


class Why(StrEnum):
    """What the cycles between two events go to."""

    START = "start"
    ISSUE = "issue"  # TMA instructions, in the thread that loads or stores
    WALK = "walk"  # the rows of boxes in the copy engine, and what the L2 serves of them
    STORE = "store"  # the rows of boxes that are stored, in the copy engine
    READ = "read"  # what threads load, through the copy engine's way to the L2
    LATENCY = "latency"  # until data or results are there
    MULTIPLY = "multiply"  # the tensor cores
    WORK = "work"  # instructions of threads
    TURNS = "turns"  # blocks that take turns in global memory
    HAND_OVER = "hand over"  # from an arrival to whoever waits for it


class Engine(StrEnum):
    """What does the work of a block. All roles share each of them, but for `ISSUE` and `WORK`, which are of one role's threads."""

    PRODUCTS = "products"  # the tensor cores
    COPIES = "copies"  # the copy engine, at its own pace
    L2 = "l2"  # the copy engine, at the pace of what the L2 gives a multiprocessor
    SERVED = "served"  # the L2, which serves all multiprocessors
    STORES = "stores"
    SCHEDULERS = "schedulers"
    ISSUE = "issue"  # TMA instructions of one thread
    WORK = "work"  # all other instructions


class Busy(NamedTuple):
    """Whose time is counted: an engine's, or that of a role's threads."""

    engine: Engine
    role: str = ""

    def __str__(self) -> str:
        return f"{self.engine} {self.role}".rstrip()


class Reason(NamedTuple):
    """Why an event is later than its predecessor. `where` names a role, a pipeline or an engine."""

    kind: Why
    where: str


START = Reason(Why.START, "")
because = lru_cache(Reason)  # thousands of events have a few reasons


class Event:
    """`time` is `cycles` after that of `before`, the latest event that it waited for."""

    __slots__ = ("before", "cycles", "reason", "time")

    def __init__(self, time: float, before: "Event | None", reason: Reason, cycles: float) -> None:
        self.time, self.before, self.reason, self.cycles = time, before, reason, cycles

    def later(self, reason: Reason, cycles: float) -> "Event":
        return Event(self.time + cycles, self, reason, cycles)

    def path(self) -> "Iterator[Event]":
        """The path back to the start."""
        event: Event | None = self
        while event is not None:
            yield event
            event = event.before


class Step(NamedTuple):
    """One reason on the critical path, with its total cycles."""

    reason: Reason
    cycles: float


def later_of(first: Event, second: Event) -> Event:
    return second if second.time > first.time else first


def latest(events: Iterable[Event]) -> Event:
    return max(events, key=_TIME)


_TIME = attrgetter("time")


def steps(end: Event, since: float) -> list[Step]:
    """The critical path to `end` from the time `since` on, by reason, in time order; the part before is cut off."""
    found: dict[Reason, float] = {}
    for event in end.path():
        if event.time <= since:
            break
        if event.cycles:
            found[event.reason] = found.get(event.reason, 0.0) + min(event.cycles, event.time - since)
    return [Step(reason, cycles) for reason, cycles in reversed(found.items())]
