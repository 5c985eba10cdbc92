"""Video instructions (PTX ISA 9.7.19): scalar ones on a byte, a halfword or the word of each operand, SIMD ones on two or four parts.

They are rare, and their intermediate results have more than 32 bits: each lane is computed with Python's integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from pipec.record import record

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.tree import Part
from ...ptx.types import TYPES
from ..decode import Decoder, instruction
from ..widths import Reader

_WORD = TYPES["b32"]
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}
# Only of parts: halves go up where the sum is positive, and towards zero where it is negative.
_AVERAGE: dict[str, Callable[[int, int], int]] = {"vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1}
_SHIFTS: dict[str, Callable[[int, int], int]] = {"vshl": operator.lshift, "vshr": operator.rshift}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
# How far the distance of a shift goes.
_DISTANCES: dict[str, Callable[[int], int]] = {"clamp": lambda by: min(by, 32), "wrap": lambda by: by & 31}
_SECOND: dict[str, Callable[[int, int], int]] = {"add": operator.add, "min": min, "max": max}
# The first bit of what a scalar instruction selects, and the number of bits.
_SELECTED = {"": (0, 32)} | {f"b{at}": (8 * at, 8) for at in range(4)} | {f"h{at}": (16 * at, 16) for at in range(2)}


@record
class _Operand:
    """A word of each lane, what is selected of it, and whether it is negated."""

    read: Reader
    selector: str = ""
    minus: bool = False


def _operand(d: Decoder, index: int, *, selects: bool = True) -> _Operand:
    found = d.operand(index)
    if not isinstance(found, Part):
        return _Operand(d.source(found, _WORD))
    if not selects and (found.selector or found.minus):
        d.fail(f"operand {index + 1} selects nothing and is not negated", "malformed")
    return _Operand(d.source(found.operand, _WORD), found.selector, found.minus)


def _part(word: int, sign: str, first: int, bits: int) -> int:
    part = word >> first & (1 << bits) - 1
    return part - (part >> bits - 1 << bits) if sign == "s" else part


def _limits(sign: str, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)


def _clamped(value: int, sign: str, bits: int) -> int:
    least, most = _limits(sign, bits)
    return min(max(value, least), most)


def _destination(d: Decoder) -> tuple[Callable[[Warp, Sequence[int]], None], str]:
    """Writes the low 32 bits of each lane's value; what is selected of the register."""
    found = d.operand(0)
    if isinstance(found, Part) and found.minus:
        d.fail("the destination is not negated", "malformed")
    write = d.destination(found.operand if isinstance(found, Part) else found, _WORD)

    def put(warp: Warp, values: Sequence[int]) -> None:
        write(warp, np.array([value & 0xFFFFFFFF for value in values], np.uint32))

    return put, found.selector if isinstance(found, Part) else ""


def _signs(d: Decoder, count: int) -> list[str]:
    """Of the result, if there is a type for it, and the operands."""
    types = d.types(count, count)
    if any(type_.name not in ("u32", "s32") for type_ in types):
        d.fail("has types other than .u32 and .s32", "malformed")
    return [type_.meaning for type_ in types]


def _selected(d: Decoder, selector: str) -> tuple[int, int]:
    if selector not in _SELECTED:
        d.fail(f".{selector} selects nothing here: a scalar instruction takes one of .b0 to .b3, .h0, .h1", "malformed")
    return _SELECTED[selector]


def _operands_alone(d: Decoder, count: int) -> None:
    if len(d.operands) != count:
        d.fail(f"has {len(d.operands)} operands instead of {count}", "malformed")


@instruction(*_ARITHMETIC, *_SHIFTS, "vset")
def scalar(d: Decoder) -> Execute:
    name = d.item.root
    if name == "vset":
        compare = _COMPARISONS[d.require(*_COMPARISONS)]
        compute: Callable[[int, int], int] = lambda a, b: int(compare(a, b))
    elif name in _SHIFTS:
        distance, shift = _DISTANCES[d.require(*_DISTANCES)], _SHIFTS[name]
        compute = lambda a, b: shift(a, distance(b))
    else:
        compute = _ARITHMETIC[name]
    # A comparison has no result type: its results are 0 or 1.
    signs = ["u", *_signs(d, 2)] if name == "vset" else _signs(d, 3)
    if name in _SHIFTS and signs[2] == "s":
        d.fail("the distance of a shift is .u32", "malformed")
    saturate, second = name != "vset" and d.flag("sat"), d.choose(*_SECOND)
    put, kept = _destination(d)
    if second and kept:
        d.fail(f"either combines with its last operand (.{second}) or puts a part into it (.{kept})", "malformed")
    # (ptxas ignores one that nothing combines with.)
    _operands_alone(d, 4 if second or kept or len(d.operands) == 4 else 3)
    (first, bits), a, b = _selected(d, kept), _operand(d, 1), _operand(d, 2)
    if a.minus or b.minus:
        d.fail("has an operand that is negated", "malformed")
    a_part, b_part = _selected(d, a.selector), _selected(d, b.selector)
    c = _operand(d, 3, selects=False) if second or kept else None

    def execute(warp: Warp) -> None:
        values = []
        given = c.read(warp).tolist() if c is not None else [0] * len(a.read(warp))
        for one, other, last in zip(a.read(warp).tolist(), b.read(warp).tolist(), given, strict=True):
            value = compute(_part(one, signs[1], *a_part), _part(other, signs[2], *b_part))
            if saturate:
                value = _clamped(value, signs[0], bits)
            if second:
                value = _SECOND[second](value, _part(last, signs[0], 0, 32))
            elif kept:
                mask = (1 << bits) - 1 << first
                value = value << first & mask | last & ~mask
            values.append(value)
        put(warp, values)

    return execute


