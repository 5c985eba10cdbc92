"""What each process knows about the others' progress: the happens-before order of one schedule, as sets of uses.

A barrier has one phase bit. A wait for a parity identifies the intended phase only if (1) the waiting process knows that the barrier's
previous phase is complete, and (2) the following phase cannot complete before the wait has succeeded; arrivals count towards the
intended phase only if (3) the arriving process knows that the previous phase is complete. These are statements about all interleavings,
and happens-before is the same in all of them, so they are checked along the one that the certificate provides.

Knowledge is a set of facts: that a use of a barrier is complete, and that a process has waited for it. A set is a bit vector: bit `use *
entries + entry`, so that one shift renumbers all uses. A process of several threads knows a fact *each* (every thread knows it) or
*together* (the union of its threads' knowledge, which an arrival of all of them transfers).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipec.record import mutable, record
from pipec.verify.checker.configuration import Configuration, Layout, Refused, need, reached
from pipec.verify.network import Arrive, Network, Ring, Wait

Facts = int
# The sets of facts, by owner; and the effect of an event on them, which raises Refused if the event is invalid.
Sets = dict[tuple[int, ...], Facts]
Step = Callable[[Sets], None]
Member = tuple[int, int]  # a process in a CTA: its number and the rank
Barrier = tuple[int, int]  # a ring and the CTA of the barrier
EACH, TOGETHER, GIVEN = range(3)
# Rounds in which the knowledge at a node may shrink: some, and more if rings have many stages, which are traversed use by use.
_MOST_ROUNDS = 50
_SETTLED = -1  # no node
OVERWRITTEN = "an answer of the scheduler may be overwritten by the next one before it is read"
PARITY_TAKEN_FOR_ANOTHER = "the wait can come while the phase before is open, and take its parity for the other"


@record
class Event:
    """A step of the schedule. `completes`: whether it completes the use; then `waited` are the processes that have waited for the
    previous use of the same barrier. `read`: if it asks the scheduler, those that may have read the previous answer. `last`: for a wait,
    whether all processes that wait on the ring have now waited for the use."""

    line: int
    process: int
    action: Wait | Arrive
    use: int
    completes: bool = False
    waited: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    last: bool = False
    ends: bool = False  # not an arrival: the process has ended, and is no longer waited for
    passes: bool = False  # not a wait: the process has passed the use, and will not wait for it


@record
class NodeTransition:
    """The steps from a node of the certificate (None: the start) to the next; `lowered`: by how much the uses of each group are
    renumbered there."""

    source: int | None
    target: int
    events: Sequence[Event]
    lowered: tuple[int, ...]


def check_parities(layout: Layout, passages: Sequence[NodeTransition]) -> None:
    """Propagates knowledge along all passages to a fixed point (the meet over all ways into a node). Raises Refused."""
    entries = Entries(layout)
    known: dict[int | None, Knowledge] = {None: Knowledge.start(entries)}
    onwards: dict[int | None, list[PreparedTransition]] = {}
    for passage in passages:
        # By source node: a node whose facts did not shrink gives its passages nothing new to check.
        onwards.setdefault(passage.source, []).append(PreparedTransition(entries, passage))
    changed: set[int | None] = {None}
    for _ in range((_MOST_ROUNDS + 4 * layout.window) * len(onwards)):
        # The first in passage order: a loop settles before its successors are processed.
        source = next((one for one in onwards if one in changed), _SETTLED)
        if source == _SETTLED:
            return
        changed.remove(source)
        for following in onwards[source]:
            after, target = following.after(known[source]), following.passage.target
            before = known.setdefault(target, after)
            if (before is after or before.weaken(after)) and target in onwards:
                changed.add(target)
    raise Refused("what the processes know of each other does not settle")


class Entries:
    """The meaning of the entries of a set: `ring`, that a use of a barrier is complete; `waiter`, that a process has waited for it.

    `groups`: the group of each entry. CTAs with the same behaviour step together, but each knows only what it has received: knowledge is
    kept per CTA. Rings whose users all arrive and wait in every use need no entry.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.network = layout, layout.network
        self.ring: dict[Barrier, int] = {}
        self.waiter: dict[tuple[Barrier, Member], int] = {}
        self.groups: list[int] = []
        for number, kind in enumerate(layout.network.rings):
            # Every user arrives and then waits for the same use, so no thread is ever a phase ahead: parity cannot be ambiguous, and an
            # entry would only cost time. What such a synchronisation transfers is still tracked, through `sets`.
            if kind.kind in ("named", "warp") and _meets(layout.network, number):
                continue
            for spot in spots(kind):
                self.ring[number, spot] = self._entry(number)
                for process in layout.waiters[number]:
                    for rank in ranks_at(layout.network, number, spot, process):
                        self.waiter[(number, spot), (process, rank)] = self._entry(number)
        self.stages, self.spots = [ring.stages for ring in layout.network.rings], [*map(spots, layout.network.rings)]
        self.arriving = _arriving(layout.network)
        self.width = len(self.groups)
        self._masks: dict[tuple[tuple[int, ...], int], list[tuple[Facts, int]]] = {}
        self.start: Facts = (1 << layout.window * self.width) - 1  # known to all when the kernel starts

    def _entry(self, ring: int) -> int:
        # Rings of one group count from the same cursor, so that one shift renumbers all their uses (see `lowered`).
        self.groups.append(self.layout.group_of.get(ring, 0))
        return len(self.groups) - 1

    def fact(self, entry: int, use: int) -> Facts:
        return 1 << use * self.width + entry

    def lowered(self, by: tuple[int, ...], sets: Iterable[Facts]) -> dict[Facts, Facts]:
        """Maps sets of facts to the same facts about renumbered uses, group by group."""
        different = {*sets}
        longest = max(facts.bit_length() for facts in different) // (self.width or 1) + 1
        masks = self._masks.get((by, longest)) or self._masks.setdefault((by, longest), self._moving(by, longest))
        return {facts: sum([(facts & mask) >> shift for mask, shift in masks]) for facts in different}

    def _moving(self, by: Sequence[int], longest: int) -> list[tuple[Facts, int]]:
        """The entries with equal shifts, over this many uses, and the shifts."""
        every_use = sum(1 << use * self.width for use in range(longest))
        entries: dict[int, int] = {}
        for entry, group in enumerate(self.groups):
            entries[by[group]] = entries.get(by[group], 0) | 1 << entry
        return [(every_use * mask, shift * self.width) for shift, mask in entries.items()]


