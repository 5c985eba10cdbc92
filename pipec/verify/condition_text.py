"""Conditions on sizes in words, for people: `K >= 1`, `M * N <= 2147483516`."""

import re
from collections.abc import Iterable

from pipec.verify.terms import (
    TRUE,
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
    add,
    atom,
    both,
)


def condition_words(formula: Formula) -> str:
    match formula:
        case Compare(relation, form):
            return _comparison(relation, form)
        case Both(()):
            return "true"
        case Either(()):
            return "false"
        case Both(parts):
            return " and ".join(_part(one) for one in parts)
        case Either(parts):
            return " or ".join(_part(one) for one in parts)


def conditions_words(conditions: Iterable[Formula]) -> str:
    """All of them; nothing where there is none."""
    made = both(*conditions)
    return "" if made == TRUE else condition_words(made)


def _part(formula: Formula) -> str:
    words = condition_words(formula)
    return words if isinstance(formula, Compare) else f"({words})"


def _comparison(relation: str, form: Linear) -> str:
    """What is added on the left, what is taken off on the right; a number alone on the right."""
    left = Linear(0, tuple((one, times) for one, times in form.terms if times > 0))
    right = add(left, form, -1)
    sign = {"ge": ">=", "eq": "==", "ne": "!="}[relation]
    if not left.terms:
        left, right = Linear(0, right.terms), Linear(-right.constant)
        sign = "<=" if relation == "ge" else sign
    elif right.terms and right.constant < 0:
        left, right = add(left, Linear(-right.constant)), add(right, Linear(-right.constant))
    if relation != "ge" and len(_terms(form)) == 1:
        left, right = add(form, Linear(-form.constant)), Linear(-form.constant)
    return f"{sum_words(left)} {sign} {sum_words(right)}"


def sum_words(form: Linear) -> str:
    words = ""
    for one, times in sorted(_terms(form), key=lambda term: term[1] < 0):
        product = one
        if abs(times) > 1:
            product = f"{abs(times)} * {one if one.isidentifier() or one[-1] == ')' else f'({one})'}"
        words += f" {'-' if times < 0 else '+'} {product}" if words else f"{'-' if times < 0 else ''}{product}"
    if not words:
        return str(form.constant)
    return words + (f" {'-' if form.constant < 0 else '+'} {abs(form.constant)}" if form.constant else "")


def _terms(form: Linear) -> list[tuple[str, int]]:
    """Values with their coefficients; remainders and quotients rounded up by their names."""
    left, found = dict(form.terms), list[tuple[str, int]]()
    for one, times in form.terms:
        if not isinstance(one, Floor):
            continue
        rest = add(one.form, atom(one), -one.divisor)
        more = Choose(Compare("ne", rest), Linear(1), Linear(0))
        if left.get(more) == times:
            found.append((f"ceildiv({sum_words(one.form)}, {one.divisor})", times))
            del left[one], left[more]
        elif len(one.form.terms) == 1 and not one.form.constant:
            ((inner, each),) = one.form.terms
            if each == 1 and times % one.divisor == 0 and left.get(inner) == -times // one.divisor:
                found.append((f"{_inner(one.form)} % {one.divisor}", -times // one.divisor))
                del left[one], left[inner]
    return found + [(_atom(one), times) for one, times in left.items()]


def _atom(one: Atom) -> str:
    match one:
        case Symbol(name):
            return name
        case Floor(Linear(constant, terms), divisor) if constant == divisor - 1 and terms:
            return f"ceildiv({sum_words(Linear(0, terms))}, {divisor})"
        case Floor(form, divisor):
            return f"{_inner(form)} // {divisor}"
        case Choose(condition, yes, no):
            return f"({sum_words(yes)} if {condition_words(condition)} else {sum_words(no)})"
        case Apply("mul.lo.s32" | "mul.lo.u32" | "mul.lo.s64", (left, right)):
            return " * ".join(sorted((_inner(left), _inner(right))))
        case Product(factors):
            return " * ".join(sorted(_inner(Linear(0, ((factor, 1),))) for factor in factors))
        case Apply(function, arguments):
            return f"{function}({', '.join(sum_words(each) for each in arguments)})"


def _inner(form: Linear) -> str:
    """Between other signs: alone only what is one name, number or call."""
    words = sum_words(form)
    return words if re.fullmatch(r"[\w.]+|ceildiv\([^()]*\)", words) else f"({words})"
