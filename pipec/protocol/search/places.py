"""The situations that a schedule reaches, and the ways between them: everything that does not depend on invariants."""

from collections.abc import Iterator
from typing import Any

from pipec.protocol.deduction.comparisons import Condition, substituted
from pipec.protocol.deduction.rows import Row
from pipec.protocol.program.program import Program, Values
from pipec.protocol.schedules.schedule import Key, Schedule, Situation, Stuck
from pipec.protocol.search.invariants import Facts
from pipec.protocol.search.undecided import TOO_MANY, Undecided, at_test, stopped
from pipec.protocol.variables.numbers import Numbers
from pipec.record import field, mutable, record
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Edge

_MOST_TOLD_APART = 6  # outcomes of tests of sizes

Told = frozenset[int]  # outcomes of tests of sizes: their numbers, or the complements
Begun = frozenset[tuple[int, Row]]  # counters that have not been incremented since they were set, and their initial values
PlaceKey = tuple[int, Told, Begun]  # starts with the number of the situation


@mutable
class Place:
    """A situation and its history. It becomes a node of the automaton, with `facts`, only if both outcomes of its test are possible:
    most tests repeat that of another process, and the schedule passes them with a known outcome."""

    situation: Situation[Any]
    told: Told
    begun: Begun
    points: list[Numbers] = field(default_factory=list)  # values with which runs passed through
    outcomes: set[bool] = field(default_factory=set)  # seen in runs
    facts: Facts | None = None
    entered: bool = False  # the facts have been weakened for a way into it
    next: "dict[bool, Stretch | None]" = field(default_factory=dict)
    ahead: "dict[bool, Ahead]" = field(default_factory=dict)


@record
class Ahead:
    """Where an outcome of a place's test leads to, and what changes on the way."""

    key: PlaceKey
    values: Values


@record
class Transition:
    """The way from one situation to the next, by number. `begun`: the counters that are set on the way."""

    target: int
    edges: tuple[Edge, ...]
    steps: tuple[int, ...]
    values: Values
    condition: Condition
    begun: Begun


@record(eq=False)
class Stretch:
    """A sequence of ways past tests with known outcomes, and its target. `required`: by the last of them, in terms of registers at the
    start. `further`: extensions, computed once."""

    target: PlaceKey
    steps: tuple[int, ...]
    values: Values
    required: list[Condition]
    further: "dict[tuple[PlaceKey, bool], Stretch]"


