"""Conditions as JSON data: in certificate files, and in a kernel's interface line."""

from pipec.verify.terms import (
    MOST_FACTORS,
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
    atom,
    product,
    summed,
)

_LARGEST = 1 << 128  # of a number: proofs are about sums and products of 64-bit values
_DEEPEST = 60  # nesting of conditions and values


class Malformed(Exception):
    """The data are malformed; says why."""


def fields(data: object, *names: str) -> tuple[object, ...]:
    """The values of an object with exactly these fields."""
    if not isinstance(data, dict) or data.keys() != {*names}:
        raise Malformed(f"an object with {', '.join(names)} is expected, not {short(data)}")
    return tuple(data[name] for name in names)


def items(data: object) -> list[object]:
    if not isinstance(data, list):
        raise Malformed(f"a list is expected, not {short(data)}")
    return data


def short(data: object) -> str:
    """For messages: a short description of what was found."""
    match data:
        case dict():
            return f"one with {', '.join(map(repr, [*data][:6]))}" if data else "one without any"
        case list():
            return f"a list of {len(data)}"
        case int() if not -_LARGEST <= data <= _LARGEST:
            return "a number beyond 128 bits"
        case _:
            return repr(data) if len(repr(data)) <= 60 else repr(data)[:57] + "..."


def integer(data: object) -> int:
    if type(data) is not int or not -_LARGEST <= data <= _LARGEST:
        raise Malformed(f"an integer is expected, not {short(data)}")
    return data


def formula_data(formula: Formula) -> list[object]:
    match formula:
        case Compare(relation, form):
            return [relation, form_data(form)]
        case Both(parts):
            return ["and", *map(formula_data, parts)]
        case Either(parts):
            return ["or", *map(formula_data, parts)]


def formulas_of(data: object) -> tuple[Formula, ...]:
    made = tuple(formula_of(one) for one in items(data))
    if len({*made}) < len(made):
        raise Malformed("a condition stands there twice")
    return made


def formula_of(data: object, depth: int = 0) -> Formula:
    """The inverse of `formula_data`. Raises Malformed."""
    _shallow(depth)
    match data:
        case ["ge" | "eq" | "ne" as relation, form]:
            return Compare(relation, _read_linear(form, depth))
        case ["and", *parts]:
            return Both(tuple(formula_of(one, depth + 1) for one in parts))
        case ["or", *parts]:
            return Either(tuple(formula_of(one, depth + 1) for one in parts))
        case _:
            raise Malformed(f"a condition is expected, not {short(data)}")


def form_of(data: object) -> Linear:
    """The inverse of `form_data`. Raises Malformed."""
    return _read_linear(data, 0)


def _shallow(depth: int) -> None:
    if depth > _DEEPEST:
        raise Malformed("a condition is nested too deeply")


def form_data(form: Linear) -> list[object]:
    return [form.constant, *([coefficient, _atom(one)] for one, coefficient in form.terms)]


def _read_linear(data: object, depth: int) -> Linear:
    """Only in canonical form: no duplicate values and no coefficient 0, so that equal forms are equal texts."""
    match data:
        case [constant, *terms]:
            made = Linear(integer(constant), tuple(_read_term(term, depth) for term in terms))
        case _:
            raise Malformed(f"a sum is expected, not {short(data)}")
    if summed(0, [(made, 1)]) != made:
        raise Malformed("a sum that is not in order")
    return made


def _read_term(data: object, depth: int) -> tuple[Atom, int]:
    match data:
        case [coefficient, one]:
            return _read_atom(one, depth + 1), integer(coefficient)
        case _:
            raise Malformed(f"a coefficient and a value are expected, not {short(data)}")


def _atom(one: Atom) -> object:
    match one:
        case Symbol(name):
            return name
        case Floor(form, divisor):
            return ["floor", form_data(form), divisor]
        case Choose(condition, yes, no):
            return ["choose", formula_data(condition), form_data(yes), form_data(no)]
        case Apply(function, arguments):
            return ["apply", function, *map(form_data, arguments)]
        case Product(factors):
            return ["product", *map(_atom, factors)]


def _read_atom(data: object, depth: int) -> Atom:
    _shallow(depth)
    match data:
        case str(name):
            return Symbol(name)
        case ["floor", form, divisor]:
            if integer(divisor) <= 0:
                raise Malformed("a divisor that is not positive")
            return Floor(_read_linear(form, depth), integer(divisor))
        case ["choose", condition, yes, no]:
            return Choose(formula_of(condition, depth + 1), _read_linear(yes, depth), _read_linear(no, depth))
        case ["apply", str(function), *arguments]:
            return Apply(function, tuple(_read_linear(one, depth) for one in arguments))
        case ["product", *factors]:
            return _read_product(tuple(_read_atom(one, depth + 1) for one in factors))
        case _:
            raise Malformed(f"a value is expected, not {short(data)}")


def _read_product(factors: tuple[Atom, ...]) -> Atom:
    """Only in canonical form."""
    made = Linear(1)
    for factor in factors:
        made = product(made, atom(factor))
    if not 2 <= len(factors) <= MOST_FACTORS or made != atom(Product(factors)):
        raise Malformed("a product that is not in order")
    return Product(factors)
