"""Floating-point arithmetic of single values (PTX ISA 9.7.3, 9.7.4).

Single rounding throughout: NumPy's own operation where it rounds once to nearest, else float64 with the inexactness recorded in the last
bit (rounding to odd) and one final rounding. Approximate instructions give the correctly rounded float32 of the float64 function, which
is within their documented error.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, LaneValues, Type
from ...units.numbers.formats import ROUNDINGS, Rounding, decode, encode
from ..decode import Decoder, instruction
from ..widths import Reader, Writer
from . import packed
from .lanes import down_sum, flush, flush_halves, to_odd_sum

Arithmetic = Literal["add", "sub", "mul", "div"]

_NUMPY: dict[Arithmetic, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def finish(value: LaneValues, name: str, mode: Rounding, ftz: bool, saturate: bool) -> LaneValues:
    """float64 -> one of f16 bf16 f32 f64, as lanes of the register's dtype."""
    if name == "f64":
        return value
    if name == "f32":
        out = value.astype(np.float32) if mode == "rn" else encode(value, "f32", mode).astype(np.uint32).view(np.float32)
        out = flush(out) if ftz else out
        return unit_interval(out) if saturate else out
    value = unit_interval(value) if saturate else value
    bits = encode(value, name, mode).astype(np.uint16)
    if name == "bf16":
        return bits
    return (flush_halves(bits) if ftz else bits).view(np.float16)


