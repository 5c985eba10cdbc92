"""Assembles the network from the automata of all classes of threads: numbers rings and cursors, and merges CTAs with the same behaviour."""

from collections import Counter
from collections.abc import Mapping

from pipec.record import replace
from pipec.verify.network import Action, Arrive, Assumption, Edge, End, Network, Process, Ring, State, Test, Unreadable, Use, Wait
from pipec.verify.reader.flow.graph import EXIT
from pipec.verify.reader.processes.classes import Cta, ThreadClass
from pipec.verify.reader.processes.clusters import check_alternates
from pipec.verify.reader.processes.leaving import leaves
from pipec.verify.reader.processes.shares import blocks_at_most, ends_of_portions, multiplied_places
from pipec.verify.reader.processes.states import Node, Transition
from pipec.verify.reader.processes.tidy import mentioned, reached_from, renamed
from pipec.verify.reader.text.interface import Interface
from pipec.verify.reader.values.parameters import in_ranges
from pipec.verify.reader.values.surroundings import RingAction
from pipec.verify.terms import TRUE, Compare, Formula, Linear, Symbol, add, atom, symbols_in, symbols_of

# A process of one CTA; the `targets` of its arrivals are (rank of the barrier, how often).
_Draft = Process


class Assembly:
    """`rings`: of mbarriers, the same in all CTAs except for the counts. `ends`: see Arithmetic."""

    def __init__(
        self, name: str, interface: Interface, rings: list[Ring], threads: int, ranges: dict[str, tuple[int, int]],
        conditions: tuple[Formula, ...], *, near: bool = False, ends: Mapping[Linear, tuple[Linear, Linear]] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.interface, self.threads, self.ranges, self.near = name, interface, threads, ranges, near
        self.conditions, self.ends = conditions, ends or {}
        self.rings = list(rings)
        self.numbers: dict[object, int] = {}

    def network(self, ctas: list[Cta], assumptions: tuple[Assumption, ...]) -> Network:
        self.assumed_of = frozenset(line for one in assumptions for line in one.lines if one.kind == "peers")
        self.size = len(ctas)
        drafts = [self._drafts(cta) for cta in ctas]
        counts = [(*cta.counts, *(ring.count for ring in self.rings[len(cta.counts) :])) for cta in ctas]
        # CTAs with the same behaviour become one process with several ranks; otherwise a cluster of 8 would have eight times the states.
        colours = _colours(drafts, counts)
        rings: list[Ring] = []
        place: dict[tuple[int, int], int] = {}
        for colour in range(max(colours) + 1):
            ranks = tuple(rank for rank, mine in enumerate(colours) if mine == colour)
            for number, ring in enumerate(self.rings):
                if ring.kind == "cluster":
                    place[number, colour] = place.get((number, 0), len(rings))
                    if colour == 0:
                        # The hardware has one such barrier for the whole cluster, whichever CTA arrives.
                        rings.append(replace(ring, ranks=tuple(range(self.size))))
                    continue
                place[number, colour] = len(rings)
                rings.append(replace(ring, count=counts[ranks[0]][number], ranks=ranks))
        processes: list[Process] = []
        for colour in range(max(colours) + 1):
            ranks = tuple(rank for rank, mine in enumerate(colours) if mine == colour)
            for number in range(len(drafts[ranks[0]])):
                same = [drafts[rank][number] for rank in ranks]
                processes.append(self._numbered(self._joined(same, ranks, colours, place), len(processes)))
        return Network(self.name, tuple(rings), tuple(processes), self._facts(processes), assumptions)

    @staticmethod
    def _numbered(process: Process, number: int) -> Process:
        """Register symbols are prefixed with the number of the process."""
        return renamed(process, lambda name: f"{number}:{name.partition(':')[2]}")

    # One CTA.

    def _drafts(self, cta: Cta) -> list[_Draft]:
        groups = self._groups(cta.classes)
        made = [self._process(one, threads, meeting, cta) for threads, one, meeting in groups]
        if ("cluster",) in self.numbers:
            for process in made:
                check_alternates(process, self.numbers[("cluster",)])
        # (Only now all rings are known.)
        return [
            _ending(process, End(leaves(process, threads, one.machine, meeting, self.numbers, self.rings)))
            for process, (threads, one, meeting) in zip(made, groups, strict=True)
        ]

    def _groups(self, classes: list[ThreadClass]) -> list[tuple[tuple[int, ...], ThreadClass, object]]:
        """The future processes: threads, class, and the key of the ring on which the lanes of their warps synchronise. Warps whose lanes
        are divided among the same classes are combined."""
        owners: dict[int, list[int]] = {}
        for one in classes:
            for thread in one.threads:
                owners.setdefault(thread // 32, []).append(one.threads[0])
        made: list[tuple[tuple[int, ...], ThreadClass, object]] = []
        for one in classes:
            if not one.machine.partial:
                made.append((one.threads, one, None))
                continue
            parts: dict[tuple[int, ...], list[int]] = {}
            for thread in one.threads:
                parts.setdefault(tuple(sorted(owners[thread // 32])), []).append(thread)
            for key, threads in parts.items():
                ring = ("warp", key)
                if ring not in self.numbers:
                    warps = [warp for warp, mine in owners.items() if tuple(sorted(mine)) == key]
                    lanes = sum(len(owners[warp]) for warp in warps)
                    self.numbers[ring] = len(self.rings)
                    self.rings.append(Ring("warp", (min(warps),), lanes))
                made.append((tuple(threads), one, ring))
        return made

    def _ring(self, act: RingAction, meeting: object) -> int:
        if isinstance(act.ring, int):
            return act.ring
        key: object = act.ring
        if isinstance(act.ring, tuple) and act.ring[0] == "warp":
            key = (meeting, act.ring) if len(act.ring) > 1 else meeting
        found = self.numbers.get(key)
        if found is not None:
            return found
        found = self.numbers[key] = len(self.rings)
        if isinstance(act.ring, tuple) and act.ring[0] == "warp":
            self.rings.append(self.rings[self.numbers[meeting]])
            return found
        if key == ("cluster",):
            self.rings.append(Ring("cluster", (0,), self.threads * self.size))
            return found
        assert isinstance(key, tuple)
        _, name, count = key
        # Legal in PTX if the uses do not overlap, which is unknown here: refused rather than guessed.
        if any(ring.kind == "named" and ring.instances == (name,) for ring in self.rings):
            raise Unreadable(1, f"barrier {name} is used for different numbers of threads")
        self.rings.append(Ring("named", (name,), count))
        return found

    def _process(self, one: ThreadClass, threads: tuple[int, ...], meeting: object, cta: Cta) -> Process:
        cursors: dict[object, int] = {}
        for node in one.walk.nodes:
            if node.act is not None:
                cursors.setdefault(node.act.cursor, len(cursors))
        share = (len(threads), len(one.threads))
        states = [self._state(node, cursors, meeting, share) for node in one.walk.nodes]
        start = one.walk.start
        first = start.target
        if start.values or start.advances or start.requires:
            edge = _edge(start, cursors)
            first = len(states)
            states.append(State(states[0].line, Test(TRUE, edge, edge)))
        warps = tuple(sorted({thread // 32 for thread in threads}))
        # The compiler unrolls a loop over the CTAs of a cluster into consecutive arrivals.
        states = _coalesced(states, self.rings, self.assumed_of) if self.size > 1 else states
        made = Process(self.interface.role(warps[0]), len(threads), warps, (cta.rank,), len(cursors), tuple(states), first)
        if not one.machine.around.asks:
            return made
        counted = {one.machine.cursor_symbol(key).name: number for key, number in cursors.items() if isinstance(key, int)}
        return renamed(made, lambda name: f"{one.walk.name}:cursor{counted[name]}" if name in counted else name)

    def _state(self, node: Node, cursors: dict[object, int], meeting: object, share: tuple[int, int]) -> State:
        action: Action
        if node.block == EXIT:
            action = End()
        elif node.condition is not None:
            yes, no = (_edge(way, cursors) for way in node.edges)
            action = Test(node.condition, yes, no)
        else:
            assert node.act is not None
            act = node.act
            use = Use(self._ring(act, meeting), cursors[act.cursor], act.shift)
            edge = _edge(node.edges[0], cursors)
            if act.waits:
                action = Wait(use, edge, act.reads, act.peeks)
            else:
                count, expects, delivers = (number * share[0] // share[1] for number in (act.count, act.expects, act.delivers))
                times = sum(each for _, each in act.targets) if self.size == 1 and act.targets else 1
                targets = act.targets if self.size > 1 else ()
                action = Arrive(use, edge, count * times, expects * times, delivers * times, targets, act.part, act.asks)
        return State(node.line, action, node.symbols)

    # Several CTAs.

    def _joined(
        self, same: list[Process], ranks: tuple[int, ...], colours: list[int], place: dict[tuple[int, int], int]
    ) -> Process:
        """One process for the CTAs of `ranks`, whose processes differ only in the CTAs that they signal."""
        if self.size == 1:
            return same[0]
        colour = colours[ranks[0]]
        states: list[State] = []
        more: list[State] = []
        for number, state in enumerate(same[0].states):
            action = state.action
            if isinstance(action, Wait):
                action = replace(action, use=Use(place[action.use.ring, colour], action.use.cursor, action.use.shift))
            elif isinstance(action, Arrive):
                targets = [one.states[number].action.targets for one in same]  # type: ignore[union-attr]
                parts = self._parts(action, ranks, targets, colours, place)
                action = parts.pop()
                while parts:
                    more.append(replace(state, action=action))
                    action = replace(parts.pop(), edge=Edge(len(same[0].states) + len(more) - 1))
            elif isinstance(action, End):
                action = End(tuple(self._left(ring, count, ranks, colour, place) for ring, count in action.leaves))
            states.append(State(state.line, action, state.live))
        return replace(same[0], ranks=ranks, states=(*states, *more))

    def _left(
        self, ring: int, count: int, ranks: tuple[int, ...], colour: int, place: dict[tuple[int, int], int]
    ) -> tuple[int, int]:
        return place[ring, colour], count * len(ranks) if self.rings[ring].kind == "cluster" else count

    def _parts(
        self,
        action: Arrive,
        ranks: tuple[int, ...],
        targets: list[tuple[tuple[int, int], ...]],
        colours: list[int],
        place: dict[tuple[int, int], int],
    ) -> list[Arrive]:
        """The arrivals at the barriers of each colour of CTAs."""
        ring = self.rings[action.use.ring]
        if ring.kind != "mbarrier":
            times = len(ranks) if ring.kind == "cluster" else 1
            use = Use(place[action.use.ring, colours[ranks[0]]], action.use.cursor, action.use.shift)
            return [replace(action, use=use, count=action.count * times, targets=())]
        reached: Counter[int] = Counter()
        pairs: list[tuple[int, int]] = []
        for rank, mine in zip(ranks, targets, strict=True):
            for target, times in mine:
                reached[target] += times
                pairs.append((rank, target))
        remote = any(rank != target for rank, target in pairs)
        made = []
        for colour in sorted({colours[target] for target in reached}):
            # CTAs of one colour receive alike, by definition of the colours.
            times = next(reached[target] for target in reached if colours[target] == colour)
            made.append(
                replace(
                    action,
                    use=Use(place[action.use.ring, colour], action.use.cursor, action.use.shift),
                    count=action.count * times,
                    expects=action.expects * times,
                    delivers=action.delivers * times,
                    targets=tuple(pair for pair in pairs if colours[pair[1]] == colour) if remote else (),
                )
            )
        return made

    def _facts(self, processes: list[Process]) -> tuple[Formula, ...]:
        names: set[str] = set()
        for process in processes:
            names |= {symbol.name for symbol in mentioned(process)}
        names |= {symbol.name for one in self.conditions for symbol in symbols_in(one)}
        # A launch is then asked for few blocks, in terms of which it is known where each of them stands.
        names |= {f"%nctaid.{axis}" for axis in "xyz" if self.near and f"%ctaid.{axis}" in names}
        names.update(multiplied_places(self.interface, processes))
        # In declaration order, independent of names. Fewer facts make a smaller linear system for every later query.
        ranged = (Symbol(name) for name in self.ranges if name in names)
        made: list[Formula] = [*self.conditions, *in_ranges(self.ranges, ranged)]
        for name in sorted(names):
            above = name.replace("%cta", "%ncta").replace("%cluster", "%ncluster")
            if above != name and above in names:
                made.append(Compare("ge", add(add(atom(Symbol(above)), Linear(-1)), atom(Symbol(name)), -1)))
        for axis, extent in zip("xyz", self.interface.launch, strict=True):
            place, blocks = f"%ctaid.{axis}", self.interface.blocks(axis)
            if extent is None or not extent.terms or not {one.name for one in symbols_of(extent)} <= names:
                continue
            # (In a cluster a block index is derived from that of its cluster and the rank.)
            if place in names:
                made.append(Compare("ge", add(add(extent, Linear(-1)), atom(Symbol(place)), -1)))
            if {one.name for one in symbols_of(blocks)} <= names:
                made.append(Compare("eq", add(extent, blocks, -1)))
        return (*made, *blocks_at_most(self.interface, processes, names), *ends_of_portions(self.ends, processes))


def _coalesced(states: list[State], rings: list[Ring], assumed_of: frozenset[int]) -> list[State]:
    """Consecutive arrivals at the same use of a ring in several CTAs are merged into one. (The first may move the cursor past that use.)
    `assumed_of`: lines of which something is assumed, and which are not merged with others."""
    made = list(states)
    for at in range(len(states) - 1, -1, -1):
        while (together := _together(made[at].action, made, rings)) is not None:
            line, after = made[at].line, states[made[at].action.edge.target].line  # type: ignore[union-attr]
            if (line in assumed_of) != (after in assumed_of):
                break
            made[at] = replace(made[at], action=together)
    return made


def _together(action: Action, states: list[State], rings: list[Ring]) -> Arrive | None:
    """An arrival with the next one, if they can be merged."""
    if not isinstance(action, Arrive) or rings[action.use.ring].kind != "mbarrier":
        return None
    edge, use, after = action.edge, action.use, states[action.edge.target].action
    if edge.values or edge.requires or any(cursor != use.cursor for cursor, _ in edge.advances):
        return None
    moved = sum(by for _, by in edge.advances)
    if not isinstance(after, Arrive) or _what(after) != _what(replace(action, use=replace(use, shift=use.shift - moved))):
        return None
    if not {rank for rank, _ in action.targets}.isdisjoint(rank for rank, _ in after.targets):
        return None
    onward = replace(after.edge, advances=_further(after.edge.advances, edge.advances))
    return replace(after, use=use, targets=tuple(sorted((*action.targets, *after.targets))), edge=onward)


def _further(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """How far cursors advance on two edges together."""
    moved = dict(one)
    for cursor, by in other:
        moved[cursor] = moved.get(cursor, 0) + by
    return tuple(sorted(moved.items()))


def _ending(process: Process, end: End) -> Process:
    """The process with this end."""
    if not end.leaves:
        return process
    return replace(
        process, states=tuple(replace(one, action=end) if isinstance(one.action, End) else one for one in process.states)
    )


def _what(action: Arrive) -> tuple[object, ...]:
    return action.use, action.count, action.expects, action.delivers, action.part, action.asks


def _colours(drafts: list[list[_Draft]], counts: list[tuple[int, ...]]) -> list[int]:
    """A partition of the CTAs: those with the same colour behave alike, and their barriers are signalled alike by CTAs of the same
    colours."""
    if len(drafts) == 1:
        return [0]
    keys: list[object] = []
    for mine, count in zip(drafts, counts, strict=True):
        keys.append(
            (tuple([replace(process, ranks=(), states=tuple(map(_untargeted, process.states))) for process in mine]), count)
        )
    colours = _numbered(keys)
    while True:
        received: list[Counter[object]] = [Counter() for _ in drafts]
        for rank, mine in enumerate(drafts):
            for number, process in enumerate(mine):
                for at in reached_from(process.start, process.states):
                    action = process.states[at].action
                    if isinstance(action, Arrive):
                        for target, times in action.targets:
                            received[target][colours[rank], number, at] += times
        finer = _numbered([(colour, frozenset(got.items())) for colour, got in zip(colours, received, strict=True)])
        # Partition refinement, as in automaton minimisation: classes are only split, so this terminates.
        if len(set(finer)) == len(set(colours)):
            return colours
        colours = finer


def _numbered(keys: list[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _untargeted(state: State) -> State:
    action = state.action
    if not isinstance(action, Arrive) or not action.targets:
        return state
    return replace(state, action=replace(action, targets=()))


def _edge(way: Transition, cursors: dict[object, int]) -> Edge:
    """(A cursor past which threads go without an event is none of the process's, if it has no event there at all.)"""
    return Edge(way.target, way.values, tuple([(cursors[key], by) for key, by in way.advances if key in cursors]), way.requires)