@instruction("vmad")
def multiply(d: Decoder) -> Execute:
    signs, saturate, one_more = _signs(d, 3), d.flag("sat"), d.flag("po")
    shift = {None: 0, "shr7": 7, "shr15": 15}[d.choose("shr7", "shr15")]
    put, kept = _destination(d)
    if kept:
        d.fail(f"has a whole register as its destination, not .{kept}", "malformed")
    _operands_alone(d, 4)
    a, b, c = (_operand(d, index) for index in (1, 2, 3))
    if c.selector:
        d.fail("adds a whole register", "malformed")
    negates = a.minus != b.minus
    if one_more and (a.minus or b.minus or c.minus) or negates and c.minus:
        d.fail("negates the product or what is added to it, and neither with .po", "malformed")
    a_part, b_part = _selected(d, a.selector), _selected(d, b.selector)
    final = "s" if "s" in signs[1:] or negates or c.minus else "u"

    def execute(warp: Warp) -> None:
        values = []
        for one, other, last in zip(a.read(warp).tolist(), b.read(warp).tolist(), c.read(warp).tolist(), strict=True):
            product = _part(one, signs[1], *a_part) * _part(other, signs[2], *b_part)
            # What is added is complemented as a word, and extended then.
            added = _part(~last if c.minus else last, final, 0, 32)
            value = (~product if negates else product) + added + (one_more or negates or c.minus)
            value >>= shift
            values.append(_clamped(value, final, 32) if saturate else value)
        put(warp, values)

    return execute


@instruction(*(f"{name}{count}" for name in (*_ARITHMETIC, *_AVERAGE, "vset") for count in (2, 4)))
def parts(d: Decoder) -> Execute:
    name, count = d.item.root[:-1], int(d.item.root[-1])
    operation = _COMPARISONS[d.require(*_COMPARISONS)] if name == "vset" else (_ARITHMETIC | _AVERAGE)[name]
    saturate, summed = name != "vset" and d.flag("sat"), d.flag("add")
    signs = ["u", *_signs(d, 2)] if name == "vset" else _signs(d, 3)
    bits = 32 // count
    put, mask = _destination(d)
    _operands_alone(d, 4)
    a, b, c = _operand(d, 1), _operand(d, 2), _operand(d, 3, selects=False)
    if a.minus or b.minus:
        d.fail("has an operand that is negated", "malformed")
    kept = sorted(_places(d, mask, count, count)) if mask else list(range(count))
    if len(set(kept)) < len(kept):
        d.fail(f".{mask} names a part twice", "malformed")
    # Both operands select from the parts of both, those of the first one first.
    a_parts = _places(d, a.selector, count, 2 * count, exactly=count) if a.selector else range(count)
    b_parts = _places(d, b.selector, count, 2 * count, exactly=count) if b.selector else range(count, 2 * count)

    def execute(warp: Warp) -> None:
        values = []
        for one, other, last in zip(a.read(warp).tolist(), b.read(warp).tolist(), c.read(warp).tolist(), strict=True):
            both, total = one | other << 32, last
            for at in kept:
                value = int(
                    operation(_part(both, signs[1], bits * a_parts[at], bits), _part(both, signs[2], bits * b_parts[at], bits))
                )
                if saturate:
                    value = _clamped(value, signs[0], bits)
                if summed:
                    # A part's value is extended to 32 bits with the signedness of the result type.
                    total += _part(value, signs[0], 0, bits)
                else:
                    part = (1 << bits) - 1 << bits * at
                    total = total & ~part | value << bits * at & part
            values.append(total)
        put(warp, values)

    return execute


def _places(d: Decoder, selector: str, count: int, most: int, *, exactly: int | None = None) -> list[int]:
    """The parts that a selector names, the last one first: `.h32`, `.b0123`."""
    kind, digits = "h" if count == 2 else "b", selector[1:]
    found = [int(digit) for digit in reversed(digits)]
    if selector[0] != kind or max(found) >= most or len(found) > count or exactly not in (None, len(found)):
        d.fail(f".{selector} does not select from {most} parts", "malformed")
    return found
