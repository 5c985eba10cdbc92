"""Launch expressions and conditions as the C code evaluates them: numbers and operators in one array, in prefix order."""

from collections.abc import Iterator, Mapping

from pipec.interface import HOST_FUNCTIONS, HOST_OPERATORS, LaunchExpression
from pipec.verify.terms import RANGES, Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Product, Symbol

# Words of a program: the name of an operator (in pipec_launch_impl.h, with prefix PIPEC_), or a number.
Word = str | int

_OPERATORS = {
    "+": "ADD", "-": "SUBTRACT", "*": "MULTIPLY", "//": "FLOOR_DIVIDE", "%": "REMAINDER", "min": "MINIMUM", "max": "MAXIMUM",
    "ceildiv": "CEILDIV",
}  # fmt: skip
assert set(_OPERATORS) == {*HOST_OPERATORS, *HOST_FUNCTIONS}
_RELATIONS = {"ge": "NOT_NEGATIVE", "eq": "ZERO", "ne": "NOT_ZERO"}
_WIDEST = 2**63 - 1


def of_expression(expression: LaunchExpression, names: Mapping[str, int]) -> Iterator[Word]:
    """`names`: the index of each name in the array of values that the program reads."""
    if isinstance(expression, int):
        yield from _of_number(expression)
    elif isinstance(expression, str):
        yield from ("NAME", names[expression])
    else:
        operator, first, *others = expression
        # Operators are binary in C: min(a, b, c) is min(min(a, b), c).
        yield from [_OPERATORS[operator]] * len(others)
        yield from of_expression(first, names)
        for other in others:
            yield from of_expression(other, names)


def _of_number(value: int) -> Iterator[Word]:
    """A number beyond 64 bits has no value in C; it is encoded as a product that overflows, so that the launch is refused."""
    if -_WIDEST - 1 <= value <= _WIDEST:
        yield from ("NUMBER", value)
    else:
        yield from ("MULTIPLY", "NUMBER", _WIDEST, "NUMBER", 2)


def of_condition(condition: Formula, names: Mapping[str, int]) -> Iterator[Word]:
    match condition:
        case Compare(relation, form):
            yield _RELATIONS[relation]
            yield from _of_sum(form, names)
        case Both(parts):
            yield from ("AND", len(parts))
            for part in parts:
                yield from of_condition(part, names)
        case Either(parts):
            yield from ("OR", len(parts))
            for part in parts:
                yield from of_condition(part, names)


def _of_sum(form: Linear, names: Mapping[str, int]) -> Iterator[Word]:
    yield from ["ADD"] * len(form.terms)
    yield from _of_number(form.constant)
    for one, times in form.terms:
        yield "MULTIPLY"
        yield from _of_number(times)
        yield from _of_atom(one, names)


def _of_atom(one: Atom, names: Mapping[str, int]) -> Iterator[Word]:
    match one:
        case Symbol(name):
            yield from ("NAME", names[name])
        case Floor(form, divisor):
            yield "FLOOR_DIVIDE"
            yield from _of_sum(form, names)
            yield from _of_number(divisor)
        case Choose(condition, yes, no):
            yield "CHOOSE"
            yield from of_condition(condition, names)
            yield from _of_sum(yes, names)
            yield from _of_sum(no, names)
        case Apply(function, (left, right)):
            least, most = RANGES[function.rpartition(".")[2]]
            yield from ("PRODUCT_WITHIN", least, min(most, _WIDEST))
            yield from _of_sum(left, names)
            yield from _of_sum(right, names)
        case Apply() | Product():
            raise AssertionError("only products in a type of the machine are launch conditions")
