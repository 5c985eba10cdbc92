"""Searches a certificate: follows one schedule through all situations that its tests can lead to, and finds what holds in each.

An abstract interpretation of the deterministic product of all processes: a situation is where all processes stand, what has arrived, and
which branches led there; its facts start with the first way in and are weakened until every way implies them. Where that fails the
sizes are split, or another schedule is tried.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipec.protocol.domain import Facts, Values, composed, image, written
from pipec.protocol.liveness import live_in
from pipec.protocol.sample import Numbers, Points, assign, evaluate, forms_of, holds, sizes
from pipec.protocol.schedule import Key, Schedule, Situation, Stuck, orders
from pipec.verify.certificate import Case, Certificate, Moves, Node
from pipec.verify.configuration import Configuration, Refused
from pipec.verify.logic import System, combined
from pipec.verify.network import Network, Test
from pipec.verify.progress import edges_of
from pipec.verify.terms import (
    Atom,
    Both,
    Compare,
    Either,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    negate,
    substituted,
    symbols_in,
    symbols_of,
)

_ROUNDS = 2  # of carrying inequalities along
_MOST_ASSUMED = 4
_FAR = 1 << 30
_MOST_DECISIONS = 300  # of one run
_MOST_POINTS = 24  # of a situation
_SMALL = 4  # what a bound seen in runs may differ from the one written


class Undecided(Exception):
    """No certificate was found; says why. `lacking`: a condition on sizes with which the search would have come further."""

    def __init__(self, why: str, lacking: Formula | None = None) -> None:
        super().__init__(why)
        self.lacking = lacking


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search may cost before it is given up. Counts, so that the answer does not depend on the machine.

    `visits`: of situations, in all attempts together. `combinations`: of inequalities.
    """

    situations: int = 600
    visits: int = 800
    combinations: int = 90_000
    cases: int = 8


class _Spent:
    """What the search has cost so far."""

    def __init__(self, effort: Effort) -> None:
        self.visits, self.until = effort.visits, combined[0] + effort.combinations

    def visit(self) -> bool:
        self.visits -= 1
        return not self.out()

    def out(self) -> bool:
        return self.visits < 0 or combined[0] >= self.until


@dataclass(frozen=True, slots=True)
class Manner:
    """`runs`: facts are seeded by runs at a few sizes. `foresight`: situations are told apart by the outcome of their test, where that is
    determined already."""

    runs: bool
    foresight: bool


_MANNERS = (Manner(False, False), Manner(False, True), Manner(True, False), Manner(True, True))


Pairs = Sequence[tuple[int, int]]  # rings of full and of empty barriers of a pipeline


def prove(network: Network, effort: Effort | None = None, pairs: Pairs = ()) -> Certificate:
    """Raises Undecided. What is returned is a proof only when the checker says so. Rings of `pairs` must have come equally far in the end:
    what was filled was given back."""
    effort = effort or Effort()
    spent = _Spent(effort)
    assumed: tuple[Formula, ...] = ()
    for _ in range(_MOST_ASSUMED + 1):
        within = replace(network, facts=(*network.facts, *assumed))
        lacking: list[Formula] = []
        reason = "no schedule was found"
        for manner, order in ((manner, order) for manner in _MANNERS for order in orders(network)):
            try:
                return Certificate(network.name, tuple(_Splitter(within, order, effort, manner, pairs, spent).cases()), assumed)
            except Undecided as why:
                reason = str(why)
                lacking += [why.lacking] if why.lacking is not None else []
            if lacking or spent.out():
                break
        if not lacking or spent.out():
            break
        assumed = (*assumed, lacking[0])
    raise Undecided(reason)


def uneven(at: Configuration, pairs: Pairs) -> int | None:
    """The first ring of full barriers that has come further than its ring of empty ones."""
    return next((full for full, empty in pairs if at.rings[full].below != at.rings[empty].below), None)


