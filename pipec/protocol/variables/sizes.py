"""Sizes for sample runs: few, but such that loops run several iterations and no two sizes are related by accident.

Unrelated sizes are chosen independently. If only a derived value matters (the number of tiles), that value is chosen instead of its
sizes: a run at impossible values costs only a few facts that are then dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import gcd, lcm

from pipec.protocol.deduction.comparisons import Condition, holds
from pipec.protocol.deduction.rows import evaluated
from pipec.protocol.forms.sample import evaluate
from pipec.protocol.forms.sample import holds as holds_at
from pipec.protocol.variables.numbers import Numbers
from pipec.protocol.variables.variables import Variables
from pipec.record import record
from pipec.verify.logic import System
from pipec.verify.network import Network, edges_of
from pipec.verify.terms import (
    Apply,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
    add,
    atom,
    symbols_in,
    symbols_of,
)

_FIRST = (2, 1, 0, 3, 4, 5)
_MOST_TRIED = 240
_MOST_OF_A_FAMILY = 40
_MOST_FOUND = 40
_LARGE = 65_534  # a bound at least this large is not one that a program sets


@record
class _Family:
    """Related sizes, and choices for them: values of variables, and of the underlying symbols."""

    choices: tuple[tuple[dict[int, int], dict[Symbol, int]], ...]


class Sizes:
    def __init__(self, network: Network, variables: Variables) -> None:
        self.network, self.variables = network, variables
        self.counts = (*_FIRST, *self._large())
        self.families = [self._family(*one) for one in self._components()]
        self._state = 1
        self._tried: list[Numbers | None] = []
        self._made: dict[tuple[int, ...], Numbers | None] = {}
        # At which sizes a condition holds: the same ones are asked for again and again, each time with one more condition.
        self._held: dict[Condition, dict[int, bool]] = {}
        self._same: dict[tuple[tuple[tuple[int, int], ...], tuple[tuple[Symbol, int], ...]], Numbers] = {}

    def within(self, conditions: Sequence[Condition]) -> Iterator[Numbers]:
        """Values of all sizes that satisfy the conditions."""
        found = 0
        asked = [(condition, self._held.setdefault(condition, {})) for condition in conditions]
        for numbers in self._all():
            for condition, held in asked:
                outcome = held.get(id(numbers))
                if outcome is None:
                    outcome = held[id(numbers)] = holds(condition, numbers)
                if not outcome:
                    break
            else:
                yield numbers
                found += 1
                if found >= _MOST_FOUND:
                    return

    def _all(self) -> Iterator[Numbers]:
        """Values that satisfy the facts of the network; each is computed once."""
        for number in range(_MOST_TRIED):
            if number == len(self._tried):
                self._tried.append(self._next(number))
            numbers = self._tried[number]
            if numbers is not None:
                yield numbers

    def _next(self, number: int) -> Numbers | None:
        places = []
        for family in self.families:
            # Our own generator: the search must be deterministic on every machine, or proofs would be found on some machines only.
            self._state = (self._state * 1103515245 + 12345) % 2**31
            # First three fixed choices, with all sizes alike, since they show the most; then mixtures.
            places.append((number if number < 3 else self._state >> 12) % len(family.choices))
        # Few sizes have few combinations, which recur.
        key = tuple(places)
        if key not in self._made:
            self._made[key] = self._chosen(key)
        return self._made[key]

    def _chosen(self, places: tuple[int, ...]) -> Numbers | None:
        values: dict[int, int] = {}
        launch: dict[Symbol, int] = {}
        for family, place in zip(self.families, places, strict=True):
            values |= family.choices[place][0]
            launch |= family.choices[place][1]
        # As one object, whose identity the search uses as a key.
        key = (tuple(values.items()), tuple(launch.items()))
        numbers = self._same.setdefault(key, Numbers(self.variables, launch, values))
        return None if any(evaluated(row, numbers) < 0 for row in self.variables.known) else numbers

    def _large(self) -> tuple[int, ...]:
        """Counts with which loops with a stride run several iterations."""
        strides = {
            abs(value.constant)
            for process in self.network.processes
            for state in process.states
            for edge in edges_of(state.action)
            for symbol, value in edge.values
            if value is not None and value.terms == ((symbol, 1),)
        }
        return tuple(
            times * stride + extra for stride in sorted(strides) if stride > 2 for times, extra in ((1, 1), (2, 0), (3, 2))
        )

    def _components(self) -> list[tuple[tuple[int, ...], tuple[Symbol, ...], bool]]:
        """Variables and their symbols; whether they need values of their own."""
        parent: dict[Symbol, Symbol] = {}

        def root(one: Symbol) -> Symbol:
            while parent.setdefault(one, one) != one:
                one = parent[one]
            return one

        registers = self.variables.registers
        exact = {s for number in self.variables.derived for s in symbols_of(self.variables.forms[number])} - registers
        groups = [symbols_of(self.variables.forms[number]) for number in self.variables.sizes]
        for symbols in (*groups, *(symbols_in(fact) for fact in self.network.facts), *([one] for one in exact)):
            for symbol in sorted(symbols, key=lambda one: one.name):
                parent[root(symbol)] = root(min(symbols, key=lambda one: one.name))
        made: dict[Symbol, tuple[list[int], list[Symbol]]] = {}
        for symbol in sorted(parent, key=lambda one: one.name):
            made.setdefault(root(symbol), ([], []))[1].append(symbol)
        for number, symbols in zip(self.variables.sizes, groups, strict=True):
            if symbols:
                made[root(min(symbols, key=lambda one: one.name))][0].append(number)
        return [
            (tuple(numbers), tuple(symbols), not exact.isdisjoint(symbols))
            for numbers, symbols in made.values()
            if numbers or symbols
        ]

    def _family(self, numbers: tuple[int, ...], symbols: tuple[Symbol, ...], exact: bool) -> _Family:
        facts = [fact for fact in self.network.facts if symbols_in(fact) <= set(symbols)]
        if len(numbers) == 1 and not exact:
            form = self.variables.forms[numbers[0]]
            bare = len(symbols) == 1 and form == atom(symbols[0])
            low = max([-row[0] for row in self.variables.known if row[1] == ((numbers[0], 1),)], default=0)
            start = max(0, low)
            # A difference of sizes may have either sign, and a launch may have only one of them.
            sides = (1,) if bare or low >= 0 else (1, -1)
            values = [
                start + n * side
                for n in self.counts
                for side in sides[: 1 + (n > 0)]
                if self._launched(form, start + n * side, facts)
            ]
            choices = [({numbers[0]: value}, {symbols[0]: value} if bare else {}) for value in values]
            return _Family(tuple(choices) or (({}, {}),))
        divisors: dict[Symbol, list[int]] = {symbol: [] for symbol in symbols}
        for number in numbers:
            _divisors(self.variables.forms[number], divisors)
        for symbol in self.variables.bounding.intersection(symbols):
            divisors[symbol].append(self.variables.unit)
        steps = {symbol: lcm(*found) for symbol, found in divisors.items()}
        # Of a size that is only compared with what counters say, a loop by twos and one by ones have divisors: in units of the larger one
        # all numbers of turns would be even.
        counted: dict[Symbol, list[int]] = {symbol: [] for symbol, found in divisors.items() if not found}
        for number in self.variables.derived:
            _divisors(self.variables.forms[number], counted, counted=True)
        steps |= {symbol: gcd(*found) for symbol, found in counted.items() if found}
        forms = [(number, self.variables.forms[number]) for number in numbers]
        fitting = tuple(
            ({number: evaluate(form, mixture) for number, form in forms}, mixture)
            for mixture in _fitting(tuple((symbol, steps[symbol]) for symbol in symbols), self.counts, tuple(facts))
        )
        return _Family(fitting or (({}, {}),))

    @staticmethod
    def _launched(form: Linear, value: int, facts: Sequence[Formula]) -> bool:
        """Whether a launch may have the value: with conditions on sizes, a run at other values may end where no launch does."""
        if all(_of_a_type(fact) for fact in facts):
            return True
        # Decided by the checker's own arithmetic: impossible launches would mislead the search.
        return not System([*facts, Compare("eq", add(form, Linear(-value)))]).impossible()


@lru_cache(64)  # parts of the sizes differ in what is known of some of them only
def _fitting(
    steps: tuple[tuple[Symbol, int], ...], counts: tuple[int, ...], facts: tuple[Formula, ...]
) -> tuple[dict[Symbol, int], ...]:
    """Values of the symbols with which the facts hold."""
    fitting = (mixture for mixture in _mixtures(steps, counts) if all(holds_at(fact, mixture) for fact in facts))
    return tuple(islice(fitting, _MOST_OF_A_FAMILY))


def _mixtures(steps: tuple[tuple[Symbol, int], ...], counts: tuple[int, ...]) -> Iterator[dict[Symbol, int]]:
    state = 1
    for number in range(6 * _MOST_OF_A_FAMILY):
        values = {}
        for symbol, step in steps:
            state = (state * 1103515245 + 12345) % 2**31
            count = counts[number] if number < 3 else counts[(state >> 12) % len(counts)]
            # Every second size is not a multiple of what the program divides it by.
            values[symbol] = count * step - (number % 2 if step > 1 and count else 0)
        yield values


def _of_a_type(fact: Formula) -> bool:
    """Whether it only states that a size is non-negative, or fits its type."""
    match fact:
        case Compare("ge", Linear(0, ((Symbol(), 1),))):
            return True
        case Compare("ge", Linear(constant, ((Symbol(), -1),))):
            return constant >= _LARGE
        case _:
            return False


def _divisors(form: Linear, found: Mapping[Symbol, list[int]], *, counted: bool = False) -> None:
    """By how much sizes must grow for something to change: what they are divided by. `counted`: not also what quotients of them are."""
    for one, _ in form.terms:
        match one:
            case Floor(inner, divisor):
                for symbol in _chosen_from(inner) if counted else symbols_of(inner):
                    if symbol in found:
                        found[symbol].append(divisor)
                _divisors(inner, found, counted=counted)
            case Choose(_, yes, no):
                _divisors(yes, found, counted=counted)
                _divisors(no, found, counted=counted)
            case Apply(_, arguments):
                for argument in arguments:
                    _divisors(argument, found, counted=counted)
            case Product(factors):
                for factor in factors:
                    _divisors(atom(factor), found, counted=counted)
            case Symbol():
                pass


def _chosen_from(form: Linear) -> Iterator[Symbol]:
    """The symbols that the form is a sum of, or that it may be where one of two numbers is chosen."""
    for one, _ in form.terms:
        match one:
            case Symbol():
                yield one
            case Choose(_, yes, no):
                yield from _chosen_from(yes)
                yield from _chosen_from(no)
            case _:
                pass
