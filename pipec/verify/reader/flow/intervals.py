"""Between which ends a number lies, whatever the thread and the time: what instructions make of intervals.

An interval stands for the bits of a register: it holds one of the numbers, modulo 2^32 or 2^64. `step`: a power of two of which all of
them are multiples. `root`: the variable in shared memory from which the number is a distance; empty for a number by itself, which may be
the address of anything, too. With `_MAPPED` behind it, the number is the address of the place in some CTA, or a generic one: two of these
may be as far from the variable, and be different numbers.
"""

from collections.abc import Callable, Sequence

from pipec.verify.reader.text.operations import Operation

# The root, the ends, and the step. (A plain tuple, as many are made.)
Interval = tuple[str, int, int, int]
# From operands, and the alignment of the variable that one of them may be a distance from. None: any number.
Rule = Callable[[Sequence[Interval], Operation, int], Interval | None]

_SIZE, _HALF = 1 << 32, 1 << 31
_OF_ZERO = 1 << 40  # its step
_MAPPED = "'"
_ANY = {bits: ("", 0, (1 << bits) - 1, 1) for bits in (32, 64)}
ANYTHING: Interval = _ANY[64]


def number(value: int) -> Interval:
    return ("", value, value, value & -value or _OF_ZERO) if -_HALF <= value < _SIZE else ANYTHING


def variable_of(root: str) -> str:
    return root.removesuffix(_MAPPED)


def between(low: int, high: int) -> Interval:
    return "", low, high, 1


def applied(op: Operation, operands: Sequence[Interval], alignment: int) -> Interval:
    """The result of an operation."""
    rule = _RULES.get(op.name)
    return rule and op.width >= 32 and rule(operands, op, alignment) or (_ANY[32] if op.to <= 32 else ANYTHING)


def union(one: Interval, other: Interval, ends: Sequence[int] = ()) -> Interval:
    if one[0] != other[0]:
        return ANYTHING
    return one[0], min(one[1], other[1]), max(one[2], other[2]), min(one[3], other[3])


def unsigned(one: Interval) -> Interval:
    """The same 32 bits as numbers without a sign."""
    root, low, high, step = one
    if 0 <= low and high < _SIZE:
        return one
    if high < 0 and not root:
        return root, low + _SIZE, high + _SIZE, min(step, _SIZE)
    return _any(32, step)