class _Splitter:
    """Proves by cases of the sizes."""

    def __init__(
        self, network: Network, order: Sequence[int], effort: Effort, manner: Manner, pairs: Pairs, spent: _Spent
    ) -> None:
        self.spent = spent
        self.network, self.effort, self.manner, self.pairs = network, effort, manner, pairs
        self.schedule = Schedule(network, order)
        self.left = effort.cases
        self.registers = registers_of(network)

    def cases(self) -> Iterator[Case]:
        yield from self._under((), tuple(self._cuts()))

    def _under(self, when: tuple[Formula, ...], cuts: tuple[Formula, ...]) -> Iterator[Case]:
        base = System([*self.network.facts, *when])
        if base.impossible():
            return
        self.left -= 1
        try:
            yield Case(when, *_Search(self.schedule, when, base, self.effort, self.manner, self.pairs, self.spent).nodes())
            return
        except Undecided:
            if self.left <= 0 or self.spent.out():
                raise
            number = next((n for n, cut in enumerate(cuts) if not base.entails(cut) and not base.entails(negate(cut))), None)
            if number is None:
                raise
        for side in (cuts[number], negate(cuts[number])):
            yield from self._under((*when, side), cuts[number + 1 :])

    def _cuts(self) -> Iterator[Formula]:
        """Conditions on sizes alone: the program's own tests, then small values of what its bounds are made of."""
        seen: list[Formula] = []
        for process in self.network.processes:
            for state in process.states:
                if isinstance(state.action, Test):
                    for part in _comparisons(state.action.condition):
                        if not symbols_in(part) & self.registers and part not in seen and negate(part) not in seen:
                            seen.append(part)
        yield from seen
        for form in dict.fromkeys(part.form for part in seen if isinstance(part, Compare)):
            for least in (1, 2, 3):
                yield Compare("ge", Linear(form.constant - least, form.terms))


def _comparisons(formula: Formula) -> Iterator[Formula]:
    match formula:
        case Compare():
            yield formula
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)


def registers_of(network: Network) -> frozenset[Symbol]:
    """The symbols that some edge assigns."""
    actions = [state.action for process in network.processes for state in process.states]
    return frozenset(symbol for action in actions for edge in edges_of(action) for symbol, _ in edge.values)


# A node of the automaton: a situation, and the outcome of its test where the way into it determines that (with `foresight`).
_Key = tuple[Key, bool | None]


