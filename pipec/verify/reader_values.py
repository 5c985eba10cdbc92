"""Abstract values of registers, and what instructions make of them.

A value is one of: an integer (canonical: in the signed range of its width), a linear form (the register holds it modulo 2^width), a
condition (of a predicate), a table (a function of a cursor), lanes (an integer per thread of the CTA), or UNKNOWN. Where the meaning of
an instruction depends on the register's value as a signed or unsigned number, the form must lie in that range: shown from the ranges of
its symbols, or required where the form has registers in it (a loop counter), or else made an uninterpreted function of the form.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256

from pipec.verify.reader_text import Instruction
from pipec.verify.terms import (
    FALSE,
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
    Symbol,
    add,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    negate,
    remembered,
    scale,
    symbols_in,
    symbols_of,
)

# Parts of a form beyond which it is folded up.
LARGEST_FORM = 48
_SYMBOL = re.compile(r"Symbol\(name='([^']*)'\)")


class Unknown:
    """Nothing is known; it may differ from thread to thread."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Table:
    """A function of the position of a cursor: entry `position % len(entries)`; None where the position cannot be."""

    cursor: int
    entries: tuple[int | None, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remembered(self, (self.cursor, self.entries))

    def turned(self, by: int) -> "Table":
        """The same function, of the position after it has moved on by `by`."""
        by %= len(self.entries)
        return Table(self.cursor, self.entries[-by:] + self.entries[:-by]) if by else self


@dataclass(frozen=True, slots=True)
class Lanes:
    """A number for each thread of the CTA."""

    entries: tuple[int, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remembered(self, (self.entries,))


@dataclass(frozen=True, slots=True)
class Peek:
    """Whether a barrier was found complete: the outcome of a try_wait, or its negation."""

    address: "Value"
    parity: "Value"
    negated: bool = False
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remembered(self, (self.address, self.parity, self.negated))


@dataclass(frozen=True, slots=True)
class Remote:
    """An address in this CTA, mapped to another CTA for each thread; rank -1 for the threads that did not do so."""

    address: "Value"
    ranks: tuple[int, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remembered(self, (self.address, self.ranks))


Value = int | Linear | Compare | Both | Either | Table | Lanes | Peek | Remote | Unknown
_WIDTHS = {"pred": 1, "8": 8, "16": 16, "32": 32, "64": 64}


@dataclass(frozen=True, slots=True)
class Operation:
    """An opcode taken apart: `width`, `signed` of its operands; `to`: width of the result; `how`: comparison, half of a product."""

    name: str
    how: str
    width: int
    signed: bool
    to: int


_TYPED = {f"{sign}{width}" for sign in "usb" for width in (8, 16, 32, 64)} | {"pred"}
_PLAIN = ["add", "sub", "neg", "abs", "min", "max", "shl", "shr", "and", "or", "xor", "not", "selp", "div", "rem", "mov"]


@cache
def operation(opcode: str) -> Operation | None:
    """What the opcode computes, if that is integer arithmetic that is followed."""
    name, *parts = opcode.split(".")
    if not parts or parts[-1] not in _TYPED:
        return None
    width, signed = _WIDTHS[parts[-1].lstrip("usb")], parts[-1][0] == "s"
    middle = parts[:-1]
    if name in _PLAIN and not middle:
        return Operation(name, "", width, signed, width)
    if name == "cvta":
        return Operation("mov", "", 64, False, 64)
    if name == "setp" and len(middle) == 1 and middle[0] in _COMPARISONS:
        return Operation(name, middle[0], width, signed, 1)
    if name in ("mul", "mad") and middle in (["lo"], ["wide"], ["hi"]):
        return Operation(name, middle[0], width, signed, 2 * width if middle[0] == "wide" else width)
    if name == "cvt" and len(middle) == 1 and middle[0] in _TYPED:
        return Operation(name, "", width, signed, _WIDTHS[middle[0].lstrip("usb")])
    if name == "bfe":
        return Operation(name, "", width, signed, width)
    if name == "mapa":
        return Operation(name, "", width, False, width)
    return None


_FOLLOWED = ("shfl.sync.idx", "ld.global", "ld.param", "ld.shared", "elect", "clusterlaunchcontrol.query_cancel")


def computable(one: Instruction) -> bool:
    return operation(one.opcode) is not None or one.opcode.startswith(_FOLLOWED)


def wrapped(value: int, width: int) -> int:
    """The number in the signed range that is equal modulo 2^width; predicates are 0 and 1."""
    if width == 1:
        return value & 1
    half = 1 << (width - 1)
    return ((value + half) & (2 * half - 1)) - half


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


def _divided(a: int, b: int) -> int:
    return 0 if not b else -(-a // b) if (a < 0) != (b < 0) else a // b


def _extracted(op: Operation, a: int, start: int, length: int) -> int:
    a, start, length = a & ((1 << op.width) - 1), start & 255, length & 255
    value = (a >> start) & ((1 << length) - 1)
    if not op.signed or not length:
        return value
    top = a >> min(start + length - 1, op.width - 1) & 1
    return value - (1 << length) if top and start + length <= op.width else value | (-top << max(op.width - start, 0))


@cache
def number_of(op: Operation) -> Callable[[Sequence[int]], int]:
    """The operation on numbers."""
    name, width, to = op.name, op.width, op.to
    if name == "selp":
        return lambda v: v[0] if v[2] else v[1]
    if name == "mapa":
        return lambda v: v[0] & 0xFFFFFF | v[1] << 24
    if name in ("mov", "cvt") and to <= width or name in _ALIKE:
        # The same bits whatever the sign.
        rule = _SIMPLE[name]
        return _wrapping(rule, to)
    mask = (1 << width) - 1
    if name == "shl":
        return _wrapping(lambda v: v[0] << min(v[1] & 0xFFFFFFFF, width), to)
    if name == "shr":
        signed = op.signed
        return _wrapping(lambda v: (v[0] if signed else v[0] & mask) >> min(v[1] & 0xFFFFFFFF, width), to)
    if name == "bfe":
        return _wrapping(lambda v: _extracted(op, v[0], v[1], v[2]), to)
    rule = _ordered(op)
    if op.signed:
        return rule
    # (The addend of a mad may be wider; it has no sign of its own.)
    return lambda v: rule([v[0] & mask, *(one & mask for one in v[1:2]), *v[2:]])


def _ordered(op: Operation) -> Callable[[Sequence[int]], int]:
    """Operations for which the operands are signed or unsigned numbers."""
    if op.name == "setp":
        compare = _COMPARISONS[op.how]
        return lambda v: int(compare(v[0], v[1]))
    if op.name in ("mul", "mad"):
        down = op.width if op.how == "hi" else 0
        more = op.name == "mad"
        return _wrapping(lambda v: (v[0] * v[1] >> down) + (v[2] if more else 0), op.to)
    return _wrapping(_SIMPLE[op.name], op.to)


def _wrapping(rule: Callable[[Sequence[int]], int], width: int) -> Callable[[Sequence[int]], int]:
    if width == 1:
        return lambda v: rule(v) & 1
    half, mask = 1 << (width - 1), (1 << width) - 1
    return lambda v: ((rule(v) + half) & mask) - half


# What gives the same bits for signed and unsigned operands.
_ALIKE = frozenset({"add", "sub", "neg", "and", "or", "xor", "not"})
_SIMPLE: dict[str, Callable[[Sequence[int]], int]] = {
    "add": lambda v: v[0] + v[1],
    "sub": lambda v: v[0] - v[1],
    "neg": lambda v: -v[0],
    "abs": lambda v: abs(v[0]),
    "min": lambda v: min(v[0], v[1]),
    "max": lambda v: max(v[0], v[1]),
    "and": lambda v: v[0] & v[1],
    "or": lambda v: v[0] | v[1],
    "xor": lambda v: v[0] ^ v[1],
    "not": lambda v: ~v[0],
    "div": lambda v: _divided(v[0], v[1]),
    "rem": lambda v: v[0] - v[1] * _divided(v[0], v[1]),
    "mov": lambda v: v[0],
    "cvt": lambda v: v[0],
}


class Arithmetic:
    """Instructions on values. Results are remembered, so that the same computation in several roles is made once.

    `ranges`: of symbols, inclusive; what is not named there may be anything.
    """

    def __init__(self, ranges: dict[str, tuple[int, int]]) -> None:
        self.ranges = ranges
        self._memory: dict[object, tuple[Value, tuple[Formula, ...]]] = {}
        self._same: dict[Value, Value] = {}
        self._bounds: dict[Atom, tuple[float, float]] = {}
        self._requires: list[Formula] = []

    def apply(self, op: Operation, values: list[Value]) -> tuple[Value, tuple[Formula, ...]]:
        """The result, and what must hold for it to be that."""
        if all(type(value) is int for value in values):
            return number_of(op)(values), ()  # type: ignore[arg-type]
        key = (op, *values)
        found = self._memory.get(key)
        if found is None:
            self._requires = []
            result = self.same(self._folded(self._apply(op, values), op.to))
            found = self._memory[key] = (result, tuple(self._requires))
        return found

    def same(self, value: Value) -> Value:
        """One object for all equal values, and a number for a form without terms."""
        if type(value) is int or value is UNKNOWN:
            return value
        if isinstance(value, Linear) and not value.terms:
            return value.constant
        if value == TRUE or value == FALSE:
            return int(value == TRUE)
        if isinstance(value, Table) and len({entry for entry in value.entries if entry is not None}) == 1:
            return next(entry for entry in value.entries if entry is not None)
        if isinstance(value, Lanes) and len(set(value.entries)) == 1:
            return value.entries[0]
        return self._same.setdefault(value, value)

    def _folded(self, value: Value, width: int) -> Value:
        """A form that has grown large as an uninterpreted function of the symbols in it: still equal to what is computed alike, and
        no work for whoever reads it."""
        if not isinstance(value, (Linear, Compare, Both, Either)) or _size(value) <= LARGEST_FORM:
            return value
        symbols = symbols_of(value) if isinstance(value, Linear) else symbols_in(value)
        places: dict[str, str] = {}
        text = _SYMBOL.sub(lambda found: places.setdefault(found[1], f"#{len(places)}"), repr(value))
        arguments = tuple(atom(one) for one in sorted(symbols, key=lambda one: int(places[one.name][1:])))
        digest = sha256(text.encode()).hexdigest()[:16]
        if isinstance(value, Linear):
            return atom(Apply(f"{digest}.s{width}", arguments))
        return Compare("ne", atom(Apply(digest, arguments)))

    def _apply(self, op: Operation, values: list[Value]) -> Value:
        if op.name == "selp" and type(values[2]) is int:
            return values[0] if values[2] else values[1]
        if op.name == "mov":
            return values[0]
        if op.name == "not" and isinstance(values[0], Peek):
            peek = values[0]
            return Peek(peek.address, peek.parity, not peek.negated)
        if any(value is UNKNOWN or isinstance(value, (Peek, Remote)) for value in values):
            return self._absorbed(op, values)
        kinds = {type(value) for value in values} - {int}
        if kinds == {Table}:
            return self._tables(op, values)
        if kinds == {Lanes}:
            return self._lanes(op, values)
        if Table in kinds or Lanes in kinds:
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
        count = next(len(value.entries) for value in values if isinstance(value, Lanes))
        rows = zip(*[value.entries if isinstance(value, Lanes) else (value,) * count for value in values], strict=True)
        return Lanes(tuple(map(number_of(op), rows)))

    def _form(self, op: Operation, values: list[Value]) -> Value:
        if op.width == 1 or op.name == "selp":
            return self._condition(op, values)
        forms: list[Linear] = []
        for value in values:
            if not isinstance(value, (int, Linear)):
                return UNKNOWN
            forms.append(Linear(value) if isinstance(value, int) else value)
        rule = _FORMS.get(op.name)
        return rule(self, op, forms) if rule else UNKNOWN

    def _condition(self, op: Operation, values: list[Value]) -> Value:
        if op.name == "selp":
            yes, no, when = values
            if not isinstance(yes, (int, Linear)) or not isinstance(no, (int, Linear)):
                return UNKNOWN
            return choose(_formula(when), _linear(yes), _linear(no))
        parts = [_formula(value) for value in values]
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
            half = 1 << (op.width - 1)
            return self._within(form, -half, half - 1, f"s{op.width}", compared)
        if not form.terms:
            return Linear(form.constant & ((1 << op.width) - 1))
        return self._within(form, 0, (1 << op.width) - 1, f"u{op.width}", compared)

    def _within(self, form: Linear, low: int, high: int, otherwise: str, compared: bool) -> Linear:
        least, most = self.bounds(form)
        if least >= low and most <= high:
            return form
        if not (has_counter(form) if compared else only_counters(form)):
            return atom(Apply(otherwise, (form,)))
        if least < low:
            self._requires.append(Compare("ge", add(form, Linear(-low))))
        if most > high:
            self._requires.append(Compare("ge", add(Linear(high), form, -1)))
        return form

    def bounds(self, form: Linear) -> tuple[float, float]:
        """Between which numbers the form lies, from the ranges of its symbols."""
        low = high = float(form.constant) if abs(form.constant) > 1 << 53 else form.constant
        for one, times in form.terms:
            least, most = self._bounds_of(one)
            low += times * (least if times > 0 else most)
            high += times * (most if times > 0 else least)
        return low, high

    def _bounds_of(self, one: Atom) -> tuple[float, float]:
        found = self._bounds.get(one)
        if found is None:
            found = self._bounds[one] = self._computed_bounds(one)
        return found

    def _computed_bounds(self, one: Atom) -> tuple[float, float]:
        anything = (-float("inf"), float("inf"))
        match one:
            case Symbol(name):
                return self.ranges.get(name, anything)
            case Floor(form, divisor):
                low, high = self.bounds(form)
                return (low if low == -float("inf") else low // divisor, high if high == float("inf") else high // divisor)
            case Choose(_, yes, no):
                (a, b), (c, d) = self.bounds(yes), self.bounds(no)
                return min(a, c), max(b, d)
            case Apply(function, _):
                return _RESULTS.get(function.rpartition(".")[2], anything)


def _size(value: Linear | Formula) -> int:
    """How many parts a form has, counted as often as they appear; large forms are only counted so far."""
    size, work = 0, [value]
    while work and size <= LARGEST_FORM:
        one = work.pop()
        size += 1
        if isinstance(one, Compare):
            work.append(one.form)
        elif isinstance(one, (Both, Either)):
            work += one.parts
        else:
            for term, _ in one.terms:
                size += 1
                if isinstance(term, Floor):
                    work.append(term.form)
                elif isinstance(term, Choose):
                    work += [term.condition, term.yes, term.no]
                elif isinstance(term, Apply):
                    work += term.arguments
    return size


_RESULTS: dict[str, tuple[float, float]] = {
    "s32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
    "s64": (-(1 << 63), (1 << 63) - 1),
    "u64": (0, (1 << 64) - 1),
    "u16": (0, (1 << 16) - 1),
    "s16": (-(1 << 15), (1 << 15) - 1),
    "u8": (0, 255),
    "ctaid": (0, (1 << 31) - 2),
}


def has_counter(form: Linear) -> bool:
    """Whether a register that was made a symbol is a term of the form."""
    return any(map(_counts, form.terms))


def only_counters(form: Linear) -> bool:
    return all(map(_counts, form.terms))


def _counts(term: tuple[Atom, int]) -> bool:
    return isinstance(term[0], Symbol) and ":" in term[0].name and " " not in term[0].name


def _formula(value: Value) -> Formula:
    if isinstance(value, int):
        return TRUE if value else FALSE
    assert isinstance(value, (Compare, Both, Either))
    return value


def _linear(value: int | Linear) -> Linear:
    return Linear(value) if isinstance(value, int) else value


Rule = Callable[[Arithmetic, Operation, list[Linear]], Value]


def _opaque(how: Arithmetic, op: Operation, forms: list[Linear], orderless: bool = False) -> Linear:
    """An uninterpreted function of the forms; its result is a signed number of the result's width."""
    if orderless:
        forms = sorted(forms, key=repr)
    kind = ("s" if op.signed else "u") + str(op.width)
    name = ".".join(part for part in (op.name, op.how, kind if op.to == op.width else f"{kind}.s{op.to}") if part)
    if name.endswith(f"u{op.width}") and op.name in ("div", "rem", "shr", "min", "max", "bfe"):
        return atom(Apply(name, tuple(forms)))
    return atom(Apply(name if name.endswith(f"s{op.to}") else f"{name}.s{op.to}", tuple(forms)))


def _add(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return add(forms[0], forms[1])


def _sub(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return add(forms[0], forms[1], -1)


def _neg(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return scale(forms[0], -1)


def _not(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return add(Linear(-1), forms[0], -1)


def _mul(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    if op.how == "hi":
        return _opaque(how, op, forms[:2], orderless=True)
    if op.how == "wide":
        forms = [how.read(forms[0], op), how.read(forms[1], op)]
    if not forms[1].terms:
        return scale(forms[0], forms[1].constant)
    if not forms[0].terms:
        return scale(forms[1], forms[0].constant)
    return _opaque(how, Operation("mul", op.how, op.width, op.signed or op.how == "lo", op.to), forms[:2], orderless=True)


def _mad(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    product = _mul(how, op, forms[:2])
    return add(product, forms[2]) if isinstance(product, Linear) else UNKNOWN


def _shl(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    by = forms[1]
    if by.terms or not 0 <= by.constant < op.width:
        return _opaque(how, op, forms)
    return scale(forms[0], 1 << by.constant)


def _shr(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    by = forms[1]
    if by.terms or not 0 <= by.constant < op.width:
        return _opaque(how, op, forms)
    return floor(how.read(forms[0], op), 1 << by.constant)


def _div(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    upper, lower = forms
    if lower.terms or lower.constant <= 0:
        return _opaque(how, op, forms)
    read = how.read(upper, op)
    if how.bounds(read)[0] >= 0:
        return floor(read, lower.constant)
    if only_counters(read):
        return _opaque(how, op, forms)
    downwards = scale(floor(scale(read, -1), lower.constant), -1)
    return choose(decided(Compare("ge", read)), floor(read, lower.constant), downwards)


def _rem(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    quotient = _div(how, Operation("div", "", op.width, op.signed, op.to), forms)
    if not isinstance(quotient, Linear) or forms[1].terms or forms[1].constant <= 0:
        return _opaque(how, op, forms)
    return add(how.read(forms[0], op), quotient, -forms[1].constant)


def _and(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    left, right = forms if not forms[1].terms else forms[::-1]
    mask = right.constant
    if right.terms:
        return _opaque(how, op, forms, orderless=True)
    if mask > 0 and not mask & (mask + 1):
        return add(left, floor(left, mask + 1), -(mask + 1))
    if mask < 0 and not -mask & (-mask - 1):
        return scale(floor(left, -mask), -mask)
    return _opaque(how, op, [left, right])


def _bfe(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    start, length = forms[1].constant & 255, forms[2].constant & 255
    if forms[1].terms or forms[2].terms or op.signed or start + length > op.width:
        return _opaque(how, op, forms)
    return add(floor(forms[0], 1 << start), floor(forms[0], 1 << (start + length)), -(1 << length))


def _or(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return _opaque(how, op, forms, orderless=True)


def _extreme(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    left, right = how.read(forms[0], op), how.read(forms[1], op)
    least, most = how.bounds(add(left, right, -1))
    if least >= 0 or most <= 0:
        return left if (least >= 0) == (op.name == "max") else right
    first_larger = decided(Compare("ge", add(left, right, -1)))
    return choose(first_larger, left, right) if op.name == "max" else choose(first_larger, right, left)


def _setp(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    if op.how in ("eq", "ne"):
        difference = add(forms[0], forms[1], -1)
        least, most = how.bounds(difference)
        if not (least > -(1 << op.width) and most < 1 << op.width):
            signed = Operation(op.name, op.how, op.width, True, 1)
            difference = add(how.read(forms[0], signed, True), how.read(forms[1], signed, True), -1)
        least, most = how.bounds(difference)
        if least > 0 or most < 0 or least == most:
            return TRUE if (least == most == 0) == (op.how == "eq") else FALSE
        return decided(Compare("eq" if op.how == "eq" else "ne", difference))
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
    return TRUE if least >= 0 else FALSE if most < 0 else Compare("ge", form)


def _cvt(how: Arithmetic, op: Operation, forms: list[Linear]) -> Value:
    return forms[0] if op.to <= op.width else how.read(forms[0], op)


_FORMS: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "neg": _neg,
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
    "setp": _setp,
    "cvt": _cvt,
}
