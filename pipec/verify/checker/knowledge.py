"""What each process knows of the others' progress: the happens-before order of one schedule, in sets of uses.

A barrier has one bit of phase. A wait for a parity means the phase it is meant for only if (1) that barrier's phase before is known to be
complete to whoever waits, (2) the phase after cannot complete before the wait has succeeded, and arrivals count towards the phase they
are meant for only if (3) the phase before is known to be complete to whoever arrives. These are statements about all orders of events,
and happens-before is the same in all of them, so they are checked along the one that the certificate gives.

An entry of a vector is a set of uses of a ring, as the bits of an integer: those that are complete, and for each process that waits on
the ring those for which it has waited. A vector is what is known: entry by entry a part of what is the case. A process of several
threads knows an entry *each* (every thread does) or *some* (what all its threads together know, which is what an arrival of all of
them hands over).
"""

from dataclasses import dataclass
from operator import and_, or_, rshift

from pipec.verify.checker.configuration import Configuration, Layout, Refused, reached
from pipec.verify.network import Arrive, Network, Ring, Wait

Vector = tuple[int, ...]
Member = tuple[int, int]  # a process in a CTA: its number and the rank
# (ring, CTA of the barrier, use) -> member -> what all its threads together hand over, and what each of them does.
Parts = dict[tuple[int, int, int], dict[Member, tuple[Vector, Vector]]]
TOGETHER: Member = (-1, -1)  # stands for the process of whatever all arrivals hand over, where it does not matter which


def joined(left: Vector, right: Vector) -> Vector:
    return left if left is right else tuple(map(or_, left, right))


def common(left: Vector, right: Vector) -> Vector:
    return left if left is right else tuple(map(and_, left, right))


class Entries:
    """Which entry of a vector means what: `ring`, for the barrier of a CTA: (ring, spot); `waiter`, for who waits there.

    `groups`: the number of each entry's group. CTAs that are alike move together, but each knows only what has come to it: knowledge is
    kept for every CTA by itself. Rings whose users all arrive and wait in every use order themselves and have no entry.
    """

    def __init__(self, layout: Layout) -> None:
        self.ring: dict[tuple[int, int], int] = {}
        self.waiter: dict[tuple[int, int, Member], int] = {}
        self.groups: list[int] = []
        for number, kind in enumerate(layout.network.rings):
            if kind.kind in ("named", "warp") and _meets(layout.network, number):
                continue
            group = layout.group_of.get(number, 0)
            for spot in spots(kind):
                self.ring[number, spot] = len(self.groups)
                self.groups.append(group)
                for process in layout.waiters[number]:
                    for rank in ranks_at(layout.network, number, spot, process):
                        self.waiter[number, spot, (process, rank)] = len(self.groups)
                        self.groups.append(group)
        self.start: Vector = (layout.before,) * len(self.groups)  # what all know when the kernel begins


def spots(ring: Ring) -> tuple[int, ...]:
    """The CTAs whose barriers the ring stands for; a cluster barrier is one barrier."""
    return ring.ranks[:1] if ring.kind == "cluster" else ring.ranks


def spot_of(ring: Ring, rank: int) -> int:
    return ring.ranks[0] if ring.kind == "cluster" else rank


def ranks_at(network: Network, ring: int, spot: int, process: int) -> tuple[int, ...]:
    """The CTAs in which the process waits at this barrier: threads wait at barriers of their own CTA."""
    return tuple(rank for rank in network.processes[process].ranks if spot_of(network.rings[ring], rank) == spot)


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


