"""The places of all processes, and what has arrived on each ring: the part of a network's state that needs no arithmetic.

Counts are relative: all counts of rings that share cursors are lowered together so that the smallest of these cursors is `window`, which
makes the configurations of a loop equal. Uses below the window's start represent those that were complete before the kernel started.
"""

from collections.abc import Collection

from pipec.record import record
from pipec.verify.network import MOST_BYTES, Action, Arrive, Edge, End, Network, Process, Use, Wait

_ENDED = -1  # a cursor of a process that has ended


class Refused(Exception):
    """A certificate, or a step of it, does not hold; says why."""


def need(condition: bool, why: str) -> None:
    if not condition:
        raise Refused(why)


# The state of an incomplete use: arrivals, bytes announced, bytes delivered, and who has announced bytes without arriving since: process,
# rank of its CTA, rank of the barrier.
Partial = tuple[int, int, int, frozenset[tuple[int, int, int]]]
_NOTHING: Partial = (0, 0, 0, frozenset())
_UNSEEN = (0, 0, 0)  # no use has been waited for, or is gone


@record
class Group:
    """Rings and cursors (process, cursor) that are connected by events."""

    rings: tuple[int, ...]
    cursors: tuple[tuple[int, int], ...]


class Layout:
    """The static part of a network. `window`: how many uses back a query can reach, with a margin."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.actions = [[state.action for state in process.states] for process in network.processes]
        waits = [waits_of(process) for process in network.processes]
        # A process that waits again for an earlier use refers to the use before it on the same barrier.
        waited = [network.rings[use.ring].stages - use.shift for uses in waits for use in uses]
        waited += [
            -action.use.shift for actions in self.actions for action in actions if isinstance(action, Wait) and action.peeks
        ]
        self.window = max([2, *waited, *(2 * ring.stages for ring in network.rings)]) + 2
        self.before = (1 << self.window) - 1  # as a set of uses: all before the kernel
        self.groups = groups_of(network)
        self.group_of = {ring: number for number, group in enumerate(self.groups) for ring in group.rings}
        waiters: list[list[int]] = [[] for _ in network.rings]
        for number, uses in enumerate(waits):
            for ring in {use.ring for use in uses}:
                waiters[ring].append(number)
        self.waiters = tuple(map(tuple, waiters))
        # By ring, the processes that read answers of the scheduler there.
        read = [*map(_read_by, self.actions)]
        self.readers = [{number for number, rings in enumerate(read) if ring in rings} for ring in range(len(network.rings))]
        # By ring, the processes that are no longer waited for once they have ended, with their numbers of arrivals.
        self.leaving: dict[int, list[tuple[int, int]]] = {}
        for number, process in enumerate(network.processes):
            ends = {state.action for state in process.states if isinstance(state.action, End)}
            for ring, count in ends.pop().leaves if len(ends) == 1 else ():
                self.leaving.setdefault(ring, []).append((number, count))
        # By process and cursor: the rings for which it waits along no other cursor, and how far back the last such use may be.
        self.passing = [
            [_passing(uses, cursor) for cursor in range(process.cursors)]
            for uses, process in zip(waits, network.processes, strict=True)
        ]
        # The uses before the kernel for which a process does not wait, as a bit set: they count as waited for.
        least = [_least(uses) for uses in waits]
        self.never = {
            (ring, process): self.before >> max(0, -least[process][ring])
            for ring, row in enumerate(self.waiters)
            for process in row
        }


Key = tuple[object, ...]


class Configuration:
    """Mutable. `done`: per ring the complete uses, as a bit set; all below 0 are complete. `partial`: (ring, use) -> the state of an
    incomplete one. `waited`: (ring, process) -> the uses waited for, as a bit set. `seen`: of some rings the uses
    that somebody has waited for since the last node, by how much their counts have been lowered since, and which uses are below 0 from then
    on, though they are the last ones of their barriers and were not waited for on this way (numbered as before)."""

    def __init__(self, layout: Layout, watched: Collection[int] = ()) -> None:
        self.layout = layout
        self.network = layout.network
        self.seen = dict.fromkeys(watched, _UNSEEN)
        self.places = [process.start for process in self.network.processes]
        self.cursors = [(layout.window,) * process.cursors for process in self.network.processes]
        self.done = [layout.before] * len(self.network.rings)
        self.partial: dict[tuple[int, int], Partial] = {}
        self.waited = dict(layout.never)

    def copy(self) -> "Configuration":
        made = Configuration.__new__(Configuration)
        made.layout, made.network = self.layout, self.network
        made.places, made.cursors, made.done = list(self.places), list(self.cursors), list(self.done)
        made.partial, made.waited = dict(self.partial), dict(self.waited)
        made.seen = dict.fromkeys(self.seen, _UNSEEN) if self.seen else self.seen
        return made

    def action(self, process: int) -> Action:
        return self.layout.actions[process][self.places[process]]

    def line(self, process: int) -> int:
        return self.network.processes[process].states[self.places[process]].line

    def need(self, process: int, condition: bool, why: str) -> None:
        """Refuses a step of the process unless the condition holds."""
        if not condition:
            raise Refused(f"line {self.line(process)}: {why}")

    def use(self, process: int, use: Use) -> int:
        return self.cursors[process][use.cursor] + use.shift

    def complete(self, ring: int, use: int) -> bool:
        return use < 0 or bool(self.done[ring] >> use & 1)

    def below(self, ring: int) -> int:
        """The first incomplete use."""
        return (~self.done[ring] & self.done[ring] + 1).bit_length() - 1

    def enter(self, process: int, edge: Edge) -> list[tuple[int, int]]:
        """Takes an edge; returns the uses of rings that lacked only this process, if it ends."""
        self.places[process] = edge.target
        for cursor, uses in edge.advances:
            counts = self.cursors[process]
            self.cursors[process] = (*counts[:cursor], counts[cursor] + uses, *counts[cursor + 1 :])
            for ring, shift in self.layout.passing[process][cursor]:
                self.waited[ring, process] |= self._behind(counts[cursor] + shift, uses)
        action = self.action(process)
        if not isinstance(action, End):
            return []
        rings = {ring for ring, _ in action.leaves}
        completed = [
            (ring, use)
            for (ring, use), (arrivals, announced, delivered, owing) in self.partial.items()
            if ring in rings and arrivals == self.count(ring) and announced == delivered and not owing
        ]
        for ring, use in completed:
            self._complete(ring, use)
        return completed

    @staticmethod
    def _behind(first: int, uses: int) -> int:
        """The given number of uses from the first one on, as a bit set."""
        return (1 << max(0, first + uses)) - (1 << max(0, first))

    def gone_past(self, process: int, edge: Edge) -> list[tuple[int, int]]:
        """The uses (ring, use) that the process passes by taking the edge without having waited for them."""
        found = []
        for cursor, uses in edge.advances:
            for ring, shift in self.layout.passing[process][cursor]:
                first = self.cursors[process][cursor] + shift
                left = self._behind(first, uses) & ~self.waited[ring, process]
                found += [(ring, use) for use in range(max(0, first), first + uses) if left >> use & 1]
        return found

    def count(self, ring: int) -> int:
        """The number of arrivals that complete a phase, without processes that have ended."""
        left = [count for process, count in self.layout.leaving.get(ring, ()) if isinstance(self.action(process), End)]
        return self.network.rings[ring].count - sum(left)

    def _complete(self, ring: int, use: int) -> None:
        self.partial.pop((ring, use), None)
        if use >= 0:
            self.done[ring] |= 1 << use

    def arrive(self, process: int, action: Arrive) -> int | None:
        """Counts the arrival; returns the use that it completes, if any."""
        ring, use, count = action.use.ring, self.use(process, action.use), self.count(action.use.ring)
        self.need(process, not self.complete(ring, use), "an arrival for a phase that is complete")
        arrivals, announced, delivered, owing = self.partial.get((ring, use), _NOTHING)
        arrivals, announced, delivered = arrivals + action.count, announced + action.expects, delivered + action.delivers
        self.need(process, arrivals <= count, "more arrivals than the barrier counts")
        # In this schedule copies arrive at once. In another, all announced ones may be in flight together, or all arrive first.
        self.need(process, max(announced, delivered) <= MOST_BYTES, "more bytes may be under way than a barrier counts")
        # A phase ends as soon as no arrival and no byte is missing. Whoever announces bytes must therefore arrive with them or afterwards:
        # otherwise the other arrivals could end the phase before the bytes are announced.
        if owing and action.count or action.expects and not action.count:
            mine = frozenset((process, rank, spot) for rank, spot in reached(self.network, process, action))
            owing = owing - mine if action.count else owing | mine
        if arrivals == count and announced == delivered:
            self.need(process, not owing, "bytes are announced by a thread that does not arrive afterwards")
            self._complete(ring, use)
            return use
        self.need(process, arrivals < count or announced > delivered, "more bytes arrive than are expected")
        self.partial[ring, use] = arrivals, announced, delivered, owing
        return None

    def wait(self, process: int, use: Use) -> int:
        number = self.use(process, use)
        self.need(process, number >= 0, "a wait for a phase long past")
        self.waited[use.ring, process] |= 1 << number
        if use.ring in self.seen:
            uses, by, lost = self.seen[use.ring]
            self.seen[use.ring] = uses | 1 << number, by, lost
        return number

    def waiting_before(self, ring: int, use: int) -> tuple[int, ...]:
        """The processes that have waited for the previous phase on the same barrier."""
        before = use - self.network.rings[ring].stages
        # (A process that is no longer waited for has ended after its wait, and the phase lacked it until then.)
        left = {process for process, _ in self.layout.leaving.get(ring, ()) if isinstance(self.action(process), End)}
        waiting = [process for process in self.layout.waiters[ring] if process not in left]
        return tuple(process for process in waiting if before >= 0 and self.waited[ring, process] >> before & 1)

    def read_before(self, ring: int, use: int) -> tuple[int, ...]:
        """The processes that may have read the answer of the scheduler that completed the previous phase on the same barrier."""
        return tuple([one for one in self.waiting_before(ring, use) if one in self.layout.readers[ring]])

    def delivered(self, ring: int, use: int) -> int:
        """The bytes that have come for a phase that is not complete."""
        return self.partial.get((ring, use), _NOTHING)[2]

    def drained(self, ring: int, seen: int) -> bool:
        """Whether the last complete use of each barrier is among those."""
        below = self.below(ring)
        last = (1 << below) - (1 << max(0, below - self.network.rings[ring].stages))
        return not self.done[ring] >> below and not last & ~seen

    def _last(self, ring: int) -> int:
        """The complete uses behind which their barriers have no further one so far."""
        return self.done[ring] & ~(self.done[ring] >> self.network.rings[ring].stages)

    def all_waited(self, ring: int, use: int) -> bool:
        """Whether all processes that wait on the ring have waited for the use."""
        return all(self.waited[ring, process] >> use & 1 for process in self.layout.waiters[ring])

    def ended(self) -> bool:
        return all(isinstance(self.action(number), End) for number in range(len(self.places)))

    def settled(self) -> bool:
        """Whether no phase is partially complete."""
        return not self.partial

    def lower(self) -> tuple[int, ...]:
        """Makes the counts relative again; returns by how much those of each group were lowered."""
        by = []
        for number, counts in enumerate(self.cursors):
            # A process that has ended needs no uses, and must not hold the window back.
            if isinstance(self.action(number), End):
                self.cursors[number] = (_ENDED,) * len(counts)
        for group in self.layout.groups:
            going = [count for process, cursor in group.cursors if (count := self.cursors[process][cursor]) != _ENDED]
            if group.cursors and not going:
                self._forget(group)
            by.append(min(going, default=self.layout.window) - self.layout.window)
            if by[-1]:
                self._lower(group, by[-1])
        for ring, waiting in enumerate(self.layout.waiters):
            # Waits before the latest complete phase are never queried again, and do not distinguish configurations.
            past = max(0, self.below(ring) - self.network.rings[ring].stages) if waiting else 0
            for process in waiting:
                self.waited[ring, process] |= (1 << past) - 1
        return tuple(by)

    def _forget(self, group: Group) -> None:
        """Rings that are no longer used: only their relative progress is still distinguished."""
        self._lower_rings(group, min(map(self.below, group.rings)) - self.layout.window)
        for ring in group.rings:
            self.waited.update({(ring, process): self.layout.never[ring, process] for process in self.layout.waiters[ring]})

    def _lower(self, group: Group, by: int) -> None:
        for process, cursor in group.cursors:
            counts = self.cursors[process]
            if counts[cursor] != _ENDED:
                self.cursors[process] = (*counts[:cursor], counts[cursor] - by, *counts[cursor + 1 :])
        self._lower_rings(group, by)
        for ring in group.rings:
            for process in self.layout.waiters[ring]:
                self.waited[ring, process] >>= by

    def lowered(self, uses: int, by: int) -> int:
        """A set of uses, with those before the kernel."""
        return (uses << self.layout.window | self.layout.before) >> self.layout.window + by

    def _lower_rings(self, group: Group, by: int) -> None:
        for ring in group.rings:
            # (`by` may be negative for forgotten rings whose last use never happened.)
            if ring in self.seen:
                uses, before, lost = self.seen[ring]
                lost |= self._last(ring) & self._behind(0, by) & ~uses
                self.seen[ring] = self.lowered(uses, by), before + by, lost
            self.done[ring] = self.lowered(self.done[ring], by)
        self.partial = {(ring, use - by * (ring in group.rings)): rest for (ring, use), rest in self.partial.items()}

    def key(self) -> Key:
        return (*self.places, *self.cursors, *self.done, frozenset(self.partial.items()), *self.waited.values())


def reached(network: Network, process: int, action: Arrive) -> tuple[tuple[int, int], ...]:
    """(rank of the thread's CTA, rank of the barrier's) for every barrier that the process signals."""
    ring, ranks = network.rings[action.use.ring], network.processes[process].ranks
    if ring.kind == "cluster":
        return tuple((rank, ring.ranks[0]) for rank in ranks)
    return action.targets or tuple((rank, rank) for rank in ranks)


def uses_of(process: Process) -> set[Use]:
    return {state.action.use for state in process.states if isinstance(state.action, (Wait, Arrive))}


def _read_by(actions: list[Action]) -> set[int]:
    return {action.use.ring for action in actions if isinstance(action, Wait) and action.reads}


def _passing(waits: set[Use], cursor: int) -> tuple[tuple[int, int], ...]:
    """The rings for which a process waits along this cursor only, with the smallest shift."""
    elsewhere = {use.ring for use in waits if use.cursor != cursor}
    return tuple(sorted((ring, shift) for ring, shift in _least(waits).items() if ring not in elsewhere))


def _least(waits: set[Use]) -> dict[int, int]:
    """By ring: the smallest shift with which it is waited for."""
    found: dict[int, int] = {}
    for use in waits:
        found[use.ring] = min(use.shift, found.get(use.ring, use.shift))
    return found


def waits_of(process: Process) -> set[Use]:
    return {state.action.use for state in process.states if isinstance(state.action, Wait) and not state.action.peeks}


_Member = tuple[str, int, int]


def groups_of(network: Network) -> tuple[Group, ...]:
    """Partitions the rings and cursors into groups."""
    parent: dict[_Member, _Member] = {}

    def root(one: _Member) -> _Member:
        while parent.setdefault(one, one) != one:
            one = parent[one]
        return one

    for number, process in enumerate(network.processes):
        for use in uses_of(process):
            parent[root(("ring", use.ring, 0))] = root(("cursor", number, use.cursor))
    members: dict[_Member, tuple[list[int], list[tuple[int, int]]]] = {}
    for one in parent:
        rings, cursors = members.setdefault(root(one), ([], []))
        if one[0] == "ring":
            rings.append(one[1])
        else:
            cursors.append((one[1], one[2]))
    return tuple(sorted((Group(tuple(sorted(r)), tuple(sorted(c))) for r, c in members.values()), key=lambda group: group.rings))