class Places:
    """`most`: the maximum number of situations. `tells_begun`: distinguishes a counter's first iteration from the others."""

    def __init__(self, schedule: Schedule[Any], program: Program, most: int, *, tells_begun: bool) -> None:
        self.schedule, self.program, self.most, self.tells_begun = schedule, program, most, tells_begun
        self.variables = program.variables
        # By number: looking a situation up by its key takes time proportional to its size.
        self.situations: list[Situation[Any]] = []
        self.number_of: dict[Key, int] = {}
        self.ways: dict[tuple[int, bool], Transition] = {}
        self.found: dict[PlaceKey, Place] = {}
        self.stretches: dict[tuple[PlaceKey, bool], Stretch] = {}
        self.dimensions_of: dict[tuple[int, ...], tuple[int, ...]] = {}

    def place(self, key: PlaceKey) -> Place:
        made = self.found[key] = Place(self.situations[key[0]], key[1], key[2])
        # If situations do not recur, a counter is part of them, and no limit suffices.
        if len(self.found) > self.most:
            raise Undecided(TOO_MANY, standing=at_test(made.situation))
        if made.situation.test is None:
            self.open(made)
        return made

    def open(self, place: Place) -> Facts:
        """Makes a node of it."""
        # After all processes have ended, no facts are needed.
        place.facts = Facts(() if place.situation.test is None else self.dimensions(place.situation))
        for numbers in place.points:
            place.facts.meet(numbers)
        return place.facts

    def condition(self, situation: Situation[Any], outcome: bool = True) -> Condition:
        assert situation.test is not None
        return self.program.test(situation.test, situation.at.places[situation.test])[0 if outcome else 1]

    def way(self, source: int, outcome: bool) -> Transition:
        found = self.ways.get((source, outcome))
        if found is None:
            situation = self.situations[source]
            try:
                target = self.schedule.branch(situation, outcome)
            except (Stuck, Refused) as why:
                raise stopped(why) from why
            steps, edges = target.steps, target.edges
            values, _ = self.program.composed(edges)
            found = Transition(self._numbered(target), edges, steps, values, self.condition(situation, outcome), self.set(values))
            self.ways[source, outcome] = found
        return found

    def ahead(self, place: Place, source: int, outcome: bool) -> Ahead:
        """Where this outcome leads to. `source`: the number of the situation."""
        found = place.ahead.get(outcome)
        if found is None:
            way = self.way(source, outcome)
            found = place.ahead[outcome] = Ahead(self.following(place, outcome, way), way.values)
        return found

    def _numbered(self, situation: Situation[Any]) -> int:
        number = self.number_of.setdefault(situation.key, len(self.situations))
        if number == len(self.situations):
            self.situations.append(situation)
        return number

    def start(self, first: Situation[Any]) -> Stretch:
        """The initial way."""
        values, required = self.program.composed(first.edges)
        key: PlaceKey = self._numbered(first), frozenset(), self.live(self.set(values), first)
        return Stretch(key, first.steps, values, required, {})

    def leaving(self, key: PlaceKey, outcome: bool) -> Stretch:
        """The first way from a node."""
        found = self.stretches.get((key, outcome))
        if found is None:
            way = self.way(key[0], outcome)
            values, required = self.program.composed(way.edges)
            found = Stretch(self.following(self.found[key], outcome, way), way.steps, values, required, {})
            self.stretches[key, outcome] = found
        return found

    def passing(self, stretch: Stretch, outcome: bool) -> Stretch:
        """The stretch extended by the way after the test at its target."""
        found = stretch.further.get((stretch.target, outcome))
        if found is None:
            place = self.found[stretch.target]
            test, way = place.situation.test, self.way(stretch.target[0], outcome)
            assert test is not None
            values, required = self.program.composed(way.edges, stretch.values)
            steps = (*stretch.steps, test if outcome else ~test, *way.steps)
            found = Stretch(self.following(place, outcome, way), steps, values, required, {})
            stretch.further[stretch.target, outcome] = found
        return found

    def set(self, values: Values) -> Begun:
        """The counters that are set to a value independent of counters."""
        if not self.tells_begun:
            return frozenset()
        sizes = len(self.variables.sizes)
        return frozenset((v, row) for v, row in values.items() if all(variable < sizes for variable, _ in row[1]))

    def live(self, begun: Begun, situation: Situation[Any]) -> Begun:
        live = frozenset(self.dimensions(situation))
        return frozenset(each for each in begun if each[0] in live)

    def number(self, place: Place) -> int | None:
        """The number of the next test, if it depends on sizes only."""
        test = place.situation.test
        assert test is not None
        number = self.program.told_apart(test, place.situation.at.places[test])
        if number is None and place.begun:
            known = self.variables.extended(dict(place.begun))
            number = self.program.numbered(substituted(self.condition(place.situation), known))
        return number

    def following(self, place: Place, outcome: bool, way: Transition) -> PlaceKey:
        """The key of the place reached."""
        number, told, begun = self.number(place), place.told, place.begun
        # Each distinction doubles the situations, so their number is limited.
        if number is not None and len(told) < _MOST_TOLD_APART:
            told |= {number if outcome else ~number}
        if self.tells_begun:
            # An incremented counter is no longer in its first iteration.
            kept = frozenset(each for each in begun if each[0] not in way.values)
            begun = self.live(kept | way.begun, self.situations[way.target])
        return way.target, told, begun

    def directions(self, situation: Situation[Any]) -> Iterator[Row]:
        if situation.test is None:
            return
        for process, place in enumerate(situation.at.places):
            yield from self.program.directions(process, place)

    def clauses(self, situation: Situation[Any]) -> Iterator[Condition]:
        if situation.test is None:
            return
        for process, place in enumerate(situation.at.places):
            yield from self.program.clauses(process, place)

    def dimensions(self, situation: Situation[Any]) -> tuple[int, ...]:
        places = tuple(situation.at.places)
        found = self.dimensions_of.get(places)
        if found is None:
            live = [variable for process, place in enumerate(places) for variable in sorted(self.program.live[process][place])]
            known = frozenset(live)
            made = [each for each in self.variables.related() if known.issuperset(self.variables.derived[each])]
            found = self.dimensions_of[places] = (*live, *made, *self.variables.sizes)
        return found
