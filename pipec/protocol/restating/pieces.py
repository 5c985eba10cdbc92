"""Walks that roles take in pieces, in place of their stages one by one.

In stream-K a block has the K blocks from `first` to `last` of all tiles: one role takes them one by one, another in pieces, each up to the
end of a tile, `stop = min(last, (u // steps + 1) * steps)`, and goes on from there. What both have in common is how many stages are left
of the walk. Here a register is added that counts that: `last - first` at the start, and one less behind each wait for the ring. It is
asked whether one is left in front of each wait, and all tests that mean the same ask that. The test whether a piece has come to its end
stays what it is; but where no stage is left it is not asked. What is known of the other registers at each place, as that a piece ends
behind its beginning and not behind `last`, is seen in runs, with numbers drawn for what is made of sizes; what does not follow from
place to place is dropped. It may rest on conditions of sizes: that the walk goes on in steps of at least 1, from a number that is not
negative, up to one that is not so large that the machine cannot compute where the next tile would end.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import combinations

from pipec.protocol.forms.sample import evaluate
from pipec.protocol.program.liveness import live_in
from pipec.protocol.program.program import registers_of
from pipec.protocol.restating.piece_conditions import Asking
from pipec.protocol.restating.piece_runs import (
    Folding,
    Points,
    Run,
    Visit,
    divisors_in,
    forms_in,
    forms_of_state,
    numbers_of_stages,
    runs_of,
)
from pipec.record import mutable, record
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.checker.unknown import unknown
from pipec.verify.logic import System
from pipec.verify.network import Network, Process, Test, Wait, edges_of
from pipec.verify.terms import (
    FALSE,
    RANGES,
    TRUE,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    negate,
    substituted,
    symbols_in,
    symbols_of,
)

_LARGEST = RANGES["s32"][1]
_FEW = 2  # different numbers of stages that say nothing

Key = tuple[int, bool | None]  # a state, and whether a stage is left: None where it has not been asked since the last wait


@record
class Walks:
    """`others`: what the processes are in other words, if launches satisfy the `conditions`; `left`: the registers for what is left."""

    others: tuple[Restatement, ...]
    conditions: tuple[Formula, ...]
    left: tuple[Symbol, ...]


def in_pieces(network: Network) -> Walks | None:
    """None if some process has another number of stages, or it does not follow that it has."""
    registers = registers_of(network)
    folding = Folding(registers)
    looping = [number for number, process in enumerate(network.processes) if _waits(network, process)]
    processes = {number: folding.process(network.processes[number]) for number in looping}
    runs = {number: runs_of(process, folding) for number, process in processes.items()}
    if not processes or not all(runs.values()):
        return None
    for many in numbers_of_stages([*processes.values()], registers):
        rings = {number: _ring(processes[number], runs[number], many) for number in looping}
        if all(ring is not None for ring in rings.values()):
            made = [_Counting(number, processes[number], rings[number], many, runs[number], registers) for number in looping]
            return _walks(network, folding, made)
    return None


def _waits(network: Network, process: Process) -> bool:
    actions = [state.action for state in process.states]
    return any(isinstance(one, Wait) and network.rings[one.use.ring].kind == "mbarrier" for one in actions)


def _ring(process: Process, runs: Sequence[Run], many: Linear) -> int | None:
    """The first ring of which each run has that many stages."""
    rings = dict.fromkeys(state.action.use.ring for state in process.states if isinstance(state.action, Wait))
    for ring in rings:
        waits = [run.waits.get(ring, 0) for run in runs]
        if len({*waits}) > _FEW and all(max(evaluate(many, run.sizes), 0) == each for run, each in zip(runs, waits, strict=True)):
            return ring
    return None


def _walks(network: Network, folding: Folding, made: "Sequence[_Counting]") -> Walks | None:
    premises = [*dict.fromkeys(premise for one in made for premise in one.premises)]
    premises += [Compare("eq", add(atom(one), form, -1)) for one, form in folding.relations().items()]
    if not all(one.follows(premises) for one in made):
        return None
    asking = Asking(network)
    exactly = [
        each
        for form, (least, most) in folding.exact.items()
        for each in (Compare("ge", add(form, Linear(-least))), Compare("ge", add(Linear(most), form, -1)))
    ]
    granted = [premise for premise in premises if asking.grants(folding.unfolded_formula(premise))]
    if len(granted) < len(premises) and not all(one.follows(granted) for one in made):
        return None
    if not all(asking.grants(folding.unfolded_formula(one)) for one in exactly):
        return None
    premises = granted
    conditions = asking.conditions()
    if conditions is None:
        return None
    others = [one.restatement(folding, premises, asking.shown) for one in made]
    return Walks(tuple(others), conditions, tuple([one.left for one in made]))


@mutable
class _Node:
    """A place: `asks`, and where it goes on, each with the edge that is taken."""

    asks: Formula | None
    onwards: list[tuple[int | None, Key]]


class _Counting:
    """A process with what is left of its walk in a register."""

    def __init__(
        self, number: int, process: Process, ring: int | None, many: Linear, runs: Sequence[Run], registers: frozenset[Symbol]
    ) -> None:
        self.number, self.process, self.ring, self.many = number, process, ring, many
        self.registers = registers
        self.left = Symbol(f"{number}:%left")
        self.starts = [*dict.fromkeys(self._starts())]
        self.end = self._end()
        self.one_left = Compare("ge", add(atom(self.left), Linear(-1)))
        self.visits: dict[int, list[tuple[Visit, int]]] = {}
        for run in runs:
            whole = evaluate(many, run.sizes)
            for at, visit in run.visits:
                self.visits.setdefault(at, []).append((visit, whole - visit.taken.get(ring or 0, 0)))
        self.premises = [*dict.fromkeys(self._premises())]
        self.live = live_in(process, registers)
        self.held = [(form, self._held(form)) for form in _computed([*forms_in(process)], registers)]
        self.nodes: dict[Key, _Node] = {}
        work: list[Key] = [(process.start, None)]
        while work:
            key = work.pop()
            if key not in self.nodes:
                node = self.nodes[key] = self._node(*key)
                work += [then for _, then in node.onwards]
        self.known: dict[Key, list[Formula]] = {key: [*dict.fromkeys(self._seen(*key))] for key in self.nodes}

    def _starts(self) -> Iterator[Linear]:
        """Numbers of sizes that registers are given."""
        for state in self.process.states:
            for edge in edges_of(state.action):
                for _, value in edge.values:
                    if value is not None and value.terms and symbols_of(value).isdisjoint(self.registers):
                        yield value

    def _end(self) -> Linear:
        """Where the walk ends, by where it begins."""
        ends = [add(start, self.many) for start in self.starts if start != self.many]
        plain = Linear(0, tuple((one, times) for one, times in self.many.terms if times > 0))
        return min(ends, key=lambda form: len(form.terms), default=plain)

    def _premises(self) -> Iterator[Formula]:
        """Of sizes, on which it may rest."""
        divisors = divisors_in(self.process)
        for one in divisors:
            yield Compare("ge", add(one, Linear(-1)))
            yield Compare("ge", add(add(Linear(_LARGEST), self.end, -1), one, -1))
        yield Compare("ge", add(Linear(_LARGEST), self.end, -1))
        yield Compare("ge", self.end)
        for start in self.starts:
            yield from (Compare("ge", start), Compare("ge", add(Linear(_LARGEST), start, -1)))

    def _node(self, at: int, answer: bool | None) -> _Node:
        action = self.process.states[at].action
        if isinstance(action, Wait) and action.use.ring == self.ring and not action.peeks:
            if answer is None:
                return _Node(self.one_left, [(None, (at, True))] * 2)
            return _Node(None, [(0, (action.edge.target, None))])
        edges = edges_of(action)
        if not isinstance(action, Test):
            return _Node(None, [(takes, (edge.target, answer)) for takes, edge in enumerate(edges)])
        outcomes = {
            some: {visit.outcome for visit, left in self.visits.get(at, ()) if (left >= 1) == some} for some in (True, False)
        }
        told = outcomes[True] | outcomes[False]
        if answer is not None:
            told = outcomes[answer]
        elif len(told) > 1 and min(map(len, outcomes.values())) < 2:
            if len(outcomes[True]) < 2 and len(outcomes[False]) < 2:
                takes = [0 if True in outcomes[some] else 1 for some in (True, False)]
                return _Node(self.one_left, [(each, (edges[each].target, some)) for each, some in zip(takes, (True, False))])
            return _Node(self.one_left, [(None, (at, True)), (None, (at, False))])
        if len(told) == 1:
            takes_it = 0 if True in told else 1
            return _Node(TRUE, [(takes_it, (edges[takes_it].target, answer))] * 2)
        return _Node(action.condition, [(takes, (edge.target, answer)) for takes, edge in enumerate(edges)])

    # ------------------------------------------------------------------------------------------------------------- what follows

    def follows(self, premises: Sequence[Formula]) -> bool:
        """Whether the process does the same so, if the premises hold; what is known at each place is found."""
        having = System(premises).closed()
        self.known[self.process.start, None] = [one for one in self.known[self.process.start, None] if having.entails(one)]
        changed = dict.fromkeys(self.nodes)
        while changed:
            key = next(iter(changed))
            del changed[key]
            for answer, (takes, then) in self._answers(key):
                facts = self.known[then]
                kept = [*self._following(having, key, answer, takes, facts)]
                if len(kept) < len(facts):
                    self.known[then] = kept
                    changed[then] = None
        return all(self._means(having, key) for key in self.nodes)

    def _answers(self, key: Key) -> list[tuple[Formula, tuple[int | None, Key]]]:
        node = self.nodes[key]
        if node.asks is None:
            return [(TRUE, one) for one in node.onwards]
        return [*zip((node.asks, negate(node.asks)), node.onwards, strict=True)]

    def _having(self, sizes: System, key: Key, answer: Formula, takes: int | None) -> System:
        action = self.process.states[key[0]].action
        meant = []
        if takes is not None and isinstance(action, Test):
            meant = [negate(action.condition) if takes else action.condition]
        return sizes.extended([*self.known[key], answer, *meant])

    def _following(
        self, sizes: System, key: Key, answer: Formula, takes: int | None, facts: Sequence[Formula]
    ) -> Iterator[Formula]:
        """The facts that hold behind an edge: first those of what is not computed again, of which the others follow."""
        values = {
            symbol: unknown(place) if value is None else value for place, (symbol, value) in enumerate(self._values(key, takes))
        }
        having = self._having(sizes, key, answer, takes)
        before, kept = set(self.known[key]), list[Formula]()
        for fact in facts:
            if _computes(fact, values):
                continue
            if fact in before and symbols_in(fact).isdisjoint(values) or having.entails(substituted(fact, values)):
                kept.append(fact)
        yield from kept
        landed = sizes.extended(kept)
        yield from (fact for fact in facts if _computes(fact, values) and landed.entails(fact))

    def _values(self, key: Key, takes: int | None) -> Iterator[tuple[Symbol, Linear | None]]:
        if takes is None:
            return
        action = self.process.states[key[0]].action
        yield from edges_of(action)[takes].values
        if isinstance(action, Wait) and action.use.ring == self.ring and not action.peeks:
            yield self.left, add(atom(self.left), Linear(-1))
        elif key == (self.process.start, None):
            yield self.left, self.many

    def _means(self, sizes: System, key: Key) -> bool:
        """Whether what is asked means what the state asks."""
        action = self.process.states[key[0]].action
        if not isinstance(action, Test) or self.nodes[key].asks == action.condition:
            return True
        for answer, (takes, _) in self._answers(key):
            if takes is not None:
                meant = negate(action.condition) if takes else action.condition
                if not sizes.extended([*self.known[key], answer]).entails(meant):
                    return False
        return True

    def _seen(self, at: int, answer: bool | None) -> Iterator[Formula]:
        """What is true in all visits, and may follow."""
        visits = [(visit, left) for visit, left in self.visits.get(at, ()) if answer is None or (left >= 1) == answer]
        if not visits:
            yield FALSE
            return
        if at == self.process.start:
            return
        known = set.intersection(*({*visit.values} for visit, _ in visits)) & self.live[at]
        registers = [atom(one) for one in sorted(known, key=lambda one: one.name)]
        forms = registers + [form for form, held in self.held if at in held and symbols_of(form) & self.registers <= known]
        left = atom(self.left)
        points = [{**visit.values, self.left: many} for visit, many in visits]
        seen = Points(points)
        sizes = dict.fromkeys(one for form in (self.many, *self.starts) for one, _ in form.terms)
        yield from map(partial(Compare, "eq"), seen.equations([*forms, left, *map(atom, sizes)]))
        here = add(self.end, left, -1)  # how far the walk has come, if it begins at what is taken away
        apart = [left, add(self.many, left, -1), *forms]
        apart += [add(end, one, -1) for one in forms for end in (self.end, here)]
        for one, other in combinations(forms, 2):
            apart += [add(one, other, -1), *(add(end, add(one, other), -1) for end in (self.end, here))]
        for form in apart:
            yield from map(partial(Compare, "ge"), seen.bounds(form))

    def _held(self, form: Linear) -> frozenset[int]:
        """The states in which it is needed, as the registers are there."""
        states, inside = self.process.states, symbols_of(form)
        held = {at for at, state in enumerate(states) if form in _computed([*forms_of_state(state)], self.registers)}
        size = -1
        while size < len(held):
            size = len(held)
            for at, state in enumerate(states):
                edges = edges_of(state.action)
                if any(edge.target in held and inside.isdisjoint(symbol for symbol, _ in edge.values) for edge in edges):
                    held.add(at)
        return frozenset(held)

    # ------------------------------------------------------------------------------------------------------------------- places

    def restatement(self, folding: Folding, premises: Sequence[Formula], shown: Sequence[Formula]) -> Restatement:
        """Of the process as it is. `shown`: what is known of sizes."""
        keys, sizes = [*self.nodes], System(premises).closed()
        unfolded = folding.unfolded_formula
        landing: dict[tuple[Key, tuple[Formula, ...]], int] = {}
        places = list[Place]()
        for key, node in self.nodes.items():
            facts = [] if key[0] == self.process.start else [*shown, *map(unfolded, self.known[key])]
            onwards = []
            for answer, (takes, then) in self._answers(key):
                moved = dict(self._values(key, takes))
                own = moved.get(self.left)
                values = () if own is None else ((self.left, folding.unfolded(own)),)
                first = tuple(fact for fact in self.known[then] if not _computes(fact, moved))
                target = keys.index(then)
                if len(first) < len(self.known[then]):
                    target = landing.setdefault((then, first), len(keys) + len(landing))
                required = map(unfolded, self._required(sizes, key, answer, takes))
                onwards.append(Onward(takes, target, values, tuple(dict.fromkeys(required))))
            places.append(Place(key[0], tuple(dict.fromkeys(facts)), node.asks and unfolded(node.asks), tuple(onwards)))
        for then, first in landing:
            facts = [*shown, *map(unfolded, first)]
            places.append(Place(then[0], tuple(dict.fromkeys(facts)), TRUE, (Onward(None, keys.index(then)),) * 2))
        return Restatement(self.number, keys.index((self.process.start, None)), tuple(places))

    def _required(self, sizes: System, key: Key, answer: Formula, takes: int | None) -> Iterator[Formula]:
        """What is required, if that does not follow here."""
        if takes is not None:
            having = self._having(sizes, key, answer, takes)
            edge = edges_of(self.process.states[key[0]].action)[takes]
            yield from (one for one in edge.requires if not having.entails(one))


def _computed(forms: Sequence[Linear], registers: Collection[Symbol]) -> list[Linear]:
    """What is computed of registers in the forms."""
    parts = (one for form in forms for one, _ in form.terms if not isinstance(one, Symbol))
    return [*dict.fromkeys(atom(one) for one in parts if not symbols_of(atom(one)).isdisjoint(registers))]


def _computes(fact: Formula, moved: Collection[Symbol]) -> bool:
    """Whether it is about what is computed of registers that have been given a value."""
    return any(not symbols_of(form).isdisjoint(moved) for form in _computed([*forms_of(fact)], symbols_in(fact)))
