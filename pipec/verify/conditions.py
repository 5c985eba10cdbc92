"""Conditions on a kernel's launch: facts for the proof, checked by the launcher.

They are formulas whose symbols are names of the source: dimensions, integer scalars, and `grid.x` and the like, the numbers of blocks. A
kernel carries them in its interface line, so they are known from the PTX, and every launch satisfies them.
"""

from collections.abc import Mapping
from typing import Any

from pipec.verify.data import formula_data
from pipec.verify.terms import (
    RANGES,
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
    Relation,
    Symbol,
    symbols_in,
)

_PRODUCTS = frozenset(f"mul.lo.{kind}" for kind in RANGES)
GRID = ("grid.x", "grid.y", "grid.z")


class ProductOverflow(Exception):
    """A product that overflows its type: the kernel would compute a different value."""


def met(condition: Formula, numbers: Mapping[str, int]) -> bool:
    """Whether it holds, in exact arithmetic; a comparison fails if a product would wrap in the kernel."""
    match condition:
        case Compare(relation, form):
            try:
                return _holds(relation, _value(form, numbers))
            except ProductOverflow:
                return False
        case Both(parts):
            return all(met(part, numbers) for part in parts)
        case Either(parts):
            return any(met(part, numbers) for part in parts)


def _holds(relation: Relation, value: int) -> bool:
    return value >= 0 if relation == "ge" else (value == 0) == (relation == "eq")


def _chosen(condition: Formula, numbers: Mapping[str, int]) -> bool:
    """Like `met`, but an overflow aborts the enclosing comparison: neither outcome would be right."""
    match condition:
        case Compare(relation, form):
            return _holds(relation, _value(form, numbers))
        case Both(parts):
            return all(_chosen(part, numbers) for part in parts)
        case Either(parts):
            return any(_chosen(part, numbers) for part in parts)


def _value(form: Linear, numbers: Mapping[str, int]) -> int:
    return form.constant + sum(times * _atom(one, numbers) for one, times in form.terms)


def _atom(one: Atom, numbers: Mapping[str, int]) -> int:
    match one:
        case Symbol(name):
            return numbers[name]
        case Floor(form, divisor):
            return _value(form, numbers) // divisor
        case Choose(condition, yes, no):
            return _value(yes if _chosen(condition, numbers) else no, numbers)
        case Apply(function, (left, right)):
            product = _value(left, numbers) * _value(right, numbers)
            least, most = RANGES[function.rpartition(".")[2]]
            if not least <= product <= most:
                raise ProductOverflow
            return product
        case Apply() | Product():
            raise AssertionError("only products in a type of the machine are launch conditions")


def condition_data(condition: Formula) -> tuple[Any, ...]:
    """The form used in an interface: immutable data."""
    return tuple(map(_fixed, formula_data(condition)))


def _fixed(data: object) -> object:
    return tuple(map(_fixed, data)) if isinstance(data, list) else data


def names_in(condition: Formula) -> list[str]:
    return sorted(symbol.name for symbol in symbols_in(condition))


def launchable(condition: Formula, names: frozenset[str]) -> bool:
    """Whether a launch can check it: it contains only these names, and no functions except products."""
    return {*names_in(condition)} <= names and all(
        function in _PRODUCTS and count == 2 for function, count in functions_in(condition)
    )


def functions_in(formula: Formula) -> set[tuple[str, int]]:
    """The functions, each with its number of arguments."""
    match formula:
        case Compare(_, form):
            return set().union(*(_functions_of(one) for one, _ in form.terms))
        case Both(parts) | Either(parts):
            return set().union(*map(functions_in, parts))


def _functions_of(one: Atom) -> set[tuple[str, int]]:
    match one:
        case Symbol():
            return set()
        case Floor(form, _):
            return functions_in(Compare("eq", form))
        case Choose(condition, yes, no):
            return functions_in(condition) | functions_in(Compare("eq", yes)) | functions_in(Compare("eq", no))
        case Apply(function, arguments):
            return {(function, len(arguments))}.union(*(functions_in(Compare("eq", each)) for each in arguments))
        case Product(factors):
            return {("product", len(factors))}
