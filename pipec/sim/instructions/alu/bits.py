"""Logic, shifts and bit fields (PTX ISA 9.7.1.13-24, 9.7.8)."""

from __future__ import annotations

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import TYPES, LaneValues, unsigned
from ..decode import Decoder, instruction
from .integers import elementwise
from .lanes import nowhere

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and", "or", "xor")
def logic(d: Decoder) -> Execute:
    return elementwise(d, d.type(), _LOGIC[d.item.root], 1, 2)


@instruction("not", "cnot")
def invert(d: Decoder) -> Execute:
    type_ = d.type()
    if d.item.opcode.startswith("cnot"):
        return elementwise(d, type_, lambda a: (a == 0).astype(a.dtype), 1)
    return elementwise(d, type_, np.invert, 1)


@instruction("shl", "shr")
def shift(d: Decoder) -> Execute:
    """Amounts beyond the width give zero, or the sign for shr.s."""
    type_ = d.type()
    write, value, amount = d.destination(0, type_), d.source(1, type_), d.source(2, TYPES["u32"])
    bits, left = type_.bits, d.item.opcode.startswith("shl")
    signed = type_.meaning == "s" and not left
    last = type_.dtype.type(bits - 1)

    def execute(warp: Warp) -> None:
        v, count = value(warp), amount(warp)
        large = count >= bits
        if nowhere(large):
            n = count.astype(v.dtype)
            return write(warp, v << n if left else v >> n)
        n = np.where(large, np.uint32(0), count).astype(v.dtype)
        moved = v << n if left else v >> n
        return write(warp, np.where(large, v >> last if signed else v.dtype.type(0), moved))

    return execute


@instruction("shf")
def funnel(d: Decoder) -> Execute:
    direction, mode = d.require("l", "r"), d.require("clamp", "wrap")
    d.type()
    write = d.destination(0, TYPES["b32"])
    low, high, amount = d.sources(1, 2, 3, type_=TYPES["u32"])

    def execute(warp: Warp) -> None:
        count = amount(warp)
        # Under .clamp, 32 is a valid amount: it returns the other word whole.
        count = np.minimum(count, 32) if mode == "clamp" else count & np.uint32(31)
        both = high(warp).astype(np.uint64) << np.uint64(32) | low(warp)
        n = count.astype(np.uint64)
        moved = (both << n) >> np.uint64(32) if direction == "l" else both >> n
        write(warp, moved.astype(np.uint32))

    return execute


@instruction("lop3")
def lop3(d: Decoder) -> Execute:
    combination = d.choose("or", "and")
    d.type()
    first, _ = d.pair(0)
    write, table = d.destination(first, TYPES["b32"]), d.integer(4)
    a, b, c = d.sources(1, 2, 3, type_=TYPES["b32"])
    write_predicate = d.second_destination(0, TYPES["pred"])
    other = d.source(5, TYPES["pred"]) if combination else None

    def execute(warp: Warp) -> None:
        x, y, z = a(warp), b(warp), c(warp)
        result = np.zeros_like(x)
        for row in range(8):
            if table >> row & 1:
                result = result | ((x if row & 4 else ~x) & (y if row & 2 else ~y) & (z if row & 1 else ~z))
        if write_predicate is not None and other is not None:
            write_predicate(warp, (result != 0) | other(warp) if combination == "or" else (result != 0) & other(warp))
        write(warp, result)

    return execute