class _Search:
    """The automaton for one case of the sizes."""

    def __init__(
        self, schedule: Schedule, when: tuple[Formula, ...], base: System, effort: Effort, manner: Manner, pairs: Pairs,
        spent: _Spent,
    ) -> None:  # fmt: skip
        self.schedule, self.when, self.base, self.effort, self.manner = schedule, when, base, effort, manner
        self.pairs, self.spent = pairs, spent
        self.registers = registers_of(schedule.network)
        self.situations: dict[Key, Situation] = {}
        self.ways: dict[tuple[Key, bool], Situation] = {}
        self.assigned: dict[tuple[Key, bool], tuple[Values, list[Formula]]] = {}
        self.points: dict[_Key, Points] = {}
        self.facts: dict[_Key, Facts] = {}
        self.entered: set[_Key] = set()
        self.edges: dict[tuple[_Key, bool], _Key | None] = {}
        self.fresh = [0]
        self.dimensions_of: dict[tuple[int, ...], tuple[Atom, ...]] = {}
        self.live = [live_in(process, self.registers) for process in schedule.network.processes]
        self.constants = self._constants()

    def nodes(self) -> tuple[Moves, tuple[Node, ...]]:
        try:
            first = self.schedule.start()
        except (Stuck, Refused) as why:
            raise Undecided(str(why) or "stuck") from why
        self.situations[first.key] = first
        values, required = composed(first.edges, self.fresh)
        self._need(self.base, required)
        if self.manner.runs:
            self._sample(first, values)
        begin, _ = self._enter(first, self.base, values, [])
        work: deque[_Key] = deque([begin])
        queued = {begin}
        while True:
            if not work:
                return self._certificate(begin)
            if not self.spent.visit():
                raise Undecided("the search has taken too long")
            key = work.popleft()
            queued.discard(key)
            for reached in self._visit(key):
                if reached not in queued:
                    queued.add(reached)
                    work.append(reached)

    # ------------------------------------------------------------------------------------------------------------- runs

    def _sample(self, first: Situation, values: Values) -> None:
        """What runs at a few sizes come through."""
        for numbers in sizes(self.schedule.network, self.when, self.registers):
            self._run(first, assign(values, numbers))
        for key, points in self.points.items():
            facts = self.facts[key] = Facts(points.dimensions, points.equations)
            for form in points.least(self.registers):
                facts.propose(form)
        for _ in range(_ROUNDS):
            for (source, outcome), target in list(self.ways.items()):
                for status in (None, True, False):
                    if (target.key, status) in self.points:
                        self._propose(source, outcome, (target.key, status))

    def _run(self, situation: Situation, numbers: Numbers) -> None:
        for _ in range(_MOST_DECISIONS):
            base = situation.key
            outcome = None if situation.test is None else holds(_condition(situation), numbers)
            for status in {None, outcome} if self.manner.foresight else (None,):
                points = self.points.get((base, status))
                if points is None:
                    points = self.points[base, status] = Points(self._dimensions(situation))
                if len(points.seen) < _MOST_POINTS:
                    points.add(numbers)
            if outcome is None:
                return
            situation = self._way(base, outcome)
            numbers = assign(self._values(base, outcome)[0], numbers)

    def _propose(self, source: Key, outcome: bool, target: _Key) -> None:
        """Inequalities of one situation that may hold in the next, as they held whenever a run came through."""
        forms = [one.form for one in _comparisons_that_hold(_condition(self.situations[source], outcome))]
        for status in (None, outcome):
            if (source, status) in self.facts:
                forms += self.facts[source, status].inequalities
        facts, seen = self.facts[target], self.points[target].seen
        for form in dict.fromkeys(written(self._values(source, outcome)[0], facts.dimensions, forms)):
            least = min(evaluate(form, numbers) for numbers in seen)
            if -_SMALL <= least:
                facts.propose(Linear(form.constant - least if least <= _SMALL else form.constant, form.terms))

    # ------------------------------------------------------------------------------------------------------------ facts

    def _visit(self, key: _Key) -> Iterator[_Key]:
        """Follows both outcomes of the test; gives the nodes whose facts changed."""
        base, _ = key
        if self.situations[base].test is None:
            return
        system = self.base.extended(self.facts[key].formulas())
        for outcome in (True, False):
            condition = _condition(self.situations[base], outcome)
            having = system.extended([condition])
            if having.impossible():
                self.edges[key, outcome] = None
                continue
            target = self._way(base, outcome)
            values, required = self._values(base, outcome)
            self._need(having, required, self.facts[key])
            gained = [one.form for one in _comparisons_that_hold(condition)]
            reached, changed = self._enter(target, having, values, [*self.facts[key].inequalities, *gained])
            self.edges[key, outcome] = reached
            if changed:
                yield reached

    def _enter(self, target: Situation, system: System, values: Values, inequalities: list[Linear]) -> tuple[_Key, bool]:
        """The node that the way leads to, and whether its facts changed (or were not there)."""
        if target.test is None and uneven(target.at, self.pairs) is not None:
            raise Undecided("a pipeline is filled more often than it is given back")
        key = (target.key, self._foreseen(target, system, values))
        dimensions = self._dimensions(target)
        way = image(system, values, dimensions)
        known = self.facts.get(key)
        if known is not None and key in self.entered:
            return key, known.join(way, inequalities, self.base)
        self.entered.add(key)
        if len(self.entered) > self.effort.situations:
            raise Undecided("too many situations")
        if known is None:
            self.facts[key] = Facts.first(way, dimensions, inequalities, self.registers)
        else:
            known.join(way, inequalities, self.base)
        return key, True

    def _foreseen(self, target: Situation, system: System, values: Values) -> bool | None:
        if not self.manner.foresight or target.test is None:
            return None
        condition = substituted(_condition(target), values)
        if system.entails(condition):
            return True
        return False if system.entails(negate(condition)) else None

    def _need(self, system: System, required: list[Formula], facts: Facts | None = None) -> None:
        for one in required:
            if not system.entails(one):
                raise Undecided("arithmetic may wrap at 32 bits", self._lacking(one, facts))

    def _lacking(self, required: Formula, facts: Facts | None) -> Formula | None:
        """A bound of sizes, far above what can be allocated, that keeps a counter within 32 bits: `tiles + step <= 2^31` and the like."""
        if not isinstance(required, Compare) or required.relation != "ge":
            return None
        for known in (Linear(0), *(facts.inequalities if facts else ())):
            rest = add(required.form, known, -1)
            bound = Compare("ge", rest)
            if rest.terms and rest.constant > _FAR and not symbols_of(rest) & self.registers:
                return None if self.base.extended([bound]).impossible() else bound
        return None

    # -------------------------------------------------------------------------------------------------------- structure

    def _way(self, source: Key, outcome: bool) -> Situation:
        target = self.ways.get((source, outcome))
        if target is None:
            try:
                target = self.schedule.branch(self.situations[source], outcome)
            except (Stuck, Refused) as why:
                raise Undecided(str(why) or "stuck") from why
            self.ways[source, outcome] = target
            self.situations.setdefault(target.key, target)
        return target

    def _values(self, source: Key, outcome: bool) -> tuple[Values, list[Formula]]:
        found = self.assigned.get((source, outcome))
        if found is None:
            found = self.assigned[source, outcome] = composed(self.ways[source, outcome].edges, self.fresh)
        return found

    def _constants(self) -> tuple[Atom, ...]:
        """What tests and assignments are made of and never changes."""
        found: dict[Atom, None] = {}
        for process in self.schedule.network.processes:
            for state in process.states:
                forms = [value for edge in edges_of(state.action) for _, value in edge.values if value is not None]
                if isinstance(state.action, Test):
                    forms += forms_of(state.action.condition)
                for form in forms:
                    found.update(dict.fromkeys(one for one, _ in form.terms if not symbols_of(atom(one)) & self.registers))
                    found.update({symbol: None for symbol in sorted(symbols_of(form) - self.registers, key=_name)})
        return tuple(found)

    def _dimensions(self, situation: Situation) -> tuple[Atom, ...]:
        places = tuple(situation.at.places)
        found = self.dimensions_of.get(places)
        if found is None:
            at_places = zip(self.live, places, strict=True)
            live = [one for states, place in at_places for one in sorted(states[place], key=_name)]
            found = self.dimensions_of[places] = (*live, *self.constants)
        return found

    def _certificate(self, begin: _Key) -> tuple[Moves, tuple[Node, ...]]:
        """The nodes that are reached, numbered."""
        numbers = {begin: 0}
        order = [begin]
        for key in order:
            for outcome in (True, False):
                reached = self.edges.get((key, outcome))
                if reached is not None and reached not in numbers:
                    numbers[reached] = len(order)
                    order.append(reached)

        def moves(key: _Key, outcome: bool) -> Moves | None:
            reached = self.edges.get((key, outcome))
            return None if reached is None else Moves(self.ways[key[0], outcome].steps, numbers[reached])

        nodes = tuple(
            Node(tuple(self.facts[key].formulas()), self.situations[key[0]].test, moves(key, True), moves(key, False))
            for key in order
        )
        return Moves(self.situations[begin[0]].steps, 0), nodes


def _name(symbol: Symbol) -> str:
    return symbol.name


def _condition(situation: Situation, outcome: bool = True) -> Formula:
    """What the test that is to be decided asks, or the opposite."""
    assert situation.test is not None
    action = situation.at.action(situation.test)
    assert isinstance(action, Test)
    return action.condition if outcome else negate(action.condition)


def _comparisons_that_hold(condition: Formula) -> Iterator[Compare]:
    match condition:
        case Compare("ge", _):
            yield condition
        case Both(parts):
            for part in parts:
                yield from _comparisons_that_hold(part)
