"""Synchronisation between threads by strong accesses to memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .clocks import NOTHING, REACHES, UNKNOWING, Actors, Clock, Knowledge, Log, Reach, merged
from .thread import Thread

_FACETS = Knowledge._fields[:6]  # order to tensor: the fields that signals carry


class Signal:
    """What threads have released by strong writes to one place in memory, for threads that read it: to all, and to the cluster or the
    CTA with that number or name."""

    def __init__(self, actors: Actors) -> None:
        self.logs = {facet: Log(actors) for facet in _FACETS}
        self.near: dict[int | str, Knowledge] = {}
        self.ctas: set[str] = set()

    def write(self, thread: Thread, scope: str, releases: bool) -> None:
        """Earlier releases remain in effect, as in a release sequence of read-modify-writes."""
        if len(self.ctas) < 2:
            self.ctas.add(thread.cta)
        far = "gpu" in REACHES[scope]
        known = thread.tell(releases, "gpu") if far else merged(UNKNOWING, thread.publish(), values=False)
        for facet, log in self.logs.items():
            clock: Clock = getattr(known, facet)
            if clock:
                log.tell(clock)
        near: tuple[Reach, ...] = () if far and releases else ("cta",) if scope == "cta" else ("cta", "cluster")
        for reach in near:
            audience = thread.cta if reach == "cta" else thread.cluster
            told = thread.tell(releases, reach)
            if told.values:
                self.near[audience] = merged(self.near.get(audience, UNKNOWING), told)

    def seen(self, thread: Thread, actor: int, time: int) -> bool:
        """Whether `thread` comes after a read that found here what the actor wrote at that time, or something later."""
        log = self.logs["order"]
        version = thread.knowledge.order.get(log.number, 0)
        return any(told >= time and at <= version for told, at in log.entries.get(actor, ()))

    def read(self, thread: Thread, scope: str, acquires: bool) -> None:
        """A read with a narrow scope acquires only the order if threads outside its CTA have written."""
        reach: Reach = "cta" if self.ctas == {thread.cta} else "gpu"
        acquires = acquires and (scope != "cta" or reach == "cta")
        told = {facet: {log.number: log.version} if log.version else NOTHING for facet, log in self.logs.items()}
        thread.hear_signal(Knowledge(**told), acquires, reach)
        for audience in (thread.cta, thread.cluster):
            if audience in self.near:
                thread.hear_signal(self.near[audience], acquires, reach)


def seen(thread: Thread, actor: int, time: int, signals: Mapping[int, Signal], places: Iterable[int]) -> bool:
    """Whether `thread` knows what an actor wrote at that time to stand in all these places: its own stores there come after that."""
    found = [signals.get(place) for place in places]
    return all(signal is not None and signal.seen(thread, actor, time) for signal in found)
