"""Operations on linear forms: the result is a form, a condition, or an uninterpreted function."""

from collections.abc import Callable
from functools import reduce
from math import gcd, inf
from typing import Protocol

from pipec.verify.reader.text.operations import Operation
from pipec.verify.reader.values.extremes import counts, undivided
from pipec.verify.reader.values.parts import exact, only_counters
from pipec.verify.reader.values.values import UNKNOWN, Value
from pipec.verify.terms import (
    FALSE,
    RANGES,
    TRUE,
    Apply,
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
    choose,
    decided,
    floor,
    quotient,
    remainder,
    scale,
)

# By name: the symbols in their order, and what it is of them.
Folds = dict[str, tuple[tuple[Symbol, ...], Linear | Formula]]


class Reading(Protocol):
    """Interprets forms as numbers of a width, and bounds them (see Arithmetic)."""

    apart: bool
    folds: Folds

    @property
    def as_read(self) -> bool: ...

    def read(self, form: Linear, op: Operation, compared: bool = False) -> Linear: ...

    def bounds(self, form: Linear) -> tuple[float, float]: ...


def as_formula(value: Value) -> Formula:
    if isinstance(value, int):
        return TRUE if value else FALSE
    assert isinstance(value, (Compare, Both, Either))
    return value


def as_linear(value: int | Linear) -> Linear:
    return Linear(value) if isinstance(value, int) else value


_MOST_RUNS = 3  # runs of ones in a mask that is evaluated exactly
Rule = Callable[[Reading, Operation, list[Linear]], Value]


def _opaque(how: Reading, op: Operation, forms: list[Linear], orderless: bool = False) -> Linear:
    """An uninterpreted function of the forms; its result is a signed number of the result's width."""
    if orderless:
        forms = sorted(forms, key=repr)
    kind = ("s" if op.signed else "u") + str(op.width)
    name = ".".join(part for part in (op.name, op.how, kind if op.to == op.width else f"{kind}.s{op.to}") if part)
    if name.endswith(f"u{op.width}") and op.name in ("div", "rem", "shr", "min", "max", "bfe"):
        return atom(Apply(name, tuple(forms)))
    return atom(Apply(name if name.endswith(f"s{op.to}") else f"{name}.s{op.to}", tuple(forms)))


