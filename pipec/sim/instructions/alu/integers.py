"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, LaneValues, Type, unsigned
from ..decode import Decoder, Meaning, instruction
from ..widths import Reader
from . import floating, packed

# The part of a product.
Half = Literal["lo", "hi", "wide"]

_LIMITS = {bits: np.iinfo(f"int{bits}") for bits in (8, 16, 32, 64)}


def elementwise(
    d: Decoder, type_: Type, function: Callable[..., LaneValues], *indices: int, result: Type | None = None
) -> Execute:
    """`d = function(sources)`, all sources of one type."""
    write = d.destination(0, result or type_)
    readers = d.sources(*indices, type_=type_)
    if len(readers) == 1:
        (a,) = readers
        return lambda warp: write(warp, function(a(warp)))
    if len(readers) == 2:
        a, b = readers
        return lambda warp: write(warp, function(a(warp), b(warp)))
    a, b, c = readers
    return lambda warp: write(warp, function(a(warp), b(warp), c(warp)))


def _typed(d: Decoder) -> Type:
    type_ = d.type()
    if type_.meaning == "b" and type_.name not in packed.ARITHMETIC and type_.name != "bf16":
        d.fail(f"type .{type_.name} is not known here")
    return type_


def saturated(function: Callable[..., LaneValues]) -> Callable[..., LaneValues]:
    """Signed 32-bit saturation of a 64-bit computation."""
    limits = _LIMITS[32]
    return lambda *values: np.clip(function(*(v.astype(np.int64) for v in values)), limits.min, limits.max).astype(np.int32)


def _halves_added(a: LaneValues, b: LaneValues) -> LaneValues:
    """Two 16-bit sums that wrap (PTX ISA 9.7.1.1)."""
    halves = (np.ascontiguousarray(value).view(np.uint16) for value in (a, b))
    total: LaneValues = np.add(*halves)
    return total.view(np.uint32)


def _binary(name: Literal["add", "sub"], integer: np.ufunc) -> Meaning:
    @instruction(name)
    def meaning(d: Decoder) -> Execute:
        narrow = floating.narrow_operands(d)
        if narrow:
            return floating.mixed(d, name, narrow)
        if name == "add" and d.choose("u16x2", "s16x2"):
            return elementwise(d, TYPES["b32"], _halves_added, 1, 2)
        type_ = _typed(d)
        if type_.name in packed.ARITHMETIC:
            return packed.binary(d, name, type_)
        if type_.meaning == "f" or type_.name == "bf16":
            return floating.binary(d, name, type_)
        if d.flag("sat"):
            return elementwise(d, type_, saturated(integer), 1, 2)
        if d.flag("cc"):
            return _with_carry(d, name, type_, carry_in=False)
        return elementwise(d, type_, integer, 1, 2)

    return meaning


_binary("add", np.add)
_binary("sub", np.subtract)


def _with_carry(d: Decoder, name: str, type_: Type, carry_in: bool) -> Execute:
    """add.cc, addc, sub.cc, subc: the condition code is a per-warp register."""
    carry_out = carry_in and d.flag("cc") or not carry_in
    a, b = d.sources(1, 2, type_=unsigned(type_.bits))
    return _carrying(d, type_, lambda warp: a(warp).astype(object), b, name != "sub", carry_in, carry_out)


def _carrying(d: Decoder, type_: Type, first: Reader, second: Reader, adds: bool, carry_in: bool, carry_out: bool) -> Execute:
    """`first` plus or minus `second` plus or minus the carry; `first` returns unbounded Python integers.

    A subtraction adds the complement, as measured: the carry that it leaves, and that `subc` takes, is 1 where nothing was borrowed.
    That shows where additions and subtractions alternate, as in nvcc's 128-bit division.
    """
    bits, write = type_.bits, d.destination(0, unsigned(type_.bits))
    limit = (1 << bits) - 1

    def execute(warp: Warp) -> None:
        carry = warp.carry if carry_in else int(not adds)
        x, y = first(warp), second(warp).astype(object)
        total = x + (y if adds else limit - y) + carry
        write(warp, np.array([int(value) & limit for value in total], unsigned(bits).dtype))
        if carry_out:
            fresh = np.array([int(value > limit) for value in total], object)
            warp.carry = np.where(warp.active, fresh, warp.carry)

    return execute


