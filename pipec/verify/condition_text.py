"""Conditions on sizes as text: `K >= 1`, `M * N <= 2147483516`."""

import re
from collections.abc import Iterable
from math import gcd

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

_LARGE = 1 << 16  # numbers that nobody has written: what they are compared with is shown as plainly as it can be


def condition_words(formula: Formula) -> str:
    match formula:
        case Compare(relation, form):
            return _comparison(relation, form)
        case Both(()):
            return "true"
        case Either(()):
            return "false"
        case Both(parts):
            return " and ".join(_parts(parts))
        case Either(parts):
            return " or ".join(_parts(parts))


def conditions_words(conditions: Iterable[Formula]) -> str:
    """The conjunction; empty if there are none."""
    made = both(*conditions)
    return "" if made == TRUE else condition_words(made)


def _parts(parts: Iterable[Formula]) -> Iterable[str]:
    """Each once: a product that is exact and one that the machine computes are said alike."""
    return dict.fromkeys(map(_part, parts))


def _part(formula: Formula) -> str:
    words = condition_words(formula)
    return words if isinstance(formula, Compare) else f"({words})"


def _comparison(relation: str, form: Linear) -> str:
    """Positive terms on the left, negative ones on the right; a constant alone on the right."""
    terms, number = _terms(_plain(relation, _rounded_up(form)))
    left, right = [one for one in terms if one[1] > 0], [(name, -times) for name, times in terms if times < 0]
    sign, beside = {"ge": ">=", "eq": "==", "ne": "!="}[relation], 0
    if not left:
        left, right = right, []
        sign = "<=" if relation == "ge" else sign
    else:
        number = -number
        if right and number <= -_LARGE and relation == "ge":
            left, right, number, sign = [*right, *((name, -times) for name, times in left)], [], -number, "<="
        elif right and number < 0:
            beside, number = -number, 0
    if relation != "ge" and len(terms) == 1:
        left, right, number = terms, [], number if terms[0][1] > 0 else -number
    return f"{_sum(left, beside)} {sign} {_sum(right, number)}"


def _plain(relation: str, form: Linear) -> Linear:
    """Divided by the common factor of the coefficients; one quotient next to a large number says the same of what is divided."""
    form = _reduced(relation, form)
    while relation == "ge" and len(form.terms) == 1 and abs(form.constant) >= _LARGE:
        ((quotient, times),) = form.terms
        if not isinstance(quotient, Floor):
            break
        # q >= -c if f >= -c * d, and q <= c if f <= c * d + d - 1. (As the only coefficient, it is 1 or -1.)
        more = form.constant * quotient.divisor + (quotient.divisor - 1 if times < 0 else 0)
        form = _reduced(relation, _rounded_up(add(Linear(more), quotient.form, times)))
    return form


def _rounded_up(form: Linear) -> Linear:
    """Quotients to which 1 is added where something is left, as those that are rounded up."""
    left = dict(form.terms)
    for one, times in form.terms:
        if not isinstance(one, Floor) or one.form.constant:
            continue
        rest = add(one.form, atom(one), -one.divisor)
        more = Choose(Compare("ge", add(rest, Linear(-1))), Linear(1), Linear(0))
        if left.get(more) == times:
            del left[one], left[more]
            rounded = Floor(Linear(one.divisor - 1, one.form.terms), one.divisor)
            left[rounded] = left.get(rounded, 0) + times
    return Linear(form.constant, tuple((one, times) for one, times in left.items() if times))


def _reduced(relation: str, form: Linear) -> Linear:
    """Divided by the common factor of the coefficients: `n >= 1` for `2 * n >= 1`."""
    common = gcd(*(times for _, times in form.terms))
    if common < 2 or relation != "ge" and form.constant % common:
        return form
    return Linear(form.constant // common, tuple((one, times // common) for one, times in form.terms))


def sum_words(form: Linear) -> str:
    return _sum(*_terms(form))


# Values as text, with their coefficients.
_Terms = list[tuple[str, int]]


def _sum(terms: _Terms, number: int) -> str:
    words = ""
    for one, times in sorted(terms, key=lambda term: term[1] < 0):
        product = one
        if abs(times) > 1 or times < 0 and not words:
            product = one if re.fullmatch(r"[\w.]+", one) or one[-1] == ")" else f"({one})"
            product = f"{abs(times)} * {product}" if abs(times) > 1 else product
        words += f" {'-' if times < 0 else '+'} {product}" if words else f"{'-' if times < 0 else ''}{product}"
    if not words:
        return str(number)
    return words + (f" {'-' if number < 0 else '+'} {abs(number)}" if number else "")


def _terms(form: Linear) -> tuple[_Terms, int]:
    """Recognises remainders and quotients rounded up; also returns the constant."""
    left, found = dict(form.terms), _Terms()
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
            whole, beside = times // one.divisor, left.get(inner, 0)
            # `2 * (n // 2)` is `n - n % 2`, which is shorter if `n` is subtracted anyway.
            if each == 1 and times % one.divisor == 0 and whole * beside < 0 and abs(whole) <= abs(beside):
                found.append((f"{_inner(one.form)} % {one.divisor}", -whole))
                del left[one]
                left[inner] = beside + whole
    return found + [(_atom(one), times) for one, times in left.items() if times], form.constant


def _atom(one: Atom) -> str:
    match one:
        case Symbol(name):
            return name
        case Floor(Linear(constant, terms), divisor) if constant == divisor - 1 and terms:
            return f"ceildiv({sum_words(Linear(0, terms))}, {divisor})"
        case Floor(form, divisor):
            return f"{_inner(form)} // {divisor}"
        case Choose(Compare("ge", form), yes, no) if form in (add(yes, no, -1), add(no, yes, -1)):
            return f"{'max' if form == add(yes, no, -1) else 'min'}({sum_words(yes)}, {sum_words(no)})"
        case Choose(condition, yes, no):
            return f"({sum_words(yes)} if {condition_words(condition)} else {sum_words(no)})"
        case Apply("mul.lo.s32" | "mul.lo.u32" | "mul.lo.s64", (left, right)):
            return " * ".join(sorted((_inner(left), _inner(right))))
        case Product(factors):
            return " * ".join(sorted(_inner(Linear(0, ((factor, 1),))) for factor in factors))
        case Apply(function, arguments):
            return f"{function}({', '.join(sum_words(each) for each in arguments)})"


def _inner(form: Linear) -> str:
    """Parenthesised unless it is a single name, number or call."""
    words = sum_words(form)
    return words if re.fullmatch(r"[\w.]+|ceildiv\([^()]*\)", words) else f"({words})"
