"""What is known at a place, and what follows from it."""

from collections.abc import Iterator

from pipec.protocol.deduction.comparisons import Comparison, Condition, substituted
from pipec.protocol.deduction.deduction import assume, assume_cases, certain, decide_cases, impossible, refuted
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, one, plus
from pipec.protocol.facts.products import whole
from pipec.protocol.facts.remainders import resolve
from pipec.protocol.forms.everywhere import askable
from pipec.protocol.program.program import Program, Values
from pipec.protocol.search.invariants import Facts
from pipec.protocol.search.places import Place, Places, Told
from pipec.protocol.search.undecided import Undecided
from pipec.protocol.variables.meanings import Meaning
from pipec.protocol.variables.rounds import around
from pipec.verify.logic import System
from pipec.verify.terms import Compare, Formula, Linear, Symbol

WRAPS = "arithmetic may wrap at 32 bits"
_MOST_ASSUMED = 16
_SPLITS = 1  # cases split to exclude an outcome: more are not worth their time
_FAR = 1 << 30
_MOST_BOUNDED = 4  # chained bounds: a counter by a choice, and that by a size
_MOST_BOUNDS = 24


class Known:
    """For sizes that satisfy `when`."""

    def __init__(self, program: Program, places: Places, when: tuple[Formula, ...]) -> None:
        self.program, self.places, self.when = program, places, when
        self.variables = program.variables
        self.given_of: dict[Told, Premises] = {}
        self.exact_of: dict[Told, System] = {}
        self.latest: tuple[object, System] = None, System()
        self.implied: dict[tuple[Told, int], bool] = {}
        self.base = Premises()
        for row in self.variables.known:
            self.base.at_least(row)
        assumed = map(whole, program.assumed) if program.products else program.assumed
        for formula in (*assumed, *when):
            assume(self.base, self.variables.condition(formula))

    def given(self, told: Told) -> Premises:
        """Premises about sizes."""
        found = self.given_of.get(told)
        if found is None:
            found = self.base.copy() if told else self.base
            for number in told:
                assume(found, self.program.conditions[number])
            self.decide(found)
            self.settle(found)
            self.given_of[told] = found
        return found

    def told(self, place: Place) -> tuple[Formula, ...]:
        """The outcomes of tests of sizes on the way there."""
        return tuple([self.variables.formula(self.program.conditions[number]) for number in sorted(place.told)])

    def asked(self, place: Place) -> Formula | None:
        return None if place.situation.test is None else self.variables.formula(self.places.condition(place.situation))

    def settle(self, made: Premises) -> None:
        """Resolves choices whose operand is known, and reductions whose operand is in range."""
        if self.program.products:
            self.program.shares.resolve(made)
        # Operands have higher numbers than what is built from them, and are settled first.
        for meaning in reversed(self.variables.meanings):
            now = made.reduced(one(meaning.variable))
            # Facts may determine its value without determining which of the two it is.
            if now != one(meaning.variable) and any(now == made.reduced(value) for _, value in meaning.unless):
                continue
            for row in meaning.bounds:
                made.at_least(row)
            # (Whether a number is in the range of its type hardly ever follows from cases, of which there may be many.)
            excluded = impossible if meaning.chosen else refuted
            for condition, value in meaning.unless:
                if excluded(made, condition):
                    made.equal(plus(one(meaning.variable), value, -1))
                    break
            else:
                self._bound(made, meaning)

    @staticmethod
    def _bound(made: Premises, meaning: Meaning) -> None:
        """Of a choice that is open: it is positive where both numbers are."""
        if not meaning.chosen:
            return
        for least in (1, 0):
            if all(made.entails(plus(value, (-least, ()))) for _, value in meaning.unless):
                made.at_least((-least, ((meaning.variable, 1),)))
                break
        for row in around(made, meaning):
            made.at_least(row)

    def alias(self, made: Premises) -> None:
        """Values derived from known registers are known as well; also derives consequences for products."""
        self._rename(made)
        for _ in range(self.variables.most_factors - 1):
            # For a quotient that is a factor, often only the dividend shows that it is not 0.
            for row in self.variables.not_zero:
                if made.entails(row):
                    made.at_least(row)
            for row in list(self.variables.multiplied([(constant, terms) for terms, constant in made.least.items()])):
                made.at_least(row)

    def _rename(self, made: Premises) -> None:
        self._recompute(made)
        for variable, inside in list(self.variables.derived.items()):
            if made.solved.keys().isdisjoint(inside):
                continue
            alias = self.variables.renamed(variable, made.solved)
            if alias != one(variable):
                made.equal(plus(alias, one(variable), -1))
        if self.program.products:
            for row in self.variables.known_factors.rows(made.solved):
                made.equal(row)

    def _recompute(self, made: Premises) -> None:
        """What the machine computes is known: then so is what is made of it, such as a number that is read where a product leads to."""
        for variable, inside in list((self.variables.computed or {}).items()):
            values = {each: made.reduced(one(each)) for each in inside}
            if any(row != one(each) for each, row in values.items()):
                alias = self.variables.recomputed(variable, values)
                if alias != one(variable):
                    made.equal(plus(alias, one(variable), -1))

    def lean(self, place: Place) -> Facts:
        """A subset of the facts that implies the others."""
        assert place.facts is not None
        return place.facts.lean(self.given(place.told), self.variables.derived, self._rename)

    def premises(self, place: Place) -> Premises:
        assert place.facts is not None
        made = place.facts.premises(self.given(place.told))
        if self.program.products:
            self.program.signs.resolve(made)
        self.settle(made)
        known = self.variables.count
        self.alias(made)
        for row in self.variables.floors():
            made.at_least(row)
        assume_cases(made, self.program.signs.all(made))
        self.program.signs.resolve(made)
        resolve(made, self.program.remainders)
        # Of what is made of known registers, which had no name before, more follows.
        if self.variables.count > known:
            self.settle(made)
        return made

    def exact(self, told: Told, place: Place | None) -> System:
        """Everything known, with the definitions of all values."""
        system = self.exact_of.get(told)
        if system is None:
            sizes = [self.variables.formula(self.program.conditions[number]) for number in sorted(told)]
            system = self.exact_of[told] = System([*self.program.facts, *self.when, *sizes]).closed()
        if place is None or place.facts is None:
            return system
        facts = place.facts
        now = told, tuple(facts.equations), tuple(facts.bounds.items()), tuple(facts.clauses)
        # Both outcomes of a test and their requirements are decided with the same facts.
        if now != self.latest[0]:
            self.latest = now, system.extended(self.formulas(self.lean(place))).closed()
        return self.latest[1]

    def formulas(self, facts: Facts) -> list[Formula]:
        return [
            *(Compare("eq", self.variables.form(row)) for row in facts.equations),
            *(Compare("ge", self.variables.form(row)) for row in facts.rows()),
            *map(self.variables.formula, facts.clauses),
        ]

    def excluded(self, place: Place, premises: Premises, outcome: bool) -> bool:
        """Whether this outcome of the test is impossible."""
        situation = place.situation
        assert situation.test is not None
        number = self.places.number(place)
        if number is not None:
            number = number if outcome else ~number
            if number in place.told or ~number in place.told:
                return ~number in place.told
        if outcome in place.outcomes:
            return False
        condition = self.places.condition(situation, outcome)
        if impossible(premises, condition) or (number is not None and self._implied(place.told, number, condition)):
            return True
        # The exact arithmetic below takes far longer, and could not decide such a value either.
        if self.variables.free(condition, premises):
            return False
        return self.exact(place.told, place).extended([self.variables.formula(condition)]).impossible(_SPLITS)

    def _implied(self, told: Told, number: int, condition: Condition) -> bool:
        """Whether a test of sizes cannot have this outcome, given the outcomes of others."""
        found = self.implied.get((told, number))
        if found is None:
            exact = self.exact(told, None).extended([self.variables.formula(condition)])
            found = self.implied[told, number] = exact.impossible()
        return found

    def answer(self, place: Place, having: Premises, values: Values) -> bool | None:
        """The outcome of the test at a place, if it is known on the way there; `values`: of registers, in terms of those in `having`.
        None also if deciding it is expensive."""
        number = self.places.number(place)
        if number is not None and {number, ~number} & place.told:
            return number in place.told
        # A run has shown one outcome to be possible: only the other one may be impossible.
        for outcome in place.outcomes if len(place.outcomes) == 1 else (True, False):
            other = self.places.condition(place.situation, not outcome)
            if impossible(having, substituted(other, values)):
                return outcome
            if number is not None and self._implied(place.told, ~number if outcome else number, other):
                return outcome
        return None

    def need(self, system: Premises, required: list[Condition], told: Told, at: tuple[Place, Condition] | None) -> None:
        typed: Premises | None = None
        exact: System | None = None
        for condition in required:
            if certain(system, condition):
                continue
            typed = typed or self._typed(system)
            if certain(typed, condition):
                continue
            # (Of several conditions, the definitions that the first one brings in answer the others, too.)
            exact = exact or self.exact(told, at[0] if at else None).extended([self.variables.formula(at[1])] if at else [])
            formula = self.variables.formula(condition)
            if exact.entails(formula):
                continue
            lacking = self._lacking(condition, system)
            if not lacking or len(self.program.assumed) >= _MOST_ASSUMED:
                why = Undecided(WRAPS)
                why.required = formula
                raise why
            for each in lacking:
                if each not in self.program.assumed:
                    self.program.assumed.append(each)
                assume(self.base, self.variables.condition(each))
                assume(system, self.variables.condition(each))
            # Cached premises lack the new assumption.
            self.given_of.clear()
            self.exact_of.clear()
            self.latest, typed, exact = (None, System()), None, None

    def decide(self, made: Premises) -> None:
        """The sign of a quotient may be known by what has been assumed of it: then so is that of what is divided, such as how far a counter
        still goes."""
        if self.program.products:
            for quotient, dividend in self.program.signs.of_sizes():
                if made.entails(quotient):
                    made.at_least(dividend)
            decide_cases(made, self.program.signs.all(made))
            self.program.signs.resolve(made)

    def _typed(self, system: Premises) -> Premises:
        """With what follows of types alone: little, and about so many values that to look at it each time would take long."""
        made = system.copy()
        for row in self.variables.types():
            made.at_least(row)
        return made

    def _lacking(self, required: Condition, having: Premises) -> tuple[Formula, ...]:
        """A bound on sizes, far above any allocation, that keeps a counter within 32 bits, such as `tiles + step <= 2^31`; the weakest
        sufficient one, and what it rests on; nothing if there is none."""
        if not isinstance(required, Comparison) or required.relation != "ge":
            return ()
        match self.variables.form(required.row):
            case Linear(-1, ((Symbol() as size, 1),)) as form if size not in self.program.registers and askable(form):
                # By which is divided, in a loaded number that is in other words (restating/loaded.py).
                return (Compare("ge", form),)
            case _:
                pass
        rows = [(constant, terms) for terms, constant in having.least.items()]
        # A counter may determine a size: that is a bound of the counter as well.
        rows += [plus(one(size), value, -1) for size, value in having.solved.items() if self.variables.is_size(size)]
        forms = self._of_sizes(having.reduced(required.row), rows)
        if not forms:
            return ()
        # Conditions that a launch can check come first; among these, a stronger bound would reject launches for which the proof holds.
        everywhere = self.program.everywhere
        asked = [(bound, form) for form in forms if (bound := everywhere.bound(form)) is not None]
        bound, form = max(asked or [(form, form) for form in forms], key=lambda pair: pair[0].constant)
        lacking = (Compare("ge", bound), *(everywhere.beside(form) if bound != form else ()))
        return () if System([*self.program.facts, *self.when]).extended(lacking).impossible() else lacking

    def _of_sizes(self, required: Row, rows: list[Row]) -> list[Linear]:
        """Bounds on sizes that imply the row, through bounds of counters or of values derived from counters: the first that a launch can
        check. For a counter that starts at a loaded number, that number's bound by a size is the condition to check."""
        bounds, unasked = [required], list[Linear]()
        for _ in range(_MOST_BOUNDED):
            of_sizes = [row for row in bounds if all(self.variables.is_size(variable) for variable, _ in row[1])]
            forms = [self.variables.form(row) for row in of_sizes if row[1] and row[0] > _FAR]
            if any(self.program.everywhere.bound(form) is not None for form in forms):
                return forms
            if of_sizes and not forms:
                return unasked
            unasked = unasked or forms
            bounds = list(dict.fromkeys(made for row in bounds for made in self._bounded(row, rows)))[:_MOST_BOUNDS]
        return unasked

    def _asked(self, variable: int) -> bool:
        return self.variables.is_size(variable) and askable(self.variables.form(one(variable)))

    def _bounded(self, required: Row, rows: list[Row]) -> Iterator[Row]:
        """The rows that imply it together with one more row."""
        needed = {variable: times for variable, times in required[1] if not self._asked(variable)}
        for constant, terms in rows:
            # (Multiplied by the counter's coefficient in the requirement: `2 * i` needs twice the bound of i.)
            times = next((needed[variable] // c for variable, c in terms if variable in needed), 0)
            if times > 0:
                yield plus(required, (constant, terms), -times)
