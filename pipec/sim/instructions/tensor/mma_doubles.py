"""mma.sync of f64 (PTX ISA 9.7.14.5: the matrix fragments of m8n8k4, m16n8k4, m16n8k8 and m16n8k16 for f64).

Each element of D is a chain of FMAs onto C in ascending k, each rounded as the instruction says. PTX leaves the order open, and it was
not measured: small integers give the same result in any order.
"""

from __future__ import annotations

import re

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANE, LANES, TYPES, Addresses
from ...units.numbers.formats import Rounding
from ..alu.floating import fused_double
from ..decode import Decoder

_SHAPE = re.compile(r"m(8|16)n8k(4|8|16)")
_SHAPES = {(8, 4), (16, 4), (16, 8), (16, 16)}
ROUNDINGS: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp")
_GROUP, _INSIDE = LANE // 4, LANE % 4


def _places_of_a(rows: int, k: int) -> tuple[Addresses, Addresses]:
    """(row, k) of each register of A: [registers, lanes]. With 16 rows, registers come in pairs of rows."""
    number = np.arange(rows * k // LANES)[:, None]
    high = number % (rows // 8)
    return _GROUP + 8 * high, _INSIDE + 4 * (number // (rows // 8))


def _places_of_b(k: int) -> tuple[Addresses, Addresses]:
    """(k, column) of each register of B."""
    number = np.arange(8 * k // LANES)[:, None]
    return _INSIDE + 4 * number, np.broadcast_to(_GROUP, (number.size, LANES))


def _places_of_d(rows: int) -> tuple[Addresses, Addresses]:
    """(row, column) of each register of C and D."""
    number = np.arange(rows * 8 // LANES)[:, None]
    return _GROUP + 8 * (number // 2), 2 * _INSIDE + number % 2


def product_of_doubles(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: Rounding) -> np.ndarray:
    """D [M, N] of A [M, K], B [K, N] and C [M, N]."""
    row, column = np.divmod(np.arange(c.size), c.shape[1])
    out = c.reshape(-1).copy()
    for start in range(0, c.size, LANES):
        part = slice(start, start + LANES)
        for step in range(a.shape[1]):
            out[part] = fused_double(a[row[part], step], b[step, column[part]], out[part], mode)
    return out.reshape(c.shape)


def multiply_doubles(d: Decoder) -> Execute:
    for name in ("sync", "aligned", "row", "col"):
        d.flag(name)
    shape = next((found for found in map(_SHAPE.fullmatch, d.modifiers) if found), None)
    if shape is None or (int(shape[1]), int(shape[2])) not in _SHAPES:
        d.fail("has a shape that is not simulated", "unsupported")
    d.flag(shape[0])
    rows, k = int(shape[1]), int(shape[2])
    mode: Rounding = d.choose(*ROUNDINGS, default="rn")
    double = TYPES["f64"]
    if d.types() != [double] * 4:
        d.fail("needs f64 for all four", "unsupported")
    a, b, c = ([d.source(item, double) for item in d.vector(index)] for index in (1, 2, 3))
    writers = [d.destination(item, double) for item in d.vector(0)]
    places_a, places_b, places_d = _places_of_a(rows, k), _places_of_b(k), _places_of_d(rows)
    if [len(one) for one in (a, b, c, writers)] != [len(one[0]) for one in (places_a, places_b, places_d, places_d)]:
        d.fail("has another number of registers for A, B, C or D", "malformed")

    def execute(warp: Warp) -> None:
        left, right, old = np.empty((rows, k)), np.empty((k, 8)), np.empty((rows, 8))
        left[places_a] = np.stack([read(warp) for read in a])
        right[places_b] = np.stack([read(warp) for read in b])
        old[places_d] = np.stack([read(warp) for read in c])
        for write, result in zip(writers, product_of_doubles(left, right, old, mode)[places_d], strict=True):
            write(warp, np.ascontiguousarray(result))

    return execute