@instruction("addc", "subc")
def carry(d: Decoder) -> Execute:
    return _with_carry(d, d.item.opcode[:3], d.type(), carry_in=True)


def _wide(type_: Type) -> Type:
    return TYPES[f"{type_.meaning}{2 * type_.bits}"]


def _high(type_: Type) -> Callable[[LaneValues, LaneValues], LaneValues]:
    """Upper half of the product."""
    if type_.bits == 64:
        return lambda a, b: np.array(
            [(int(x) * int(y)) >> 64 & (1 << 64) - 1 for x, y in zip(a, b, strict=True)], np.uint64
        ).view(type_.dtype)
    wide = _wide(type_).dtype
    return lambda a, b: ((a.astype(wide) * b.astype(wide)) >> wide.type(type_.bits)).astype(type_.dtype)


def _half_product(d: Decoder, type_: Type, half: Half | None) -> Reader:
    """Lanes of the lower or upper half of the product of operands 1 and 2, as unsigned Python integers."""
    a, b = d.sources(1, 2, type_=type_)
    shift, limit = type_.bits if half == "hi" else 0, (1 << type_.bits) - 1
    return lambda warp: (a(warp).astype(object) * b(warp).astype(object) >> shift) & limit


def _with_product(d: Decoder, type_: Type, half: Half | None, carry_in: bool, carry_out: bool) -> Execute:
    addend = d.source(3, unsigned(type_.bits))
    return _carrying(d, type_, _half_product(d, type_, half), addend, True, carry_in, carry_out)


@instruction("madc")
def multiply_add_carry(d: Decoder) -> Execute:
    half: Half = d.require("lo", "hi")
    return _with_product(d, d.type(), half, carry_in=True, carry_out=d.flag("cc"))


@instruction("mul")
def mul(d: Decoder) -> Execute:
    half: Half | None = d.choose("lo", "hi", "wide")
    type_ = _typed(d)
    if type_.name in packed.ARITHMETIC:
        return packed.binary(d, "mul", type_)
    if type_.meaning == "f" or type_.name == "bf16":
        return floating.binary(d, "mul", type_)
    if half == "wide":
        wide = _wide(type_)
        return elementwise(d, type_, lambda a, b: a.astype(wide.dtype) * b.astype(wide.dtype), 1, 2, result=wide)
    return elementwise(d, type_, _high(type_) if half == "hi" else np.multiply, 1, 2)


@instruction("mad")
def mad(d: Decoder) -> Execute:
    half: Half | None = d.choose("lo", "hi", "wide")
    type_ = _typed(d)
    if type_.meaning == "f":
        return floating.fused(d, type_)
    if d.flag("cc"):
        return _with_product(d, type_, half, carry_in=False, carry_out=True)
    if half == "wide":
        wide = _wide(type_)
        write, (a, b), c = d.destination(0, wide), d.sources(1, 2, type_=type_), d.source(3, wide)
        return lambda warp: write(warp, a(warp).astype(wide.dtype) * b(warp).astype(wide.dtype) + c(warp))
    if half == "hi":
        high = _high(type_)
        if d.flag("sat"):
            return elementwise(d, type_, lambda a, b, c: saturated(np.add)(high(a, b), c), 1, 2, 3)
        return elementwise(d, type_, lambda a, b, c: high(a, b) + c, 1, 2, 3)
    return elementwise(d, type_, lambda a, b, c: a * b + c, 1, 2, 3)


@instruction("mul24", "mad24")
def mul24(d: Decoder) -> Execute:
    half: Half = d.require("lo", "hi")
    saturate, type_ = d.flag("sat"), d.type()
    wide = TYPES["s64" if type_.meaning == "s" else "u64"].dtype

    def cut(value: LaneValues) -> LaneValues:
        return (value << 8 >> 8).astype(wide) if type_.meaning == "s" else (value & np.uint32(0xFFFFFF)).astype(wide)

    def product(a: LaneValues, b: LaneValues) -> LaneValues:
        full = cut(a) * cut(b)
        return (full if half == "lo" else full >> wide.type(16)).astype(type_.dtype)

    if d.item.opcode.startswith("mad24"):
        if saturate:
            least, most = _LIMITS[32].min, _LIMITS[32].max
            return elementwise(
                d, type_, lambda a, b, c: np.clip(product(a, b).astype(wide) + c, least, most).astype(type_.dtype), 1, 2, 3
            )
        return elementwise(d, type_, lambda a, b, c: product(a, b) + c, 1, 2, 3)
    return elementwise(d, type_, product, 1, 2)


