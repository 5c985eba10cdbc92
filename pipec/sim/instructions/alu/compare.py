"""setp, set and testp (PTX ISA 9.7.6, 9.7.3.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.tree import Sink
from ...ptx.types import LANES, TYPES, LaneMask, LaneValues, Type
from ..decode import Decoder, instruction
from ..widths import Reader
from .lanes import flush, flush_halves, from_bf16

_ORDERED: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_COMBINE: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


Compare = Callable[[LaneValues, LaneValues], LaneMask]


def _comparison(name: str, floating: bool) -> Compare:
    """NaN makes ordered comparisons false (`ne` too) and the -u forms true."""
    if name in ("num", "nan"):
        return (lambda a, b: ~(np.isnan(a) | np.isnan(b))) if name == "num" else (lambda a, b: np.isnan(a) | np.isnan(b))
    if name in _UNORDERED:
        inner = _ORDERED[_UNORDERED[name]]
        return lambda a, b: inner(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne" and floating:
        return lambda a, b: (a != b) & ~(np.isnan(a) | np.isnan(b))
    return _ORDERED[name]


def _reader(d: Decoder, index: int, type_: Type, ftz: bool) -> Reader:
    read = d.source(index, type_)
    if type_.name == "bf16":
        return lambda warp: from_bf16(read(warp))
    if ftz and type_.meaning == "f":
        return lambda warp: flush(read(warp))
    return read


@instruction("setp")
def set_predicate(d: Decoder) -> Execute:
    comparison = d.require(*_ORDERED, *_UNORDERED, "num", "nan")
    combine = d.choose("and", "or", "xor")
    ftz = d.flag("ftz")
    type_ = d.type()
    if type_.name in ("f16x2", "bf16x2"):
        return _packed_set(d, comparison, combine, type_, ftz)
    floating = type_.meaning == "f" or type_.name == "bf16"
    compare = _comparison(comparison, floating)
    first, second = d.pair(0)
    a, b = _reader(d, 1, type_, ftz), _reader(d, 2, type_, ftz)
    write = d.destination(first, TYPES["pred"])
    if combine is None and second is None:
        return lambda warp: write(warp, compare(a(warp), b(warp)))
    other = d.destination(Sink() if second is None else second, TYPES["pred"])
    if combine is None:

        def both(warp: Warp) -> None:
            result = compare(a(warp), b(warp))
            write(warp, result)
            other(warp, ~result)

        return both
    join, c = _COMBINE[combine], d.source(3, TYPES["pred"])

    def compound(warp: Warp) -> None:
        result, third = compare(a(warp), b(warp)), c(warp)
        write(warp, join(result, third))
        other(warp, join(~result, third))

    return compound


def _packed_set(d: Decoder, comparison: str, combine: str | None, type_: Type, ftz: bool) -> Execute:
    """f16x2 and bf16x2: one predicate per half, each combined with the same one."""
    compare = _comparison(comparison, True)
    third = d.source(3, TYPES["pred"]) if combine else None
    first, _ = d.pair(0)
    low, high = d.destination(first, TYPES["pred"]), d.second_destination(0, TYPES["pred"])
    if high is None:
        d.fail("needs a predicate for each half", "malformed")
    a, b = d.sources(1, 2, type_=type_)
    half = _half_reader(type_, ftz)

    def execute(warp: Warp) -> None:
        x, y, given = a(warp), b(warp), third(warp) if third else None
        for write, shift in ((low, 0), (high, 16)):
            result = compare(half((x >> np.uint32(shift)).astype(np.uint16)), half((y >> np.uint32(shift)).astype(np.uint16)))
            write(warp, _COMBINE[combine](result, given) if combine else result)

    return execute


def _half_reader(type_: Type, ftz: bool) -> Callable[[LaneValues], LaneValues]:
    """The value of a half of f16x2 or bf16x2, given its bits."""
    if type_.name == "bf16x2":
        return from_bf16
    return _as_flushed_f16 if ftz else _as_f16


def _as_f16(bits: LaneValues) -> LaneValues:
    return bits.view(np.float16)


def _as_flushed_f16(bits: LaneValues) -> LaneValues:
    return flush_halves(bits).view(np.float16)


@instruction("set")
def set_value(d: Decoder) -> Execute:
    comparison = d.require(*_ORDERED, *_UNORDERED, "num", "nan")
    combine, ftz = d.choose("and", "or", "xor"), d.flag("ftz")
    result, type_ = d.types(2, 2)
    third = d.source(3, TYPES["pred"]) if combine else None
    write, compare = d.destination(0, result), _comparison(comparison, type_.meaning == "f" or type_.name[:4] in ("bf16", "f16x"))

    def combined(warp: Warp, found: LaneMask) -> LaneMask:
        return _COMBINE[combine](found, third(warp)) if combine and third else found

    if type_.name in ("f16x2", "bf16x2"):
        x, y = d.sources(1, 2, type_=type_)
        # In a packed result each half is 1.0 or 0.0; in an integer result all bits of the half are set.
        ones = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(result.name, 0xFFFF)
        half = _half_reader(type_, ftz)

        def both(warp: Warp) -> None:
            value, left, right = np.zeros(LANES, np.uint32), x(warp), y(warp)
            for shift in (0, 16):
                parts = (half((one >> np.uint32(shift)).astype(np.uint16)) for one in (left, right))
                value |= np.where(combined(warp, compare(*parts)), np.uint32(ones << shift), np.uint32(0))
            write(warp, value.view(result.dtype))

        return both
    a, b = _reader(d, 1, type_, ftz), _reader(d, 2, type_, ftz)
    all_ones = np.array((1 << result.bits) - 1, f"u{result.bytes}").view(result.dtype)[()]
    true = np.uint16(0x3F80) if result.name == "bf16" else result.dtype.type(1.0) if result.meaning == "f" else all_ones
    return lambda warp: write(warp, np.where(combined(warp, compare(a(warp), b(warp))), true, result.dtype.type(0)))


_TESTS: dict[str, Callable[[LaneValues], LaneMask]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda v: ~np.isnan(v),
    "notanumber": np.isnan,
    "normal": lambda v: np.isfinite(v) & ((np.abs(v) >= np.finfo(v.dtype).tiny) | (v == 0)),
    "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
}


@instruction("testp")
def test_property(d: Decoder) -> Execute:
    test = _TESTS[d.require(*_TESTS)]
    type_ = d.type()
    write, read = d.destination(0, TYPES["pred"]), d.source(1, type_)
    return lambda warp: write(warp, test(read(warp)))
