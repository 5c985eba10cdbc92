"""Happens-before: vector clocks (PTX ISA 8, the memory consistency model).

An actor is a counter of actions: a warp, whose time advances whenever it signals to others; an mbarrier, whose time is its phase; and
the asynchronous operations of a warp that it waits for (bulk copies, cp.async, wgmma, the tensor pipe, loads of tensor memory), whose
time is a count of operations. A clock gives, for each actor, the time up to which its actions are known. Clocks are immutable, so that
all observers of the same barrier share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

Clock = dict[int, int]
NOTHING: Final[Clock] = {}

# How far apart a signal and its observer are: same CTA, same cluster, anywhere; and the reaches that each scope covers.
Reach = Literal["cta", "cluster", "gpu"]
REACHES: Final[dict[str, tuple[Reach, ...]]] = {
    "cta": ("cta",),
    "cluster": ("cta", "cluster"),
    "gpu": ("cta", "cluster", "gpu"),
    "sys": ("cta", "cluster", "gpu"),
}

# Kinds of operations that a warp starts and waits for in issue order. Bulk copies have two completions: sources read, and done.
Agent = Literal["bulk read", "bulk", "cp.async", "wgmma", "pipe", "commit", "ld", "used ld", "st"]


def join(first: Clock, second: Clock) -> Clock:
    """The join of two clocks; one of the two where it dominates."""
    if first is second or not second:
        return first
    if not first:
        return second
    if len(second) > len(first):
        first, second = second, first
    missing = [(actor, time) for actor, time in second.items() if first.get(actor, 0) < time]
    if not missing:
        return first
    whole = first.copy()
    whole.update(missing)
    return second if len(second) == len(whole) and whole == second else whole


def with_time(clock: Clock, actor: int, time: int) -> Clock:
    if clock.get(actor, 0) >= time:
        return clock
    whole = clock.copy()
    whole[actor] = time
    return whole


class Knowledge(NamedTuple):
    """`order`: which accesses are complete. `values`: whose written values are visible, too: less than `order` where a signal was
    relaxed or its scope too narrow. `settled`: which accesses are complete without relying on a relaxed cluster barrier; between the
    two, and identical to `order` where `values` is. `shared`, `global_`: the ordinary accesses to that memory that a proxy fence has
    ordered before the async proxy. `tensor`: what a tcgen05.fence::before_thread_sync has released. `device`: what a device-wide fence
    has covered; `heard`: what was received by relaxed reads of signals, for a thread that executes such a fence afterwards."""

    order: Clock = NOTHING
    values: Clock = NOTHING
    settled: Clock = NOTHING
    shared: Clock = NOTHING
    global_: Clock = NOTHING
    tensor: Clock = NOTHING
    device: Clock = NOTHING
    heard: Clock = NOTHING


UNKNOWING: Final = Knowledge()


def merged(old: Knowledge, new: Knowledge, values: bool = True, settled: bool = True) -> Knowledge:
    """`old` joined with `new`; without `values`, with its order alone, and without `settled`, not with its settled part."""
    if old is new:
        return old
    order, tensor = join(old.order, new.order), join(old.tensor, new.tensor)
    if not values:
        alike = old.settled is old.order and new.settled is new.order and settled
        firm = order if alike else join(old.settled, new.settled) if settled else old.settled
        # That a fence stands between is of use once the values are known by another way, or in practice without them.
        shared, global_ = join(old.shared, new.shared), join(old.global_, new.global_)
        found = Knowledge(order, old.values, firm, shared, global_, tensor, old.device, old.heard)
        return old if all(part is same for part, same in zip(found, old, strict=True)) else found
    written = firm = order
    if old.values is not old.order or new.values is not new.order:
        written = join(old.values, new.values)
        firm = join(old.settled, new.settled) if settled else old.settled
    shared, global_ = join(old.shared, new.shared), join(old.global_, new.global_)
    found = Knowledge(order, written, firm, shared, global_, tensor, join(old.device, new.device), join(old.heard, new.heard))
    for one in (old, new):
        if all(part is same for part, same in zip(found, one, strict=True)):
            return one
    return found


def _all_of(clocks: Iterable[Clock]) -> Clock:
    """The join of all clocks."""
    different = list({id(clock): clock for clock in clocks}.values())
    different.sort(key=len, reverse=True)
    first, *others = different
    if not any(others):
        return first
    whole = first.copy()
    for other in others:
        for actor, time in other.items():
            if whole.get(actor, 0) < time:
                whole[actor] = time
    return whole


class Arrival(NamedTuple):
    """A warp's knowledge on arrival at a barrier, and the time up to which its own accesses are covered."""

    knowledge: Knowledge
    actor: int
    past: int


