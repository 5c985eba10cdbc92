"""What happens before what: vector clocks (PTX ISA 8, the memory consistency model).

An actor is whoever's deeds are counted: a warp, whose time advances whenever it tells others what it did; an mbarrier, whose
time is its phase; and what a warp sets going asynchronously and waits for (bulk copies, cp.async, wgmma, the tensor pipe, loads
of tensor memory), whose time is a count of operations. A clock says of each actor up to which time its deeds are known. Clocks are
never changed once made, so that all who hear of the same barrier share one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

from ...ptx.types import Addresses, LaneMask

Clock = dict[int, int]
NOTHING: Final[Clock] = {}

# How far away somebody is who listens or has told: in the CTA, in the cluster, anywhere; and what each scope comprises.
Reach = Literal["cta", "cluster", "gpu"]
REACHES: Final[dict[str, tuple[Reach, ...]]] = {
    "cta": ("cta",),
    "cluster": ("cta", "cluster"),
    "gpu": ("cta", "cluster", "gpu"),
    "sys": ("cta", "cluster", "gpu"),
}

# What a warp sets going and waits for in order of issue. Bulk copies are waited for twice: read, and done.
Agent = Literal["bulk read", "bulk", "cp.async", "wgmma", "pipe", "ld", "st"]


# Addresses of the active lanes in lane order, and which lanes these are (None: all).
Lanes = tuple[Addresses, LaneMask | None]


def join(first: Clock, second: Clock) -> Clock:
    """What either knows; one of the two where it knows it all."""
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
    """`order`: what is over. `values`: what was written, too: less than `order` where a signal was relaxed or its scope too narrow.
    `shared`, `global_`: of the ordinary accesses to that memory, those that a proxy fence has put before the async proxy.
    `tensor`: what a tcgen05.fence::before_thread_sync has sent along. `device`: what a fence for the whole device has; `heard`: what
    was told by signals that somebody read relaxed, for whoever executes such a fence behind them."""

    order: Clock = NOTHING
    values: Clock = NOTHING
    shared: Clock = NOTHING
    global_: Clock = NOTHING
    tensor: Clock = NOTHING
    device: Clock = NOTHING
    heard: Clock = NOTHING


UNKNOWING: Final = Knowledge()


def merged(old: Knowledge, new: Knowledge, values: bool = True) -> Knowledge:
    """`old`, and what `new` tells: without `values` of the order alone."""
    if old is new:
        return old
    order, tensor = join(old.order, new.order), join(old.tensor, new.tensor)
    if not values:
        if order is old.order and tensor is old.tensor:
            return old
        return old._replace(order=order, tensor=tensor)
    alike = old.values is old.order and new.values is new.order
    written = order if alike else join(old.values, new.values)
    shared, global_ = join(old.shared, new.shared), join(old.global_, new.global_)
    found = Knowledge(order, written, shared, global_, tensor, join(old.device, new.device), join(old.heard, new.heard))
    for one in (old, new):
        if all(part is same for part, same in zip(found, one, strict=True)):
            return one
    return found


def learned(old: Knowledge, actor: int, time: int) -> Knowledge:
    """`old`, and that `actor` has come to `time`."""
    if old.order.get(actor, 0) >= time and old.values.get(actor, 0) >= time:
        return old
    order = with_time(old.order, actor, time)
    values = order if old.values is old.order else with_time(old.values, actor, time)
    return old._replace(order=order, values=values)


class Actors:
    """Numbers for all actors of a launch."""

    def __init__(self) -> None:
        self.count = 0
        self.logs: dict[int, Log] = {}

    def reached(self, clock: Clock, actor: int, time: int) -> bool:
        """Whether `clock` knows of `actor` at `time`."""
        if clock.get(actor, 0) >= time:
            return True
        logs, asked = self.logs, dict[int, int]()
        return bool(logs) and any(one in logs and logs[one].knows(version, actor, time, asked) for one, version in clock.items())

    def new(self) -> int:
        self.count += 1
        return self.count


# Executions of a load or store by which a warp may be ahead of another.
_REMEMBERED = 4


class Thread:
    """The clock of a warp: its lanes are one actor. `time` is that of the accesses it makes now, `usable` what its last
    tcgen05.fence::after_thread_sync has put before its own tensor instructions."""

    def __init__(self, actors: Actors, index: int, who: str, cta: str, cluster: int, pc: Callable[[], int]) -> None:
        self.actors, self.index, self.who, self.cta, self.cluster, self.pc = actors, index, who, cta, cluster, pc
        self.number = actors.new()
        self.time = 1
        self.touched = False
        # Where it went at branches that it took as a whole (-1: its lanes parted there), and the warps of its CTA.
        self.route: dict[int, int] = {}
        self.peers: list[Thread] = []
        self.running: set[int] = set()  # ranks of the CTAs of its cluster that it knows to have started
        self.barrier_used = -1  # the mbarrier the warp last waited or arrived on
        self.knowledge = UNKNOWING
        self.usable: Clock = NOTHING
        # What its last acquiring fence of the tensormap proxy has put before its own uses of tensor maps.
        self.maps: Clock = NOTHING
        # What the last fences with release semantics have put before the relaxed signals that follow, for listeners so near, and
        # what signals that were heard relaxed tell once a fence follows, by those so near.
        self.released: dict[Reach, Knowledge] = {}
        self.acquirable: dict[Reach, Knowledge] = {}
        self.agents: dict[Agent, int] = {}
        self.issued: dict[Agent, int] = {}
        # Sets of accesses (`shadow.Sets`) that this warp is known to come after: as writers, and as readers.
        self.after_writers: set[int] = {0}
        self.after_readers: set[int] = {0}
        self.accesses: dict[tuple[int, bool], Any] = {}  # by instruction: what `detector` has made of it last
        # By ordinary load or store: the addresses of its last executions.
        self.places: dict[int, deque[Lanes]] = {}
        # Sets of accesses (`shadow.Sets`) that have one of this warp's since its lanes last met: as writers, and as readers.
        self.stored: set[int] = set()
        self.loaded: set[int] = set()
        self._published: tuple[Knowledge, int, Knowledge] | None = None

    def retire(self) -> None:
        """It has ended; what it did may be asked for still."""
        self.pc, self.knowledge, self.usable, self._published = _nowhere, UNKNOWING, NOTHING, None
        self.released, self.acquirable = {}, {}
        self.accesses.clear()
        self.places.clear()
        self.after_writers, self.after_readers = {0}, {0}

    def lanes_met(self) -> None:
        """What any lane did comes before what any does from now on."""
        self.stored.clear()
        self.loaded.clear()

    def note(self, lanes: Lanes) -> None:
        """The ordinary load or store that executes touches these."""
        pc = self.pc()
        places = self.places.get(pc)
        if places is None:
            places = self.places[pc] = deque(maxlen=_REMEMBERED)
        places.append(lanes)

    # ---- telling

    def _advance(self) -> int:
        """The time up to which all accesses are past."""
        if self.touched:
            self.time += 1
            self.touched = False
        return self.time - 1

    def publish(self) -> Knowledge:
        """All that a signal with release semantics tells now."""
        past = self._advance()
        if self._published is not None and self._published[0] is self.knowledge and self._published[1] == past:
            return self._published[2]
        own = self.knowledge
        order = with_time(own.order, self.number, past)
        values = order if own.values is own.order else with_time(own.values, self.number, past)
        told = own._replace(order=order, values=values)
        self._published = own, past, told
        return told

    def tell(self, releases: bool, reach: Reach) -> Knowledge:
        """What a signal tells listeners so near: a relaxed one the order, and what was written before the last fence."""
        now = self.publish()
        if releases:
            return now
        # Also what others fenced before they met this warp at a barrier, as CUDA's code does before one thread counts.
        fenced = self.released.get(reach, UNKNOWING)
        return merged(fenced._replace(values=join(fenced.values, now.device)), now, values=False)

    def hear(self, told: Knowledge) -> None:
        self.knowledge = merged(self.knowledge, told)

    def hear_signal(self, told: Knowledge, acquires: bool, reach: Reach) -> None:
        """Of somebody so near; relaxed, it tells of the order alone, and of the rest once a fence follows."""
        self.knowledge = merged(self.knowledge, told, acquires)
        if not acquires:
            self.acquirable[reach] = merged(self.acquirable.get(reach, UNKNOWING), told)
            self.knowledge = self.knowledge._replace(heard=join(self.knowledge.heard, told.values))

    def learn(self, actor: int, time: int) -> None:
        self.knowledge = learned(self.knowledge, actor, time)

    # ---- fences

    def fence_proxy(self, shared: bool, global_: bool) -> None:
        """fence.proxy.async: the ordinary accesses known of so far come before asynchronous ones."""
        written = self.publish().values
        own = self.knowledge
        self.knowledge = own._replace(
            shared=join(own.shared, written) if shared else own.shared,
            global_=join(own.global_, written) if global_ else own.global_,
        )

    def fence(self, releases: bool, acquires: bool, scope: str) -> None:
        """A fence of memory order, together with relaxed signals before or after it."""
        reaches = REACHES[scope]
        if acquires:
            for reach in reaches:
                self.hear(self.acquirable.get(reach, UNKNOWING))
            if "gpu" in reaches:
                self.hear(Knowledge(values=self.knowledge.heard))
        if releases:
            now = self.publish()
            self.released.update((reach, now) for reach in reaches)
            if "gpu" in reaches:
                self.knowledge = self.knowledge._replace(device=join(self.knowledge.device, now.values))

    def fence_maps(self) -> None:
        """fence.proxy.tensormap::generic.acquire"""
        self.maps = join(self.maps, self.publish().values)

    def fence_before(self) -> None:
        """tcgen05.fence::before_thread_sync"""
        self.knowledge = self.knowledge._replace(tensor=join(self.knowledge.tensor, self.publish().order))

    def fence_after(self) -> None:
        """tcgen05.fence::after_thread_sync"""
        self.usable = join(self.usable, self.knowledge.tensor)

    # ---- what it sets going

    def agent(self, kind: Agent) -> int:
        number = self.agents.get(kind)
        if number is None:
            number = self.agents[kind] = self.actors.new()
            self.issued[kind] = 0
        return number

    def issue(self, *kinds: Agent) -> tuple[tuple[int, int], ...]:
        """Of one more operation: what tells that it is over, as (actor, time)."""
        self.touched = True
        found = []
        for kind in kinds:
            number = self.agent(kind)
            self.issued[kind] += 1
            found.append((number, self.issued[kind]))
        return tuple(found)

    def count(self, kind: Agent) -> int:
        return self.issued.get(kind, 0)

    def found_over(self, kinds: Iterable[Agent], time: int) -> None:
        """A wait has found the operations up to `time` over."""
        for kind in kinds:
            if time and kind in self.agents:
                self.learn(self.agents[kind], time)


def _nowhere() -> int:
    return -1


class Log:
    """What was told at one place in memory, by versions: an actor whose time is the version, so that who reads there need not copy
    what thousands have told."""

    def __init__(self, actors: Actors) -> None:
        self.number, self.actors, self.version = actors.new(), actors, 0
        self.entries: dict[int, list[tuple[int, int]]] = {}  # by actor: its times, and the version that told of each
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
        """Whether the versions up to this one tell of `actor` at `time`, by themselves or by other logs that they tell of. `asked`
        has the logs that were asked already, and up to which version."""
        if any(told >= time and at <= version for told, at in self.entries.get(actor, ())):
            return True
        asked[self.number] = version
        for other in self.logs:
            latest = max((told for told, at in self.entries[other] if at <= version), default=0)
            if latest > asked.get(other, 0) and self.actors.logs[other].knows(latest, actor, time, asked):
                return True
        return False


_FACETS = Knowledge._fields[:5]  # order to tensor: what signals tell


class Signal:
    """What threads have told by strong writes to one place in memory, for those who read them there: to all, and to the cluster or the
    CTA with that number or name."""

    def __init__(self, actors: Actors) -> None:
        self.logs = {facet: Log(actors) for facet in _FACETS}
        self.near: dict[int | str, Knowledge] = {}
        self.ctas: set[str] = set()

    def write(self, thread: Thread, scope: str, releases: bool) -> None:
        """What was told before goes on being told, as by a read-modify-write."""
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

    def read(self, thread: Thread, scope: str, acquires: bool) -> None:
        """Who reads with a narrow scope hears of the order alone where others than its CTA have written."""
        reach: Reach = "cta" if self.ctas == {thread.cta} else "gpu"
        acquires = acquires and (scope != "cta" or reach == "cta")
        told = {facet: {log.number: log.version} if log.version else NOTHING for facet, log in self.logs.items()}
        thread.hear_signal(Knowledge(**told), acquires, reach)
        for audience in (thread.cta, thread.cluster):
            if audience in self.near:
                thread.hear_signal(self.near[audience], acquires, reach)