def widened(one: Interval, other: Interval, ends: Sequence[int]) -> Interval:
    """What is one or the other, where the other one grows from turn to turn: up to one of the ends."""
    root, low, high, step = union(one, other)
    if (root, low, high) == one[:3] or high >= _SIZE:
        return (root, low, high, step) if high < _SIZE else ANYTHING
    if low < one[1]:
        low = max([end for end in ends if end <= low], default=-_HALF)
    if high > one[2]:
        high = min([end // step * step for end in ends if end // step * step >= high], default=_SIZE)
    if -_HALF < low and high < _SIZE:
        return root, low, high, step
    return ANYTHING if root or low < 0 else _any(32, step)


def compared(one: Interval, how: str, other: Interval, signed: bool) -> Interval | None:
    """The part of an interval for which a comparison with a number of another one may hold; None if it cannot."""
    if one[0] != other[0] or one[0] and how not in ("eq", "ne"):
        return one
    if not one[0]:
        least, most = (-_HALF, _HALF - 1) if signed else (0, _SIZE - 1)
        if other[1] == other[2] and not least <= other[1] <= most:
            other = number((other[1] - least) % _SIZE + least)
        if not least <= other[1] or not other[2] <= most:
            return one
        if not least <= one[1] or not one[2] <= most:
            if signed:
                return one
            one = unsigned(one)
    root, low, high, step = one
    match how:
        case "eq":
            low, high = max(low, other[1]), min(high, other[2])
        case "ne" if other[1] == other[2]:
            low, high = low + (low == other[1]), high - (high == other[1])
        case "lt" | "lo":
            high = min(high, other[2] - 1)
        case "le" | "ls":
            high = min(high, other[2])
        case "gt" | "hi":
            low = max(low, other[1] + 1)
        case "ge" | "hs":
            low = max(low, other[1])
    low, high = -(-low // step) * step, high // step * step
    return (root, low, high, step) if low <= high else None


def _any(bits: int, step: int) -> Interval:
    step = min(step, 1 << bits)
    return "", 0, (1 << bits) - step, step


def _made(root: str, low: int, high: int, step: int, bits: int) -> Interval | None:
    """Reduced to so many bits. The distance from a variable has a sign."""
    if root:
        return (root, low, high, step) if -_HALF < low and high < _HALF else None
    size = 1 << bits
    if low < -(size >> 1) or high >= size:
        by = low // size * size
        if high - by >= size:
            return _any(bits, step)
        low, high = low - by, high - by
    return root, low, high, step


def _moved(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    (one,) = operands
    if op.how == "cvta":
        return _mapped(operands, op, alignment) or one
    if one[0] or op.width == op.to:
        return one
    return _extended(one, op) if op.width < op.to else _made(*one, op.to)


def _extended(one: Interval, op: Operation) -> Interval:
    if not op.signed:
        return unsigned(one)
    return one if one[2] < _HALF else ("", -_HALF, _HALF - 1, 1)


def _added(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, other = operands
    if one[0] and other[0]:
        return None
    return _made(one[0] or other[0], one[1] + other[1], one[2] + other[2], min(one[3], other[3]), op.to)


def _subtracted(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, other = operands
    if other[0] and (one[0] != other[0] or other[0].endswith(_MAPPED)):
        return None
    return _made("" if other[0] else one[0], one[1] - other[2], one[2] - other[1], min(one[3], other[3]), op.to)


def _multiplied(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, other = operands[:2]
    if one[0] or other[0]:
        return None
    if op.how == "hi":
        if op.signed or op.width != 32 or len(operands) > 2:
            return None
        one, other = unsigned(one), unsigned(other)
        return "", one[1] * other[1] >> 32, one[2] * other[2] >> 32, 1
    if op.to > op.width:  # (Of the lower half the signs make no difference.)
        one, other = _extended(one, op), _extended(other, op)
    ends = [end * by for end in one[1:3] for by in other[1:3]]
    product = _made("", min(ends), max(ends), min(one[3] * other[3], _OF_ZERO), op.to)
    return product if len(operands) == 2 or product is None else _added((product, operands[2]), op, alignment)


def _shifted_up(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    (root, low, high, step), (elsewhere, by, most, _) = operands
    if root or elsewhere or by != most or not 0 <= by < 32:
        return None
    return _made(root, low << by, high << by, min(step << by, _OF_ZERO), op.to)


def _shifted_down(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, (elsewhere, by, most, _) = operands
    if one[0] or elsewhere or op.width != 32 or by != most or not 0 <= by < 32 or op.signed and one[2] >= _HALF:
        return None
    root, low, high, step = one if op.signed else unsigned(one)
    return root, low >> by, high >> by, max(step >> by, 1)


def _and(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, other = operands if operands[0][0] else operands[::-1]
    root, low, high, step = one
    if root:
        # What is cleared lies below the alignment, as in the distance.
        kept = other[1] - _SIZE if op.width == 32 and other[1] >= _HALF else other[1]
        cleared = ~kept
        if other[0] or other[1] != other[2] or not 0 <= cleared < alignment or cleared & cleared + 1:
            return None
        return root, low & kept, high & kept, max(step, cleared + 1)
    if op.width != 32:
        return None
    one, other = unsigned(one), unsigned(other)
    step, high = max(one[3], other[3]), min(one[2], other[2])
    return root, 0, high - high % step, step


def _either(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    """`or` and `xor`: of the larger one, as many bits change as the smaller one has."""
    one, other = operands
    if other[0] or not one[0] and not 0 <= other[1] <= other[2] <= one[2]:
        one, other = other, one
    if not one[0]:
        one, other = unsigned(one), unsigned(other)
    root, low, high, step = one
    bits = (1 << other[2].bit_length()) - 1
    if other[0] or other[1] < 0 or op.width != 32 or root and bits >= alignment:
        return None
    if bits < step:  # they have no bit in common
        return root, low + other[1], high + other[2], min(step, other[3])
    step = min(step, other[3])
    return root, low & ~bits, (high | bits) // step * step, step


def _of_bits(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, (elsewhere, by, last, _), (also, count, most, _) = operands
    if (
        one[0]
        or elsewhere
        or also
        or op.width != 32
        or op.signed
        or by != last
        or count != most
        or not (0 <= by < 32 and 0 <= count <= 32)
    ):
        return None
    root, low, high, step = unsigned(one)
    all_ones, step = (1 << count) - 1, max(step >> by, 1)
    return (root, low >> by, high >> by, step) if high >> by <= all_ones else (root, 0, all_ones // step * step, step)


def _of_quotients(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    """Of numbers that are not negative, and a divisor that is at least 1."""
    one, other = operands
    if one[0] or other[0] or op.width != 32:
        return None
    if op.signed:
        if one[1] < 0 or other[1] < 1 or max(one[2], other[2]) >= _HALF:
            return None
    else:
        one, other = unsigned(one), unsigned(other)
    if other[1] < 1:
        return None
    if op.name == "div":
        return "", one[1] // other[2], one[2] // other[1], 1
    return "", 0, min(one[2], other[2] - 1), min(one[3], other[3])


def _of_ends(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    one, other = operands
    if one[0] or other[0] or op.width != 32 or op.how or op.signed and max(one[2], other[2]) >= _HALF:
        return None
    if not op.signed:
        one, other = unsigned(one), unsigned(other)
    end = min if op.name == "min" else max
    return "", end(one[1], other[1]), end(one[2], other[2]), min(one[3], other[3])


def _selected(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    return union(operands[0], operands[1])


def _mapped(operands: Sequence[Interval], op: Operation, alignment: int) -> Interval | None:
    """A place in another CTA: there it is as far from the variable."""
    root, low, high, step = operands[0]
    return (variable_of(root) + _MAPPED, low, high, step) if root else None


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("mov", "cvt"), _moved),
    "add": _added,
    "sub": _subtracted,
    **dict.fromkeys(("mul", "mad"), _multiplied),
    "shl": _shifted_up,
    "shr": _shifted_down,
    "and": _and,
    **dict.fromkeys(("or", "xor"), _either),
    "bfe": _of_bits,
    **dict.fromkeys(("div", "rem"), _of_quotients),
    **dict.fromkeys(("min", "max"), _of_ends),
    "selp": _selected,
    "mapa": _mapped,
    "shfl": lambda operands, op, alignment: operands[0],
}
