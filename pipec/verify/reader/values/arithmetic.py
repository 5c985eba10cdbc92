"""What operations make of abstract values. Results are remembered."""

import re
from collections.abc import Callable, Iterable
from itertools import repeat
from math import gcd, inf, isinf
from typing import Literal

from pipec.verify.reader.text.operations import Operation, number_of, widths_of, wrapped
from pipec.verify.reader.values.compared import compared
from pipec.verify.reader.values.extremes import counted_in, undivided
from pipec.verify.reader.values.forms import FORMS, Folds, as_formula, as_linear
from pipec.verify.reader.values.interpretation import FIRST, LIMITS, WHOLE, Interpretation
from pipec.verify.reader.values.merged import merged
from pipec.verify.reader.values.parts import PLACES, exact, has_counter, has_loaded, is_row, loaded_in, of_places, size_of
from pipec.verify.reader.values.portions import portion, whole_share
from pipec.verify.reader.values.quotients import dealt, divided_by, left_over, multiplied_out, remaining, rounded, share_of
from pipec.verify.reader.values.ranges import range_of
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Peek, Remote, Table, Value
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
    Symbol,
    add,
    atom,
    both,
    bounds_by_choice,
    choose,
    either,
    floor,
    is_larger,
    is_smaller,
    negate,
    scale,
    symbols_in,
    symbols_of,
)

_SOURCE = (1 << 31) - 1  # the largest `i32`
_NARROW = [f"{sign}{bits}" for bits in range(1, 32) for sign in "us"]  # types of numbers that are folded up, the narrowest first
_COMPARED = 4  # parts that a comparison has beside the numbers
# Sizes beyond which hardly anybody launches a kernel.
_USUAL = (1 << 16) - 1
_Usual = Literal["", "sizes", "places"]
_SYMBOL = re.compile(r"Symbol\(name='([^']*)'\)")


