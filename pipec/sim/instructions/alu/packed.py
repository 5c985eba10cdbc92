"""Two values in one register: f16x2, bf16x2, f32x2, u16x2, s16x2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LaneValues, Type
from ...units.numbers.formats import OUT_OF_BOUNDS, Rounding, decode, encode
from ..decode import Decoder
from ..widths import Reader, Writer
from .lanes import flush_halves, to_odd_sum

PACKED_ROUNDINGS: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp")

# On float64 pairs, with as many operands as the instruction has.
Function = Callable[..., LaneValues]

ARITHMETIC = frozenset({"f16x2", "bf16x2", "f32x2"})
_ELEMENT = {"f16x2": ("f16", np.uint16), "bf16x2": ("bf16", np.uint16), "f32x2": ("f32", np.uint32)}


def split(value: LaneValues, type_: Type) -> LaneValues:
    """64 float64, the low half of each lane first."""
    name, raw = _ELEMENT[type_.name]
    if name == "f32":
        return value.view(np.float32).astype(np.float64)
    return decode(value.view(raw), name)


def join(value: LaneValues, type_: Type, mode: Rounding = "rn", saturate: bool = False) -> LaneValues:
    name, raw = _ELEMENT[type_.name]
    if saturate:
        value = np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0) + 0.0)
    if name == "f32" and mode == "rn":
        return value.astype(np.float32).view(type_.dtype)
    return encode(value, name, mode).astype(raw).view(type_.dtype)


def zero_out_of_bounds(write: Writer, readers: list[Reader]) -> Writer:
    """For `fma.oob`: +0 where any operand is the tensor map's fill value, half by half."""

    def marked(warp: Warp, value: LaneValues) -> None:
        outside = np.logical_or.reduce([read(warp).view(np.uint16) == OUT_OF_BOUNDS for read in readers])
        bits = np.ascontiguousarray(value).view(np.uint16)
        write(warp, np.where(outside, np.uint16(0), bits).view(value.dtype))

    return marked


def elementwise(d: Decoder, type_: Type, function: Function, count: int, ftz: bool = False) -> Execute:
    """`function` on float64 pairs, rounded once. `ftz`: subnormal numbers are zero, also where the instruction does not say so any more."""
    mode = d.choose(*PACKED_ROUNDINGS, default="rn")
    saturate = d.flag("sat")
    relu = d.flag("relu")
    ftz = d.flag("ftz") or ftz
    if ftz and type_.name == "f32x2":
        function = _flushing(function)
    write, readers = d.destination(0, type_), d.sources(*range(1, count + 1), type_=type_)
    flushed = flush_halves if ftz and type_.name == "f16x2" else _unchanged
    if count == 3 and d.flag("oob"):
        if type_.name == "f32x2":
            d.fail(".oob is for halves", "malformed")
        write = zero_out_of_bounds(write, readers)

    def execute(warp: Warp) -> None:
        value = function(*(split(flushed(read(warp)), type_) for read in readers))
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
        write(warp, flushed(join(value, type_, mode, saturate)))

    return execute


def _unchanged(bits: LaneValues) -> LaneValues:
    return bits


def _flushing(function: Function) -> Function:
    tiny = 2.0**-126

    def cut(value: LaneValues) -> LaneValues:
        return np.where(np.abs(value) < tiny, np.copysign(0.0, value), value)

    return lambda *values: cut(function(*(cut(value) for value in values)))


def binary(d: Decoder, name: str, type_: Type) -> Execute:
    table: dict[str, Function] = {"add": to_odd_sum, "sub": lambda a, b: to_odd_sum(a, -b), "mul": np.multiply}
    return elementwise(d, type_, table[name], 2)


def fused(d: Decoder, type_: Type) -> Execute:
    return elementwise(d, type_, lambda a, b, c: to_odd_sum(a * b, c), 3)


def integer_lanes(d: Decoder, type_: Type, function: np.ufunc) -> Execute:
    """min/max.{u16x2,s16x2}."""
    raw, relu = np.int16 if type_.name == "s16x2" else np.uint16, d.flag("relu")
    write, (a, b) = d.destination(0, type_), d.sources(1, 2, type_=type_)

    def execute(warp: Warp) -> None:
        value = function(np.ascontiguousarray(a(warp)).view(raw), np.ascontiguousarray(b(warp)).view(raw))
        write(warp, (np.maximum(value, raw(0)) if relu else value).view(np.uint32))

    return execute
