"""Events with the reason for their time: who waits, for what, and how the critical path to an event came about."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Reason(NamedTuple):
    """Why an event comes so much later than the one before it. `where` names a role, a pipeline or an engine."""

    kind: str  # "issue", "walk", "latency", "multiply", "work", "hand over", "start"
    where: str


START = Reason("start", "")


class Event:
    """`time` is `cycles` after that of `before`, the latest of all that it waited for."""

    __slots__ = ("before", "cycles", "reason", "time")

    def __init__(self, time: float, before: "Event | None", reason: Reason, cycles: float) -> None:
        self.time, self.before, self.reason, self.cycles = time, before, reason, cycles

    def later(self, reason: Reason, cycles: float) -> "Event":
        return Event(self.time + cycles, self, reason, cycles)

    def path(self) -> "Iterator[Event]":
        """From here back to the start."""
        event: Event | None = self
        while event is not None:
            yield event
            event = event.before


class Step(NamedTuple):
    """One reason on the way, with all its cycles."""

    reason: Reason
    cycles: float


def later_of(first: Event, second: Event) -> Event:
    return second if second.time > first.time else first


def latest(events: Iterable[Event]) -> Event:
    return max(events, key=lambda event: event.time)


def steps(end: Event, since: float) -> list[Step]:
    """The way to `end` from the time `since` on, by reason, in the order of time; what lies before is cut off."""
    found: dict[Reason, float] = {}
    for event in end.path():
        if event.time <= since:
            break
        if event.cycles:
            found[event.reason] = found.get(event.reason, 0.0) + min(event.cycles, event.time - since)
    return [Step(reason, cycles) for reason, cycles in reversed(found.items())]
