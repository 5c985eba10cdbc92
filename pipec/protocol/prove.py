"""Searches a certificate: follows one schedule through all situations that its tests can lead to, and finds what holds in each.

Runs at a few sizes show which situations there are and suggest what holds there; the facts are then weakened until every way into a
situation implies them. A situation is where all processes stand, what has arrived, which branches led there, and how tests of sizes
alone have come out. Where that fails the sizes are split, or another schedule is tried.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipec.protocol.aligned import Aligned, Alignment
from pipec.protocol.comparisons import Condition, holds, substituted
from pipec.protocol.deduction import assume, certain, impossible
from pipec.protocol.effort import Effort, Spent
from pipec.protocol.facts import Facts
from pipec.protocol.lazily import Lazy
from pipec.protocol.naming import canonical, in_names_of
from pipec.protocol.premises import Premises
from pipec.protocol.products import candidates
from pipec.protocol.program import Program, Values, registers_of
from pipec.protocol.rows import Row, one, plus
from pipec.protocol.schedule import Key, Schedule, Situation, Stuck
from pipec.protocol.simplify import simplified
from pipec.protocol.structure import orders
from pipec.protocol.variables import Numbers
from pipec.record import field, mutable, record
from pipec.verify.checker.certificate import Case, Certificate, Moves, Node
from pipec.verify.checker.configuration import Configuration, Refused
from pipec.verify.logic import System
from pipec.verify.network import Network, Test
from pipec.verify.terms import Both, Compare, Either, Formula, Linear, add, negate, symbols_in, symbols_of

_MOST_ASSUMED = 16
_SPLITS = 1  # cases told apart to exclude an outcome: what more of them exclude is not worth their time
_FAR = 1 << 30
_MOST_DECISIONS = 300  # of one run
_MOST_OF_A_RUN = 4  # points of a situation
_FEW_RUNS = 6
_SETTLED = 3  # runs in a row that show nothing new
_MOST_TOLD_APART = 6  # outcomes of tests of sizes


class Undecided(Exception):
    """No certificate was found; says why. `hopeless`: another attempt will end alike."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless


Pairs = Sequence[tuple[int, int]]  # rings of full and of empty barriers of a pipeline


def prove(
    network: Network, effort: Effort | None = None, pairs: Pairs = (), refuted: Callable[[], bool] = lambda: False
) -> Certificate:
    """Raises Undecided. What is returned is a proof only when the checker says so. Rings of `pairs` must have come equally far in the end:
    what was filled was given back. `refuted`: asked before what takes long; if it holds there is nothing to prove."""
    effort = effort or Effort()
    spent = Spent(effort)
    network, names = canonical(network)
    programs: dict[bool, Program] = {}
    reason = "no schedule was found"
    for attempt in _attempts(network):
        spent.share(attempt.share)
        program = programs.get(attempt.products) or programs.setdefault(
            attempt.products, Program(network, products=attempt.products)
        )
        try:
            cases = tuple(_Splitter(program, attempt, effort, pairs, spent, refuted).cases())
            return in_names_of(Certificate(network.name, cases, tuple(program.assumed)), names)
        except Undecided as why:
            reason = str(why)
            if why.hopeless:
                raise
        if spent.out():
            break
    raise Undecided(reason)


@record
class _Attempt:
    """What tells one search from another. `share`: percent that it may cost of what is left. `tells_begun`: a counter's first turn is
    told apart from the others. `products`: of counters and sizes are values of their own."""

    schedule: Schedule[Any]
    share: int
    tells_begun: bool = False
    products: bool = False