@instruction("prmt")
def permute(d: Decoder) -> Execute:
    mode = d.choose("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    d.type()
    write = d.destination(0, TYPES["b32"])
    a, b, selector = d.sources(1, 2, 3, type_=TYPES["b32"])
    if mode is not None:
        return lambda warp: write(warp, _permute(a(warp), b(warp), _mode_selector(mode, selector(warp))))
    return lambda warp: write(warp, _permute(a(warp), b(warp), selector(warp)))


_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def _mode_selector(mode: str, selector: LaneValues) -> LaneValues:
    selectors: LaneValues = np.array(_MODES[mode], np.uint32)[selector & 3]
    return selectors


def _permute(a: LaneValues, b: LaneValues, selector: LaneValues) -> LaneValues:
    both = b.astype(np.uint64) << np.uint64(32) | a
    result = np.zeros_like(a)
    for place in range(4):
        # Three bits select one of the eight bytes; the fourth requests its sign in all eight bits instead.
        nibble = (selector >> np.uint32(4 * place)) & np.uint32(15)
        byte = (both >> (nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8)).astype(np.uint32) & np.uint32(0xFF)
        signs = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result = result | np.where(nibble & np.uint32(8), signs, byte) << np.uint32(8 * place)
    return result


@instruction("bfe")
def extract(d: Decoder) -> Execute:
    """Bits beyond the word repeat the sign bit, which is the field's top bit or the word's (PTX ISA bfe)."""
    type_ = d.type()
    write, value = d.destination(0, type_), d.source(1, type_)
    position, length = d.sources(2, 3, type_=TYPES["u32"])
    bits, raw = type_.bits, unsigned(type_.bits).dtype
    one, last = raw.type(1), raw.type(bits - 1)

    def execute(warp: Warp) -> None:
        v = value(warp).view(raw)
        # Only eight bits of position and length are used, so both may lie far beyond the word.
        start, count = ((read(warp) & np.uint32(0xFF)).astype(raw) for read in (position, length))
        kept = np.minimum(count, raw.type(bits) - np.minimum(start, raw.type(bits)))
        ones = (one << kept) - one
        field = v >> start & ones
        if type_.meaning == "s":
            top = np.minimum(start + np.maximum(count, one) - one, last)
            negative = (v >> top & one != 0) & (count != 0)
            field = np.where(negative, field | ~ones, field)
        write(warp, field.view(type_.dtype))

    return execute


@instruction("bfi")
def insert(d: Decoder) -> Execute:
    type_ = d.type()
    write, (a, b) = d.destination(0, type_), d.sources(1, 2, type_=type_)
    position, length = d.sources(3, 4, type_=TYPES["u32"])
    one = type_.dtype.type(1)

    def execute(warp: Warp) -> None:
        start, count = ((read(warp) & np.uint32(0xFF)).astype(type_.dtype) for read in (position, length))
        mask = ((one << count) - one) << start
        write(warp, (b(warp) & ~mask) | (a(warp) << start & mask))

    return execute


@instruction("szext")
def extend_from(d: Decoder) -> Execute:
    """The low b bits of a, extended with their sign or zeros (PTX ISA 9.7.1.24)."""
    mode = d.require("clamp", "wrap")
    type_ = d.type()
    write, (a, b) = d.destination(0, TYPES["b32"]), d.sources(1, 2, type_=TYPES["u32"])
    signed = type_.meaning == "s"

    def execute(warp: Warp) -> None:
        counts = b(warp) & np.uint32(31) if mode == "wrap" else np.minimum(b(warp), np.uint32(32))
        empty = (np.int64(32) - counts.astype(np.int64)).astype(np.uint32)
        high = a(warp).astype(np.uint64) << empty & np.uint64(0xFFFFFFFF)
        wide = high.astype(np.uint32).view(np.int32).astype(np.int64) if signed else high.astype(np.int64)
        write(warp, np.where(counts == 0, 0, wide >> empty.astype(np.int64)).astype(np.uint32))

    return execute


@instruction("bmsk")
def bit_mask(d: Decoder) -> Execute:
    mode = d.require("clamp", "wrap")
    d.type()
    write, (a, b) = d.destination(0, TYPES["b32"]), d.sources(1, 2, type_=TYPES["u32"])
    one = np.uint32(1)

    def execute(warp: Warp) -> None:
        values = (a(warp), b(warp))
        start, count = (value & np.uint32(31) if mode == "wrap" else np.minimum(value, 32) for value in values)
        write(warp, ((one << count) - one) << start)

    return execute


@instruction("popc", "clz")
def count_bits(d: Decoder) -> Execute:
    type_ = d.type()
    count = _leading_zeros if d.item.root == "clz" else np.bitwise_count
    return elementwise(d, type_, lambda value: count(value).astype(np.uint32), 1, result=TYPES["b32"])


def _leading_zeros(value: LaneValues) -> LaneValues:
    """Sets all bits below the leading one, and counts the remaining zeros."""
    dtype = value.dtype
    for step in (1, 2, 4, 8, 16, 32):
        if step < 8 * dtype.itemsize:
            value = value | value >> dtype.type(step)
    return np.bitwise_count(~value)


@instruction("brev")
def reverse(d: Decoder) -> Execute:
    type_ = d.type()
    pattern = f"0{type_.bits}b"
    return elementwise(d, type_, lambda value: np.array([int(format(int(v), pattern)[::-1], 2) for v in value], type_.dtype), 1)


@instruction("bfind")
def find_leading(d: Decoder) -> Execute:
    shift_amount = d.flag("shiftamt")
    type_ = d.type()

    def find(value: LaneValues) -> LaneValues:
        out = []
        for v in value.tolist():
            # For a negative number, the highest bit that differs from the sign.
            magnitude = ~v if v < 0 else v
            position = magnitude.bit_length() - 1
            out.append(0xFFFFFFFF if position < 0 else type_.bits - 1 - position if shift_amount else position)
        return np.array(out, np.uint32)

    return elementwise(d, type_, find, 1, result=TYPES["b32"])


@instruction("fns")
def find_nth(d: Decoder) -> Execute:
    d.type()
    write = d.destination(0, TYPES["b32"])
    mask, base, offset = d.source(1, TYPES["b32"]), d.source(2, TYPES["b32"]), d.source(3, TYPES["s32"])

    def nth(bits: int, start: int, count: int) -> int:
        if count == 0:
            return start if bits >> start & 1 else 0xFFFFFFFF
        order = range(start, 32) if count > 0 else range(start, -1, -1)
        found = [position for position in order if bits >> position & 1]
        return found[abs(count) - 1] if len(found) >= abs(count) else 0xFFFFFFFF

    def execute(warp: Warp) -> None:
        write(
            warp,
            np.array(
                [nth(int(m), int(b) & 31, int(o)) for m, b, o in zip(mask(warp), base(warp), offset(warp), strict=True)],
                np.uint32,
            ),
        )

    return execute