def spots(ring: Ring) -> tuple[int, ...]:
    """The CTAs whose barriers the ring represents; a cluster barrier is a single one."""
    return ring.ranks[:1] if ring.kind == "cluster" else ring.ranks


def spot_of(ring: Ring, rank: int) -> int:
    return ring.ranks[0] if ring.kind == "cluster" else rank


def ranks_at(network: Network, ring: int, spot: int, process: int) -> tuple[int, ...]:
    """The CTAs in which the process waits at this barrier: threads wait at barriers of their own CTA."""
    return tuple(rank for rank in network.processes[process].ranks if spot_of(network.rings[ring], rank) == spot)


def _arriving(network: Network) -> list[list[Member]]:
    """By ring: the processes that ever arrive there."""
    found: list[list[Member]] = [[] for _ in network.rings]
    for number, process in enumerate(network.processes):
        members = [(number, rank) for rank in process.ranks]
        for ring in {state.action.use.ring for state in process.states if isinstance(state.action, Arrive)}:
            found[ring] += members
    return found


def _meets(network: Network, ring: int) -> bool:
    """Whether every arrival on the ring is immediately followed by the wait for the same use: a thread is never two uses ahead."""
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
    """The sets of facts, by owner: known to EACH thread of a member or to all its threads TOGETHER (who, process, rank), and transferred
    by arrivals: of a complete use (GIVEN, ring, spot, use), of one member (who, process, rank, ring, spot, use)."""

    entries: Entries
    sets: Sets

    @classmethod
    def start(cls, entries: Entries) -> "Knowledge":
        layout, rings = entries.layout, entries.network.rings
        first = Configuration(layout)
        sets: Sets = {}
        for number, process in enumerate(entries.network.processes):
            sets |= {(who, number, rank): entries.start for rank in process.ranks for who in (EACH, TOGETHER)}
        for ring in layout.group_of:
            for use in range(layout.window - rings[ring].stages, layout.window):
                if not first.all_waited(ring, use):
                    sets |= {(GIVEN, ring, spot, use): entries.start for spot in spots(rings[ring])}
        return cls(entries, sets)

    def lower(self, by: tuple[int, ...]) -> None:
        """Applies the renumbering of Configuration.lower."""
        if not any(by):
            return
        into, group_of = self.entries.lowered(by, self.sets.values()), self.entries.layout.group_of
        self.sets = {
            # (Keys end in ring, spot and use.)
            who if len(who) == 3 else (*who[:-1], who[-1] - by[group_of[who[-3]]]): into[facts]
            for who, facts in self.sets.items()
        }

    def weaken(self, other: "Knowledge") -> bool:
        """Intersects with the other's knowledge; returns whether anything was lost."""
        # The meet of the data-flow problem: facts only shrink, so the iteration terminates.
        common = {who: facts & other.sets[who] for who, facts in self.sets.items() if who in other.sets}
        if common == self.sets:
            return False
        self.sets = common
        return True


