"""The automaton for one case of the sizes: the invariants of each situation, weakened until every way into it implies them."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from pipec.protocol.deduction.comparisons import Condition, substituted
from pipec.protocol.deduction.deduction import assume, narrow
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, negative, replaced
from pipec.protocol.effort import Spent
from pipec.protocol.facts.remainders import resolve
from pipec.protocol.program.program import Program, Values
from pipec.protocol.schedules.schedule import Pairs, Schedule, Stuck, uneven
from pipec.protocol.search.invariants import expressed
from pipec.protocol.search.known import Known
from pipec.protocol.search.places import Place, PlaceKey, Places, Stretch, Told
from pipec.protocol.search.runs import Runs
from pipec.protocol.search.undecided import STUCK, TOO_LONG, UNEVEN, Undecided, at_test, stopped, wrapping
from pipec.verify.checker.certificate import Moves, Node
from pipec.verify.checker.configuration import Refused
from pipec.verify.terms import Formula


class Search:
    """The automaton for one case of the sizes."""

    def __init__(
        self, schedule: Schedule[Any], program: Program, when: tuple[Formula, ...], situations: int, pairs: Pairs, spent: Spent,
        *, tells_begun: bool,
    ) -> None:  # fmt: skip
        self.schedule, self.program, self.when = schedule, program, when
        self.pairs, self.spent = pairs, spent
        self.places = Places(schedule, program, situations, tells_begun=tells_begun)
        self.known = Known(program, self.places, when)
        self.work: deque[PlaceKey] = deque()
        self.queued: set[PlaceKey] = set()

    def nodes(self) -> tuple[Moves, tuple[Node, ...]]:
        try:
            first = self.schedule.start()
        except (Stuck, Refused) as why:
            raise stopped(why, hopeless=not self.when) from why
        start = self.places.start(first)
        self.known.need(self.known.base, start.required, frozenset(), None)
        self.runs = Runs(self.program, self.places, self.when, self.spent, start.values, start.target)
        self._sample(frozenset())
        having = self.known.base.copy()
        begin = self._through(start, having, None)
        self._enter(begin, having, None)
        self._queue(begin.target)
        while self.work:
            # A visit may take long if many rows are connected; so the budget is checked before each.
            if not self.spent.visit():
                raise Undecided(TOO_LONG, standing=at_test(self.places.found[self.work[0]].situation))
            if self.spent.in_vain():
                raise Undecided(STUCK, hopeless=True)
            key = self.work.popleft()
            self.queued.discard(key)
            place = self.places.found[key]
            try:
                self._visit(place, key)
            except Undecided as why:
                why.asked, why.told = self.known.asked(place), self.known.told(place)
                why.standing = why.standing or wrapping(why, place.situation)
                raise
        return self._certificate(begin)

    def _sample(self, told: Told) -> None:
        for key in self.runs.sample(told):
            self._queue(key)

    def _queue(self, key: PlaceKey) -> None:
        if key not in self.queued:
            self.queued.add(key)
            self.work.append(key)

    def _visit(self, place: Place, key: PlaceKey) -> None:
        """Follows both outcomes of the test."""
        if place.situation.test is None:
            return
        premises = self.known.premises(place)
        for outcome in (True, False):
            if self.known.excluded(place, premises, outcome):
                place.next[outcome] = None
                continue
            condition = self.places.condition(place.situation, outcome)
            having = premises.copy()
            assume(having, condition)
            narrow(having, condition, self.program.remainders.rests)
            self.known.decide(having)
            self.known.settle(having)
            # What the outcome says of a choice may contradict it.
            if having.contradictory and outcome not in place.outcomes:
                place.next[outcome] = None
                continue
            place.outcomes.add(outcome)  # facts only get weaker: an outcome that is possible stays possible
            resolve(having, self.program.remainders)
            if self.program.products:
                self.known.alias(having)
            way = self.places.leaving(key, outcome)
            # Only after assuming the outcome: counters are incremented under a test that bounds them.
            self.known.need(having, way.required, key[1], (place, condition))
            way = place.next[outcome] = self._through(way, having, (place, condition))
            if self._enter(way, having, place):
                self._queue(way.target)

    def _through(self, way: Stretch, having: Premises, source: tuple[Place, Condition] | None) -> Stretch:
        """Continues to the next place with an undetermined test."""
        passed = set[PlaceKey]()
        while True:
            key = way.target
            if key not in self.places.found and key[1] not in self.runs.sampled:
                self._sample(key[1])
            place = self.places.found.get(key) or self.places.place(key)
            # Returning to a place would be a loop without a decision: a node there holds its invariant.
            if place.facts is not None or key in passed:
                return way
            outcome = self.known.answer(place, having, way.values)
            if outcome is None and self.program.variables.computed:
                # What has been passed meanwhile says that the machine's numbers are exact, and so which of them are equal.
                self.known.settle(having)
                self.known.alias(having)
                outcome = self.known.answer(place, having, way.values)
            if outcome is None:
                return way
            passed.add(key)
            # It follows already, but the assumption is rounded to integers, which may imply more.
            passed_on = substituted(self.places.condition(place.situation, outcome), way.values)
            assume(having, passed_on)
            narrow(having, passed_on, self.program.remainders.rests)
            self.known.decide(having)
            resolve(having, self.program.remainders)
            way = self.places.passing(way, outcome)
            self.known.need(having, way.required, key[1], source)

    def _enter(self, way: Stretch, having: Premises, source: Place | None) -> bool:
        """Enters a node; returns whether the node has to be visited (again)."""
        place = self.places.found[way.target]
        target = place.situation
        # A stage that is filled and never taken blocks nothing here, but violates the pipeline's protocol.
        if target.test is None and (ring := uneven(target.at, self.pairs)) is not None:
            raise Undecided(UNEVEN, uneven=ring)
        directions, clauses = self.places.directions(target), self.places.clauses(target)
        first, place.entered = not place.entered, True
        for row in self.program.given(way.values):
            having.at_least(row)
        if place.facts is None:
            facts = self.places.open(place)
            if not place.points:
                facts.follow(having, way.values, directions, clauses)
                facts.inherit(self._left_over(place, source, having, way.values))
                return True
            facts.propose(directions, clauses)
        assert place.facts is not None
        if first:
            place.facts.inherit(self._left_over(place, source, having, way.values))
        return place.facts.weaken(having, way.values) or not place.next

    def _left_over(self, place: Place, source: Place | None, having: Premises, values: Values) -> Iterator[Row]:
        """What tests of registers that are no longer used say of the others: that a role has had all of its turns, for example."""
        if place.situation.test is None:
            return
        live, sizes = self.places.dimensions(place.situation), len(self.program.variables.sizes)
        rows = [row for row in self.program.tested() if any(variable not in live for variable, _ in row[1])]
        rows += source.facts.inherited if source is not None and source.facts is not None else []
        for row in expressed(rows, having, values, [each for each in live if each >= sizes], sizes):
            for each in (row, negative(row)):
                if having.entails(replaced(each, values)):
                    yield each

    def _certificate(self, begin: Stretch) -> tuple[Moves, tuple[Node, ...]]:
        """The reachable nodes, numbered."""
        numbers = {begin.target: 0}
        order = [begin.target]
        for key in order:
            for outcome in (True, False):
                way = self.places.found[key].next.get(outcome)
                if way is not None and way.target not in numbers:
                    numbers[way.target] = len(order)
                    order.append(way.target)
        nodes = tuple(self._node(self.places.found[key], numbers) for key in order)
        return Moves(begin.steps, 0), nodes

    def _node(self, place: Place, numbers: dict[PlaceKey, int]) -> Node:
        assert place.facts is not None
        facts = [*self.known.told(place)]
        # Implied facts are omitted: the checker verifies each fact for each way into the node.
        facts += self.known.formulas(self.known.lean(place))
        moves: list[Moves | None] = []
        for outcome in (True, False):
            way = place.next.get(outcome)
            moves.append(None if way is None else Moves(way.steps, numbers[way.target]))
        return Node(tuple(dict.fromkeys(facts)), place.situation.test, *moves)
