"""Conditions on sizes in words, for people: `K >= 1`, `M * N <= 2147483516`."""

from collections.abc import Mapping

from pipec.verify.terms import Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, add

Names = Mapping[str, str]  # what a symbol is called in the source


def condition_words(formula: Formula, names: Names) -> str:
    match formula:
        case Compare(relation, form):
            return _comparison(relation, form, names)
        case Both(()):
            return "true"
        case Either(()):
            return "false"
        case Both(parts):
            return " and ".join(_part(one, names) for one in parts)
        case Either(parts):
            return " or ".join(_part(one, names) for one in parts)


def _part(formula: Formula, names: Names) -> str:
    words = condition_words(formula, names)
    return words if isinstance(formula, Compare) else f"({words})"


def _comparison(relation: str, form: Linear, names: Names) -> str:
    """What is added on the left, what is taken off on the right; a number alone on the right."""
    left = Linear(0, tuple((one, times) for one, times in form.terms if times > 0))
    right = add(left, form, -1)
    sign = {"ge": ">=", "eq": "==", "ne": "!="}[relation]
    if not left.terms:
        left, right = Linear(0, right.terms), Linear(-right.constant)
        sign = "<=" if relation == "ge" else sign
    elif right.terms and right.constant < 0:
        left, right = add(left, Linear(-right.constant)), add(right, Linear(-right.constant))
    return f"{sum_words(left, names)} {sign} {sum_words(right, names)}"


def sum_words(form: Linear, names: Names) -> str:
    words = ""
    for one, times in sorted(form.terms, key=lambda term: term[1] < 0):
        product = _atom(one, names)
        if abs(times) > 1:
            product = f"{abs(times)} * {product if isinstance(one, Symbol | Choose) else f'({product})'}"
        words += f" {'-' if times < 0 else '+'} {product}" if words else f"{'-' if times < 0 else ''}{product}"
    if not words:
        return str(form.constant)
    return words + (f" {'-' if form.constant < 0 else '+'} {abs(form.constant)}" if form.constant else "")


def _atom(one: Atom, names: Names) -> str:
    match one:
        case Symbol(name):
            return names.get(name, name)
        case Floor(form, divisor):
            return f"{_inner(form, names)} // {divisor}"
        case Choose(condition, yes, no):
            return f"({sum_words(yes, names)} if {condition_words(condition, names)} else {sum_words(no, names)})"
        case Apply("mul.lo.s32" | "mul.lo.u32", (left, right)):
            return f"{_inner(left, names)} * {_inner(right, names)}"
        case Apply(function, arguments):
            return f"{function}({', '.join(sum_words(each, names) for each in arguments)})"


def _inner(form: Linear, names: Names) -> str:
    """Between other signs: alone only what is one name or number."""
    match form:
        case Linear(_, ()) | Linear(0, ((Symbol(), 1),)):
            return sum_words(form, names)
        case _:
            return f"({sum_words(form, names)})"