def unit_interval(value: LaneValues) -> LaneValues:
    """.sat: clamped to [+0, 1], NaN to +0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    clamped: LaneValues = np.clip(value, zero, one) + zero
    return np.where(np.isnan(value), zero, clamped)


def widen(read: Reader, type_: Type, ftz: bool) -> Reader:
    """A reader of float64 lanes."""
    if type_.name == "bf16":
        return lambda warp: decode(read(warp), "bf16").astype(np.float64)
    if ftz:
        return lambda warp: flush(read(warp)).astype(np.float64)
    return lambda warp: read(warp).astype(np.float64)


def _modes(d: Decoder) -> tuple[Rounding, bool, bool]:
    mode = d.choose(*ROUNDINGS, default="rn")
    d.flag("approx")
    d.flag("full")
    return mode, d.flag("ftz"), d.flag("sat")


def binary(d: Decoder, name: Arithmetic, type_: Type) -> Execute:
    mode, ftz, saturate = _modes(d)
    write, (x, y) = d.destination(0, type_), d.sources(1, 2, type_=type_)
    if type_.name in ("f32", "f64") and mode == "rn":
        return _nearest(write, _NUMPY[name], x, y, ftz, saturate)
    if type_.name == "f64":
        return _exact_double(write, name, x, y, mode)
    a, b = widen(x, type_, ftz), widen(y, type_, ftz)

    def execute(warp: Warp) -> None:
        p, q = a(warp), b(warp)
        if name in ("add", "sub"):
            value = (down_sum if mode == "rm" else to_odd_sum)(p, q if name == "add" else -q)
        elif name == "mul":
            value = p * q
        else:
            value = _odd_quotient(p, q)
        write(warp, finish(value, type_.name, mode, ftz, saturate))

    return execute


def _nearest(write: Writer, operation: np.ufunc, x: Reader, y: Reader, ftz: bool, saturate: bool) -> Execute:
    if not ftz and not saturate:
        return lambda warp: write(warp, operation(x(warp), y(warp)))

    def execute(warp: Warp) -> None:
        p, q = x(warp), y(warp)
        value = flush(operation(flush(p), flush(q))) if ftz else operation(p, q)
        write(warp, unit_interval(value) if saturate else value)

    return execute


def _odd_quotient(p: LaneValues, q: LaneValues) -> LaneValues:
    """float64 quotient, with inexactness recorded in the last bit."""
    value: LaneValues = p / q
    for lane in np.flatnonzero(np.isfinite(value) & np.isfinite(q)):
        error = Fraction(float(p[lane])) / Fraction(float(q[lane])) - Fraction(float(value[lane]))
        if error and not value.view(np.int64)[lane] & 1:
            away = np.inf if error > 0 else -np.inf
            value[lane] = np.nextafter(value[lane], away)
    return value


def _exact_double(write: Writer, name: Arithmetic, x: Reader, y: Reader, mode: Rounding) -> Execute:
    def lane(p: np.float64, q: np.float64) -> float:
        exact = _fraction(name, float(p), float(q))
        if exact == 0 and mode == "rm" and name in ("add", "sub"):
            return float(down_sum(np.array([p]), np.array([q if name == "add" else -q]))[0])
        return round_fraction(exact, mode, lambda: float(_NUMPY[name](p, q)))

    return lambda warp: write(warp, np.array([lane(p, q) for p, q in zip(x(warp), y(warp), strict=True)]))


def _fraction(name: Arithmetic, p: float, q: float) -> Fraction | None:
    if not (np.isfinite(p) and np.isfinite(q)) or (name == "div" and q == 0):
        return None
    a, b = Fraction(p), Fraction(q)
    return _EXACT[name](a, b)


_EXACT: dict[Arithmetic, Callable[[Fraction, Fraction], Fraction]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


def round_fraction(value: Fraction | None, mode: Rounding, otherwise: Callable[[], float]) -> float:
    """A rational number rounded to float64 in any mode; `otherwise` gives the result where there is no number."""
    if value is None or value == 0:
        return otherwise()
    try:
        nearest = float(value)
    except OverflowError:
        return _overflow(value > 0, mode)
    if mode == "rn":
        return nearest
    exact = Fraction(nearest)
    down = mode == "rm" or (mode == "rz" and value > 0)
    if down and exact > value:
        return float(np.nextafter(nearest, -np.inf))
    if not down and exact < value:
        return float(np.nextafter(nearest, np.inf))
    return nearest


def _overflow(positive: bool, mode: Rounding) -> float:
    largest = sys.float_info.max
    if positive:
        return largest if mode in ("rz", "rm") else math.inf
    return -largest if mode in ("rz", "rp") else -math.inf


def fused(d: Decoder, type_: Type) -> Execute:
    """fma and floating mad: one rounding."""
    mode, ftz, saturate = _modes(d)
    relu, marked = d.flag("relu"), d.flag("oob")
    write = d.destination(0, type_)
    readers = d.sources(1, 2, 3, type_=type_)
    if marked:
        if type_.name not in _HALVES:
            d.fail(".oob is for halves", "malformed")
        write = packed.zero_out_of_bounds(write, readers)
    if type_.name == "f64":
        return lambda warp: write(warp, fused_double(readers[0](warp), readers[1](warp), readers[2](warp), mode))
    a, b, c = (widen(read, type_, ftz) for read in readers)
    add = down_sum if mode == "rm" else to_odd_sum

    def execute(warp: Warp) -> None:
        value = add(a(warp) * b(warp), c(warp))
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
        write(warp, finish(value, type_.name, mode, ftz, saturate))

    return execute


def fused_double(a: LaneValues, b: LaneValues, c: LaneValues, mode: Rounding) -> LaneValues:
    out = np.empty(LANES)
    for lane in range(LANES):
        x, y, z = float(a[lane]), float(b[lane]), float(c[lane])
        exact = Fraction(x) * Fraction(y) + Fraction(z) if np.isfinite([x, y, z]).all() else None
        out[lane] = round_fraction(exact, mode, functools.partial(_plain_fused, x, y, z))
    return out


def _plain_fused(x: float, y: float, z: float) -> float:
    # NumPy decides which of two NaNs is propagated: Python's own arithmetic changes its choice as the interpreter specializes.
    return float(np.float64(x) * np.float64(y) + np.float64(z))


@instruction("fma")
def fma(d: Decoder) -> Execute:
    narrow = narrow_operands(d)
    if narrow:
        return mixed(d, "fma", narrow)
    type_ = d.type()
    return packed.fused(d, type_) if type_.name in packed.ARITHMETIC else fused(d, type_)


def narrow_operands(d: Decoder) -> Type | None:
    """Takes the f16 or bf16 of `add.f32.f16` and similar forms (PTX ISA 9.7.5); None for any other form."""
    if [name for name in d.modifiers if name in TYPES] not in (["f32", "f16"], ["f32", "bf16"]):
        return None
    return d.types(2)[1]


def mixed(d: Decoder, name: Literal["add", "sub", "fma"], narrow: Type) -> Execute:
    """add, sub and fma in f32 with f16 or bf16 operands; only the last operand is f32 (PTX ISA 9.7.5)."""
    mode, _, saturate = _modes(d)
    write, last = d.destination(0, TYPES["f32"]), len(d.operands) - 1
    readers = [widen(d.source(index, narrow), narrow, False) for index in range(1, last)]
    addend = widen(d.source(last, TYPES["f32"]), TYPES["f32"], False)
    add, sign = (down_sum if mode == "rm" else to_odd_sum), -1 if name == "sub" else 1

    def execute(warp: Warp) -> None:
        value = readers[0](warp) * readers[1](warp) if name == "fma" else readers[0](warp)
        write(warp, finish(add(value, sign * addend(warp)), "f32", mode, False, saturate))

    return execute


_SIGN: dict[str, Callable[[LaneValues, np.integer[Any]], LaneValues]] = {
    "abs": lambda bits, sign: bits & ~sign,
    "neg": lambda bits, sign: bits ^ sign,
}


def unary(d: Decoder, name: Literal["abs", "neg"], type_: Type) -> Execute:
    """abs and neg on the sign bits."""
    ftz = d.flag("ftz")
    raw = TYPES[f"b{type_.bits}"]
    signs = 0x80008000 if type_.name in ("f16x2", "bf16x2") else 1 << type_.bits - 1
    write, read, sign = d.destination(0, raw), d.source(1, raw), raw.dtype.type(signs)
    change = _SIGN[name]
    if ftz and type_.name == "f32":
        return lambda warp: write(warp, change(flush(read(warp).view(np.float32)).view(np.uint32), sign))
    if type_.name in _HALVES:
        canonical = _HALVES[type_.name]
        if ftz:
            return lambda warp: write(warp, canonical(change(flush_halves(read(warp)), sign)))
        return lambda warp: write(warp, canonical(change(read(warp), sign)))
    return lambda warp: write(warp, change(read(warp), sign))


def _canonical_halves(infinity: int) -> Callable[[LaneValues], LaneValues]:
    """NaN halves become 0x7FFF (measured)."""

    def canonical(bits: LaneValues) -> LaneValues:
        halves = np.ascontiguousarray(bits).view(np.uint16)
        return np.where(halves & 0x7FFF > infinity, np.uint16(0x7FFF), halves).view(bits.dtype)

    return canonical


_HALVES = {
    name + suffix: _canonical_halves(infinity) for name, infinity in (("f16", 0x7C00), ("bf16", 0x7F80)) for suffix in ("", "x2")
}


def choose_extreme(a: LaneValues, b: LaneValues, smaller: bool, keep_nan: bool) -> LaneValues:
    """A number beats a NaN unless `keep_nan`; -0 is smaller than +0."""
    before = (a < b) | ((a == b) & (np.signbit(a) > np.signbit(b)))
    value = np.where(before == smaller, a, b)
    value = np.where(np.isnan(a), b, np.where(np.isnan(b), a, value))
    if keep_nan:
        value = np.where(np.isnan(a) | np.isnan(b), np.nan, value)
    return value


def extreme(d: Decoder, name: str, type_: Type) -> Execute:
    """min and max, two or three operands, scalar and packed."""
    ftz, keep_nan, xorsign = d.flag("ftz"), d.flag("NaN"), d.flag("xorsign")
    # With three operands, .abs is allowed without .xorsign.
    absolute, three = d.flag("abs"), len(d.operands) == 4
    if xorsign != (absolute and not three):
        d.fail(".xorsign and .abs stand together", "malformed")
    smaller = name == "min"

    def choose(a: LaneValues, b: LaneValues) -> LaneValues:
        if not xorsign:
            return choose_extreme(a, b, smaller, keep_nan)
        return np.copysign(choose_extreme(abs(a), abs(b), smaller, keep_nan), np.where(np.signbit(a) ^ np.signbit(b), -1.0, 1.0))

    if type_.name in ("f16x2", "bf16x2"):
        return packed.elementwise(d, type_, choose, 2, ftz)
    write = d.destination(0, type_)
    readers = [widen(d.source(index, type_), type_, ftz) for index in range(1, len(d.operands))]

    def execute(warp: Warp) -> None:
        values = [np.abs(read(warp)) if absolute and three else read(warp) for read in readers]
        write(warp, finish(functools.reduce(choose, values), type_.name, "rn", False, False))

    return execute


_FUNCTIONS: dict[str, Callable[[LaneValues], LaneValues]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda v: 1.0 / v,
    "rsqrt": lambda v: 1.0 / np.sqrt(v),
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@instruction(*_FUNCTIONS)
def function(d: Decoder) -> Execute:
    mode, ftz, saturate = _modes(d)
    type_ = d.type()
    compute = _FUNCTIONS[d.item.root]
    if type_.name in ("f16x2", "bf16x2"):
        return packed.elementwise(d, type_, lambda a: compute(a), 1)
    write, read = d.destination(0, type_), widen(d.source(1, type_), type_, ftz)
    return lambda warp: write(warp, finish(compute(read(warp)), type_.name, mode, ftz, saturate))


@instruction("copysign")
def copy_sign(d: Decoder) -> Execute:
    type_ = d.type()
    write, (a, b) = d.destination(0, type_), d.sources(1, 2, type_=type_)
    return lambda warp: write(warp, np.copysign(b(warp), a(warp)))
