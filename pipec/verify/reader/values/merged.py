"""Eliminates choices with equal alternatives: quotients and remainders of signed numbers, which are compiled from quotients rounded
towards zero.

Substituting the outcome for negative and for non-negative values, both alternatives may be the same, such as `floor(x / 3)`.
"""

from collections.abc import Callable, Iterator

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
    Product,
    Symbol,
    add,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    forms_of,
    negate,
    scale,
    symbols_of,
)


def merged(form: Linear, may_be_negative: Callable[[Linear], bool]) -> Linear:
    """The form without its choice, if that is possible. Not applied to loaded values, about which nothing is known: roles with the same
    computation get the same form."""
    if not any(isinstance(one, Choose) for one, _ in form.terms) or not _plain(form):
        return form
    condition = _asked(form)
    if condition is None:
        # Forms of dimensions are left as they are: otherwise longer forms around them would be tracked, at a cost.
        if not any(may_be_negative(atom(symbol)) for symbol in symbols_of(form)):
            return form
        made = _given(form, {})
        return form if any(isinstance(one, Choose) for one, _ in made.terms) else made
    opposite = negate(condition)
    yes, no = _given(form, {condition: True, opposite: False}), _given(form, {condition: False, opposite: True})
    return yes if yes == no else form


def rounded_down(form: Linear, divided: list[Linear]) -> Linear:
    """The same form if no dividend is negative; the dividends are added to `divided`."""
    made = Linear(form.constant)
    for one, times in form.terms:
        match one:
            case Apply("div.u32" | "div.s32", (of, Linear(divisor, ()))):
                # (That it is in range, as interpreted by the instruction, was required at the division.)
                divided.append(of)
                made = add(made, floor(rounded_down(of, divided), divisor), times)
            case Floor(of, divisor):
                made = add(made, floor(rounded_down(of, divided), divisor), times)
            case _:
                made = add(made, atom(one), times)
    return made


def not_negative(form: Linear) -> Linear:
    """The same form if no symbol in it is negative: resolves choices that only depend on that."""
    known: Known = {}
    for condition in _conditions(form):
        signs = {times > 0 for one, times in condition.form.terms}
        if condition.relation == "ge" and signs == {condition.form.constant >= 0} and all(map(_is_symbol, condition.form.terms)):
            known[condition] = condition.form.constant >= 0
    return _given(form, known) if known else form


def _is_symbol(term: tuple[Atom, int]) -> bool:
    return isinstance(term[0], Symbol)


def _conditions(form: Linear) -> Iterator[Compare]:
    """The conditions of the choices in a form."""
    for one, _ in form.terms:
        match one:
            case Floor(inner, _):
                yield from _conditions(inner)
            case Choose(condition, yes, no):
                yield from _compared(condition)
                for inner in (yes, no, *forms_of(condition)):
                    yield from _conditions(inner)
            case _:
                pass


def _compared(condition: Formula) -> Iterator[Compare]:
    match condition:
        case Compare():
            yield condition
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _compared(part)


def _plain(form: Linear) -> bool:
    return all(_plain_atom(one) for one, _ in form.terms)


def _plain_atom(one: Atom) -> bool:
    match one:
        case Symbol():
            return True
        case Floor(form, _):
            return _plain(form)
        case Choose(condition, yes, no):
            return _plain(yes) and _plain(no) and all(map(_plain, forms_of(condition)))
        case Apply("mul.lo.s32", factors):
            return all(map(_plain, factors))
        case Apply() | Product():
            return False


def _asked(form: Linear) -> Formula | None:
    """An inequality in the condition of a choice in the form; one that is made of no other choice, if possible: what is known of it decides
    others."""
    for one, _ in form.terms:
        if isinstance(one, Choose):
            parts = one.condition.parts if isinstance(one.condition, (Both, Either)) else (one.condition,)
            compared = [part for part in parts if isinstance(part, Compare)]
            for inner in (*(part.form for part in compared), one.yes, one.no):
                if (found := _asked(inner)) is not None:
                    return found
            for part in compared:
                if part.relation == "ge":
                    return part
    return None


Known = dict[Formula, bool]


def _given(form: Linear, known: Known) -> Linear:
    """Simplified with known conditions."""
    made = Linear(form.constant)
    for one, times in form.terms:
        made = add(made, _atom(one, known), times)
    return made


def _atom(one: Atom, known: Known) -> Linear:
    match one:
        case Floor(form, divisor):
            return _upright(_given(form, known), divisor)
        case Choose(condition, yes, no):
            return _choice(_condition(condition, known), _given(yes, known), _given(no, known))
        case _:
            return atom(one)


def _condition(formula: Formula, known: Known) -> Formula:
    if formula in known:
        return both() if known[formula] else either()
    match formula:
        case Compare(relation, form):
            return decided(Compare(relation, _given(form, known)))
        case Both(parts):
            return both(*(_condition(part, known) for part in parts))
        case Either(parts):
            return either(*(_condition(part, known) for part in parts))


def _upright(form: Linear, divisor: int) -> Linear:
    """Rewrites a quotient with a leading minus in terms of the negated form: `floor(-x / d)` is `-floor((x + d - 1) / d)`."""
    if not form.terms or form.terms[0][1] > 0:
        return floor(form, divisor)
    return scale(floor(add(scale(form, -1), Linear(divisor - 1)), divisor), -1)


def _choice(condition: Formula, yes: Linear, no: Linear) -> Linear:
    """If the condition is whether a division has a remainder, or how large it is, a number chosen by it is a difference of quotients."""
    step = add(yes, no, -1)
    if isinstance(condition, Compare) and not step.terms:
        asked = _remains if condition.relation != "ge" else _is_left
        if (holds := asked(condition.form)) is not None:
            return add(yes, holds, -step.constant) if condition.relation == "eq" else add(no, holds, step.constant)
    return choose(condition, yes, no)


def _remains(form: Linear) -> Linear | None:
    """1 if the form is not 0, else 0, if it is what a division leaves: the quotient rounded up is one more than that rounded down."""
    for one, times in form.terms:
        if isinstance(one, Floor) and abs(times) == one.divisor:
            divided = add(scale(form, -1 if times > 0 else 1), atom(one), one.divisor)
            beyond = add(one.form, divided, -1)
            if not beyond.terms and 0 <= beyond.constant < one.divisor:
                return add(floor(add(divided, Linear(one.divisor - 1)), one.divisor), floor(divided, one.divisor), -1)
    return None


def _is_left(form: Linear) -> Linear | None:
    """1 if the form is not negative, else 0, if it compares what a division leaves, which is from 0 to the divisor, with a number."""
    for one, times in form.terms:
        if isinstance(one, Floor) and abs(times) == one.divisor:
            left = add(one.form, atom(one), -one.divisor)
            apart = add(form, left, 1 if times > 0 else -1)
            if not apart.terms:
                # At least this much is left; or the opposite, that more is.
                least = apart.constant + 1 if times > 0 else -apart.constant
                least = min(max(least, 0), one.divisor)
                reached = add(floor(add(one.form, Linear(one.divisor - least)), one.divisor), atom(one), -1)
                return add(Linear(1), reached, -1) if times > 0 else reached
    return None
