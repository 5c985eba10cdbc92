"""The situations that a schedule comes to, and the ways between them: what does not depend on what is known there."""

from collections.abc import Iterator
from typing import Any

from pipec.protocol.comparisons import Condition, substituted
from pipec.protocol.facts import Facts
from pipec.protocol.program import Program, Values
from pipec.protocol.rows import Row
from pipec.protocol.schedule import Key, Schedule, Situation, Stuck
from pipec.protocol.search.undecided import Undecided
from pipec.record import field, mutable, record
from pipec.verify.checker.configuration import Refused

_MOST_TOLD_APART = 6  # outcomes of tests of sizes

Told = frozenset[int]  # tests of sizes that have come out so: their numbers, or the complement
Begun = frozenset[tuple[int, Row]]  # counters that have not moved on since they were set, and to what
PlaceKey = tuple[Key, Told, Begun]


@mutable
class Place:
    """A node of the automaton to be."""

    situation: Situation[Any]
    told: Told
    begun: Begun
    facts: Facts
    outcomes: set[bool] = field(default_factory=set)  # that runs have seen
    next: dict[bool, PlaceKey | None] = field(default_factory=dict)


@record
class Way:
    """From one situation to the next. `begun`: the counters that are set on the way."""

    target: Situation[Any]
    steps: tuple[int, ...]
    values: Values
    required: list[Condition]
    condition: Condition
    begun: Begun


class Places:
    """`most`: that are told apart. `tells_begun`: a counter's first turn is told apart from the others."""

    def __init__(self, schedule: Schedule[Any], program: Program, most: int, *, tells_begun: bool) -> None:
        self.schedule, self.program, self.most, self.tells_begun = schedule, program, most, tells_begun
        self.variables = program.variables
        self.situations: dict[Key, Situation[Any]] = {}
        self.ways: dict[tuple[Key, bool], Way] = {}
        self.found: dict[PlaceKey, Place] = {}
        self.dimensions_of: dict[tuple[int, ...], tuple[int, ...]] = {}

    def place(self, key: PlaceKey) -> Place:
        situation = self.situations[key[0]]
        made = self.found[key] = Place(situation, key[1], key[2], Facts(self.dimensions(situation)))
        if len(self.found) > self.most:
            raise Undecided("too many situations")
        return made

    def condition(self, situation: Situation[Any], outcome: bool = True) -> Condition:
        assert situation.test is not None
        return self.program.test(situation.test, situation.at.places[situation.test])[0 if outcome else 1]

    def way(self, source: Key, outcome: bool) -> Way:
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
            found = Way(target, steps, values, required, self.condition(situation, outcome), self.set(values))
            self.ways[source, outcome] = found
        return found

    def set(self, values: Values) -> Begun:
        """The counters that get a value which no counter is part of."""
        if not self.tells_begun:
            return frozenset()
        sizes = len(self.variables.sizes)
        return frozenset((v, row) for v, row in values.items() if all(variable < sizes for variable, _ in row[1]))

    def live(self, begun: Begun, situation: Situation[Any]) -> Begun:
        live = frozenset(self.dimensions(situation))
        return frozenset(each for each in begun if each[0] in live)

    def number(self, place: Place) -> int | None:
        """Of the test to be decided, where it asks for sizes alone."""
        test = place.situation.test
        assert test is not None
        number = self.program.told_apart(test, place.situation.at.places[test])
        if number is None and place.begun:
            known = self.variables.extended(dict(place.begun))
            number = self.program.numbered(substituted(self.condition(place.situation), known))
        return number

    def following(self, place: Place, outcome: bool, way: Way) -> PlaceKey:
        """The node reached."""
        number, told, begun = self.number(place), place.told, place.begun
        if number is not None and len(told) < _MOST_TOLD_APART:
            told |= {number if outcome else ~number}
        if self.tells_begun:
            kept = frozenset(each for each in begun if each[0] not in way.values)
            begun = self.live(kept | way.begun, way.target)
        return way.target.key, told, begun

    def directions(self, situation: Situation[Any]) -> Iterator[Row]:
        for process, place in enumerate(situation.at.places):
            yield from self.program.directions(process, place)

    def clauses(self, situation: Situation[Any]) -> Iterator[Condition]:
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
