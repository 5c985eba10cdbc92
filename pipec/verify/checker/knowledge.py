"""What each process knows of the others' progress: the happens-before order of one schedule, in sets of uses.

A barrier has one bit of phase. A wait for a parity means the phase it is meant for only if (1) that barrier's phase before is known to be
complete to whoever waits, (2) the phase after cannot complete before the wait has succeeded, and arrivals count towards the phase they
are meant for only if (3) the phase before is known to be complete to whoever arrives. These are statements about all orders of events,
and happens-before is the same in all of them, so they are checked along the one that the certificate gives.

What is known is a set of facts: that a use of a barrier is complete, and that somebody who waits there has waited for it. A set is the bits
of an integer: bit `use * entries + entry`, so that all uses move down by one shift. A process of several threads knows a fact *each* (every
thread does) or *some* (what all its threads together know, which is what an arrival of all of them hands over).
"""

from collections.abc import Iterable, Sequence

from pipec.record import mutable, record
from pipec.verify.checker.configuration import Configuration, Layout, Refused, need, reached
from pipec.verify.network import Arrive, Network, Ring, Wait

Facts = int
Member = tuple[int, int]  # a process in a CTA: its number and the rank
Barrier = tuple[int, int]  # a ring and the CTA of the barrier
EACH, TOGETHER, GIVEN = range(3)
# In which what the processes know at a node may shrink: some, and more where rings have many stages, round which it goes use by use.
_MOST_ROUNDS = 50
_SETTLED = -1  # no node


@record
class Event:
    """A step of the schedule. `completes`: whether the use is complete with it; then `waited` are the processes that have waited for the
    use before on the same barrier. `last`: of a wait, whether all who wait on the ring have now waited for the use."""

    line: int
    process: int
    action: Wait | Arrive
    use: int
    completes: bool = False
    waited: tuple[int, ...] = ()
    last: bool = False
    ends: bool = False  # no arrival: the process has ended, and is not waited for any more


@record
class Passage:
    """From a node of the certificate (None: the start) to the next; `lowered`: by how much the uses of each group count less there."""

    source: int | None
    target: int
    events: Sequence[Event]
    lowered: tuple[int, ...]


def check_parities(layout: Layout, passages: Sequence[Passage]) -> None:
    """Follows what is known along all passages until no way into a node knows less than the others. Raises Refused."""
    known: dict[int | None, Knowledge] = {None: Knowledge.start(Entries(layout))}
    onwards: dict[int | None, list[Passage]] = {}
    for passage in passages:
        # By the node they leave: a node whose facts did not shrink gives its passages nothing new to check.
        onwards.setdefault(passage.source, []).append(passage)
    changed: set[int | None] = {None}
    for _ in range((_MOST_ROUNDS + 4 * layout.window) * len(onwards)):
        # The first in the order of the passages: a loop settles before what comes behind it is followed.
        source = next((one for one in onwards if one in changed), _SETTLED)
        if source == _SETTLED:
            return
        changed.remove(source)
        for passage in onwards[source]:
            after = known[source].after(passage)
            before = known.setdefault(passage.target, after)
            if (before is after or before.weaken(after)) and passage.target in onwards:
                changed.add(passage.target)
    raise Refused("what the processes know of each other does not settle")


