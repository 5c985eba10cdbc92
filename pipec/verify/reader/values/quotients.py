"""Divisions by a number that is at least 1 but not constant, such as the number of blocks in the grid, rounded down or up; their
remainders; and equal shares.

The machine rounds towards zero, so a compiler corrects its quotient: by one more if there is a remainder and both numbers have the same
sign, or by one less if they have not.
"""

from math import gcd

from pipec.verify.reader.text.operations import Operation
from pipec.verify.reader.values.compared import compared
from pipec.verify.reader.values.extremes import counts
from pipec.verify.reader.values.forms import FORMS, Reading, as_formula, towards_zero
from pipec.verify.terms import (
    QUOTIENT,
    Apply,
    Both,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    decided,
    floor,
    is_remainder,
    negate,
    quotient,
    remainder,
    scale,
)

_READ = ("s32", "u32")
_ADDED = {1: True, -1: False}  # the correction if there is a remainder: whether it rounds up


def rounded(how: Reading, left: Linear, right: Linear) -> Linear | None:
    """The sum, if it is a quotient with the correction that rounds it down or up."""
    match left, right:
        case (
            Linear(0, ((Apply("div.s32", (upper, lower)), 1),)),
            Linear(0, ((Choose(condition, Linear(more, ()), Linear(0, ())), 1),)),
        ) if more in _ADDED and how.bounds(lower)[0] >= 1:
            up = _ADDED[more]
            remains, sign = _remains(how, upper, lower), _same_sign(how, upper, lower, up)
            # (What the machine leaves has the sign of what is divided.)
            some = Compare("ge", add(Linear(-1), atom(Apply("rem.s32", (upper, lower))), more))
            if condition in (Both((remains, sign)), Both((sign, remains)), some) and how.read(lower, _SIGNED) == lower:
                return _quotient(how.read(upper, _SIGNED), lower, up=up)
        case (
            Linear(0, ((Apply(function, (number, divisor)), 1),)),
            Linear(0, ((Choose(condition, Linear(1, ()), Linear(0, ())), 1),)),
        ) if function == QUOTIENT and 1 <= how.bounds(divisor)[0] and how.bounds(divisor)[1] < 1 << 32:
            # One more for what is left, as loops count their turns. (Of a divisor of more than 32 bits, what is left may be a multiple of
            # 2^32, which is 0 to a comparison of as many.)
            if condition == _is_not_zero(how, remainder(number, divisor)):
                return _quotient(number, divisor, up=True)
        case _:
            pass
    return None


def multiplied_out(left: Linear, right: Linear) -> Linear | None:
    """The sum, if it is the quotient by a constant, rounded towards 0, of a number of which nothing more is known: compilers multiply it by
    a number that is slightly more than 2^(32 + n) times the inverse of the divisor, take the upper half, with the number added where the
    factor does not fit into 31 bits, shift that by n, and add its sign."""
    match left, right:
        case Linear(0, ((Floor(half, shifted), 1),)), Linear(0, ((Floor(Linear(0, ((Apply("u32", (again,)), 1),)), sign), 1),)):
            pass
        case half, Linear(0, ((Floor(Linear(0, ((Apply("u32", (again,)), 1),)), sign), 1),)):
            shifted = 1
        case _:
            return None
    if sign != 1 << 31 or half not in (again, atom(Apply("s32", (again,)))):
        return None
    for one, _ in again.terms:
        match one:
            case Apply("mul.hi.s32", (number, Linear(factor, ()))) | Apply("mul.hi.s32", (Linear(factor, ()), number)) if (
                number.terms
            ):
                if again != (atom(one) if factor > 0 else add(atom(one), number)):
                    continue
                factor, power = factor % (1 << 32), shifted << 32
                divisor = power // factor + 1
                # The quotient is exact for all numbers of 32 bits (as in `_part` of forms.py).
                if divisor > 1 and (factor * divisor - power) << 31 <= power:
                    return atom(Apply("div.s32", (number, Linear(divisor))))
    return None


def remaining(how: Reading, condition: Formula, yes: Linear, no: Linear) -> Linear | None:
    """The selected value, if it is the machine's remainder, with the divisor added where it has the other sign."""
    match no:
        case Linear(0, ((Apply("rem.s32", (upper, lower)), 1),)) if how.bounds(lower)[0] >= 1:
            left = _is_not_zero(how, no)
            apart = _same_sign(how, upper, lower, False)
            whole = add(no, lower)
            chosen = (condition, yes) == (left, choose(apart, whole, no))
            chosen = chosen or yes == whole and condition in (Both((left, apart)), Both((apart, left)))
            if chosen and how.read(lower, _SIGNED) == lower:
                return remainder(how.read(upper, _SIGNED), lower)
        case _:
            pass
    return None


def left_over(how: Reading, whole: Linear, taken: Linear) -> Linear | None:
    """The difference, if it is what a division leaves: compilers that need both results subtract the multiple of the divisor. (What the
    machine leaves goes with its own quotient, which it rounds towards 0.)"""
    match taken:
        case Linear(0, ((Apply("mul.lo.s32" | "mul.lo.u32", factors), 1),)):
            for by, lower in (factors, factors[::-1]):
                if (rest := _rest(how, whole, by, lower)) is not None:
                    return rest
                if by == atom(Apply("div.s32", (whole, lower))) and _is_natural(how, lower, 1):
                    return atom(Apply("rem.s32", (whole, lower)))
        case Linear(0, ((Apply("div.s32", (divided, Linear(by, ()) as lower)), times),)) if divided == whole and by == times:
            return atom(Apply("rem.s32", (whole, lower)))
        case _:
            pass
    return None


