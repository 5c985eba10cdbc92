"""Values in registers whose width differs from that of their type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.threads.cta import Warp
from ..ptx.types import LANES, LaneValues, Type, unsigned

Reader = Callable[[Warp], LaneValues]
Writer = Callable[[Warp, LaneValues], None]


def split_wide(writers: list[Writer], part: Type) -> Writer:
    def write(warp: Warp, value: LaneValues) -> None:
        pieces = np.ascontiguousarray(value).view(part.dtype).reshape(LANES, len(writers))
        for number, writer in enumerate(writers):
            writer(warp, np.ascontiguousarray(pieces[:, number]))

    return write


def extension(type_: Type, width: int) -> Callable[[LaneValues], LaneValues] | None:
    """Converts lanes of `type_` into the storage of a register `width` bits wide."""
    if type_.bits == 128 or width == 1:
        return None
    if width == 128:

        def widen(value: LaneValues) -> LaneValues:
            out = np.zeros((LANES, 2), np.uint64)
            out[:, 0] = value
            return out

        return widen
    storage = unsigned(width).dtype
    if type_.bits == width:
        return None if type_.meaning in "ub" else lambda value: value.view(storage)
    if type_.bits > width:
        raw = unsigned(type_.bits).dtype
        return lambda value: value.view(raw).astype(storage)
    if type_.meaning == "s":
        return lambda value: value.astype(storage)
    raw = unsigned(type_.bits).dtype
    return lambda value: value.view(raw).astype(storage)
