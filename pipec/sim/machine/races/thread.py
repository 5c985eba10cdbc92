"""The clock of a warp: what it knows, what it releases to others, and the part that machine code sees."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...compiled import blocks as native
from ...ptx.types import LANES, Addresses, LaneMask
from .clocks import NOTHING, REACHES, UNKNOWING, Actors, Agent, Arrival, Clock, Knowledge, Reach, join, learned, merged
from .executions import Executions, Lanes

_TIME, _TOUCHED, _MEET, _STAMP, _UNLIKE, _WAITED, _BEFORE = (
    place // 8 for place in (native.TIME, native.TOUCHED, native.MEET, native.STAMP, native.UNLIKE, native.WAITED, native.BEFORE)
)

# What a warp has done since it last told anything to others: more than tests of mbarriers (as machine code writes it), or these alone.
_ACTS, _TESTS = 1, 2
_FOR_EVER = 1 << 62
# Number kept per warp: a map is used soon after its modification.
_MAP_FENCES = 64
COPY = -1  # in place of a program counter: a cp.async copy, whose number stands in place of the time
# The CTA-relative part of a shared-memory address, generic or not.
OFFSET = (1 << 24) - 1


class WarpRows:
    """The state of a CTA's warps for machine code: for each a row of its state, of its clock, of the access sets known to precede it,
    and of the directions that it took at branches."""

    def __init__(self, warps: int, branches: int, common: np.ndarray) -> None:
        # One allocation, since asking NumPy for an address costs as much as creating a small array: states, clocks, known sets, routes.
        actors = 2 * warps  # including the cp.async copies of each
        sizes = native.STATE_WORDS, actors, native.KNOWN, -(-branches // 2)
        ends = list(itertools.accumulate(warps * size for size in sizes))
        words = np.zeros(ends[-1], np.int64)
        self.address = words.ctypes.data
        # By warp: the actor of its cp.async copies, 0 before there are any.
        self.copying = [0] * warps
        # Lists of rows, since each warp takes its own, and NumPy creates a new view at each access.
        self.whole, self.states = words, words[: ends[0]].reshape(warps, -1)
        self.clocks = list(words[ends[0] : ends[1]].reshape(warps, actors))
        self.known = list(words[ends[1] : ends[2]].view(np.int32).reshape(warps, 2 * native.KNOWN))
        self.routes = list(words[ends[2] :].view(np.int32).reshape(warps, 2 * sizes[3]))
        self.words: list[memoryview[int]] = [state.data for state in self.states]
        self.states[:] = common
        self.fill({native.ACTORS: actors})
        for index, state in enumerate(self.words):
            state[native.CLOCK // 8] = self.address + 8 * (ends[0] + actors * index)
            state[native.KNOWN_WRITERS // 8] = known = self.address + 8 * (ends[1] + native.KNOWN * index)
            state[native.KNOWN_READERS // 8] = known + 4 * native.KNOWN
            state[native.ROUTES // 8] = self.address + 8 * (ends[2] + sizes[3] * index)
        self.fresh = words.copy()

    def renew(self) -> None:
        """Reset for the warps of another CTA."""
        self.whole[:] = self.fresh
        self.copying[:] = [0] * len(self.copying)

    def fill(self, words: Mapping[int, int]) -> None:
        """Sets words that all of them share."""
        for place, value in words.items():
            self.states[:, place // 8] = value


class Thread:
    """The clock of a warp: its lanes are one actor. `time` is that of its current accesses, `usable` what its last
    tcgen05.fence::after_thread_sync has ordered before its own tensor instructions. `state` is the part for machine code."""

    who_number = -1  # in the ledger
    executed: Executions | None = None
    peers: list[Thread]  # the warps of its CTA
    active: Callable[[], LaneMask | None]  # the lanes that execute its present instruction; None: all
    barrier_used = -1  # the mbarrier the warp last waited or arrived on
    knowledge = UNKNOWING
    usable: Clock = NOTHING
    # What preceded its arrival at the last cluster barrier, and what the warps of its own CTA did before the last one that it waited at:
    # with a relaxed arrival this is released to no other CTA.
    arrived_after: Clock = NOTHING
    neighbours: Clock = NOTHING
    # What was complete when operations of other CTAs began, for whose bytes it has waited.
    came: Clock = NOTHING
    # What warps knew when they asked for arrivals behind their cp.async, for which it has waited.
    landed: Clock = NOTHING
    # As `came`, with what only relaxed cluster barriers show, and the tests of mbarriers by warps whose part in a wgmma is over.
    began: Clock = NOTHING
    tests = 0  # of mbarriers, by parity
    _shown: tuple[int, Clock] = 0, NOTHING  # how many of these preceded its last part in a wgmma, and what that shows to others
    used_loads = told = 0
    # The last time at which it did more than test mbarriers and meet others at barriers; for ever once it has signalled or set going.
    _acted = -1
    # Stores of other lanes than those that signalled after them: by (program counter, time), the time of this warp from which on they are
    # complete for whoever knows that time. The `_loose` ones have no such time yet; when some lanes last signalled, all had met `_parted`
    # times. `in_part`: some are about to signal.
    late: Mapping[tuple[int, int], int] = MappingProxyType({})
    _loose: Sequence[tuple[int, int]] = ()
    _parted = -1
    in_part = False
    _heeded: Clock = NOTHING  # the clock from which `clock` was last derived
    _published: tuple[Knowledge, int, Knowledge] | None = None

    def __init__(
        self, actors: Actors, index: int, who: str, cta: str, cluster: int, pc: Callable[[], int], rows: WarpRows
    ) -> None:
        self.actors, self.index, self.who, self.cta, self.cluster, self.pc = actors, index, who, cta, cluster, pc
        self.number = actors.new()
        self.words: memoryview[int] = rows.words[index]
        self.address = rows.address + 8 * native.STATE_WORDS * index
        self.clock, self.known, self.copying = rows.clocks[index], rows.known[index], rows.copying
        # Its directions at forward branches, by branch number: the program counter + 1, -1 where its lanes diverged, 0 if it has not
        # executed the branch.
        self.routes = rows.routes[index]
        # Sets of accesses (`ledger.Ledger`) known to precede this warp: as writers, and as readers.
        self.after_writers: set[int] = {0}
        self.after_readers: set[int] = {0}
        self.accesses: dict[tuple[int, bool], Any] = {}  # by instruction: the last access object of `detector`

    # Rarely used state is created on demand: a grid of small CTAs creates more warps than they execute instructions.

    @functools.cached_property
    def running(self) -> set[int]:
        """Ranks of the CTAs of its cluster that it knows to have started."""
        return set()

    @functools.cached_property
    def maps(self) -> deque[tuple[int, Clock]]:
        """What its last acquiring fences of the tensormap proxy have ordered before uses of tensor maps, with their times."""
        return deque(maxlen=_MAP_FENCES)

    @functools.cached_property
    def released(self) -> dict[Reach, Knowledge]:
        """What the last release fences have ordered before the following relaxed signals, by the observers' reach."""
        return {}

    @functools.cached_property
    def acquirable(self) -> dict[Reach, Knowledge]:
        """What signals that were read relaxed make visible after a fence, by the signallers' reach."""
        return {}

    @functools.cached_property
    def agents(self) -> dict[Agent, int]:
        return {}

    @functools.cached_property
    def issued(self) -> dict[Agent, int]:
        return {}

    @functools.cached_property
    def parts(self) -> deque[tuple[int, list[Clock]]]:
        """The wgmma that it has taken part in and not waited for, by number, with what the parts of all four warps show."""
        return deque()

    @functools.cached_property
    def copied(self) -> deque[tuple[int, LaneMask]]:
        """Its cp.async copies that no wait has covered before its lanes last met: the number of each, and which lanes copy."""
        return deque()

    @functools.cached_property
    def unwaited(self) -> dict[int, LaneMask]:
        """The copies, by number, for which some lanes have waited, with those lanes that have made them as well and have not."""
        return {}

    @functools.cached_property
    def pieces(self) -> dict[int, Addresses]:
        """By instruction, for loads and stores that are not ordinary ones."""
        return {}

    def connect(self, number: int, executed: Executions, peers: list[Thread]) -> None:
        """Sets its number in the ledger, the record of its loads and stores, and the warps of its CTA."""
        words, self.peers = self.words, peers
        self.who_number, self.executed = number, executed
        words[native.WHO // 8], words[native.RECORDS // 8] = number, executed.address
        words[native.PLACES // 8] = executed.place_address

    def retire(self) -> None:
        """It has exited; its accesses may still be queried."""
        self.active = _all_lanes
        self.pc, self.knowledge, self.usable, self._published = _nowhere, UNKNOWING, NOTHING, None
        self.released, self.acquirable, self.neighbours, self.came, self.began = {}, {}, NOTHING, NOTHING, NOTHING
        self.landed = NOTHING
        self.accesses.clear()
        self.copied.clear()
        self.executed = None
        self.after_writers, self.after_readers = {0}, {0}
        # The rows are reused by another CTA.
        self.routes = self.routes.copy()

    @property
    def time(self) -> int:
        return self.words[_TIME]

    @property
    def touched(self) -> bool:
        return bool(self.words[_TOUCHED])

    @touched.setter
    def touched(self, told: bool) -> None:
        self.words[_TOUCHED] = told

    @property
    def stored_unlike(self) -> int | None:
        """The last store of which lanes stored different values to one place."""
        return self.words[_UNLIKE] - 1 if self.words[_UNLIKE] else None

    @stored_unlike.setter
    def stored_unlike(self, pc: int) -> None:
        self.words[_UNLIKE] = pc + 1

    def tested(self) -> None:
        """It has tested an mbarrier, whose end has to come after that."""
        self.words[_TOUCHED] = self.words[_TOUCHED] or _TESTS

    def signalled(self) -> None:
        """It has arrived at an mbarrier, or set something going."""
        self._acted = _FOR_EVER

    def acts_after(self, time: int) -> bool:
        """Whether it has done more since then than test mbarriers and meet others at barriers, or had a part in their phases before."""
        return self.words[_TOUCHED] == _ACTS or self._acted >= time

    @property
    def meet(self) -> int:
        """How often its lanes have converged."""
        return self.words[_MEET]

    def lanes_met(self) -> None:
        """Orders all earlier accesses of any lane before all later ones."""
        self.words[_MEET] += 1

    @property
    def covered_alone(self) -> range:
        """The cp.async copies, by number, that waits have covered since its lanes last met: each lane has waited for its own ones."""
        words = self.words
        known = self.known_of("cp.async") if words[_WAITED] > words[_MEET] else 0
        return range(words[_BEFORE] + 1, known + 1) if known else range(0)

    def note(self, lanes: Lanes) -> None:
        """Records the addresses of the executing ordinary load or store."""
        if self.executed is not None:
            self.executed.note(self.pc(), lanes)

    def executions(self, pc: int) -> list[Addresses]:
        """The addresses of the last executions of an ordinary load or store by lane, the oldest first."""
        return self.executed.of(pc) if self.executed is not None else []

    def of_matrices(self, pc: int) -> bool:
        """Whether the instruction is a load or store of matrices, whose rows are of several lanes."""
        return self.executed is not None and self.executed.of_matrices(pc)

    def lay_out(self, addresses: Addresses) -> None:
        """Records the addresses, one per lane, of pieces of a tile, for a load or store that is not an ordinary one."""
        if addresses.size == LANES and not (self.executed is not None and self.executed.lay_out(self.pc(), addresses)):
            self.pieces[self.pc()] = addresses

    def laid_out(self, pc: int) -> Addresses | None:
        """The offsets in shared memory of a load's or store's last execution, by lane; None where not all lanes' are known."""
        addresses = self.pieces.get(pc)
        if addresses is None and self.executed is not None:
            addresses = self.executed.laid_out(pc)
        if addresses is None or int(addresses.min()) < 0:
            return None
        return addresses & OFFSET

    # ---- what it comes after

    def comes_after_writers(self, numbers: set[int]) -> None:
        """Records that these access sets, as writers, precede it."""
        self.after_writers |= numbers
        self._aware(numbers, 0)

    def comes_after_readers(self, numbers: set[int]) -> None:
        self.after_readers |= numbers
        self._aware(numbers, native.KNOWN)

    def _aware(self, numbers: set[int], start: int) -> None:
        for number in numbers:
            self.known[start + (number & native.KNOWN - 1)] = number
        values = self.knowledge.values
        if values is not self._heeded:
            self._heeded = values
            self.comes_after(self.times_of_peers(values))

    def times_of_peers(self, clock: Clock) -> np.ndarray:
        """The times of its CTA's warps, and of their copies."""
        times = [clock.get(peer.number, 0) for peer in self.peers]
        copies = [clock.get(one, 0) for one in self.copying] if any(self.copying) else [0] * len(self.copying)
        return np.array(times + copies, np.int64)

    def comes_after(self, times: np.ndarray) -> None:
        """Orders it after its CTA's warps up to these times."""
        np.maximum(self.clock, times, out=self.clock)

    def numbers_changed(self) -> None:
        """The set numbers that it keeps are no longer valid."""
        if self.executed is None:
            return
        self.after_writers, self.after_readers = {0}, {0}
        # Numbers are reused after a collection, and would be mistaken for the old sets.
        self.known[:] = 0
        self.words[native.STAMP // 8] += 1

    # ---- telling

    def some_signal(self, stores: Sequence[tuple[int, int]]) -> None:
        """Some lanes signal next, and other lanes have executed these stores, with their times, since all have met."""
        if stores:
            self.late = {**self.late, **dict.fromkeys(stores, _FOR_EVER)}
            self._loose = [*self._loose, *stores]
        self._parted, self.in_part = self.meet, True

    def _cover_loose(self) -> None:
        """A signal covers the stores of all lanes: all make it, or they have met since."""
        self.words[_TOUCHED] = _ACTS  # so that it has a time of its own
        self.late = {**self.late, **dict.fromkeys(self._loose, self.time)}
        self._loose = ()

    def _advance(self) -> int:
        """The time up to which all accesses are covered."""
        words = self.words
        self.told += 1
        if self._loose and not (self.in_part and words[_MEET] == self._parted):
            self._cover_loose()
        # A warp that has done nothing since its last signal has nothing new to release: its clock, and all sets created from it, stay.
        if touched := words[_TOUCHED]:
            if touched == _ACTS:
                self._acted = max(self._acted, words[_TIME])
            words[_TIME] += 1
            words[_STAMP] += 1
            words[_TOUCHED] = 0
        return words[_TIME] - 1

    def step(self) -> None:
        """Later accesses are distinguished from all earlier ones."""
        self._advance()

    def arrive(self) -> Arrival:
        """`publish` in the form that `gather` takes."""
        return Arrival(self.knowledge, self.number, self._advance())

    def publish(self) -> Knowledge:
        """Everything that a release signal carries now."""
        past = self._advance()
        if self._published is not None and self._published[0] is self.knowledge and self._published[1] == past:
            return self._published[2]
        own = self.knowledge
        told = learned(own, self.number, past)
        self._published = own, past, told
        return told

    def tell(self, releases: bool, reach: Reach, settled: bool = True) -> Knowledge:
        """What a signal carries to observers at this reach: a relaxed one the order, `settled` or not, and what was written before the
        last fence."""
        now = self.publish()
        if releases:
            return now
        # Includes what others fenced before they synchronised with this warp at a barrier, as CUDA's code does before one thread counts.
        fenced = self.released.get(reach, UNKNOWING)
        return merged(fenced._replace(values=join(fenced.values, now.device)), now, values=False, settled=settled)

    def hear(self, told: Knowledge) -> None:
        self.knowledge = merged(self.knowledge, told)

    def hear_signal(self, told: Knowledge, acquires: bool, reach: Reach) -> None:
        """A signal from this reach; a relaxed one gives the order alone, and the rest after a fence."""
        self.knowledge = merged(self.knowledge, told, acquires)
        if not acquires:
            self.acquirable[reach] = merged(self.acquirable.get(reach, UNKNOWING), told)
            self.knowledge = self.knowledge._replace(heard=join(self.knowledge.heard, told.values))

    def arrive_at_cluster(self, relaxed: bool) -> Knowledge:
        """What it releases at the cluster barrier."""
        self.arrived_after = self.publish().values
        return self.tell(not relaxed, "cluster", settled=False)

    def leave_cluster_barrier(self, told: Knowledge, acquires: bool) -> None:
        self.hear_signal(told, acquires, "cluster")
        for peer in self.peers:
            self.neighbours = join(self.neighbours, peer.arrived_after)

    def comes_behind(self, clock: Clock) -> bool:
        """Whether everything in this clock is known to be complete."""
        order, reached = self.knowledge.order, self.actors.reached
        return all(actor == self.number or reached(order, actor, time) for actor, time in clock.items())

    def learn(self, actor: int, time: int) -> None:
        self.knowledge = learned(self.knowledge, actor, time)

    # ---- fences

    def fence_proxy(self, shared: bool, global_: bool) -> None:
        """fence.proxy.async: orders the ordinary accesses known so far before asynchronous ones."""
        known = self.publish().settled
        own = self.knowledge
        self.knowledge = own._replace(
            shared=join(own.shared, known) if shared else own.shared,
            global_=join(own.global_, known) if global_ else own.global_,
        )

    def fence(self, releases: bool, acquires: bool, scope: str) -> None:
        """A memory fence, in combination with relaxed signals before or after it."""
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
        earlier = self.maps[-1][1] if self.maps else NOTHING
        fenced = join(earlier, self.publish().values)
        self.maps.append((self.time, fenced))
        # Later observers of the warp are ordered after the fence, too.
        self.touched = True

    def maps_read_after(self) -> list[Clock]:
        """What the preceding fences of its CTA have ordered before its uses of tensor maps. Any of them suffices, as the fence need only
        lie between the writer and the user; those of another multiprocessor do not affect this one's cache."""
        order, reached = self.knowledge.order, self.actors.reached
        found = []
        for peer in self.peers:
            known = (clock for time, clock in reversed(peer.maps) if peer is self or reached(order, peer.number, time))
            # The last one covers what the earlier ones do.
            found.append(next(known, NOTHING))
        return found

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
            if kind == "cp.async":
                self.copying[self.index] = number
        return number

    def issue(self, *kinds: Agent) -> tuple[tuple[int, int], ...]:
        """Issues one more operation: returns what shows its completion, as (actor, time)."""
        self.touched = True
        self.signalled()
        found = []
        for kind in kinds:
            number = self.agent(kind)
            self.issued[kind] += 1
            found.append((number, self.issued[kind]))
        return tuple(found)

    def take_part(self, shown: list[Clock]) -> tuple[tuple[int, int], ...]:
        """Issues its part of the next wgmma, whose completion shows that all warps have issued theirs; `shown` is shared by them."""
        tests, clock = self._shown
        if tests != self.tests:
            self._shown = self.tests, (clock := {self.number: self._advance()})
        shown.append(clock)
        ends = self.issue("wgmma")
        self.parts.append((ends[0][1], shown))
        return ends

    def copy_over(self, ends: tuple[tuple[int, int], ...] | None) -> tuple[int, int] | None:
        """For a completion by a cp.async copy of this warp: the ledger number of its copies, and the time of this one."""
        if not ends or len(ends) > 1 or ends[0][0] != self.copying[self.index]:
            return None
        return self.who_number + len(self.peers), ends[0][1]

    def count(self, kind: Agent) -> int:
        return self.issued.get(kind, 0)

    def known_of(self, kind: Agent) -> int:
        """How many of its operations it has observed complete."""
        return self.knowledge.order.get(self.agents.get(kind, -1), 0)

    def use_loads(self, time: int) -> None:
        """Registers of `tcgen05.ld` up to `time` were used, which makes chips wait."""
        if time > self.used_loads:
            self.used_loads = time
            self.learn(self.agent("used ld"), time)

    def used(self, load: int, clock: Clock) -> bool:
        """Whether `clock` covers a use of the registers of the `tcgen05.ld` with this number."""
        number = self.agents.get("used ld")
        return number is not None and self.actors.reached(clock, number, load)

    def found_over(self, kinds: Iterable[Agent], time: int) -> None:
        """A wait has covered the operations up to `time`."""
        for kind in kinds:
            if time and kind in self.agents:
                if kind == "cp.async" and (known := self.known_of(kind)) < time:
                    self._covers_copies(known)
                self.learn(self.agents[kind], time)
                if kind == "wgmma":
                    self._parts_over(time)
                if kind == "cp.async":
                    place = len(self.peers) + self.index
                    self.clock[place] = max(self.clock[place], time)

    def copies_by_lane(self, lanes: LaneMask) -> None:
        """These lanes have a part in the cp.async copy that it has issued last."""
        copied = self.copied
        while copied and copied[0][0] <= self.words[_BEFORE]:
            copied.popleft()
        copied.append((self.count("cp.async"), lanes))

    def waited_for_copies(self, lanes: LaneMask | None, over: int) -> list[tuple[int, int]]:
        """A wait of these lanes (None: all) covers their parts in the copies up to `over`; returns those, as (COPY, number), that were
        complete for nobody and still miss the waits of other lanes."""
        unwaited, fresh = self.unwaited, list[tuple[int, int]]()
        for number in [number for number in unwaited if number <= over]:
            left = unwaited[number] & ~lanes if lanes is not None else None
            if left is None or not left.any():
                del unwaited[number]
            else:
                unwaited[number] = left
        if lanes is not None:
            known = self.known_of("cp.async")
            for number, of in self.copied:
                if known < number <= over and (of & ~lanes).any():
                    unwaited[number] = of & ~lanes
                    fresh.append((COPY, number))
        return fresh

    def copied_by_others(self, lanes: LaneMask) -> list[tuple[int, int]]:
        """The copies that waits have covered since its lanes last met, in which other lanes than these had a part: (COPY, number)."""
        covered = self.covered_alone
        if not covered:
            return []
        return [(COPY, number) for number, of in self.copied if number in covered and (of & ~lanes).any()]

    def _covers_copies(self, known: int) -> None:
        """A wait covers further copies than the first `known`."""
        words = self.words
        if words[_WAITED] <= words[_MEET]:
            words[_WAITED], words[_BEFORE] = words[_MEET] + 1, known

    def _parts_over(self, time: int) -> None:
        last: list[Clock] = []
        while self.parts and self.parts[0][0] <= time:
            _, last = self.parts.popleft()
        for clock in last:
            self.began = join(self.began, clock)


def _nowhere() -> int:
    return -1


def _all_lanes() -> None:
    return None