def gather(arrivals: Sequence[Arrival]) -> Knowledge:
    """The join of all arrivals."""
    common = arrivals[0].knowledge
    if common.values is not common.order or any(one.knowledge is not common for one in arrivals):
        return _gathered([learned(one.knowledge, one.actor, one.past) for one in arrivals])
    # All arrivals share the same knowledge: only each warp's own time is added.
    news = {one.actor: one.past for one in arrivals if common.order.get(one.actor, 0) < one.past}
    if not news:
        return common
    order = common.order | news
    return common._replace(order=order, values=order, settled=order)


def _gathered(told: Sequence[Knowledge]) -> Knowledge:
    order = _all_of(one.order for one in told)
    values = settled = order
    if any(one.values is not one.order for one in told):
        values, settled = _all_of(one.values for one in told), _all_of(one.settled for one in told)
    others = zip(*(one[3:] for one in told), strict=True)
    return Knowledge(order, values, settled, *map(_all_of, others))


def learned(old: Knowledge, actor: int, time: int) -> Knowledge:
    """`old`, extended by `actor` at `time`."""
    if old.order.get(actor, 0) >= time and old.values.get(actor, 0) >= time:
        return old  # and settled is between them
    order = with_time(old.order, actor, time)
    if old.values is old.order:
        return old._replace(order=order, values=order, settled=order)
    settled = order if old.settled is old.order else with_time(old.settled, actor, time)
    return old._replace(order=order, values=with_time(old.values, actor, time), settled=settled)


class Actors:
    """Numbers for all actors of a launch."""

    def __init__(self) -> None:
        self.count = 0
        self.logs: dict[int, Log] = {}

    def reached(self, clock: Clock, actor: int, time: int) -> bool:
        """Whether `clock` covers `actor` at `time`."""
        if clock.get(actor, 0) >= time:
            return True
        logs, asked = self.logs, dict[int, int]()
        return bool(logs) and any(one in logs and logs[one].knows(version, actor, time, asked) for one, version in clock.items())

    def new(self) -> int:
        self.count += 1
        return self.count


class Log:
    """What was released at one place in memory, by version: an actor whose time is the version, so that readers need not copy the
    releases of thousands of threads."""

    def __init__(self, actors: Actors) -> None:
        self.number, self.actors, self.version = actors.new(), actors, 0
        self.entries: dict[int, list[tuple[int, int]]] = {}  # by actor: its times, and the version that released each
        self.logs: set[int] = set()  # the actors that are logs themselves
        actors.logs[self.number] = self

    def tell(self, clock: Clock) -> None:
        self.version += 1
        for actor, time in clock.items():
            if actor == self.number:
                continue
            told = self.entries.setdefault(actor, [])
            if not told or told[-1][0] < time:
                told.append((time, self.version))
            if actor in self.actors.logs:
                self.logs.add(actor)

    def knows(self, version: int, actor: int, time: int, asked: dict[int, int]) -> bool:
        """Whether the versions up to this one cover `actor` at `time`, directly or through other logs that they cover. `asked` has the
        logs visited already, with their versions."""
        if any(told >= time and at <= version for told, at in self.entries.get(actor, ())):
            return True
        asked[self.number] = version
        for other in self.logs:
            latest = max((told for told, at in self.entries[other] if at <= version), default=0)
            if latest > asked.get(other, 0) and self.actors.logs[other].knows(latest, actor, time, asked):
                return True
        return False