def _add(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    left, right = forms[:2]
    for upper, form in ((left, right), (right, left)):
        for read in (form, atom(Apply(f"s{op.width}", (form,)))):
            if (whole := _whole(upper, read)) is not None:
                return whole
    return add(left, right)


def _whole(upper: Linear, form: Linear) -> Linear | None:
    """The sum, if `upper` is a part of a negative multiple of the form: a factor of 2^31 or more is represented minus 2^32, and the
    difference is added back (divisions by 7, for example). What is added may have been read with a sign in front: that is the same bits."""
    match upper:
        case Linear(0, ((Floor(inner, divisor), 1),)) if form.terms and inner.terms:
            times = inner.terms[0][1] // form.terms[0][1]
            if times < 0 and inner == scale(form, times):
                return floor(scale(form, times + divisor), divisor)
    return None


def _sub(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    return add(forms[0], forms[1], -1)


def _neg(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    return scale(forms[0], -1)


def _abs(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    form = how.read(forms[0], op)
    return choose(decided(Compare("ge", form)), form, scale(form, -1))


def _not(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    return add(Linear(-1), forms[0], -1)


def _part(how: Reading, form: Linear, factor: int, power: int, within: tuple[float, float] = (-inf, inf)) -> Linear:
    """`floor(factor * form / 2^power)`, the compiled form of division: the factor is slightly more than the inverse of the divisor.
    `within`: the range in which the form was interpreted."""
    least, most = how.bounds(form)
    least, most = max(least, within[0]), min(most, within[1])
    divisor = (1 << power) // factor + 1
    over = factor * divisor - (1 << power)
    if 1 < divisor and 0 < over and over * most < 1 << power and over * -least <= 1 << power:
        if least >= 0:
            return floor(form, divisor)
        return add(towards_zero(form, divisor), _negative(how, form), -1)
    return floor(scale(form, factor), 1 << power)


def towards_zero(form: Linear, divisor: int) -> Linear:
    """The quotient rounded towards 0."""
    downwards = scale(floor(scale(form, -1), divisor), -1)
    return choose(decided(Compare("ge", form)), floor(form, divisor), downwards)


def _negative(how: Reading, form: Linear) -> Linear:
    """1 if the form is negative, else 0."""
    if how.bounds(form)[0] >= 0:
        return Linear(0)
    return choose(decided(Compare("ge", form)), Linear(0), Linear(1))


def _divided(form: Linear) -> tuple[Linear, int]:
    """The dividend of a quotient, with the multiples of the divisor that were factored out; and the divisor."""
    quotient, _ = form.terms[0]
    assert isinstance(quotient, Floor)
    return add(quotient.form, Linear(form.constant * quotient.divisor)), quotient.divisor


def _common(form: Linear) -> int:
    return gcd(form.constant, *(times for _, times in form.terms))


def _parted(form: Linear, divisor: int) -> Linear:
    """Exact division."""
    return Linear(form.constant // divisor, tuple((one, times // divisor) for one, times in form.terms))


def _sign(how: Reading, form: Linear) -> Linear | None:
    """1 if the form is negative, for the result of a division (see _part)."""
    match form:
        case Linear(_, ((Floor(), 1),)):
            inner, _ = _divided(form)
            return _negative(how, _parted(inner, _common(inner)))
        case Linear(0, ((Choose(), _), (Choose(), _))):
            for one, times in form.terms:
                if isinstance(one, Choose) and times == 1 and isinstance(one.condition, Compare):
                    inside = one.condition.form
                    quotient = one.yes.terms[0][0] if len(one.yes.terms) == 1 else None
                    if isinstance(quotient, Floor) and form == add(
                        towards_zero(inside, quotient.divisor), _negative(how, inside), -1
                    ):
                        return _negative(how, inside)
    return None


def _may_be_less(how: Reading, form: Linear) -> bool:
    """Whether the form is an uninterpreted value, as a product, that may be negative. A quotient of it is one of two numbers, of which most
    texts make a third one, rounded down: then that is known (see `multiplied_out`)."""
    return how.bounds(form)[0] < 0 and any(isinstance(one, Apply) for one, _ in form.terms)


def _mul(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    if op.how == "hi":
        form, factor = forms if not forms[1].terms else (forms[1], forms[0])
        if not factor.terms and not op.signed:
            factor = Linear(factor.constant % (1 << op.width))
        if not factor.terms and factor.constant < 0 and op.signed and not _may_be_less(how, form):
            return floor(scale(how.read(form, op), factor.constant), 1 << op.width)
        if not factor.terms and factor.constant > 0 and not _may_be_less(how, form):
            return _part(how, how.read(form, op), factor.constant, op.width, RANGES[f"{'su'[not op.signed]}{op.width}"])
        return _opaque(how, op, forms, orderless=True)
    if op.how == "wide":
        forms = [how.read(forms[0], op), how.read(forms[1], op)]
    if not forms[1].terms:
        return scale(forms[0], forms[1].constant)
    if not forms[0].terms:
        return scale(forms[1], forms[0].constant)
    signed = Operation("mul", op.how, op.width, op.signed or op.how == "lo", op.to)
    if op.how != "lo":
        return _opaque(how, signed, forms, orderless=True)
    # Modulo a power of two multiplication is commutative and associative, and compilers reorder it per use.
    first, *others = sorted((*_multiplied(forms[0], signed), *_multiplied(forms[1], signed)), key=repr)
    return reduce(lambda made, factor: _opaque(how, signed, [made, factor], orderless=True), others, first)


def _multiplied(form: Linear, op: Operation) -> list[Linear]:
    """The factors, if the form is a product by this operation; otherwise the form itself."""
    match form:
        case Linear(0, ((Apply(function, (left, right)), 1),)) if function == f"{op.name}.{op.how}.s{op.width}":
            return [*_multiplied(left, op), *_multiplied(right, op)]
        case _:
            return [form]


def _mad(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    product = _mul(how, op, forms[:2])
    return add(product, forms[2]) if isinstance(product, Linear) else UNKNOWN


def _by_either(how: Reading, op: Operation, forms: list[Linear], rule: Rule) -> Value:
    """Shifted by one of two numbers: the choice between both. Compilers shift by a choice in place of choosing between two quotients."""
    found = _either(how, forms[1])
    if found is None or not all(0 <= by < op.width for by in found[1:]):
        return _opaque(how, op, forms)
    condition, *numbers = found
    yes, no = (rule(how, op, [forms[0], Linear(by)]) for by in numbers)
    return choose(condition, yes, no) if isinstance(yes, Linear) and isinstance(no, Linear) else UNKNOWN


def _either(how: Reading, form: Linear) -> tuple[Formula, int, int] | None:
    """If the form is one of two numbers: a condition, the number on this condition, and the other one."""
    least, most = (form.constant + end for end in how.bounds(Linear(0, form.terms)))
    match form:
        case Linear(constant, ((Choose(condition, Linear(yes, ()), Linear(no, ())), times),)):
            return condition, constant + times * yes, constant + times * no
        case Linear(constant, ((Floor(first, divisor), times), (Floor(second, other), back))) if (
            divisor == other and times == -back
        ):
            apart = add(first, second, -1)
            if apart.terms or not apart.constant % divisor:
                return None
            # What lies this far apart, rounded down: so many divisors, or one more.
            fewer = apart.constant // divisor
            low, high = constant + times * fewer, constant + times * (fewer + 1)
        case _ if most - least == 1:
            low, high = int(least), int(most)
        case _:
            return None
    low, high = min(low, high), max(low, high)
    return decided(Compare("ge", add(form, Linear(-high)))), high, low


def _shl(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    by = forms[1]
    if by.terms:
        return _by_either(how, op, forms, _shl)
    if not 0 <= by.constant < op.width:
        return _opaque(how, op, forms)
    return scale(forms[0], 1 << by.constant)


def _shr(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    by = forms[1]
    if by.terms:
        return _by_either(how, op, forms, _shr)
    if not 0 <= by.constant < op.width:
        return _opaque(how, op, forms)
    if by.constant == op.width - 1 and not op.signed and (sign := _sign(how, forms[0])) is not None:
        return sign
    if (part := _high_part(forms[0], op)) is not None:
        divided, factor = part
        # The high part of a product of a number of the type, with a factor in the width, is of the type.
        if how.read(divided, op) == divided:
            return _part(how, divided, factor, op.width + by.constant, RANGES[f"{'su'[not op.signed]}{op.width}"])
    read = how.read(forms[0], op)
    if (part := _high_part(read, op)) is not None:
        divided, factor = part
        # The quotient is in the range as which it was interpreted, which bounds the dividend.
        low, high = RANGES[f"{'su'[not op.signed]}{op.width}"]
        within = (-(-(low << op.width) // factor), (((high + 1) << op.width) - 1) // factor)
        return _part(how, divided, factor, op.width + by.constant, within)
    return _shifted(read, by.constant)


def _high_part(form: Linear, op: Operation) -> tuple[Linear, int] | None:
    """What is multiplied and the factor, if the form is the high part of a product."""
    match form:
        case Linear(_, ((Floor(), 1),)):
            inner, divisor = _divided(form)
            if divisor == 1 << op.width and 1 < (factor := _common(inner)) < divisor:
                return _parted(inner, factor), factor
    return None


def _div(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    upper, lower = forms
    if lower.terms or lower.constant <= 0:
        # (A counter that is divided without a sign is required not to be negative. Of what is no counter and made of none a quotient is not
        # worth knowing: roles that compute the same one have the same name for it.)
        if not op.signed and _natural(how, op, lower, 1):
            read = how.read(upper, op)
            if read == upper or counts(upper) and exact(upper, products=True):
                return quotient(read, lower)
        return _opaque(how, op, forms)
    read = how.read(upper, op)
    if how.bounds(read)[0] >= 0:
        return floor(read, lower.constant)
    if only_counters(read):
        return _opaque(how, op, forms)
    return towards_zero(read, lower.constant)


def _natural(how: Reading, op: Operation, form: Linear, least: int) -> bool:
    """Whether a number that is read without a sign is this one, whatever it is, and at least so large."""
    between = how.bounds(form)
    return not op.signed and least <= between[0] and between[1] < 1 << op.width


def _rem(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    upper, lower = forms
    # (A bound is made of what is left more often than of a quotient, which is only worth knowing if more is known of what is divided.)
    if lower.terms and _natural(how, op, lower, 1):
        return remainder(how.read(upper, op), lower)
    quotient = _div(how, Operation("div", "", op.width, op.signed, op.to), forms)
    if not isinstance(quotient, Linear) or forms[1].terms or forms[1].constant <= 0:
        return _opaque(how, op, forms)
    return add(how.read(forms[0], op), quotient, -forms[1].constant)


def _and(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    left, right = forms if not forms[1].terms else forms[::-1]
    if right.terms:
        return _opaque(how, op, forms, orderless=True)
    part = masked(left, right.constant)
    return _opaque(how, op, [left, right]) if part is None else _without_none(how, part)


def _without_none(how: Reading, form: Linear) -> Linear:
    """The form without quotients that are 0: of a number that has no bits beyond those of its type, or of the mask."""
    kept = [(one, times) for one, times in form.terms if not isinstance(one, Floor) or how.bounds(atom(one)) != (0, 0)]
    return form if len(kept) == len(form.terms) else Linear(form.constant, tuple(kept))


def _shifted(form: Linear, by: int) -> Linear:
    """`floor(form / 2^by)`, in canonical form: common factors are cancelled, and whole multiples of the divisor are factored out.
    Compilers write `n - n // 2` as `(3 * n & -2) - (2 * n & -4)` with halves."""
    common = gcd(1 << by, *(times for _, times in form.terms))
    divisor = (1 << by) // common
    if common == 1 and all(abs(times) < divisor for _, times in form.terms):
        return floor(form, divisor)
    form = Linear(form.constant // common, tuple((one, times // common) for one, times in form.terms))
    whole = Linear(0, tuple((one, times // divisor if times > 0 else -(-times // divisor)) for one, times in form.terms))
    return add(whole, floor(add(form, whole, -divisor), divisor))


def masked(form: Linear, mask: int) -> Linear | None:
    """`form & mask`: the difference of two quotients for each run of ones in the mask; None if there are many."""
    if mask < 0:
        rest = masked(form, ~mask)
        return None if rest is None else add(form, rest, -1)
    made = Linear(0)
    for _ in range(_MOST_RUNS):
        if not mask:
            return made
        low = mask & -mask
        high = (mask + low) & -(mask + low)
        lower, upper = (scale(_shifted(form, bit.bit_length() - 1), bit) for bit in (low, high))
        made = add(add(made, lower), upper, -1)
        mask &= -high
    return None if mask else made


def _bfe(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    start, length = forms[1].constant & 255, forms[2].constant & 255
    if forms[1].terms or forms[2].terms or start + length > op.width:
        return _opaque(how, op, forms)
    if op.signed and length:
        # A left shift followed by an arithmetic right shift: compilers turn `n * 2 // 8` into one bit field.
        shifted = scale(forms[0], 1 << (op.width - start - length))
        return _shifted(how.read(shifted, op), op.width - length)
    return add(floor(forms[0], 1 << start), floor(forms[0], 1 << (start + length)), -(1 << length))


def _or(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    """Common bits count once for `or`, and not at all for `xor`."""
    left, right = forms if not forms[1].terms else forms[::-1]
    both = None if right.terms else masked(left, right.constant)
    if both is None:
        return _opaque(how, op, forms, orderless=True)
    return add(add(left, right), both, -1 if op.name == "or" else -2)


def _extreme(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    left, right = (how.read(form, op, compared=True) for form in forms[:2])
    found = _chosen(how, left, right, op.name)
    return _chosen(how, found, Linear(0), "max") if op.how == "relu" else found


def _chosen(how: Reading, left: Linear, right: Linear, which: str) -> Linear:
    least, most = how.bounds(add(left, right, -1))
    if least >= 0 or most <= 0:
        return left if (least >= 0) == (which == "max") else right
    first_larger = decided(Compare("ge", add(left, right, -1)))
    return undivided(choose(first_larger, left, right) if which == "max" else choose(first_larger, right, left))


def _cvt(how: Reading, op: Operation, forms: list[Linear]) -> Value:
    return forms[0] if op.to <= op.width else how.read(forms[0], op)


FORMS: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "abs": _abs,
    "not": _not,
    "mul": _mul,
    "mad": _mad,
    "shl": _shl,
    "shr": _shr,
    "div": _div,
    "rem": _rem,
    "and": _and,
    "or": _or,
    "xor": _or,
    "bfe": _bfe,
    "min": _extreme,
    "max": _extreme,
    "cvt": _cvt,
}
