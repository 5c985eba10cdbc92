"""Integer operations of PTX: parsed opcodes, and their meaning on numbers; and comparisons of floats, as functions of their bits."""

from collections.abc import Callable, Sequence
from functools import cache

from pipec.record import record

_WIDTHS = {"pred": 1, "8": 8, "16": 16, "32": 32, "64": 64}


@record(eq=False)
class Operation:
    """A parsed opcode: `width`, `signed` of its operands; `to`: width of the result; `how`: comparison, half of a product, `relu`."""

    name: str
    how: str
    width: int
    signed: bool
    to: int


_TYPED = {f"{sign}{width}" for sign in "usb" for width in (8, 16, 32, 64)} | {"pred"}
_PLAIN = ["add", "sub", "neg", "abs", "min", "max", "shl", "shr", "and", "or", "xor", "not", "selp", "div", "rem", "mov"]


@cache
def operation(opcode: str) -> Operation | None:
    """The operation of the opcode, if it is supported integer arithmetic."""
    name, *parts = opcode.split(".")
    if not parts or parts[-1] not in _TYPED:
        return None
    width, signed = _WIDTHS[parts[-1].lstrip("usb")], parts[-1][0] == "s"
    middle = parts[:-1]
    if name in _PLAIN and not middle:
        return Operation(name, "", width, signed, width)
    if name in ("min", "max") and middle == ["relu"]:
        return Operation(name, "relu", width, signed, width)
    if name == "cvta":
        return Operation("mov", name, 64, False, 64)
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


def widths_of(op: Operation) -> tuple[int, ...]:
    """In bits, of the operands."""
    match op.name:
        case "neg" | "abs" | "not" | "mov" | "cvt":
            return (op.width,)
        case "shl" | "shr":
            return op.width, 32
        case "bfe":
            return op.width, 32, 32
        case "mad":
            return op.width, op.width, op.to
        case "selp":
            return op.width, op.width, 1
        case _:
            return op.width, op.width


# A comparison that holds if an operand is a NaN is the opposite of one that does not; `a > b` is `b < a`.
_OPPOSITES = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt", "nan": "num"}
_TURNED = {"gt": "lt", "ge": "le"}


@record(eq=False)
class FloatTest:
    """A comparison of two floats: `name` of those that are written in other words, too; of which it is the opposite if `negated`, with its
    operands `turned` round."""

    name: str
    negated: bool
    turned: bool


@cache
def float_test(opcode: str) -> FloatTest | None:
    name, *parts = opcode.split(".")
    if name != "setp" or parts[-1:] != ["f32"] or parts[1:-1] not in ([], ["ftz"]):
        return None
    how = _OPPOSITES.get(parts[0], parts[0])
    if how not in (*_COMPARISONS, "num") or how in ("lo", "ls", "hi", "hs"):
        return None
    return FloatTest(".".join((name, _TURNED.get(how, how), *parts[1:])), how != parts[0], how in _TURNED)


_FOLLOWED = ("shfl.sync.idx", "ld.global", "ld.param", "ld.shared", "elect", "clusterlaunchcontrol.query_cancel")


@cache
def computable(opcode: str) -> bool:
    return operation(opcode) is not None or float_test(opcode) is not None or opcode.startswith(_FOLLOWED)


def wrapped(value: int, width: int) -> int:
    """The number in the signed range that is congruent modulo 2^width; predicates are 0 and 1."""
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
        return lambda v: wrapped(v[0] if v[2] else v[1], to)
    if name == "mapa":
        return lambda v: v[0] & 0xFFFFFF | v[1] << 24
    if name in ("mov", "cvt") and to <= width or name in _ALIKE:
        # The same bits for either sign.
        rule = _SIMPLE[name]
        return _wrapping(rule, to)
    mask = (1 << width) - 1
    if name == "shl":
        return _wrapping(lambda v: v[0] << min(v[1] & 0xFFFFFFFF, width), to)
    if name == "shr":
        signed = op.signed
        return _wrapping(lambda v: (wrapped(v[0], width) if signed else v[0] & mask) >> min(v[1] & 0xFFFFFFFF, width), to)
    if name == "bfe":
        return _wrapping(lambda v: _extracted(op, v[0], v[1], v[2]), to)
    # A literal, or a value in a wider register, is reduced to its lower bits: 4294967295 is -1 to `setp.lt.s32`. (The addend of a mad may
    # be wider; it has no sign of its own.)
    rule = _ordered(op)
    if name in _OF_ONE:
        return (lambda v: rule((wrapped(v[0], width),))) if op.signed else (lambda v: rule((v[0] & mask,)))
    if op.signed:
        return lambda v: rule((wrapped(v[0], width), wrapped(v[1], width), *v[2:]))
    return lambda v: rule((v[0] & mask, v[1] & mask, *v[2:]))


def _ordered(op: Operation) -> Callable[[Sequence[int]], int]:
    """Operations that depend on the signedness of their operands."""
    if op.name == "setp":
        compare = _COMPARISONS[op.how]
        return lambda v: int(compare(v[0], v[1]))
    if op.name in ("mul", "mad"):
        down = op.width if op.how == "hi" else 0
        more = op.name == "mad"
        return _wrapping(lambda v: (v[0] * v[1] >> down) + (v[2] if more else 0), op.to)
    if op.how == "relu":
        rule = _SIMPLE[op.name]
        return _wrapping(lambda v: max(rule(v), 0), op.to)
    return _wrapping(_SIMPLE[op.name], op.to)


def _wrapping(rule: Callable[[Sequence[int]], int], width: int) -> Callable[[Sequence[int]], int]:
    if width == 1:
        return lambda v: rule(v) & 1
    half, mask = 1 << (width - 1), (1 << width) - 1
    return lambda v: ((rule(v) + half) & mask) - half


_OF_ONE = frozenset({"neg", "abs", "not", "mov", "cvt"})
# Operations with the same bits for signed and unsigned operands.
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