def _attempts(network: Network) -> Iterator[_Attempt]:
    """What makes fewer situations comes first."""
    consumers, producers = orders(network)
    alignment = Alignment(network)
    # Where all loops are the same in all roles, they are followed turn by turn, and there is nearly one situation for each test.
    if alignment.whole:
        yield _Attempt(Aligned(network, consumers, alignment), 75)
    # Consumers first keeps rings nearly empty, and so there are few situations; producers first fills them.
    yield _Attempt(Lazy(network, consumers), 90)
    if candidates(network, registers_of(network)):
        yield _Attempt(Lazy(network, consumers), 50, products=True)
    if not alignment.whole:
        yield _Attempt(Aligned(network, consumers, alignment), 75)
    yield _Attempt(Lazy(network, consumers, forgets=False), 33, tells_begun=True)
    yield _Attempt(Aligned(network, consumers, alignment), 33, tells_begun=True)
    yield _Attempt(Lazy(network, producers), 50)
    yield _Attempt(Lazy(network, producers, forgets=False), 100, tells_begun=True)


def uneven(at: Configuration, pairs: Pairs) -> int | None:
    """The first ring of full barriers that has come further than its ring of empty ones."""
    return next((full for full, empty in pairs if at.rings[full].below != at.rings[empty].below), None)


class _Splitter:
    """Proves by cases of the sizes."""

    def __init__(
        self, program: Program, attempt: _Attempt, effort: Effort, pairs: Pairs, spent: Spent, refuted: Callable[[], bool]
    ) -> None:
        self.tells_begun = attempt.tells_begun
        self.program, self.effort, self.pairs, self.spent = program, effort, pairs, spent
        self.schedule = attempt.schedule if program.network is attempt.schedule.network else attempt.schedule.of(program.network)
        self.left, self.refuted = effort.cases, refuted

    def cases(self) -> Iterator[Case]:
        yield from self._under((), None)

    def _under(self, when: tuple[Formula, ...], cuts: tuple[Formula, ...] | None) -> Iterator[Case]:
        if when and System([*self.program.facts, *when]).impossible():
            return
        self.left -= 1
        try:
            schedule, program, decided = self._within(when)
            search = _Search(schedule, program, when, self.effort, self.pairs, self.spent, tells_begun=self.tells_begun)
            # What is decided for these sizes tells them apart no further, but spares the checker to decide it for each node.
            yield Case((*when, *decided), *search.nodes())
            return
        except Undecided as why:
            # Splitting is what takes long. A deadlock at small sizes ends the search before it.
            if not when and self.refuted():
                raise Undecided(str(why), hopeless=True) from why
            if self.left <= 0 or self.spent.paused() or why.hopeless:
                raise
            base = System([*self.program.facts, *when])
            cuts = tuple(self._cuts()) if cuts is None else cuts
            # A condition that the case already decides would give one empty side and the same search again.
            number = next((n for n, cut in enumerate(cuts) if not base.entails(cut) and not base.entails(negate(cut))), None)
            if number is None:
                raise
        for side in (cuts[number], negate(cuts[number])):
            yield from self._under((*when, side), cuts[number + 1 :])

    def _within(self, when: tuple[Formula, ...]) -> tuple[Schedule[Any], Program, tuple[Formula, ...]]:
        """For these sizes alone, where that makes a difference; and which values are decided there."""
        network, decided = simplified(self.program.network, System([*self.program.facts, *when])) if when else (None, ())
        if network is None or not decided:
            return self.schedule, self.program, ()
        program = Program(network, products=self.program.products)
        program.assumed = self.program.assumed
        return self.schedule.of(network), program, decided

    def _cuts(self) -> Iterator[Formula]:
        """Conditions on sizes alone: the program's own tests, then small values of what its bounds are made of."""
        seen: list[Formula] = []
        for process in self.program.network.processes:
            for state in process.states:
                if isinstance(state.action, Test):
                    for part in _comparisons(state.action.condition):
                        if not symbols_in(part) & self.program.registers and part not in seen and negate(part) not in seen:
                            seen.append(part)
        yield from seen
        for form in dict.fromkeys(part.form for part in seen if isinstance(part, Compare)):
            # Few iterations behave unlike many: a loop that does not run, a prologue alone, a ring that is not full yet.
            for least in (1, 2, 3):
                yield Compare("ge", Linear(form.constant - least, form.terms))


