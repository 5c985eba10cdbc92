"""Comparisons of linear forms: conditions on integers for the machine's comparisons of bits."""

from pipec.verify.reader.text.operations import Operation, wrapped
from pipec.verify.reader.values.forms import Reading, as_formula, masked
from pipec.verify.reader.values.values import Value
from pipec.verify.terms import FALSE, TRUE, Apply, Choose, Compare, Floor, Formula, Linear, add, both, decided, either, negate

_MOST_LEFT_OUT = 2  # bits of a number that are masked out in a comparison


def compared(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    """The condition of `setp` on two numbers."""
    if op.how in ("eq", "ne"):
        difference = add(forms[0], forms[1], -1)
        if (few := _few(how, op, difference)) is not None:
            return few if op.how == "eq" else negate(few)
        least, most = how.bounds(difference)
        if not (least > -(1 << op.width) and most < 1 << op.width):
            signed = Operation(op.name, op.how, op.width, True, 1)
            # (A difference with a constant is 0 iff they are equal, also modulo 2^width.)
            parts = forms if forms[1].terms else [difference, Linear(0)]
            difference = add(how.read(parts[0], signed, True), how.read(parts[1], signed, True), -1)
        least, most = how.bounds(difference)
        if least > 0 or most < 0 or least == most:
            return TRUE if (least == most == 0) == (op.how == "eq") else FALSE
        chosen = _chosen_to_be_zero(how, difference)
        equal = chosen or both(*(decided(Compare("eq", part)) for part in _all_zero(how, difference)))
        return equal if op.how == "eq" else negate(equal)
    if (between := _between(how, op, forms)) is not None:
        return between
    left, right = how.read(forms[0], op, True), how.read(forms[1], op, True)
    difference, strict = {
        "lt": (add(right, left, -1), 1),
        "lo": (add(right, left, -1), 1),
        "gt": (add(left, right, -1), 1),
        "hi": (add(left, right, -1), 1),
        "le": (add(right, left, -1), 0),
        "ls": (add(right, left, -1), 0),
        "ge": (add(left, right, -1), 0),
        "hs": (add(left, right, -1), 0),
    }[op.how]
    form = add(difference, Linear(-strict))
    least, most = how.bounds(form)
    return TRUE if least >= 0 else FALSE if most < 0 else _signs(how, form) or Compare("ge", form)


def _chosen_to_be_zero(how: Reading, form: Linear) -> Formula | None:
    """When a form is 0 that is so with one operand of a choice and never with the other: what remains of one more, say."""
    match form:
        case Linear(constant, ((Choose(condition, yes, no), (1 | -1) as times),)):
            for when, one, other in ((condition, yes, no), (negate(condition), no, yes)):
                rest = Linear(times * constant)
                never = how.bounds(add(other, rest))
                if add(one, rest) == Linear(0) and (never[0] > 0 or never[1] < 0):
                    return when
        case _:
            pass
    return None


def _between(how: Reading, op: Operation, forms: list[Linear]) -> Formula | None:
    """A range check between two constants, which compilers write as one unsigned comparison after subtracting the lower bound."""
    form, most = forms[0], forms[1].constant & (1 << op.width) - 1
    if how.as_read or op.signed or op.how not in _UP_TO or forms[1].terms or form.constant >= 0 or how.bounds(form)[0] >= 0:
        return None
    less, beyond = _UP_TO[op.how]
    low, high = -form.constant, most - less - form.constant
    if not low <= high < 1 << op.width - 1:
        return None
    how.apart = True
    number = how.read(Linear(0, form.terms), Operation(op.name, op.how, op.width, True, 1), True)
    inside = both(Compare("ge", add(number, Linear(-low))), Compare("ge", add(Linear(high), number, -1)))
    return negate(inside) if beyond else inside


# For unsigned comparisons: the slack of the upper bound, and whether the condition is the complement.
_UP_TO = {"lt": (1, False), "lo": (1, False), "le": (0, False), "ls": (0, False)}
_UP_TO |= {"ge": (1, True), "hs": (1, True), "gt": (0, True), "hi": (0, True)}


def _few(how: Reading, op: Operation, difference: Linear) -> Formula | None:
    """Whether the form is 0, if it is a masked number minus a constant: compilers rewrite `x == 1 or x == 3` as `x & -3 == 1`."""
    divided = [one for one, _ in difference.terms if isinstance(one, Floor)]
    for one in divided if len(divided) > 1 else ():
        if one.divisor & -one.divisor != one.divisor or one.divisor >> op.width:
            continue
        for low in (one.divisor >> bits for bits in range(1, _MOST_LEFT_OUT + 1) if one.divisor >> bits > 1):
            without = masked(one.form, low - one.divisor - 1)
            rests = [] if without is None else [(sign, add(difference, without, -sign)) for sign in (1, -1)]
            number = next((-sign * rest.constant for sign, rest in rests if not rest.terms), None)
            if number is None:
                continue
            if number % one.divisor >= low:
                return FALSE  # a masked-out bit is required
            equal = Operation("setp", "eq", op.width, True, 1)
            asked = (Linear(wrapped(number + more, op.width)) for more in range(0, one.divisor, low))
            return either(*(as_formula(compared(how, equal, [one.form, each])) for each in asked))
    return None


def _all_zero(how: Reading, form: Linear) -> tuple[Linear, ...]:
    """What must be 0 for the form to be 0: both operands of an `or`."""
    match form:
        case Linear(0, ((Apply("or.u32.s32", parts), 1 | -1),)):
            signed = Operation("or", "", 32, True, 32)
            return tuple(each for one in parts for each in _all_zero(how, how.read(one, signed)))
        case _:
            return (form,)


def _signs(how: Reading, form: Linear) -> Formula | None:
    """The condition `form >= 0`, if it tests the sign of an `or` or `and` of two numbers."""
    match form:
        case Linear(-1 | 0, ((Apply("or.u32.s32" | "and.u32.s32" as function, (left, right)), 1 | -1 as times),)):
            if form.constant != (0 if times == 1 else -1):
                return None
            signed = Operation("or", "", 32, True, 32)
            parts = [decided(Compare("ge", how.read(one, signed))) for one in (left, right)]
            if times == -1:
                parts = [negate(part) for part in parts]
            return both(*parts) if (function[0] == "o") == (times == 1) else either(*parts)
    return None
