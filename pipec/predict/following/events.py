"""Events with the reason for their time: who waits for what, and the critical path to an event."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple


class Reason(NamedTuple):
    """Why an event is later than its predecessor. `where` names a role, a pipeline or an engine."""

    kind: str  # "issue", "walk", "latency", "multiply", "work", "hand over", "start"
    where: str


START = Reason("start", "")
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
