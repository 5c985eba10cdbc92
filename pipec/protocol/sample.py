"""Runs of a schedule at a few sizes: what they meet seeds the search for a proof, and a run that ends stuck is a counterexample."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm

from pipec.protocol.domain import Values, primitive
from pipec.verify.logic import RANGES
from pipec.verify.network import Network, Test
from pipec.verify.progress import edges_of
from pipec.verify.terms import (
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    scale,
    symbols_in,
    symbols_of,
)

Numbers = dict[Symbol, int]

_COUNTS = (0, 1, 2, 3, 4, 5, 3)  # multiples of the step of a size that runs try
_MOST_BOUND = 2  # of the least value of a register
_MOST_SIZES = 12  # that are given values other than the smallest


def evaluate(form: Linear, numbers: Mapping[Symbol, int]) -> int:
    total = form.constant
    for one, coefficient in form.terms:
        total += coefficient * (numbers.get(one, 0) if isinstance(one, Symbol) else _atom(one, numbers))
    return total


def _atom(one: Atom, numbers: Mapping[Symbol, int]) -> int:
    match one:
        case Symbol():
            return numbers.get(one, 0)
        case Floor(form, divisor):
            return evaluate(form, numbers) // divisor
        case Choose(condition, yes, no):
            return evaluate(yes if holds(condition, numbers) else no, numbers)
        case Apply(function, arguments):
            return _apply(function, tuple(evaluate(argument, numbers) for argument in arguments))


# What the machine computes, for the functions of which the proof knows nothing: the reader names them as PTX does.
_OPERATIONS: dict[str, Callable[..., int]] = {
    "": lambda one: one,
    "mul.lo": lambda left, right: left * right,
    "div": lambda left, right: _quotient(left, right),
    "rem": lambda left, right: left - right * _quotient(left, right),
}


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero, as the machine does; of a division by zero it says nothing."""
    if not right:
        return 0
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def known_function(function: str) -> bool:
    """Whether its value can be computed, so that a run that uses it shows what happens."""
    operation, _, kind = function.rpartition(".")
    return operation in _OPERATIONS and kind in RANGES


def _apply(function: str, arguments: tuple[int, ...]) -> int:
    if known_function(function):
        operation, _, kind = function.rpartition(".")
        least, most = RANGES[kind]
        return (_OPERATIONS[operation](*arguments) - least) % (most - least + 1) + least
    # Memory may hold anything; the same place the same number.
    return (sum((index + 3) * argument for index, argument in enumerate(arguments)) * 7 + len(function)) % 4


def holds(formula: Formula, numbers: Mapping[Symbol, int]) -> bool:
    match formula:
        case Compare(relation, form):
            value = evaluate(form, numbers)
            return value >= 0 if relation == "ge" else (value == 0) == (relation == "eq")
        case Both(parts):
            return all(holds(part, numbers) for part in parts)
        case Either(parts):
            return any(holds(part, numbers) for part in parts)


def assign(values: Values, numbers: Numbers) -> Numbers:
    """The numbers after an edge; an unknown value is some number, another one each time."""
    made = dict(numbers)
    for symbol, value in values.items():
        made[symbol] = evaluate(value, numbers)
    return made


def sizes(network: Network, condition: Sequence[Formula], registers: frozenset[Symbol]) -> Iterator[Numbers]:
    """A few values of all that is given at launch, within the network's facts and the condition."""
    steps: dict[Symbol, int] = {}
    for form in _forms(network):
        for one in _atoms(form):
            divisor = one.divisor if isinstance(one, Floor) else 1
            for symbol in symbols_of(atom(one)) - registers:
                steps[symbol] = lcm(steps.get(symbol, 1), divisor)
    for formula in (*network.facts, *condition):
        for symbol in symbols_in(formula) - registers:
            steps.setdefault(symbol, 1)
    names = sorted(steps, key=lambda symbol: symbol.name)
    found = 0
    for counts in _combinations(len(names)):
        # Every second size is no multiple of what the program divides it by.
        off = found % 2
        numbers = {
            symbol: count * steps[symbol] - (off if steps[symbol] > 1 else 0) for symbol, count in zip(names, counts, strict=True)
        }
        if all(holds(one, numbers) for one in (*network.facts, *condition)):
            yield numbers
            found += 1
            if found >= _MOST_SIZES:
                return


def _combinations(count: int) -> Iterator[tuple[int, ...]]:
    """All sizes alike, then mixtures that repeat nothing soon; the same in every run."""
    yield from ((each,) * count for each in (2, 1, 0))
    state = 1
    for _ in range(60):
        chosen = []
        for _ in range(count):
            state = (state * 1103515245 + 12345) % 2**31
            chosen.append(_COUNTS[(state >> 16) % len(_COUNTS)])
        yield tuple(chosen)


def _forms(network: Network) -> Iterator[Linear]:
    for process in network.processes:
        for state in process.states:
            for edge in edges_of(state.action):
                yield from (value for _, value in edge.values if value is not None)
            if isinstance(state.action, Test):
                yield from forms_of(state.action.condition)


def forms_of(formula: Formula) -> Iterator[Linear]:
    match formula:
        case Compare(_, form):
            yield form
        case Both(parts) | Either(parts):
            for part in parts:
                yield from forms_of(part)


def _atoms(form: Linear) -> Iterator[Atom]:
    for one, _ in form.terms:
        yield one
        match one:
            case Floor(inner, _):
                yield from _atoms(inner)
            case Choose(condition, yes, no):
                for each in (*forms_of(condition), yes, no):
                    yield from _atoms(each)
            case Apply(_, arguments):
                for each in arguments:
                    yield from _atoms(each)
            case Symbol():
                pass


@dataclass(slots=True)
class Points:
    """The affine hull of what runs found in a situation."""

    dimensions: tuple[Atom, ...]
    equations: list[Linear] = field(default_factory=list)
    seen: list[Numbers] = field(default_factory=list)

    def add(self, numbers: Numbers) -> None:
        if not self.seen:
            self.equations = [Linear(-_atom(one, numbers), ((one, 1),)) for one in self.dimensions]
        else:
            self._widen(numbers)
        self.seen.append(numbers)

    def _widen(self, numbers: Numbers) -> None:
        rests = [evaluate(one, numbers) for one in self.equations]
        failing = [number for number, rest in enumerate(rests) if rest]
        if not failing:
            return
        pivot = min(failing, key=lambda number: (abs(rests[number]), len(self.equations[number].terms), number))
        kept = []
        for number, one in enumerate(self.equations):
            if number == pivot:
                continue
            if rests[number]:
                one = primitive(add(scale(one, rests[pivot]), self.equations[pivot], -rests[number]))
            kept.append(one)
        self.equations = kept

    def least(self, registers: frozenset[Symbol]) -> list[Linear]:
        """Small lower bounds of registers that all points keep to: `r >= 0` and the like."""
        made = []
        for one in self.dimensions:
            if isinstance(one, Symbol) and one in registers:
                least = min(numbers.get(one, 0) for numbers in self.seen)
                made.append(Linear(-min(least, _MOST_BOUND), ((one, 1),)))
        return made
