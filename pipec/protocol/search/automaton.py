"""The automaton for one case of the sizes: what holds in each situation, weakened until every way into it implies it."""

from collections import deque
from typing import Any

from pipec.protocol.deduction import assume
from pipec.protocol.effort import Effort, Spent
from pipec.protocol.premises import Premises
from pipec.protocol.program import Program, Values
from pipec.protocol.schedule import Pairs, Schedule, Stuck, uneven
from pipec.protocol.search.known import Known
from pipec.protocol.search.places import PlaceKey, Places, Told
from pipec.protocol.search.runs import Runs
from pipec.protocol.search.undecided import Undecided
from pipec.verify.checker.certificate import Moves, Node
from pipec.verify.checker.configuration import Refused
from pipec.verify.terms import Formula


class Search:
    """The automaton for one case of the sizes."""

    def __init__(
        self, schedule: Schedule[Any], program: Program, when: tuple[Formula, ...], effort: Effort, pairs: Pairs, spent: Spent,
        *, tells_begun: bool,
    ) -> None:  # fmt: skip
        self.schedule, self.program, self.when = schedule, program, when
        self.pairs, self.spent = pairs, spent
        self.places = Places(schedule, program, effort.situations, tells_begun=tells_begun)
        self.known = Known(program, self.places, when)
        self.work: deque[PlaceKey] = deque()
        self.queued: set[PlaceKey] = set()

    def nodes(self) -> tuple[Moves, tuple[Node, ...]]:
        try:
            first = self.schedule.start()
        except (Stuck, Refused) as why:
            raise Undecided(str(why) or "stuck", hopeless=not self.when) from why
        self.places.situations[first.key] = first
        values, required = self.program.composed(first.edges)
        self.known.need(self.known.base, required, frozenset(), None)
        begin: PlaceKey = first.key, frozenset(), self.places.live(self.places.set(values), first)
        self.runs = Runs(self.program, self.places, self.when, self.spent, (first, values), begin)
        self._sample(frozenset())
        self._enter(begin, self.known.base, values)
        self._queue(begin)
        while self.work:
            if not self.spent.visit():
                raise Undecided("the search has taken too long")
            key = self.work.popleft()
            self.queued.discard(key)
            self._visit(key)
        return self._certificate(begin)

    def _sample(self, told: Told) -> None:
        for key in self.runs.sample(told):
            self._queue(key)

    def _queue(self, key: PlaceKey) -> None:
        if key not in self.queued:
            self.queued.add(key)
            self.work.append(key)

    def _visit(self, key: PlaceKey) -> None:
        """Follows both outcomes of the test."""
        place = self.places.found[key]
        if place.situation.test is None:
            return
        premises = self.known.premises(place)
        for outcome in (True, False):
            if self.known.excluded(place, premises, outcome):
                place.next[outcome] = None
                continue
            place.outcomes.add(outcome)  # facts only grow weaker: what they allow once they allow for good
            way = self.places.way(key[0], outcome)
            having = premises.copy()
            assume(having, way.condition)
            if self.program.products:
                self.known.alias(having)
            self.known.need(having, way.required, key[1], (place, way.condition))
            reached = place.next[outcome] = self.places.following(place, outcome, way)
            if self._enter(reached, having, way.values):
                self._queue(reached)

    def _enter(self, key: PlaceKey, having: Premises, values: Values) -> bool:
        """A way into a node; whether the node has to be visited (again)."""
        target = self.places.situations[key[0]]
        if key not in self.places.found and key[1] not in self.runs.sampled:
            self._sample(key[1])
        if target.test is None and uneven(target.at, self.pairs) is not None:
            raise Undecided("a pipeline is filled more often than it is given back")
        place = self.places.found.get(key)
        if place is None:
            self.places.place(key).facts.follow(having, values, self.places.directions(target), self.places.clauses(target))
            return True
        return place.facts.weaken(having, values) or not place.next

    def _certificate(self, begin: PlaceKey) -> tuple[Moves, tuple[Node, ...]]:
        """The nodes that are reached, numbered."""
        numbers = {begin: 0}
        order = [begin]
        for key in order:
            for outcome in (True, False):
                reached = self.places.found[key].next.get(outcome)
                if reached is not None and reached not in numbers:
                    numbers[reached] = len(order)
                    order.append(reached)
        nodes = tuple(self._node(key, numbers) for key in order)
        return Moves(self.places.situations[begin[0]].steps, 0), nodes

    def _node(self, key: PlaceKey, numbers: dict[PlaceKey, int]) -> Node:
        place = self.places.found[key]
        facts = [self.program.variables.formula(self.program.conditions[number]) for number in sorted(place.told)]
        facts += self.known.formulas(place.facts.lean(self.known.given(place.told)))
        moves: list[Moves | None] = []
        for outcome in (True, False):
            reached = place.next.get(outcome)
            moves.append(None if reached is None else Moves(self.places.way(key[0], outcome).steps, numbers[reached]))
        return Node(tuple(dict.fromkeys(facts)), place.situation.test, *moves)
