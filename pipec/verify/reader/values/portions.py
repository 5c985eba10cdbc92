"""Contiguous shares: of x things that g blocks get in portions, one behind the other, each block has `floor(x / g)` and some have one more.

Those are the first `x % g` blocks, or the last ones. Where a block's portion begins, and where it ends, is said in many words, of which all
are one number here. With q and r for quotient and remainder, and 0 <= b < g, block b begins at `q * b + min(b, r)`, or at `q * b + max(0, b
- (g - r))`: between 0 and x, as `x = q * g + r`, which is where block g would begin. That is in the range of signed numbers if x is, in
whatever order the machine computes it.
"""

from collections.abc import Iterator
from functools import reduce

from pipec.record import record
from pipec.verify.reader.values.forms import Reading
from pipec.verify.reader.values.quotients import BLOCKS
from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    Apply,
    Atom,
    Choose,
    Compare,
    Floor,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    is_larger,
    is_remainder,
    is_smaller,
    product,
    quotient,
    remainder,
)

_SIGNED = RANGES["s32"]
_MACHINES = ("mul.lo.s32", "mul.lo.u32", "s32", "u32")
_ONE = Linear(1)


@record
class Portions:
    """How portions of `whole` are dealt: `more`, which is not negative for the blocks that get one more; `share`: how many things a block
    gets, in one form; `ahead`: how many of the blocks before this one get one more."""

    whole: Linear
    more: Linear
    share: Linear
    ahead: Linear
    quotient: Linear
    place: Linear

    @property
    def begin(self) -> Linear:
        """Where the portion begins, in one form, but for multiples of 2^32."""
        factors = sorted((self.quotient, self.place), key=repr)
        return add(atom(Apply("mul.lo.s32", tuple(factors))), self.ahead)


def portion(how: Reading, form: Linear) -> tuple[Linear, Linear, Portions] | None:
    """If the form, of 32 bits, is where a block's portion begins or ends: where that begins, but for multiples of 2^32; how much is in
    front of the form; and how it is dealt. Begin and end are signed numbers."""
    for each in _dealt(how, form):
        low, high = how.bounds(each.whole)
        if _SIGNED[0] <= low and high <= _SIGNED[1]:
            for more in (Linear(0), each.share):
                if _alike(how, each, form, add(each.begin, more)):
                    return each.begin, more, each
    return None


def whole_share(how: Reading, form: Linear) -> Linear:
    """The form; if it is a block's share and a number, the share as one form, of which bounds are known."""
    for each in _dealt(how, form):
        rest = _polynomial(how, each, add(form, each.share, -1), True)
        # (Nothing that is dealt is left.)
        if rest is not None and all(isinstance(one, Symbol) and atom(one) != each.place for one, _ in rest.terms):
            made = add(rest, each.share)
            if _alike(how, each, form, made):
                return made
    return form


def _dealt(how: Reading, form: Linear) -> Iterator[Portions]:
    """The ways in which portions may be dealt that the form is about."""
    if not any(isinstance(one, Choose) or _folded(how, one) for one, _ in form.terms):
        return
    for one in dict.fromkeys(_quotients(how, form)):
        divided = atom(one)
        match one:
            case Floor(whole, divisor):
                left, blocks = add(whole, divided, -divisor), Linear(divisor)
                places = [place for place, _ in BLOCKS if how.bounds(place)[0] >= 0 and how.bounds(place)[1] < divisor]
            case Apply(_, (whole, blocks)):
                left = remainder(whole, blocks)
                places = [place for place, among in BLOCKS if among == blocks]
                if len(left.terms) != 1 or not is_remainder(left.terms[0][0]):
                    continue
            case _:
                continue
        for place in places:
            if any(atom(other) == place for other, _ in whole.terms):
                continue
            first = add(add(left, place, -1), Linear(-1))
            ahead = choose(Compare("ge", add(place, left, -1)), left, place)
            share = add(quotient(add(add(whole, place, -1), Linear(-1)), blocks), _ONE)
            yield Portions(whole, first, share, ahead, divided, place)
            last = add(add(place, left), blocks, -1)
            share = quotient(add(whole, place), blocks)
            yield Portions(whole, last, share, choose(Compare("ge", last), last, Linear(0)), divided, place)


def _folded(how: Reading, one: Atom) -> Linear | None:
    """What was folded up into the value."""
    if isinstance(one, Apply):
        symbols, value = how.folds.get(one.function.partition(".")[0], ((), None))
        if isinstance(value, Linear) and one.arguments == tuple(map(atom, symbols)):
            return value
    return None


def _quotients(how: Reading, form: Linear) -> Iterator[Apply | Floor]:
    for one, _ in form.terms:
        if (inside := _folded(how, one)) is not None:
            yield from _quotients(how, inside)
        match one:
            case Floor():
                yield one
            case Apply(name, arguments):
                if name == QUOTIENT:
                    yield one
                for each in arguments if name in _MACHINES else ():
                    yield from _quotients(how, each)
            case Choose(_, yes, no):
                yield from _quotients(how, yes)
                yield from _quotients(how, no)
            case _:
                pass


def _alike(how: Reading, dealt: Portions, one: Linear, other: Linear) -> bool:
    """Whether they are equal but for multiples of 2^32, in blocks that get one more and in the others."""
    for more in (True, False):
        made = _polynomial(how, dealt, one, more)
        if made is None or made != _polynomial(how, dealt, other, more):
            return False
    return True


def _polynomial(how: Reading, dealt: Portions, form: Linear, more: bool) -> Linear | None:
    """A number that differs from the form by a multiple of 2^32, multiplied out; of a block that gets one more, or of one that does not.
    None if it is not decided in these which of two numbers is chosen."""
    parts = [(_part(how, dealt, one, more), times) for one, times in form.terms]
    made = Linear(form.constant)
    for part, times in parts:
        if part is None:
            return None
        made = add(made, part, times)
    return made


def _part(how: Reading, dealt: Portions, one: Atom, more: bool) -> Linear | None:
    if (inside := _folded(how, one)) is not None:
        return _polynomial(how, dealt, inside, more)
    match one:
        case Apply(name, arguments) if name in _MACHINES:
            factors = [_polynomial(how, dealt, each, more) for each in arguments]
            known = [each for each in factors if each is not None]
            return reduce(product, known) if len(known) == len(factors) else None
        case Choose(_, yes, no):
            taken = _outcome(dealt.more if more else add(Linear(-1), dealt.more, -1), one)
            return None if taken is None else _polynomial(how, dealt, yes if taken else no, more)
        case Apply() | Floor() if add(dealt.share, atom(one), -1).terms == ():
            # The share itself.
            return add(dealt.quotient, Linear(more - dealt.share.constant))
        case _:
            return atom(one)


def _outcome(known: Linear, one: Choose) -> bool | None:
    """Which of the two numbers is chosen where `known` is not negative: told by their difference, of numbers that are equal either."""
    match one.condition:
        case Compare("ge", form):
            if not (apart := add(form, known, -1)).terms and apart.constant >= 0:
                return True
            if not (apart := add(form, known)).terms and apart.constant <= 0:
                # (At 0 the condition may still hold: of the smaller or larger one of two numbers these are equal there.)
                return False if apart.constant < 0 or is_smaller(one) or is_larger(one) else None
        case _:
            pass
    return None
