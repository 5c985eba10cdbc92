"""mma.m8n8k4 of halves, for Volta: four products of 8 x 8 x 4 in one warp (PTX ISA 9.7.14.5.1).

Lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3 hold product q, the latter its lower rows of A and D and its right columns of B. Each
element is one sum, as in other `mma.sync`; PTX leaves the order open, and it was not measured.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipec.record import record

from ..numbers import numerics as accumulation
from ..numbers.formats import decode, decompose
from ..numbers.numerics import Numerics

LANES, QUADS, SIZE, DEPTH = 32, 4, 8, 4
Major = Literal["row", "col"]

_LANE = np.arange(LANES, dtype=np.int64)[:, None]
_QUAD, _INSIDE, _HIGH = _LANE % 16 // 4, _LANE % 4, _LANE // 16 * 4
_FOUR, _EIGHT = np.arange(4, dtype=np.int64)[None, :], np.arange(8, dtype=np.int64)[None, :]


@record
class QuadInstruction:
    """mma.m8n8k4.LEFT.RIGHT.D.f16.f16.C"""

    left: Major
    right: Major
    d_format: str
    c_format: str


def _spread(across: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(product, row, column) of every value, [lanes, values]."""
    shape = np.broadcast_shapes(_QUAD.shape, across.shape, along.shape)
    return np.broadcast_to(_QUAD, shape), np.broadcast_to(across, shape), np.broadcast_to(along, shape)


def _operand(registers: np.ndarray, one_lane_one_row: bool) -> np.ndarray:
    """Bit patterns [product, row of A or column of B, k]: a lane has all of k of one row, or four rows of one k."""
    place = _spread(_INSIDE + _HIGH, _FOUR) if one_lane_one_row else _spread(_FOUR + _HIGH, _INSIDE)
    patterns = np.empty((QUADS, SIZE, DEPTH), np.uint16)
    patterns[place] = np.ascontiguousarray(registers, np.uint32).view(np.uint16)
    return patterns


def _places_of_d(format_name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if format_name == "f16":
        return _spread(_INSIDE + _HIGH, _EIGHT)
    return _spread((_LANE & 1) + (_EIGHT & 2) + _HIGH, (_EIGHT & 4) + (_LANE & 2) + (_EIGHT & 1))


def multiply_quads(what: QuadInstruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics) -> np.ndarray:
    """D registers (uint32 [32 lanes, registers]) from those of A, B and C."""
    left, right = _operand(a, what.left == "row"), _operand(b, what.right == "col")
    before = np.ascontiguousarray(c, np.uint32).view(np.uint16 if what.c_format == "f16" else np.uint32)
    old = np.empty((QUADS, SIZE, SIZE))
    old[_places_of_d(what.c_format)] = decode(before, what.c_format)
    storage = np.uint16 if what.d_format == "f16" else np.uint32
    result = np.empty((QUADS, SIZE, SIZE), storage)
    for quad in range(QUADS):
        parts = decompose(left[quad], "f16"), decompose(right[quad], "f16")
        result[quad] = accumulation.accumulate(*parts, old[quad], accumulation.WGMMA, what.d_format, numerics=numerics)
    return np.ascontiguousarray(result[_places_of_d(what.d_format)]).view(np.uint32)