class Arithmetic:
    """Instructions on values. Results are remembered, so that the same computation in several roles is made once.

    `ranges`: of symbols, inclusive; what is not named there may be anything. `checked`: symbols of which a launch can ask more. `widest`:
    how many parts the largest form had that was met, counted a little further than the limit. `folds`: by the names of forms and
    conditions that were folded up what they were of the symbols that they are a function of now. Runs at given sizes compute with these,
    and portions of blocks are recognised in them. `apart`: there was a number of which `as_read` tells something else. `loads`: there was
    a number that is loaded. `placed`: `near` makes a difference. `signed`: by forms of 32 bits the signed numbers that were read of them,
    in their type. `ends`: by where portions of blocks begin, where they end, which is in that type, and what they are portions of (see
    portions.py).
    """

    def __init__(
        self, ranges: dict[str, tuple[int, int]], checked: frozenset[str] = frozenset(), how: Interpretation = FIRST
    ) -> None:
        self.ranges, self.checked, self.how, self.placed = ranges, checked, how, False
        self.widest, self.apart, self.loads = 0, False, False
        self.folds: Folds = {}
        self.signed: dict[Linear, Linear] = {}
        self.ends: dict[Linear, tuple[Linear, Linear]] = {}
        self._memory: dict[object, tuple[Value, tuple[Formula, ...]]] = {}
        self._same: dict[Value, Value] = {}
        self._left: dict[Linear, tuple[int, int]] = {}  # what divisions leave: between which numbers
        self._bounds: dict[_Usual, dict[Atom, tuple[float, float]]] = {"": {}, "sizes": {}, "places": {}}
        self._requires: list[Formula] = []

    @property
    def as_read(self) -> bool:
        return self.how.as_read

    def apply(self, op: Operation, values: list[Value]) -> tuple[Value, tuple[Formula, ...]]:
        """The result, and what must hold for it to be that."""
        key = (op, *values)
        found = self._memory.get(key)
        if found is None:
            if all(type(value) is int for value in values):
                return number_of(op)(values), ()  # type: ignore[arg-type]
            self._requires = []
            made = self._apply(op, values)
            result = self.same(
                self._folded(merged(made, lambda one: self.bounds(one)[0] < 0) if isinstance(made, Linear) else made, op.to)
            )
            if type(result) is int:
                # The larger of two unsigned numbers, say, as other instructions read the same bits.
                result = wrapped(result, op.to)
            found = self._memory[key] = (result, tuple(self._requires))
        return found

    def same(self, value: Value) -> Value:
        """One object for all equal values, and a number for a form without terms."""
        if type(value) is int or value is UNKNOWN:
            return value
        found = self._same.get(value)
        if found is None:
            found = _plain(value)
            found = self._same[value] = self._same.setdefault(found, found)
        return found

    def remembered(self, key: object, made: Callable[[], Value]) -> Value:
        """What is computed for each thread, once."""
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = (self.same(made()), ())
        return found[0]

    def shuffled(self, value: Lanes, lane: int) -> Value:
        """What all lanes of each warp read of this one."""

        def made() -> Value:
            last = len(value.entries) - 1
            of_warp = [value.entries[min(first + lane, last)] for first in range(0, last + 1, 32)]
            return Lanes(tuple(of_warp[thread // 32] for thread in range(last + 1)))

        return self.remembered(("shuffled", value, lane), made)

    def _folded(self, value: Value, width: int) -> Value:
        """A form that has grown large as an uninterpreted function of the symbols in it: still equal to what is computed alike, and
        no work for whoever reads it."""
        if not isinstance(value, (Linear, Compare, Both, Either)):
            return value
        # Two numbers that are not folded can be compared: else a loop's test would say nothing of a bound that is just small enough.
        limit = self.how.limit if isinstance(value, Linear) else 2 * self.how.limit + _COMPARED
        size = size_of(value, limit, self.folds if self.how.limit in (*LIMITS[2:], WHOLE) else ())
        if not isinstance(value, Compare) or size > limit:
            self.widest = max(self.widest, size)
        if size <= limit:
            return value
        portioned = self._portion(value) if isinstance(value, Linear) and width == 32 else None
        return self._function(value, width) if portioned is None else portioned

    def _portion(self, form: Linear) -> Linear | None:
        """The signed number that the machine reads of a form of 32 bits, if that is where a block's portion begins or ends."""
        found = portion(self, form)
        if found is None:
            return None
        begin, more, shared = found
        # Where it begins is said by a product, but it only matters that it is the same number for all.
        number = self._function(atom(Apply("s32", (begin,))), 32)
        assert isinstance(number, Linear)
        self.ends[number] = add(number, shared.share), shared.whole
        return add(number, more)

    def _function(self, value: Linear | Formula, width: int) -> Linear | Formula:
        """Of the symbols in it."""
        from hashlib import sha256  # loads OpenSSL, and few kernels need it

        symbols = symbols_of(value) if isinstance(value, Linear) else symbols_in(value)
        places: dict[str, str] = {}
        text = _SYMBOL.sub(lambda found: places.setdefault(found[1], f"#{len(places)}"), repr(value))
        ordered = sorted(symbols, key=lambda one: int(places[one.name][1:]))
        arguments = tuple(map(atom, ordered))
        # (All of it: of two texts with the same 64 bits, which are soon found, one number would be taken for the other.)
        digest = sha256(text.encode()).hexdigest()
        self.folds[digest] = tuple(ordered), value
        if isinstance(value, Linear):
            # A difference of two such numbers does not wrap if neither is negative, as with those that are read and bounded by a size; the
            # sum with what a quotient is rounded by wraps no more than the quotient.
            least, most = self.bounds(value)
            fitting = [kind for kind in _NARROW if RANGES[kind][0] <= least and most <= RANGES[kind][1]] if width == 32 else []
            return atom(Apply(f"{digest}.{fitting[0] if fitting else f's{width}'}", arguments))
        return Compare("ne", atom(Apply(digest, arguments)))

    def _apply(self, op: Operation, values: list[Value]) -> Value:
        if op.name == "selp" and type(values[2]) is int:
            return values[0] if values[2] else values[1]
        if op.name == "mov":
            return values[0]
        if op.name == "not" and isinstance(values[0], Peek):
            peek = values[0]
            return Peek(peek.address, peek.parity, peek.use, not peek.negated)
        if any(value is UNKNOWN or isinstance(value, (Peek, Remote)) for value in values):
            return self._absorbed(op, values)
        kinds = {type(value) for value in values} - {int}
        if kinds == {Table}:
            return self._tables(op, values)
        if kinds == {Lanes}:
            return self._lanes(op, values)
        if op.width == 1 and Table not in kinds and (Lanes in kinds or Mixed in kinds):
            return self._mixed(op, values)
        if Table in kinds or Lanes in kinds or Mixed in kinds:
            return UNKNOWN
        return self._form(op, values)

    def _absorbed(self, op: Operation, values: list[Value]) -> Value:
        """`and` with 0, `or` with true are known though the other operand is not."""
        if op.name == "and" and 0 in [value for value in values if type(value) is int]:
            return 0
        if op.name == "or" and op.width == 1 and 1 in [value for value in values if type(value) is int]:
            return 1
        return UNKNOWN

    def _tables(self, op: Operation, values: list[Value]) -> Value:
        tables = [value for value in values if isinstance(value, Table)]
        first = tables[0]
        if any(one.cursor != first.cursor or len(one.entries) != len(first.entries) for one in tables):
            return UNKNOWN
        rows = zip(
            *[value.entries if isinstance(value, Table) else (value,) * len(first.entries) for value in values], strict=True
        )
        rule = number_of(op)
        return Table(first.cursor, tuple(None if None in row else rule(row) for row in rows))

    def _lanes(self, op: Operation, values: list[Value]) -> Value:
        rule = number_of(op)
        lanes = [value.entries for value in values if isinstance(value, Lanes)]
        columns: list[Iterable[int]]
        if len(lanes) == 1:  # most threads have the same numbers as others
            each = [*{*lanes[0]}]
            columns = [each if isinstance(value, Lanes) else repeat(value) for value in values]  # type: ignore[arg-type]
            made = dict(zip(each, map(rule, zip(*columns)), strict=True))
            return Lanes(tuple(map(made.__getitem__, lanes[0])))
        rows = [*zip(*[value.entries if isinstance(value, Lanes) else repeat(value) for value in values])]
        found = {row: rule(row) for row in {*rows}}
        return Lanes(tuple(map(found.__getitem__, rows)))

    def _mixed(self, op: Operation, values: list[Value]) -> Value:
        """Of predicates: what the threads hold apart with what they hold alike."""
        columns = [value.entries if isinstance(value, (Lanes, Mixed)) else None for value in values]
        count = next(len(column) for column in columns if column is not None)
        rows = [
            tuple(value if column is None else column[thread] for value, column in zip(values, columns, strict=True))
            for thread in range(count)
        ]
        made = {row: self.same(self._condition(op, list(row))) for row in set(rows)}
        entries = tuple(made[row] for row in rows)
        if all(isinstance(entry, int) for entry in entries):
            return Lanes(entries)  # type: ignore[arg-type]
        return Mixed(entries) if all(isinstance(one, (int, Compare, Both, Either)) for one in entries) else UNKNOWN  # type: ignore[arg-type]

    def _form(self, op: Operation, values: list[Value]) -> Value:
        if op.width == 1 or op.name == "selp":
            return self._condition(op, values)
        forms: list[Linear] = []
        for value, width in zip(values, widths_of(op), strict=True):
            if not isinstance(value, (int, Linear)):
                return UNKNOWN
            # (A literal may have no sign: 4294967294 is -2 to `div.s32`.)
            forms.append(Linear(wrapped(value, width)) if isinstance(value, int) else value)
        for left, right in (forms, forms[::-1]) if op.name == "add" and op.width == 32 else ():
            if (whole := rounded(self, left, right) or multiplied_out(left, right)) is not None:
                return whole
        if op.name == "sub" and op.width == 32:
            if (rest := left_over(self, *forms)) is not None:
                return rest
            for whole in (forms[0], atom(Apply("s32", (forms[0],)))):
                # (What is divided is read with a sign: the same bits.)
                if (divisor := divided_by(self, whole, forms[1])) is not None:
                    forms[0] = whole
                    self._left[add(whole, forms[1], -1)] = 1 - divisor, divisor - 1
                    break
        rule = compared if op.name == "setp" else FORMS.get(op.name)
        made = rule(self, op, forms) if rule else UNKNOWN
        return whole_share(self, made) if op.to == 32 and isinstance(made, Linear) else made

    def _condition(self, op: Operation, values: list[Value]) -> Value:
        if op.name == "selp":
            yes, no, when = values
            if not isinstance(yes, (int, Linear)) or not isinstance(no, (int, Linear)) or isinstance(when, Linear):
                return UNKNOWN
            chosen = as_formula(when), as_linear(yes), as_linear(no)
            if op.to != 32:
                return undivided(choose(*chosen))
            return remaining(self, *chosen) or dealt(*chosen) or whole_share(self, undivided(choose(*chosen)))
        if any(isinstance(value, Linear) for value in values):
            return UNKNOWN
        parts = [as_formula(value) for value in values]
        if op.name == "not":
            return negate(parts[0])
        if op.name == "and":
            return both(*parts)
        if op.name == "or":
            return either(*parts)
        if op.name == "xor":
            return either(both(parts[0], negate(parts[1])), both(negate(parts[0]), parts[1]))
        return UNKNOWN

    # The form as a signed or unsigned number.

    def read(self, form: Linear, op: Operation, compared: bool = False) -> Linear:
        """`compared`: its order matters, so that an uninterpreted number would not do for a loop counter."""
        if op.signed:
            if not form.terms:
                return Linear(wrapped(form.constant, op.width))
            half = 1 << (op.width - 1)
            return self._within(form, -half, half - 1, f"s{op.width}", compared, fitting=self._fits(op, form))
        if not form.terms:
            return Linear(form.constant & ((1 << op.width) - 1))
        # (A number that is not negative is the same one without a sign, as long as it fits.)
        fitting = self._fits(op, form) and self.bounds(form)[0] >= 0
        return self._within(form, 0, (1 << op.width) - 1, f"u{op.width}", compared, fitting=fitting)

    def _fits(self, op: Operation, form: Linear) -> bool:
        """Whether it is required to, as it is made of loaded numbers."""
        return self.how.fitting and op.width >= 32 and has_loaded(form) and not _cuts_off(op, form)

    def _within(self, form: Linear, low: int, high: int, otherwise: str, compared: bool, *, fitting: bool = False) -> Linear:
        if otherwise == "s32" and (portioned := self._portion(form)) is not None:
            self.signed[form] = portioned
            return portioned
        least, most = self.bounds(form)
        if least >= low and most <= high:
            return form
        whole = _without_turns(form, high - low + 1)
        if whole != form:
            return self._within(whole, low, high, otherwise, compared, fitting=fitting)
        counted = fitting or not self._may_wrap(form) and ((has_counter(form) if compared else of_places(form)) or is_row(form))
        if not counted and not self._usually(form, low, high):
            number = self._turned(form, low, high) or atom(Apply(otherwise, (form,)))
            if otherwise == "s32":
                self.signed[form] = number
            return number
        # Bits that are read without a sign, or in part, are no arithmetic that leaves the 32 bits of the source's numbers.
        if low == 0 or high < _SOURCE:
            self.apart = True
            if self.how.as_read:
                return self._turned(form, low, high) or atom(Apply(otherwise, (form,)))
        if least < low:
            self._require(form, low, 1)
        if most > high:
            self._require(form, high, -1)
        return form

    def _may_wrap(self, form: Linear) -> bool:
        """Whether it is made of a register that may have come round."""
        return bool(self.how.wraps) and not self.how.wraps.isdisjoint(one.name for one in symbols_of(form))

    def _require(self, form: Linear, end: int, sign: int) -> None:
        """That the form is at least `end` for sign 1, at most that for -1. Of the smaller or larger one of two numbers, of one that is
        chosen by sizes, and of a quotient of it, that both are: they have been read themselves, so that this says nothing new of the
        counters in them."""
        match form:
            case Linear(more, ((Choose(when, yes, no) as one, 1),)) if is_smaller(one) or is_larger(one) or not counted_in(when):
                for each in (add(yes, Linear(more)), add(no, Linear(more))):
                    if sign * self.bounds(each)[sign < 0] < sign * end:
                        self._require(each, end, sign)
            case Linear(more, ((Floor(Linear(_, ((Choose(), 1),)) as inner, divisor), times),)) if times > 0:
                # (A quotient is at least a number where what is divided is at least that many times the divisor.)
                least = -((more - end) // times) if sign > 0 else (end - more) // times + 1
                self._require(inner, least * divisor - (sign < 0), sign)
            case _:
                self._requires.append(Compare("ge", scale(add(form, Linear(-end)), sign)))

    def _usually(self, form: Linear, low: int, high: int) -> bool:
        """Whether only sizes leave the range that nobody launches: that they do not is then for the launch to see to."""
        names = {symbol.name for symbol in symbols_of(form)}
        if not names or not all(map(self._asked, names)) or not exact(form, products=True):
            return False
        # (Where a block stands no launch can ask about; but about sizes with which the form is small enough wherever it stands.)
        sizes = not self.checked.isdisjoint(names) and _lies(self.bounds(form, usual="sizes"), low, high)
        if sizes and exact(form):
            return True
        if not sizes and not _lies(self.bounds(form, usual="places"), low, high):
            return False
        self.placed = True
        return self.how.near

    def _asked(self, name: str) -> bool:
        return name in self.checked or name.startswith(PLACES)

    def _turned(self, form: Linear, low: int, high: int) -> Linear | None:
        """The number in the range that is equal modulo its width, where at most one turn is missing."""
        least, most = self.bounds(form)
        turn = high - low + 1
        if least < low - turn or most > high + turn or not exact(form):
            return None
        # What is added is chosen, not the sum: quotients of it by powers of two, and what they leave, are then those of the form.
        if least < low:
            form = add(form, choose(Compare("ge", add(form, Linear(-low))), Linear(0), Linear(1)), turn)
        if most > high:
            form = add(form, choose(Compare("ge", add(Linear(high), form, -1)), Linear(0), Linear(1)), -turn)
        return form

    def bounds(self, form: Linear, *, usual: _Usual = "") -> tuple[float, float]:
        """Between which numbers the form lies, from the ranges of its symbols. `usual`: which of these are no larger than they
        usually are, with the sizes the places of blocks too."""
        # Exact: a float stands for what has no bound alone, as it is never a sum of two that are finite.
        low: float = form.constant
        high: float = form.constant
        for one, times in form.terms:
            least, most = self._bounds_of(one, usual)
            down, up = (least, most) if times > 0 else (most, least)
            low = -inf if isinf(low) or isinf(down) else low + times * down
            high = inf if isinf(high) or isinf(up) else high + times * up
        if (dealt_out := share_of(form)) is not None:
            # (None gets more than there are.)
            least, most = self.bounds(dealt_out, usual=usual)
            low, high = max(low, min(least, 0)), min(high, max(most, 0))
        for least, most in (_left_of(form), self._left.get(form, (-inf, inf))):
            low, high = max(low, least), min(high, most)
        return low, high

    def _bounds_of(self, one: Atom, usual: _Usual) -> tuple[float, float]:
        known = self._bounds[usual]
        found = known.get(one)
        if found is None:
            found = known[one] = self._computed_bounds(one, usual)
        return found

    def _computed_bounds(self, one: Atom, usual: _Usual) -> tuple[float, float]:
        anything = (-inf, inf)
        match one:
            case Symbol(name):
                low, high = self.ranges.get(name, anything)
                few = name in self.checked if usual == "sizes" else bool(usual) and self._asked(name)
                return (max(low, -_USUAL), min(high, _USUAL)) if few else (low, high)
            case Floor(form, divisor):
                low, high = self.bounds(form, usual=usual)
                return (low if low == -inf else low // divisor, high if high == inf else high // divisor)
            case Choose(_, yes, no):
                (a, b), (c, d) = self.bounds(yes, usual=usual), self.bounds(no, usual=usual)
                (e, f), (g, h) = bounds_by_choice(one)
                least = max(a, c) if is_larger(one) else min(max(a, e), max(c, g))
                return least, min(b, d) if is_smaller(one) else max(min(b, f), min(d, h))
            case Apply(function, arguments):
                return range_of(function, [self.bounds(each, usual=usual) for each in arguments])
            case Product():
                return anything  # only certificates have them


def _cuts_off(op: Operation, form: Linear) -> bool:
    """Whether an instruction looks at some bits of a number in memory on purpose, be it that it is shifted to the left and then to the
    right, or that a larger type is loaded: no sum has grown too large then."""
    if op.name == "bfe" or op.name == "shr" and gcd(*(times for _, times in form.terms)) > 1:
        return True
    return any(RANGES[one.function.rpartition(".")[2]][1] >> op.width - 1 for one in loaded_in(form))


def _plain(value: Value) -> Value:
    """A number, if that is all that the value says."""
    match value:
        case Linear(constant, ()):
            return constant
        case Both(()):
            return 1
        case Either(()):
            return 0
        case Table(_, entries) if len({*entries} - {None}) == 1:
            return next(entry for entry in entries if entry is not None)
        case Lanes(entries) | Mixed(entries) if len({*entries}) == 1:
            return entries[0]
        case _:
            return value


def _left_of(form: Linear) -> tuple[float, float]:
    """Between which numbers the form lies, if it is what is left of a number that is divided, or a multiple of that."""
    common = gcd(form.constant, *(times for _, times in form.terms))
    quotients = [(one, times) for one, times in form.terms if isinstance(one, Floor)]
    for one, times in quotients:
        for factor in {1, common}:
            divisor, sign = abs(times) // factor, -1 if times > 0 else 1
            number = add(_divided(form, sign * factor), atom(one), divisor)
            if divisor > 1 and floor(number, divisor) == atom(one):
                most = factor * (divisor - 1)
                return (0, most) if sign > 0 else (-most, 0)
    return -inf, inf


def _divided(form: Linear, divisor: int) -> Linear:
    """By a number that divides all of its terms."""
    return Linear(form.constant // divisor, tuple((one, times // divisor) for one, times in form.terms))


def _lies(bounds: tuple[float, float], low: int, high: int) -> bool:
    return bounds[0] >= low and bounds[1] <= high


def _without_turns(form: Linear, turn: int) -> Linear:
    """Equal modulo `turn`: multiples of it are left out. Compilers shift what may be negative as if it were not, and back."""
    return Linear(form.constant, tuple((one, times) for one, times in form.terms if times % turn))
