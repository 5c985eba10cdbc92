"""Runs at a few sizes: which situations exist, and which facts seem to hold there."""

from pipec.protocol.deduction.comparisons import holds
from pipec.protocol.effort import Spent
from pipec.protocol.forms.conditions import USUAL
from pipec.protocol.program.program import Program, Values
from pipec.protocol.schedules.schedule import Stuck
from pipec.protocol.search.places import Place, PlaceKey, Places, Told
from pipec.protocol.search.undecided import Undecided
from pipec.protocol.variables.numbers import Numbers
from pipec.verify.terms import Choose, Formula, symbols_of

_MOST_DECISIONS = 300  # of one run
_MOST_OF_A_RUN = 4  # points of a situation
_FEW_RUNS = 6
_SETTLED = 3  # consecutive runs without new information
_SETTLED_BY_TILE = 12  # where a loop reaches as far as the tile or a size lets it: few runs have several turns


class Runs:
    """`values`: of registers at the beginning; `begin`: the first place."""

    def __init__(
        self,
        program: Program,
        places: Places,
        when: tuple[Formula, ...],
        spent: Spent,
        values: Values,
        begin: PlaceKey,
    ) -> None:
        self.program, self.places, self.spent = program, places, spent
        self.values, self.begin = values, begin
        self.within = [*map(program.variables.condition, when)]
        self.sampled: set[Told] = set()
        chosen = any(
            isinstance(one, Choose) and number in program.variables.derived for one, number in program.variables.number.items()
        )
        self.settled = _SETTLED_BY_TILE if chosen else _SETTLED
        self.many: dict[Told, int] = {}
        self.ended: dict[int, Told] = {}  # how the run at some sizes ended; the sizes are kept by the program's `sizes`

    def sample(self, told: Told) -> list[PlaceKey]:
        """Runs at a few sizes for which the tests of sizes have these outcomes.

        Returns the places whose facts have to be followed again."""
        self.sampled.add(told)
        within = [*self.within, *(self.program.conditions[number] for number in sorted(told))]
        quiet: dict[Told, int] = {}  # consecutive runs with these outcomes without new information
        changed: dict[PlaceKey, None] = {}
        for numbers in self.program.sizes.within(within):
            self.spent.runs -= 1
            # The same sizes recur when further tests are distinguished; their run would be the same.
            news, last = dict[PlaceKey, None](), self.ended.get(id(numbers))
            if last is None:
                news, last = self.run(numbers.after(self.values))
                self.ended[id(numbers)] = last
            changed.update(news)
            self.many[last] = self.many.get(last, 0) + 1
            quiet[last] = 0 if news else quiet.get(last, 0) + 1
            if all(times >= self.settled for times in quiet.values()):
                break
        again: list[PlaceKey] = []
        for last in quiet:
            # Outcomes that only few runs had are sampled explicitly, in order to suggest facts.
            if self.many[last] < _FEW_RUNS and last not in self.sampled:
                again += self.sample(last)
        for key in changed:
            place = self.places.found[key]
            if place.facts is None:
                continue
            if place.entered:
                place.facts.keep()
                again.append(key)
            else:
                place.facts.propose(self.places.directions(place.situation), self.places.clauses(place.situation))
        return again

    def run(self, numbers: Numbers) -> tuple[dict[PlaceKey, None], Told]:
        """The nodes with new information from the run, and the outcomes of tests of sizes."""
        key = self.begin
        times: dict[int, int] = {}
        own = False  # whether nothing else refers to the numbers
        news: dict[PlaceKey, None] = {}
        for _ in range(_MOST_DECISIONS):
            place = self.places.found.get(key) or self.places.place(key)
            here = times[id(place)] = times.get(id(place), 0) + 1
            # The first visits show the equations; later ones of the same run lie in the same affine space.
            if here <= _MOST_OF_A_RUN:
                own = False  # it may be kept as a point
                if self._shows(place, numbers):
                    news[key] = None
            situation = place.situation
            if situation.test is None:
                break
            outcome = holds(self.places.condition(situation), numbers)
            if outcome not in place.outcomes:
                place.outcomes.add(outcome)
                if len(place.outcomes) > 1 and place.facts is None:
                    self.places.open(place)
                news[key] = None
            try:
                ahead = self.places.ahead(place, key[0], outcome)
            except Undecided as why:
                if isinstance(why.__cause__, Stuck) and self._is_usual(numbers):
                    # The order of steps does not matter (refute.py): at these sizes no schedule ends.
                    raise why.again(hopeless=True) from why
                raise
            key = ahead.key
            if ahead.values:
                numbers, own = numbers if own else numbers.copy(), True
                numbers.assign(ahead.values)
        return news, key[1]

    def _is_usual(self, numbers: Numbers) -> bool:
        """Whether these are the numbers of a launch, whose sizes no condition of a proof may exclude (conditions.py). What is a variable of
        its own may have been given a value that no sizes make of it."""
        launch, variables = numbers.launch, self.program.variables
        usual = all(-USUAL <= value <= USUAL for value in launch.values())
        forms = [(number, variables.forms[number]) for number in variables.sizes]
        return usual and all(
            symbols_of(form) <= launch.keys() and numbers.of_launch(form) == numbers[number] for number, form in forms
        )

    @staticmethod
    def _shows(place: Place, numbers: Numbers) -> bool:
        """Whether a run with these values is new information."""
        if place.facts is not None:
            return place.facts.meet(numbers)
        place.points.append(numbers)
        return False
