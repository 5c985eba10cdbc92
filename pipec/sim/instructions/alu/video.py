"""SIMD video instructions on two or four parts of a register (PTX ISA 9.7.19.2), without selectors and masks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, LaneValues
from ..decode import Decoder, instruction

_OPERATIONS: dict[str, Callable[[LaneValues, LaneValues], LaneValues]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_COMPARISONS: dict[str, Callable[[LaneValues, LaneValues], LaneValues]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@instruction(*(f"{name}{count}" for name in (*_OPERATIONS, "vset") for count in (2, 4)))
def parts(d: Decoder) -> Execute:
    name, count = d.item.root[:-1], int(d.item.root[-1])
    operation = _COMPARISONS[d.require(*_COMPARISONS)] if name == "vset" else _OPERATIONS[name]
    saturate, summed = d.flag("sat"), d.flag("add")
    # The comparison has no result type: its results are 0 or 1.
    signs = [type_.meaning for type_ in d.types(2 if name == "vset" else 3, 3)]
    result, first, second = signs if len(signs) == 3 else ("u", *signs)
    bits = 32 // count
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if result == "s" else (0, (1 << bits) - 1)
    word = TYPES["b32"]
    write, a, b, c = d.destination(0, word), *d.sources(1, 2, 3, type_=word)

    def split(value: LaneValues, sign: str) -> LaneValues:
        """[lanes, parts] as int64."""
        raw = np.dtype(f"{'i' if sign == 's' else 'u'}{bits // 8}")
        return np.ascontiguousarray(value).view(raw).reshape(LANES, count).astype(np.int64)

    def execute(warp: Warp) -> None:
        value = operation(split(a(warp), first), split(b(warp), second)).astype(np.int64)
        if saturate:
            value = np.clip(value, least, most)
        kept = value.astype(f"u{bits // 8}")
        if summed:
            # A part's value is extended to 32 bits with the signedness of the result type.
            write(warp, (split(kept, result).sum(axis=1) + c(warp)).astype(np.uint32))
        else:
            write(warp, np.ascontiguousarray(kept).view(np.uint32).reshape(LANES))

    return execute
