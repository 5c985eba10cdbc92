"""Values of forms and conditions for given numbers, as the machine computes them."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from operator import and_, or_, xor

from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    REMAINDER,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
)

Numbers = dict[Symbol, int]
_NUMBER = re.compile(r"number \d+ below (\d+)\.s32")
UNIT = Symbol("unit of loaded numbers")  # among the numbers: of what it is that memory contains multiples


def evaluate(form: Linear, numbers: Mapping[Symbol, int]) -> int:
    return evaluator(form)(numbers)


Evaluator = Callable[[Mapping[Symbol, int]], int]


@lru_cache(4096)
def evaluator(form: Linear) -> Evaluator:
    """What evaluates the form: once what it is made of has been looked at, that takes a third of the time."""
    constant, terms = form.constant, [(coefficient, _evaluator(one)) for one, coefficient in form.terms]
    match terms:
        case []:
            return lambda numbers: constant
        case [(coefficient, only)]:
            return only if (coefficient, constant) == (1, 0) else lambda numbers: constant + coefficient * only(numbers)
        case [(coefficient, first), (other, second)]:
            return lambda numbers: constant + coefficient * first(numbers) + other * second(numbers)
        case _:
            return lambda numbers: constant + sum([coefficient * value(numbers) for coefficient, value in terms])


def _evaluator(one: Atom) -> Evaluator:
    match one:
        case Symbol():
            return lambda numbers: numbers.get(one, 0)
        case Floor(form, divisor):
            divided = evaluator(form)
            return lambda numbers: divided(numbers) // divisor
        case Choose(condition, yes, no):
            asked, first, second = _decider(condition), evaluator(yes), evaluator(no)
            return lambda numbers: first(numbers) if asked(numbers) else second(numbers)
        case Apply(function, arguments):
            inside = [evaluator(argument) for argument in arguments]
            return lambda numbers: _apply(function, tuple([value(numbers) for value in inside]), numbers.get(UNIT, 1))
        case Product(factors):
            multiplied = [_evaluator(factor) for factor in factors]
            return lambda numbers: prod([value(numbers) for value in multiplied])


@lru_cache(4096)
def _decider(formula: Formula) -> Callable[[Mapping[Symbol, int]], bool]:
    match formula:
        case Compare("ge", form):
            value = evaluator(form)
            return lambda numbers: value(numbers) >= 0
        case Compare(relation, form):
            value, equal = evaluator(form), relation == "eq"
            return lambda numbers: (value(numbers) == 0) == equal
        case Both(parts) | Either(parts):
            asked, decisive = [_decider(part) for part in parts], isinstance(formula, Either)
            return lambda numbers: any(one(numbers) == decisive for one in asked) == decisive


# The machine's operations that the proof treats as uninterpreted functions: the reader names them as in PTX.
_OPERATIONS: dict[str, Callable[..., int]] = {
    "": lambda one: one,
    "mul.lo": lambda left, right: left * right,
    "div": lambda left, right: _quotient(left, right),
    "rem": lambda left, right: left - right * _quotient(left, right),
    "and.u32": and_,
    "or.u32": or_,
    "xor.u32": xor,
}
_HIGH_HALF = "mul.hi"


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero, as on the machine; division by zero is undefined there."""
    if not right:
        return 0
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def known_function(function: str) -> bool:
    """Whether its value can be computed, so that a run with it is faithful."""
    operation, _, kind = function.rpartition(".")
    return function in (QUOTIENT, REMAINDER) or kind in RANGES and (operation in _OPERATIONS or operation == _HIGH_HALF)


def evaluated_function(function: str, arguments: tuple[int, ...]) -> int:
    """The value of a function that is known."""
    if function == QUOTIENT:
        return arguments[0] // arguments[1] if arguments[1] > 0 else 0
    if function == REMAINDER:
        return arguments[0] % arguments[1] if arguments[1] > 0 else 0
    operation, _, kind = function.rpartition(".")
    least, most = RANGES[kind]
    if operation == _HIGH_HALF:
        return prod(arguments) // (most - least + 1)
    return (_OPERATIONS[operation](*arguments) - least) % (most - least + 1) + least


def _apply(function: str, arguments: tuple[int, ...], unit: int) -> int:
    # Computed as on the machine, so that a run takes the branches of a launch.
    if known_function(function):
        return evaluated_function(function, arguments)
    if (number := _NUMBER.fullmatch(function)) is not None:
        return (sum((index + 3) * argument for index, argument in enumerate(arguments)) * 7 + 5) % int(number[1])
    # Memory may contain anything; equal addresses give equal values.
    return (sum((index + 3) * argument for index, argument in enumerate(arguments)) * 7 + len(function)) % 4 * unit


def number_below(number: int, most: int) -> str:
    """The name of a function of which nothing is known, whose values at samples are less than a number."""
    return f"number {number} below {most}.s32"


def holds(formula: Formula, numbers: Mapping[Symbol, int]) -> bool:
    return _decider(formula)(numbers)


def function_of(form: Linear) -> str:
    """The function whose value the form is, if any."""
    match form:
        case Linear(0, ((Apply(function, _), _),)):
            return function
        case _:
            return ""
