"""mma.sync: the warp-wide MMA on registers (PTX ISA 9.7.14.5), with what it adds up as measured on Hopper.

16-bit types, tf32 and integers: one sum of all K products and C, as wgmma makes it. 8-bit floats have no unit of their own here: the
assembler turns them into two multiplications of halves, first of the elements 0 and 1 of each four, then of 2 and 3, the second
adding to the first; C is added last, rounded to nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import UnitError
from ..numbers import numerics as accumulation
from ..numbers.formats import Decomposed, decode, decompose, integers
from ..numbers.numerics import Numerics
from .sparsity import spread, warp_codes
from .wgmma import FP8, INTEGERS, OPERAND_TYPES, a_fragment, d_fragment

LANES = 32
ROWS, COLUMNS = 16, 8
# K of m16n8kK by operand type, and the results.
_SHAPES = {
    "f16": ((8, 16), ("f16", "f32")),
    "bf16": ((8, 16), ("f32",)),
    "tf32": ((4, 8), ("f32",)),
    **dict.fromkeys(FP8, ((32,), ("f32",))),
    **dict.fromkeys(INTEGERS, ((16, 32), ("s32",))),
}


# The same for a sparse A, whose K counts the elements that are left out, too.
_SPARSE_SHAPES = {name: (tuple(2 * k for k in shapes), results) for name, (shapes, results) in _SHAPES.items()}


@dataclass(frozen=True)
class Instruction:
    """mma.sync.aligned.m16n8kK.row.col, mma.sp of a sparse A: formats of A, B and of C and D."""

    k: int
    d_format: str
    a_format: str
    b_format: str
    saturate: bool = False
    sparse: bool = False

    @property
    def element_bytes(self) -> int:
        return OPERAND_TYPES[self.a_format].element_bytes

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers per lane of A, B and D."""
        per = self.element_bytes * self.k // 4
        return ROWS * per // LANES // (2 if self.sparse else 1), COLUMNS * per // LANES, 2 if self.d_format == "f16" else 4

    def validate(self) -> Instruction:
        """UnitError "unsupported" for types and shapes that are not modelled."""
        shapes, results = (_SPARSE_SHAPES if self.sparse else _SHAPES).get(self.a_format, ((), ()))
        if self.k not in shapes or self.d_format not in results or self.b_format not in OPERAND_TYPES[self.a_format].partners:
            name = "mma.sp" if self.sparse else "mma.sync"
            raise UnitError(
                "unsupported",
                f"{name} of m16n8k{self.k}, {self.a_format} and {self.b_format} to {self.d_format} is not modelled",
            )
        return self


@lru_cache(maxsize=8)
def b_fragment(element_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """(column, k) of every B value: int64 [32 lanes, 4 registers * values per register]."""
    per_register = 4 // element_bytes
    lane = np.arange(LANES, dtype=np.int64)[:, None]
    value = np.arange(4 * per_register, dtype=np.int64)[None, :]
    k = lane % 4 * per_register + value % per_register + value // per_register * (4 * per_register)
    return np.broadcast_to(lane // 4, k.shape), k


def mma(
    instruction: Instruction,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    numerics: Numerics = "exact",
    metadata: np.ndarray | None = None,
    selector: int = 0,
) -> np.ndarray:
    """D registers (uint32 [32 lanes, registers]) from those of A, B and C; metadata uint32 [32 lanes] of a sparse A."""
    size = instruction.element_bytes
    left, kept = _matrix(a, ROWS, instruction.k // (1 if metadata is None else 2), size, a_fragment(size)), None
    if metadata is not None:
        left, kept = spread(left, warp_codes(metadata, selector, instruction.k, size), size)
    right = _matrix(b, COLUMNS, instruction.k, size, b_fragment(size))
    storage = "<u2" if instruction.d_format == "f16" else "<u4"
    place = tuple(part[:LANES] for part in d_fragment(COLUMNS))
    old = np.empty((ROWS, COLUMNS), storage)
    old[place] = np.ascontiguousarray(c, np.uint32).view(storage)
    return np.ascontiguousarray(_multiply(instruction, left, right, old, numerics, kept).astype(storage)[place]).view(np.uint32)


def _matrix(registers: np.ndarray, rows: int, k: int, size: int, fragment: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Patterns [rows, k] of one operand; forms with half of K have the first half of the registers."""
    values = np.ascontiguousarray(registers, np.uint32).view(f"<u{size}")
    patterns = np.empty((rows, k), f"<u{size}")
    patterns[tuple(part[:LANES, : values.shape[1]] for part in fragment)] = values
    return patterns


def _multiply(
    instruction: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics, kept: np.ndarray | None
) -> np.ndarray:
    if instruction.a_format in INTEGERS:
        numbers = (integers(a, instruction.a_format), integers(b, instruction.b_format))
        return accumulation.accumulate_integer(*numbers, c.view(np.int32).astype(np.int64), instruction.saturate).view(np.uint32)
    left, right = decompose(a, instruction.a_format), decompose(b, instruction.b_format)
    if instruction.a_format in FP8:
        return _through_halves(left, right, c.view(np.float32), numerics, kept)
    old = decode(c, "f16") if instruction.d_format == "f16" else c.view(np.float32)
    return accumulation.accumulate(left, right, old, accumulation.WGMMA, instruction.d_format, numerics=numerics, kept=kept)


def _through_halves(a: Decomposed, b: Decomposed, c: np.ndarray, numerics: Numerics, kept: np.ndarray | None) -> np.ndarray:
    k = np.arange(a.value.shape[1])
    total = None
    for chosen in (np.flatnonzero(k % 4 < 2), np.flatnonzero(k % 4 >= 2)):
        parts = (_columns(a, chosen), _columns(b, chosen))
        inside = None if kept is None else kept[:, chosen]
        bits = accumulation.accumulate(*parts, total, accumulation.WGMMA, "f32", numerics=numerics, kept=inside)
        total = bits.astype(np.uint32).view(np.float32)
    assert total is not None
    with np.errstate(all="ignore"):
        result = total + c
    return np.where(np.isnan(result), np.uint32(accumulation.F32_NAN), result.view(np.uint32))


def _columns(parts: Decomposed, chosen: np.ndarray) -> Decomposed:
    return Decomposed(parts.value[:, chosen], parts.exponent[:, chosen], parts.lowest[:, chosen])