def _comparisons(formula: Formula) -> Iterator[Formula]:
    match formula:
        case Compare():
            yield formula
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)


_Told = frozenset[int]  # tests of sizes that have come out so: their numbers, or the complement
_Begun = frozenset[tuple[int, Row]]  # counters that have not moved on since they were set, and to what
_Key = tuple[Key, _Told, _Begun]


@mutable
class _Place:
    """A node of the automaton to be."""

    situation: Situation[Any]
    told: _Told
    begun: _Begun
    facts: Facts
    outcomes: set[bool] = field(default_factory=set)  # that runs have seen
    next: dict[bool, _Key | None] = field(default_factory=dict)


@record
class _Way:
    """From one situation to the next. `begun`: the counters that are set on the way."""

    target: Situation[Any]
    steps: tuple[int, ...]
    values: Values
    required: list[Condition]
    condition: Condition
    begun: _Begun


class _Search:
    """The automaton for one case of the sizes."""

    def __init__(
        self, schedule: Schedule[Any], program: Program, when: tuple[Formula, ...], effort: Effort, pairs: Pairs, spent: Spent,
        *, tells_begun: bool,
    ) -> None:  # fmt: skip
        self.schedule, self.program, self.when, self.effort = schedule, program, when, effort
        self.tells_begun = tells_begun
        self.variables, self.pairs, self.spent = program.variables, pairs, spent
        self.situations: dict[Key, Situation[Any]] = {}
        self.ways: dict[tuple[Key, bool], _Way] = {}
        self.places: dict[_Key, _Place] = {}
        self.given: dict[_Told, Premises] = {}
        self.implied: dict[tuple[_Told, int], bool] = {}
        self.dimensions_of: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.sampled: set[_Told] = set()
        self.runs: dict[_Told, int] = {}
        self.ended: dict[int, _Told] = {}  # how the run at some sizes ended; they are kept by the program's `sizes`
        self.work: deque[_Key] = deque()
        self.queued: set[_Key] = set()
        self.base = Premises()
        for row in self.variables.known:
            self.base.at_least(row)
        for formula in (*program.assumed, *when):
            assume(self.base, self.variables.condition(formula))

    def nodes(self) -> tuple[Moves, tuple[Node, ...]]:
        try:
            first = self.schedule.start()
        except (Stuck, Refused) as why:
            raise Undecided(str(why) or "stuck", hopeless=not self.when) from why
        self.situations[first.key] = first
        values, required = self.program.composed(first.edges)
        self._need(self.base, required, frozenset(), None)
        self.first = first, values
        self.begin = first.key, frozenset[int](), self._live(self._set(values), first)
        self._sample(frozenset())
        begin = self.begin
        self._enter(begin, self.base, values)
        self._queue(begin)
        while self.work:
            if not self.spent.visit():
                raise Undecided("the search has taken too long")
            key = self.work.popleft()
            self.queued.discard(key)
            self._visit(key)
        return self._certificate(begin)

    def _queue(self, key: _Key) -> None:
        if key not in self.queued:
            self.queued.add(key)
            self.work.append(key)

    # ------------------------------------------------------------------------------------------------------------- runs

    def _sample(self, told: _Told) -> None:
        """What runs at a few sizes come through for which tests of sizes come out so."""
        self.sampled.add(told)
        first, values = self.first
        within = [*map(self.variables.condition, self.when), *(self.program.conditions[number] for number in sorted(told))]
        quiet: dict[_Told, int] = {}  # runs in a row, of those that end alike, that showed nothing new
        changed: dict[_Key, None] = {}
        for numbers in self.program.sizes.within(within):
            self.spent.runs -= 1
            # The same sizes come again when further tests are told apart; their run would show what it has shown.
            news, last = dict[_Key, None](), self.ended.get(id(numbers))
            if last is None:
                news, last = self._run(first, numbers.after(values))
                self.ended[id(numbers)] = last
            changed.update(news)
            self.runs[last] = self.runs.get(last, 0) + 1
            quiet[last] = 0 if news else quiet.get(last, 0) + 1
            if all(times >= _SETTLED for times in quiet.values()):
                break
        for last in quiet:
            # A combination of outcomes that few runs ended in has been seen too little to suggest what holds there.
            if self.runs[last] < _FEW_RUNS and last not in self.sampled:
                self._sample(last)
        for key in changed:
            place = self.places[key]
            if place.next:
                place.facts.keep()
                self._queue(key)
            else:
                place.facts.propose(self._directions(place.situation), self._clauses(place.situation))

    def _run(self, situation: Situation[Any], numbers: Numbers) -> tuple[dict[_Key, None], _Told]:
        """The nodes of which the run showed anything new, and how tests of sizes came out."""
        key = self.begin
        times: dict[_Key, int] = {}
        news: dict[_Key, None] = {}
        for _ in range(_MOST_DECISIONS):
            place = self.places.get(key) or self._place(key)
            times[key] = times.get(key, 0) + 1
            # The first visits show the equations; later ones of the same run lie on the same lines.
            if times[key] <= _MOST_OF_A_RUN and place.facts.meet(numbers):
                news[key] = None
            if situation.test is None:
                break
            outcome = holds(self._condition(situation), numbers)
            place.outcomes.add(outcome)
            way = self._way(situation.key, outcome)
            situation, key = way.target, self._following(place, outcome, way)
            numbers = numbers.after(way.values)
        return news, key[1]

    def _place(self, key: _Key) -> _Place:
        situation = self.situations[key[0]]
        made = self.places[key] = _Place(situation, key[1], key[2], Facts(self._dimensions(situation)))
        if len(self.places) > self.effort.situations:
            raise Undecided("too many situations")
        return made

    # ------------------------------------------------------------------------------------------------------------ facts

    def _visit(self, key: _Key) -> None:
        """Follows both outcomes of the test."""
        place = self.places[key]
        if place.situation.test is None:
            return
        premises = self._premises(place)
        for outcome in (True, False):
            if self._excluded(place, premises, outcome):
                place.next[outcome] = None
                continue
            place.outcomes.add(outcome)  # facts only grow weaker: what they allow once they allow for good
            way = self._way(key[0], outcome)
            having = premises.copy()
            assume(having, way.condition)
            if self.program.products:
                self._alias(having)
            self._need(having, way.required, key[1], (place, way.condition))
            reached = place.next[outcome] = self._following(place, outcome, way)
            if self._enter(reached, having, way.values):
                self._queue(reached)

    def _premises(self, place: _Place) -> Premises:
        made = place.facts.premises(self._given(place.told))
        self._alias(made)
        for row in self.variables.floors():
            made.at_least(row)
        return made

    def _alias(self, made: Premises) -> None:
        """What is made of registers that are known is known, too; and what follows from products."""
        for variable, inside in list(self.variables.derived.items()):
            if made.solved.keys().isdisjoint(inside):
                continue
            alias = self.variables.renamed(variable, made.solved)
            if alias != one(variable):
                made.equal(plus(alias, one(variable), -1))
        if self.program.products:
            for row in list(self.variables.multiplied([(constant, terms) for terms, constant in made.least.items()])):
                made.at_least(row)

    def _given(self, told: _Told) -> Premises:
        """What holds of sizes."""
        found = self.given.get(told)
        if found is None:
            found = self.base.copy() if told else self.base
            for number in told:
                assume(found, self.program.conditions[number])
            self.given[told] = found
        return found

    def _excluded(self, place: _Place, premises: Premises, outcome: bool) -> bool:
        """Whether the test cannot come out so."""
        situation = place.situation
        assert situation.test is not None
        number = self._number(place)
        if number is not None:
            number = number if outcome else ~number
            if number in place.told or ~number in place.told:
                return ~number in place.told
        if outcome in place.outcomes:
            return False
        condition = self._condition(situation, outcome)
        if impossible(premises, condition):
            return True
        if number is not None:
            found = self.implied.get((place.told, number))
            if found is None:
                found = self.implied[place.told, number] = (
                    self._exact(place.told, None).extended([self.variables.formula(condition)]).impossible()
                )
            if found:
                return True
        if self.variables.free(condition, premises):
            return False
        return self._exact(place.told, place).extended([self.variables.formula(condition)]).impossible(_SPLITS)

    def _exact(self, told: _Told, place: _Place | None) -> System:
        """All that is known, with the meaning of every value."""
        facts = [self.variables.formula(self.program.conditions[number]) for number in sorted(told)]
        system = System([*self.program.facts, *self.when, *facts])
        return system if place is None else system.extended(self._formulas(place.facts))

    def _formulas(self, facts: Facts) -> list[Formula]:
        return [
            *(Compare("eq", self.variables.form(row)) for row in facts.equations),
            *(Compare("ge", self.variables.form(row)) for row in facts.rows()),
            *map(self.variables.formula, facts.clauses),
        ]

    def _enter(self, key: _Key, having: Premises, values: Values) -> bool:
        """A way into a node; whether the node has to be visited (again)."""
        target = self.situations[key[0]]
        if key not in self.places and key[1] not in self.sampled:
            self._sample(key[1])
        if target.test is None and uneven(target.at, self.pairs) is not None:
            raise Undecided("a pipeline is filled more often than it is given back")
        place = self.places.get(key)
        if place is None:
            self._place(key).facts.follow(having, values, self._directions(target), self._clauses(target))
            return True
        return place.facts.weaken(having, values) or not place.next

    def _need(self, system: Premises, required: list[Condition], told: _Told, at: tuple[_Place, Condition] | None) -> None:
        for condition in required:
            if certain(system, condition):
                continue
            exact = self._exact(told, at[0] if at else None).extended([self.variables.formula(at[1])] if at else [])
            formula = self.variables.formula(condition)
            if exact.entails(formula):
                continue
            lacking = self._lacking(formula, at[0] if at else None)
            if lacking is None or len(self.program.assumed) >= _MOST_ASSUMED:
                raise Undecided("arithmetic may wrap at 32 bits")
            self.program.assumed.append(lacking)
            assume(self.base, self.variables.condition(lacking))
            assume(system, self.variables.condition(lacking))
            # Kept premises were made without the new assumption.
            self.given.clear()

    def _lacking(self, required: Formula, place: _Place | None) -> Formula | None:
        """A bound of sizes, far above what can be allocated, that keeps a counter within 32 bits: `tiles + step <= 2^31` and the like."""
        if not isinstance(required, Compare) or required.relation != "ge":
            return None
        base = System([*self.program.facts, *self.when])
        known = [Linear(0), *(self.variables.form(row) for row in place.facts.rows())] if place else [Linear(0)]
        for form in known:
            # (As often as its counter stands in what is required: `2 * i` is bounded by the bound of i.)
            needed = dict(required.form.terms)
            times = next((needed.get(name, c) // c for name, c in form.terms if name in self.program.registers), 1)
            rest = add(required.form, form, -max(times, 1))
            bound = Compare("ge", rest)
            if rest.terms and rest.constant > _FAR and not symbols_of(rest) & self.program.registers:
                return None if base.extended([bound]).impossible() else bound
        return None

    # -------------------------------------------------------------------------------------------------------- structure

    def _condition(self, situation: Situation[Any], outcome: bool = True) -> Condition:
        assert situation.test is not None
        return self.program.test(situation.test, situation.at.places[situation.test])[0 if outcome else 1]

    def _way(self, source: Key, outcome: bool) -> _Way:
        found = self.ways.get((source, outcome))
        if found is None:
            situation = self.situations[source]
            try:
                target = self.schedule.branch(situation, outcome)
            except (Stuck, Refused) as why:
                raise Undecided(str(why) or "stuck") from why
            steps, edges = target.steps, target.edges
            target = self.situations.setdefault(target.key, target)
            values, required = self.program.composed(edges)
            found = _Way(target, steps, values, required, self._condition(situation, outcome), self._set(values))
            self.ways[source, outcome] = found
        return found

    def _set(self, values: Values) -> _Begun:
        """The counters that get a value which no counter is part of."""
        if not self.tells_begun:
            return frozenset()
        sizes = len(self.variables.sizes)
        return frozenset((v, row) for v, row in values.items() if all(variable < sizes for variable, _ in row[1]))

    def _live(self, begun: _Begun, situation: Situation[Any]) -> _Begun:
        live = frozenset(self._dimensions(situation))
        return frozenset(each for each in begun if each[0] in live)

    def _number(self, place: _Place) -> int | None:
        """Of the test to be decided, where it asks for sizes alone."""
        test = place.situation.test
        assert test is not None
        number = self.program.told_apart(test, place.situation.at.places[test])
        if number is None and place.begun:
            known = self.variables.extended(dict(place.begun))
            number = self.program.numbered(substituted(self._condition(place.situation), known))
        return number

    def _following(self, place: _Place, outcome: bool, way: _Way) -> _Key:
        """The node reached."""
        number, told, begun = self._number(place), place.told, place.begun
        if number is not None and len(told) < _MOST_TOLD_APART:
            told |= {number if outcome else ~number}
        if self.tells_begun:
            kept = frozenset(each for each in begun if each[0] not in way.values)
            begun = self._live(kept | way.begun, way.target)
        return way.target.key, told, begun

    def _directions(self, situation: Situation[Any]) -> Iterator[Row]:
        for process, place in enumerate(situation.at.places):
            yield from self.program.directions(process, place)

    def _clauses(self, situation: Situation[Any]) -> Iterator[Condition]:
        for process, place in enumerate(situation.at.places):
            yield from self.program.clauses(process, place)

    def _dimensions(self, situation: Situation[Any]) -> tuple[int, ...]:
        places = tuple(situation.at.places)
        found = self.dimensions_of.get(places)
        if found is None:
            live = [variable for process, place in enumerate(places) for variable in sorted(self.program.live[process][place])]
            known = frozenset(live)
            made = [each for each in self.variables.related() if known.issuperset(self.variables.derived[each])]
            found = self.dimensions_of[places] = (*live, *made, *self.variables.sizes)
        return found

    def _certificate(self, begin: _Key) -> tuple[Moves, tuple[Node, ...]]:
        """The nodes that are reached, numbered."""
        numbers = {begin: 0}
        order = [begin]
        for key in order:
            for outcome in (True, False):
                reached = self.places[key].next.get(outcome)
                if reached is not None and reached not in numbers:
                    numbers[reached] = len(order)
                    order.append(reached)
        nodes = tuple(self._node(key, numbers) for key in order)
        return Moves(self.situations[begin[0]].steps, 0), nodes

    def _node(self, key: _Key, numbers: dict[_Key, int]) -> Node:
        place = self.places[key]
        facts = [self.variables.formula(self.program.conditions[number]) for number in sorted(place.told)]
        facts += self._formulas(place.facts.lean(self._given(place.told)))
        moves: list[Moves | None] = []
        for outcome in (True, False):
            reached = place.next.get(outcome)
            moves.append(None if reached is None else Moves(self._way(key[0], outcome).steps, numbers[reached]))
        return Node(tuple(dict.fromkeys(facts)), place.situation.test, *moves)