def divide(type_: Type, remainder: bool) -> Callable[[LaneValues, LaneValues], LaneValues]:
    """C semantics (towards zero); division by zero gives all ones, the remainder too (measured)."""
    bits = type_.bits

    def quotient(a: LaneValues, b: LaneValues) -> LaneValues:
        zero = b == 0
        safe = np.where(zero, b.dtype.type(1), b)
        if type_.meaning == "u":
            q = a // safe
        else:
            q = np.abs(a).view(unsigned(bits).dtype) // np.abs(safe).view(unsigned(bits).dtype)
            q = np.where((a < 0) != (b < 0), (-q.view(a.dtype)), q.view(a.dtype))
        if remainder:
            rest: LaneValues = a - q * safe
            return np.where(zero, ~a.dtype.type(0), rest)
        undefined = a.dtype.type(-1) if type_.meaning == "s" else np.iinfo(a.dtype).max
        result: LaneValues = np.where(zero, undefined, q).astype(a.dtype)
        return result

    return quotient


@instruction("div")
def div(d: Decoder) -> Execute:
    type_ = _typed(d)
    if type_.meaning == "f":
        return floating.binary(d, "div", type_)
    return elementwise(d, type_, divide(type_, remainder=False), 1, 2)


@instruction("rem")
def rem(d: Decoder) -> Execute:
    type_ = d.type()
    return elementwise(d, type_, divide(type_, remainder=True), 1, 2)


@instruction("abs")
def absolute(d: Decoder) -> Execute:
    type_ = d.type()
    if type_.meaning != "s":
        return floating.unary(d, "abs", type_)
    return elementwise(d, type_, np.abs, 1)


@instruction("neg")
def negate(d: Decoder) -> Execute:
    type_ = d.type()
    if type_.meaning != "s":
        return floating.unary(d, "neg", type_)
    return elementwise(d, type_, np.negative, 1)


@instruction("min", "max")
def extreme(d: Decoder) -> Execute:
    type_, name = d.type(), d.item.opcode[:3]
    if type_.meaning in "fb" and type_.name not in ("u16x2", "s16x2"):
        return floating.extreme(d, name, type_)
    function = np.minimum if name == "min" else np.maximum
    if type_.meaning == "b":
        return packed.integer_lanes(d, type_, function)
    relu = d.flag("relu")
    if relu:
        return elementwise(d, type_, lambda a, b: np.maximum(function(a, b), 0), 1, 2)
    return elementwise(d, type_, function, 1, 2)


@instruction("sad")
def sad(d: Decoder) -> Execute:
    type_ = d.type()
    return elementwise(d, type_, lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c, 1, 2, 3)


@instruction("dp4a", "dp2a")
def dot(d: Decoder) -> Execute:
    two = d.item.opcode.startswith("dp2a")
    half = d.require("lo", "hi") if two else None
    first, second = d.types(2, 2)
    write, a, b, c = d.destination(0, TYPES["b32"]), *d.sources(1, 2, 3, type_=TYPES["b32"])
    wide = {"s": np.dtype(np.int16), "u": np.dtype(np.uint16)}
    narrow = {"s": np.dtype(np.int8), "u": np.dtype(np.uint8)}

    def execute(warp: Warp) -> None:
        x = np.ascontiguousarray(a(warp)).view((wide if two else narrow)[first.meaning]).reshape(LANES, -1).astype(np.int64)
        y = np.ascontiguousarray(b(warp)).view(narrow[second.meaning]).reshape(LANES, 4).astype(np.int64)
        if two:
            y = y[:, :2] if half == "lo" else y[:, 2:]
        write(warp, ((x * y).sum(axis=1) + c(warp).astype(np.int64)).astype(np.uint32))

    return execute