class Entries:
    """Which entry of a set means what: `ring`, that a use of a barrier is complete; `waiter`, that somebody has waited for it.

    `groups`: the number of each entry's group. CTAs that are alike move together, but each knows only what has come to it: knowledge is
    kept for every CTA by itself. Rings whose users all arrive and wait in every use order themselves and have no entry.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.network = layout, layout.network
        self.ring: dict[Barrier, int] = {}
        self.waiter: dict[tuple[Barrier, Member], int] = {}
        self.groups: list[int] = []
        for number, kind in enumerate(layout.network.rings):
            # Everybody arrives and then waits for the same use, so no thread is ever a phase ahead: parity cannot be mistaken, and an
            # entry would only cost time. What such a meeting hands over is still followed, through `sets`.
            if kind.kind in ("named", "warp") and _meets(layout.network, number):
                continue
            for spot in spots(kind):
                self.ring[number, spot] = self._entry(number)
                for process in layout.waiters[number]:
                    for rank in ranks_at(layout.network, number, spot, process):
                        self.waiter[(number, spot), (process, rank)] = self._entry(number)
        self.stages, self.spots = [ring.stages for ring in layout.network.rings], [*map(spots, layout.network.rings)]
        self.arriving = [_arriving(layout.network, ring) for ring in range(len(layout.network.rings))]
        self.width = len(self.groups)
        self.start: Facts = (1 << layout.window * self.width) - 1  # what all know when the kernel begins

    def _entry(self, ring: int) -> int:
        # Rings of one group are counted from the same cursor, so that one shift moves all their uses (see `lowered`).
        self.groups.append(self.layout.group_of.get(ring, 0))
        return len(self.groups) - 1

    def fact(self, entry: int, use: int) -> Facts:
        return 1 << use * self.width + entry

    def lowered(self, by: Sequence[int], sets: Iterable[Facts]) -> dict[Facts, Facts]:
        """Sets of facts -> the same facts about uses that count less, group by group."""
        width, different = len(self.groups), {*sets}
        longest = max(facts.bit_length() for facts in different) // (width or 1) + 1
        every_use = sum(1 << use * width for use in range(longest))
        entries: dict[int, int] = {}
        for entry, group in enumerate(self.groups):
            entries[by[group]] = entries.get(by[group], 0) | 1 << entry
        masks = [(every_use * mask, shift * width) for shift, mask in entries.items()]
        return {facts: sum([(facts & mask) >> shift for mask, shift in masks]) for facts in different}


def spots(ring: Ring) -> tuple[int, ...]:
    """The CTAs whose barriers the ring stands for; a cluster barrier is one barrier."""
    return ring.ranks[:1] if ring.kind == "cluster" else ring.ranks


def spot_of(ring: Ring, rank: int) -> int:
    return ring.ranks[0] if ring.kind == "cluster" else rank


def ranks_at(network: Network, ring: int, spot: int, process: int) -> tuple[int, ...]:
    """The CTAs in which the process waits at this barrier: threads wait at barriers of their own CTA."""
    return tuple(rank for rank in network.processes[process].ranks if spot_of(network.rings[ring], rank) == spot)


def _arriving(network: Network, ring: int) -> tuple[Member, ...]:
    """Who arrives on the ring at some time."""
    return tuple(
        (number, rank)
        for number, process in enumerate(network.processes)
        if any(isinstance(state.action, Arrive) and state.action.use.ring == ring for state in process.states)
        for rank in process.ranks
    )


def _meets(network: Network, ring: int) -> bool:
    """Whether every arrival on the ring is followed at once by the wait for the same use: a thread is never two uses ahead."""
    for process in network.processes:
        for state in process.states:
            match state.action:
                case Arrive(use=use, edge=edge) if use.ring == ring:
                    following = process.states[edge.target].action
                    if not isinstance(following, Wait) or following.use != use or edge.advances:
                        return False
                case Wait(use=use, edge=edge) if use.ring == ring and edge.advances != ((use.cursor, 1),):
                    return False
                case _:
                    pass
    return True


@mutable
class Knowledge:
    """The facts that somebody knows, by who: EACH thread of a member or all its threads TOGETHER (who, process, rank), and those that
    arrivals hand over: of a complete use (GIVEN, ring, spot, use), of one member (who, process, rank, ring, spot, use)."""

    entries: Entries
    sets: dict[tuple[int, ...], Facts]

    @classmethod
    def start(cls, entries: Entries) -> "Knowledge":
        layout, rings = entries.layout, entries.network.rings
        first = Configuration(layout)
        sets: dict[tuple[int, ...], Facts] = {}
        for number, process in enumerate(entries.network.processes):
            sets |= {(who, number, rank): entries.start for rank in process.ranks for who in (EACH, TOGETHER)}
        for ring in layout.group_of:
            for use in range(layout.window - rings[ring].stages, layout.window):
                if not first.all_waited(ring, use):
                    sets |= {(GIVEN, ring, spot, use): entries.start for spot in spots(rings[ring])}
        return cls(entries, sets)

    def after(self, passage: Passage) -> "Knowledge":
        made = Knowledge(self.entries, dict(self.sets))
        for event in passage.events:
            try:
                made._follow(event)
            except Refused as why:
                raise Refused(f"line {event.line}: {why}") from None
        made._lower(passage.lowered)
        return made

    # ------------------------------------------------------------------------------------------------------------ events

    def _follow(self, event: Event) -> None:
        network, ring = self.entries.network, event.action.use.ring
        if isinstance(event.action, Wait):
            for rank in network.processes[event.process].ranks:
                self._wait((event.process, rank), (ring, spot_of(network.rings[ring], rank)), event.use)
            if event.last:
                self._drop(ring, event.use)
            return
        # (Who has ended hands nothing over.)
        for rank, spot in reached(network, event.process, event.action) if not event.ends else ():
            self._arrive((event.process, rank), (ring, spot), event.use, part=event.action.part)
        if event.completes:
            self._drop(ring, event.use - self.entries.stages[ring])
            for spot in self.entries.spots[ring]:
                self._complete((ring, spot), event)

    def _arrive(self, member: Member, barrier: Barrier, use: int, *, part: bool) -> None:
        self._knows_before(member, barrier, use, "the arrival can come while the phase before is still open")
        # An arrival by a part of the threads (an elected lane) speaks for what each thread knows: what the others have seen it may not
        # know.
        for who, what in ((EACH, EACH), (TOGETHER, EACH if part else TOGETHER)):
            handed = (who, *member, *barrier, use)
            self.sets[handed] = self.sets.get(handed, 0) | self.sets[what, *member]

    def _knows_before(self, member: Member, barrier: Barrier, use: int, why: str) -> None:
        before = use - self.entries.stages[barrier[0]]
        entry = self.entries.ring.get(barrier)
        if entry is not None:
            need(before >= 0 and self.sets[EACH, *member] & self.entries.fact(entry, before) != 0, why)

    def _complete(self, barrier: Barrier, event: Event) -> None:
        network, (ring, spot) = self.entries.network, barrier
        arrived = [member for member in self.entries.arriving[ring] if (EACH, *member, *barrier, event.use) in self.sets]
        # The ring as a whole is complete, by the counts of the configuration; each CTA's own barrier has to be too.
        need(bool(arrived), "a barrier of another CTA gets none of its arrivals")
        if network.rings[ring].kind == "warp":
            return  # the lanes of each warp learn from each other only, see _receive
        total = 0
        for member in arrived:
            # The phase ends with the last arrival, so whoever waits comes after all of them: the union, not the intersection.
            total |= self.sets.pop((TOGETHER, *member, *barrier, event.use))
            del self.sets[EACH, *member, *barrier, event.use]
        self.sets[GIVEN, *barrier, event.use] = total
        before = event.use - self.entries.stages[ring]
        for waiter in event.waited if barrier in self.entries.ring else ():
            for rank in ranks_at(network, ring, spot, waiter):
                # Condition 2: the arrivals that complete this phase must come after every wait for the one before, or a slow waiter
                # finds the parity flipped twice and waits for a phase that is over.
                seen = total & self.entries.fact(self.entries.waiter[barrier, (waiter, rank)], before)
                need(seen != 0, f"the phase can complete before `{network.processes[waiter].role}` has seen the phase before")

    def _drop(self, ring: int, use: int) -> None:
        """What was handed over and nobody waits for any more: who has waited for it knows it."""
        for spot in self.entries.spots[ring]:
            self.sets.pop((GIVEN, ring, spot, use), None)
            for member in self.entries.arriving[ring]:
                for who in (EACH, TOGETHER):
                    self.sets.pop((who, *member, ring, spot, use), None)

    def _wait(self, member: Member, barrier: Barrier, use: int) -> None:
        why = "the wait can come while the phase before is open, and take its parity for the other"
        self._knows_before(member, barrier, use, why)
        self._receive(member, barrier, use)
        if barrier not in self.entries.ring:
            return
        waited = self.entries.fact(self.entries.waiter[barrier, member], use)
        if self.sets[TOGETHER, *member] & waited:
            # A process that waits for a use again: what was known of the first wait says nothing of this one.
            self.sets.update([(who, facts & ~waited) for who, facts in self.sets.items()])
        complete = self.entries.fact(self.entries.ring[barrier], use)
        # Of several threads each knows only that it has waited itself; that all have is known to them together.
        alone = self.entries.network.processes[member[0]].threads == 1
        self._learn(member, complete | waited if alone else complete, complete | waited)

    def _receive(self, member: Member, barrier: Barrier, use: int) -> None:
        """What the arrivals of a completed phase hand over. Lanes of a warp that meet learn from those of their own warp only."""
        if given := self.sets.get((GIVEN, *barrier, use)):
            self._learn(member, given, given)
        if self.entries.network.rings[barrier[0]].kind != "warp":
            return
        processes = self.entries.network.processes
        mine = set(processes[member[0]].warps)
        for other in self.entries.arriving[barrier[0]]:
            every = self.sets.get((EACH, *other, *barrier, use), 0)
            together = self.sets.get((TOGETHER, *other, *barrier, use), 0)
            theirs = set(processes[other[0]].warps)
            # The lanes of one warp reconverge: everybody who takes part learns what the others know together.
            if len(mine) == 1 and mine == theirs:
                self._learn(member, together, together)
            elif mine <= theirs:
                self._learn(member, every, every | (together if theirs <= mine else 0))
            elif theirs <= mine:
                self._learn(member, 0, together)

    def _learn(self, member: Member, each: Facts, together: Facts) -> None:
        self.sets[EACH, *member] |= each
        self.sets[TOGETHER, *member] |= together

    # ------------------------------------------------------------------------------------------- sets of facts as a whole

    def _lower(self, by: Sequence[int]) -> None:
        """Follows Configuration.lower."""
        if not any(by):
            return
        into, group_of = self.entries.lowered(by, self.sets.values()), self.entries.layout.group_of
        self.sets = {
            # (Behind who it is come ring, spot and use.)
            who if len(who) == 3 else (*who[:-1], who[-1] - by[group_of[who[-3]]]): into[facts]
            for who, facts in self.sets.items()
        }

    def weaken(self, other: "Knowledge") -> bool:
        """Forgets what the other does not know; whether that was anything."""
        # The meet of the data-flow: facts only ever get fewer, so the rounds end.
        common = {who: facts & other.sets[who] for who, facts in self.sets.items() if who in other.sets}
        if common == self.sets:
            return False
        self.sets = common
        return True