@dataclass(slots=True)
class Knowledge:
    """`each`, `some`: per process and CTA. `pending`: what the arrivals of uses that are not complete hand over; `given`: of those that
    are, for who still waits for them."""

    layout: Layout
    entries: Entries
    each: dict[Member, Vector]
    some: dict[Member, Vector]
    pending: Parts
    given: Parts

    @classmethod
    def start(cls, layout: Layout, entries: Entries) -> "Knowledge":
        processes = layout.network.processes
        begin = {(number, rank): entries.start for number, process in enumerate(processes) for rank in process.ranks}
        given: Parts = {
            (number, spot, layout.window - 1 - back): {TOGETHER: (entries.start, entries.start)}
            for number, kind in enumerate(layout.network.rings)
            if number in layout.group_of
            for spot in spots(kind)
            for back in range(kind.stages)
        }
        return cls(layout, entries, dict(begin), dict(begin), {}, given)

    def copy(self) -> "Knowledge":
        pending = {key: dict(row) for key, row in self.pending.items()}
        return Knowledge(self.layout, self.entries, dict(self.each), dict(self.some), pending, dict(self.given))

    def arrive(self, at: Configuration, process: int, action: Arrive, completed: int | None, use: int) -> None:
        """After the configuration has counted the arrival."""
        ring = action.use.ring
        for rank, spot in reached(self.layout.network, process, action):
            member = process, rank
            self._knows_before(at, member, (ring, spot), use, "the arrival can come while the phase before is still open")
            parts = self.pending.setdefault((ring, spot, use), {})
            together = self.each[member] if action.part else self.some[member]
            some, each = parts.get(member, (together, self.each[member]))
            parts[member] = joined(some, together), joined(each, self.each[member])
        if completed is not None:
            for spot in spots(self.layout.network.rings[ring]):
                self._complete(at, process, (ring, spot), use)

    def _knows_before(self, at: Configuration, member: Member, barrier: tuple[int, int], use: int, why: str) -> None:
        entry, before = self.entries.ring.get(barrier), use - self.layout.network.rings[barrier[0]].stages
        if entry is not None:
            at.need(member[0], before >= 0 and bool(self.each[member][entry] >> before & 1), why)

    def _complete(self, at: Configuration, process: int, barrier: tuple[int, int], use: int) -> None:
        network, (ring, spot) = self.layout.network, barrier
        parts = self.pending.pop((ring, spot, use), None)
        if parts is None:
            raise Refused(f"line {at.line(process)}: a barrier of another CTA gets none of its arrivals")
        before = use - network.rings[ring].stages
        self.given.pop((ring, spot, before), None)
        if network.rings[ring].kind == "warp":
            self.given[ring, spot, use] = parts
            return
        total = (0,) * len(self.entries.groups)
        for some, _ in parts.values():
            total = joined(total, some)
        self.given[ring, spot, use] = {TOGETHER: (total, total)}
        if barrier not in self.entries.ring:
            return
        for waiter in self.layout.waiters[ring]:
            if not at.waited[ring, waiter] >> before & 1:
                continue
            for rank in ranks_at(network, ring, spot, waiter):
                known = total[self.entries.waiter[ring, spot, (waiter, rank)]] >> before & 1
                role = network.processes[waiter].role
                at.need(process, bool(known), f"the phase can complete before `{role}` has seen the phase before")

    def wait(self, at: Configuration, process: int, ring: int, use: int) -> None:
        """After the configuration has noted the wait."""
        kind = self.layout.network.rings[ring]
        overtaken = at.rings[ring].complete(use + kind.stages)
        at.need(process, not overtaken, "the phase after can complete before this wait sees its own")
        for rank in self.layout.network.processes[process].ranks:
            self._waits(at, (process, rank), (ring, spot_of(kind, rank)), use)

    def _waits(self, at: Configuration, member: Member, barrier: tuple[int, int], use: int) -> None:
        why = "the wait can come while the phase before is open, and take its parity for the other"
        self._knows_before(at, member, barrier, use, why)
        self._receive(member, self.given.get((*barrier, use), {}))
        if barrier not in self.entries.ring:
            return
        bit, entry = 1 << use, self.entries.waiter[(*barrier, member)]
        if self.some[member][entry] & bit:
            self._forget(entry, bit)
        self._learn(member, self.entries.ring[barrier], bit, every=True)
        self._learn(member, entry, bit, every=self.layout.network.processes[member[0]].threads == 1)

    def _forget(self, entry: int, bit: int) -> None:
        """A process that waits for a use again: what was known of the first wait says nothing of this one."""

        def vector(one: Vector) -> Vector:
            return (*one[:entry], one[entry] & ~bit, *one[entry + 1 :])

        self.each = {member: vector(one) for member, one in self.each.items()}
        self.some = {member: vector(one) for member, one in self.some.items()}
        for parts in (self.pending, self.given):
            for key, row in parts.items():
                parts[key] = {member: (vector(some), vector(each)) for member, (some, each) in row.items()}

    def _learn(self, member: Member, entry: int, bit: int, *, every: bool) -> None:
        self.some[member] = _with(self.some[member], entry, bit)
        if every:
            self.each[member] = _with(self.each[member], entry, bit)

    def _receive(self, member: Member, parts: dict[Member, tuple[Vector, Vector]]) -> None:
        """What the arrivals of a completed phase hand over. Lanes of a warp that meet learn from those of their own warp only."""
        processes = self.layout.network.processes
        mine = set(processes[member[0]].warps)
        each, some = self.each[member], self.some[member]
        for other, (all_together, every) in parts.items():
            theirs = mine if other == TOGETHER else set(processes[other[0]].warps)
            if other == TOGETHER or (len(mine) == 1 and mine == theirs):
                each, some = joined(each, all_together), joined(some, all_together)
                continue
            if mine <= theirs:
                each, some = joined(each, every), joined(some, every)
            if theirs <= mine:
                some = joined(some, all_together)
        self.each[member], self.some[member] = each, some

    # ------------------------------------------------------------------------------------------------------- comparison

    def lower(self, by: tuple[int, ...]) -> None:
        """Follows Configuration.lower."""
        if not any(by):
            return
        shifts = [by[group] for group in self.entries.groups]
        lowered: dict[Vector, Vector] = {}

        def vector(one: Vector) -> Vector:
            found = lowered.get(one)
            if found is None:
                found = lowered[one] = tuple(map(rshift, one, shifts))
            return found

        def part(rows: Parts) -> Parts:
            return {
                (ring, spot, use - by[self.layout.group_of[ring]]): {
                    p: (vector(some), vector(each)) for p, (some, each) in row.items()
                }
                for (ring, spot, use), row in rows.items()
            }

        self.each = {member: vector(one) for member, one in self.each.items()}
        self.some = {member: vector(one) for member, one in self.some.items()}
        self.pending, self.given = part(self.pending), part(self.given)

    def weaken(self, other: "Knowledge") -> bool:
        """Forgets what the other does not know; whether that was anything."""
        changed = False
        for mine, theirs in ((self.each, other.each), (self.some, other.some)):
            for member, vector in mine.items():
                mine[member] = common(vector, theirs[member])
                changed |= mine[member] != vector
        pending, given = _common(self.pending, other.pending), _common(self.given, other.given)
        changed |= pending != self.pending or given != self.given
        self.pending, self.given = pending, given
        return changed


def _common(mine: Parts, theirs: Parts) -> Parts:
    return {
        key: {
            process: (common(some, theirs[key][process][0]), common(each, theirs[key][process][1]))
            for process, (some, each) in row.items()
            if process in theirs[key]
        }
        for key, row in mine.items()
        if key in theirs
    }


def _with(vector: Vector, entry: int, bit: int) -> Vector:
    return vector if vector[entry] & bit else (*vector[:entry], vector[entry] | bit, *vector[entry + 1 :])