def _rest(how: Reading, whole: Linear, by: Linear, lower: Linear) -> Linear | None:
    """The whole number minus a multiple of `lower`, if `by` is how often that fits. (The machine's product is the exact one but for
    multiples of 2^32, which make no difference to a number of 32 bits.) A size that may be 0 is divided by as a 1: then all is left."""
    match by:
        case Linear(0, ((Apply(function, (divided, divisor)), 1),)) if function == QUOTIENT:
            # (Multiples of the divisor in front of what is divided were taken out of the quotient. What is divided may be read without a
            # sign, or with one: the same but for a multiple of 2^32, and so is what is left of it.)
            if divided not in (whole, *(atom(Apply(kind, (whole,))) for kind in _READ)):
                return None
            if not 1 <= how.bounds(divisor)[0]:
                return None
            if divisor == lower:
                return remainder(divided, divisor)
            some = decided(Compare("ge", add(lower, Linear(-1))))
            if _is_natural(how, lower, 0) and divisor == choose(some, lower, Linear(1)):
                return choose(some, remainder(divided, divisor), divided)
        case _:
            pass
    return None


def divided_by(how: Reading, whole: Linear, taken: Linear) -> int | None:
    """The constant divisor, if the difference is what a division leaves: whatever the number, it is nearer to 0 than the divisor."""
    divisor = gcd(*(times for _, times in taken.terms))
    if divisor < 2 or taken.constant % divisor:
        return None
    down, up = floor(whole, divisor), scale(floor(scale(whole, -1), divisor), -1)
    return divisor if taken in [scale(each, divisor) for each in (towards_zero(whole, divisor), down, up)] else None


def dealt(condition: Formula, yes: Linear, no: Linear) -> Linear | None:
    """The selected value, if it is one more where what is left after an equal share for each block reaches this one. Of n things that are
    dealt out in turn to g blocks, block b gets `floor((n - 1 - b) / g) + 1`."""
    more = add(yes, no, -1)
    if more.terms or abs(more.constant) != 1:
        return None
    # Whether the remainder exceeds the place of the block; or, asked the other way round, whether it does not.
    for asked, reached, other in ((condition, more.constant, no), (negate(condition), -more.constant, yes)):
        match asked:
            case Compare("ge", Linear(-1, terms)):
                for one, times in terms:
                    if is_remainder(one) and times == 1:
                        number, among = one.arguments
                        place = scale(add(Linear(0, terms), atom(one), -1), -1)
                        if (place, among) in BLOCKS:
                            left = add(quotient(add(number, add(Linear(1), place), -1), among), quotient(number, among), -1)
                            return add(other, add(left, Linear(1)), reached)
    return None


def share_of(form: Linear) -> Linear | None:
    """Of how many things it is a block's share, if it is one: where the first blocks get one more (see `dealt`), or the last ones."""
    match form:
        case Linear(1, ((Apply(function, (number, among)), 1),)) if function == QUOTIENT:
            for place, blocks in BLOCKS:
                if blocks == among:
                    return add(add(number, place), Linear(1))
        case Linear(0, ((Apply(function, (number, among)), 1),)) if function == QUOTIENT:
            for place, blocks in BLOCKS:
                if blocks == among and dict(number.terms).get(place.terms[0][0]) == 1:
                    return add(number, place, -1)
        case _:
            pass
    return None


# The places of blocks, and how many there are: each is at least 0 and less than that.
BLOCKS = [(atom(Symbol(f"%ctaid.{axis}")), atom(Symbol(f"%nctaid.{axis}"))) for axis in "xyz"]


def _is_natural(how: Reading, form: Linear, least: int) -> bool:
    return how.bounds(form)[0] >= least and how.bounds(form)[1] < 1 << 31


def _quotient(number: Linear, lower: Linear, *, up: bool) -> Linear:
    """In canonical form: of a number and its negation, which is rounded the other way, one is the dividend."""
    if _points_down(number):
        return scale(_quotient(scale(number, -1), lower, up=not up), -1)
    return add(quotient(add(number, Linear(-1)), lower), Linear(1)) if up else quotient(number, lower)


def _points_down(number: Linear) -> bool:
    """Of what is left from a block's place to a bound, the dividend is the distance, which is not negative as long as something is; of a
    tile, which is counted from the block's place, it is the tile."""
    places = [times for one, times in number.terms if isinstance(one, Symbol) and one.name.startswith("%ctaid.")]
    counted = [times for one, times in number.terms if counts(atom(one))]
    if places and len(number.terms) > len(places):
        return places[-1] > 0 if len(number.terms) > len(places) + len(counted) else max(counted) < 0
    return bool(number.terms) and number.terms[-1][1] < 0


_SIGNED = Operation("div", "", 32, True, 32)


def _remains(how: Reading, upper: Linear, lower: Linear) -> Formula:
    """The condition that there is a remainder, in the form that compilers use (see `left_over`)."""
    return _is_not_zero(how, atom(Apply("rem.s32", (upper, lower))))


def _is_not_zero(how: Reading, form: Linear) -> Formula:
    return as_formula(compared(how, Operation("setp", "ne", 32, True, 1), [form, Linear(0)]))


def _same_sign(how: Reading, upper: Linear, lower: Linear, same: bool) -> Formula:
    if not lower.terms:
        alike = decided(Compare("ge", how.read(upper, _SIGNED)))
        return alike if same else negate(alike)
    bits = FORMS["xor"](how, Operation("xor", "", 32, False, 32), [upper, lower])
    assert isinstance(bits, Linear)
    alike = Compare("ge", bits)
    return alike if same else negate(alike)