class PreparedTransition:
    """A passage prepared for propagation: the effect of each event on the sets, with everything independent of the knowledge
    precomputed. A passage in a loop is processed until its knowledge settles."""

    def __init__(self, entries: Entries, passage: NodeTransition) -> None:
        self.entries, self.network, self.passage = entries, entries.network, passage
        self.steps = [(event.line, step) for event in passage.events for step in self._event(event)]

    def after(self, known: Knowledge) -> Knowledge:
        made, line = Knowledge(self.entries, dict(known.sets)), 0
        try:
            for line, step in self.steps:
                step(made.sets)
        except Refused as why:
            raise Refused(f"line {line}: {why}") from None
        made.lower(self.passage.lowered)
        return made

    def _event(self, event: Event) -> Iterator[Step]:
        network, ring = self.network, event.action.use.ring
        if event.passes:
            yield self._go_past(event.process, ring, event.use)
            return
        if isinstance(event.action, Wait):
            for rank in network.processes[event.process].ranks:
                barrier = ring, spot_of(network.rings[ring], rank)
                if event.action.peeks:
                    next_ = event.use + self.entries.stages[ring]
                    yield from self._knows_before((event.process, rank), barrier, next_, PARITY_TAKEN_FOR_ANOTHER)
                    continue
                if event.action.reads:
                    yield self._knows_complete((event.process, rank), barrier, event.use)
                yield from self._wait((event.process, rank), barrier, event.use)
            if event.last:
                yield self._drop(ring, event.use)
            return
        # (A process that has ended transfers nothing.)
        for rank, spot in reached(network, event.process, event.action) if not event.ends else ():
            yield from self._asks((event.process, rank), (ring, spot), event)
            yield from self._arrive((event.process, rank), (ring, spot), event.use, part=event.action.part)
        if event.completes:
            yield self._drop(ring, event.use - self.entries.stages[ring])
            for spot in self.entries.spots[ring]:
                yield self._complete((ring, spot), event)

    def _arrive(self, member: Member, barrier: Barrier, use: int, *, part: bool) -> Iterator[Step]:
        yield from self._knows_before(member, barrier, use, "the arrival can come while the phase before is still open")
        each, together = (EACH, *member), (TOGETHER, *member)
        each_handed, together_handed = (*each, *barrier, use), (*together, *barrier, use)
        # An arrival by some of the threads (an elected lane) transfers only what each thread knows: it may not know what the others have
        # observed.
        speaks_for = each if part else together

        def arrive(sets: Sets) -> None:
            sets[each_handed] = sets.get(each_handed, 0) | sets[each]
            sets[together_handed] = sets.get(together_handed, 0) | sets[speaks_for]

        yield arrive

    def _asks(self, member: Member, barrier: Barrier, event: Event) -> Iterator[Step]:
        """Whoever asks the scheduler again must know that all have read the answer that is overwritten. What the other arrivals of the
        phase know does not help: the answer may come before them."""
        each, before = (EACH, *member), event.use - self.entries.stages[barrier[0]]
        readers = [(reader, rank) for reader in event.read for rank in ranks_at(self.network, *barrier, reader)]
        seen = sum([self.entries.fact(self.entries.waiter[barrier, reader], before) for reader in readers])
        if readers:
            yield lambda sets: need(sets[each] & seen == seen, OVERWRITTEN)

    def _knows_complete(self, member: Member, barrier: Barrier, use: int) -> Step:
        complete = self.entries.fact(self.entries.ring[barrier], use)
        return lambda sets: need(
            sets[EACH, *member] & complete != 0, "an answer of the scheduler is read that may not be there yet"
        )

    def _knows_before(self, member: Member, barrier: Barrier, use: int, why: str) -> Iterator[Step]:
        before, entry = use - self.entries.stages[barrier[0]], self.entries.ring.get(barrier)
        if entry is not None:
            each, fact = (EACH, *member), self.entries.fact(entry, before) if before >= 0 else 0
            yield lambda sets: need(sets[each] & fact != 0, why)

    def _complete(self, barrier: Barrier, event: Event) -> Step:
        network, (ring, spot), use = self.network, barrier, event.use
        arriving = [((EACH, *one, *barrier, use), (TOGETHER, *one, *barrier, use)) for one in self.entries.arriving[ring]]
        given, is_of_warps = (GIVEN, *barrier, use), network.rings[ring].kind == "warp"
        before = use - self.entries.stages[ring]
        waits = [
            (network.processes[waiter].role, self.entries.fact(self.entries.waiter[barrier, (waiter, rank)], before))
            for waiter in (event.waited if barrier in self.entries.ring and not is_of_warps else ())
            for rank in ranks_at(network, ring, spot, waiter)
        ]

        def complete(sets: Sets) -> None:
            arrived = [keys for keys in arriving if keys[0] in sets]
            # The ring as a whole is complete according to the configuration; each CTA's own barrier must be complete as well.
            need(bool(arrived), "a barrier of another CTA gets none of its arrivals")
            if is_of_warps:
                return  # the lanes of each warp learn only from each other, see _receive
            total = 0
            for each, together in arrived:
                # The phase ends with the last arrival, so a waiting process follows all of them: the union, not the intersection.
                total |= sets.pop(together)
                del sets[each]
            sets[given] = total
            for role, seen in waits:
                # Condition 2: the arrivals that complete this phase must follow every wait for the previous one; otherwise a slow waiter
                # finds the parity flipped twice and waits for a phase that is over.
                need(total & seen != 0, f"the phase can complete before `{role}` has seen the phase before")

        return complete

    def _drop(self, ring: int, use: int) -> Step:
        """Drops what was transferred by a use that no process waits for any more: those that have waited for it know it."""
        spots_, arriving = self.entries.spots[ring], self.entries.arriving[ring]
        dropped: list[tuple[int, ...]] = [(GIVEN, ring, spot, use) for spot in spots_]
        dropped += [(who, *member, ring, spot, use) for spot in spots_ for member in arriving for who in (EACH, TOGETHER)]

        def drop(sets: Sets) -> None:
            for key in dropped:
                sets.pop(key, None)

        return drop

    def _wait(self, member: Member, barrier: Barrier, use: int) -> Iterator[Step]:
        yield from self._knows_before(member, barrier, use, PARITY_TAKEN_FOR_ANOTHER)
        yield from self._receive(member, barrier, use)
        if barrier not in self.entries.ring:
            return
        each, together = (EACH, *member), (TOGETHER, *member)
        waited = self.entries.fact(self.entries.waiter[barrier, member], use)
        complete = self.entries.fact(self.entries.ring[barrier], use)
        # Each of several threads knows only that it has waited itself; that all have is known to them together.
        alone = self.network.processes[member[0]].threads == 1
        known_to_each, known_together = complete | waited if alone else complete, complete | waited

        def wait(sets: Sets) -> None:
            if sets[together] & waited:
                # A process that waits for a use again: knowledge about the first wait does not apply to this one.
                sets.update([(who, facts & ~waited) for who, facts in sets.items()])
            sets[each] |= known_to_each
            sets[together] |= known_together

        yield wait

    def _go_past(self, process: int, ring: int, use: int) -> Step:
        """A process that does not wait for a use counts as having waited for it from the start, and everyone may rely on that."""
        facts = 0
        for rank in self.network.processes[process].ranks:
            barrier = (ring, spot_of(self.network.rings[ring], rank))
            if barrier in self.entries.ring:
                facts |= self.entries.fact(self.entries.waiter[barrier, (process, rank)], use)

        def go_past(sets: Sets) -> None:
            sets.update([(who, known | facts) for who, known in sets.items()])

        return go_past

    def _receive(self, member: Member, barrier: Barrier, use: int) -> Iterator[Step]:
        """What the arrivals of a completed phase transfer. Lanes of a warp that synchronise learn only from those of their own warp."""
        each, together, given = (EACH, *member), (TOGETHER, *member), (GIVEN, *barrier, use)

        def receive(sets: Sets) -> None:
            handed = sets.get(given, 0)
            sets[each] |= handed
            sets[together] |= handed

        yield receive
        if self.network.rings[barrier[0]].kind == "warp":
            yield from [self._of_lanes(member, other, (*barrier, use)) for other in self.entries.arriving[barrier[0]]]

    def _of_lanes(self, member: Member, other: Member, use: tuple[int, int, int]) -> Step:
        mine, theirs = (set(self.network.processes[process].warps) for process, _ in (member, other))
        each, together = (EACH, *member), (TOGETHER, *member)
        of_each, of_all = (EACH, *other, *use), (TOGETHER, *other, *use)

        def learn(sets: Sets) -> None:
            every, all_of_them = sets.get(of_each, 0), sets.get(of_all, 0)
            # The lanes of one warp reconverge: every participant learns what the others know together.
            if len(mine) == 1 and mine == theirs:
                sets[each] |= all_of_them
                sets[together] |= all_of_them
            elif mine <= theirs:
                sets[each] |= every
                sets[together] |= every | (all_of_them if theirs <= mine else 0)
            elif theirs <= mine:
                sets[together] |= all_of_them

        return learn
