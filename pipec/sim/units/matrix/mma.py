"""mma.sync: the warp-wide MMA on registers (PTX ISA 9.7.14.5), with its accumulation as measured on Hopper.

16-bit types, tf32 and integers: one sum of all K products and C, as in wgmma. 8-bit floats have no hardware of their own here: the
assembler converts them to two multiplications of halves, first of elements 0 and 1 of each four, then of 2 and 3, the second
accumulating onto the first; C is added last, rounded to nearest.

4-bit integers and single bits are packed in the bytes of a byte fragment, the lowest first. A sparse 4-bit A is sparse by bytes: of each
eight elements two pairs are kept (PTX ISA 9.7.14.6.1).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from pipec.record import record

from ..errors import UnitError
from ..numbers import numerics as accumulation
from ..numbers.formats import Decomposed, decode, decompose, integers
from ..numbers.numerics import Numerics
from .sparsity import spread, warp_codes
from .wgmma import FP8, INTEGERS, OPERAND_TYPES, a_fragment, d_fragment

LANES = 32
ROWS, COLUMNS = 16, 8
NIBBLES, BITS = frozenset({"s4", "u4"}), "b1"
WHOLE = INTEGERS | NIBBLES | {BITS}
# The bit operation before the population count.
BitOperation = Literal["xor", "and"]
_BITS = {**{name: 8 * row.element_bytes for name, row in OPERAND_TYPES.items()}, **dict.fromkeys(NIBBLES, 4), BITS: 1}
# K of m16n8kK by operand type, and the result types.
_SHAPES = {
    "f16": ((8, 16), ("f16", "f32")),
    "bf16": ((8, 16), ("f32",)),
    "tf32": ((4, 8), ("f32",)),
    **dict.fromkeys(FP8, ((16, 32), ("f16", "f32"))),
    **dict.fromkeys(INTEGERS, ((16, 32), ("s32",))),
    **dict.fromkeys(NIBBLES, ((32, 64), ("s32",))),
    BITS: ((128, 256), ("s32",)),
}
# The same for a sparse A, whose K includes the omitted elements.
_SPARSE_SHAPES = {
    **{name: (tuple(2 * k for k in shapes), results) for name, (shapes, results) in _SHAPES.items() if name != BITS},
    **dict.fromkeys(FP8, ((64,), ("f16", "f32"))),
}
# The same for m8n8kK, which has half the registers of the smaller shape.
_SMALL_SHAPES = {name: (shapes[:1], results) for name, (shapes, results) in _SHAPES.items() if name in WHOLE}


def partners(format_name: str) -> frozenset[str]:
    """The types that B may have with an A of this type."""
    return NIBBLES if format_name in NIBBLES else OPERAND_TYPES[format_name].partners


@record
class Instruction:
    """mma.sync.aligned.m16n8kK.row.col (m8n8kK of integers), mma.sp of a sparse A: formats of A, B and of C and D."""

    k: int
    d_format: str
    a_format: str
    b_format: str
    saturate: bool = False
    sparse: bool = False
    rows: int = ROWS
    bits: BitOperation = "xor"

    @property
    def element_bytes(self) -> int:
        return max(1, _BITS[self.a_format] // 8)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a dense A, or of a column of B."""
        return _BITS[self.a_format] * self.k // 8

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers per lane of A, B and D."""
        per, results = self.row_bytes // 4, self.rows * COLUMNS // LANES
        a = self.rows * per // LANES // (2 if self.sparse else 1)
        return a, COLUMNS * per // LANES, results // 2 if self.d_format == "f16" else results

    def validate(self) -> Instruction:
        """UnitError "unsupported" for types and shapes that are not modelled."""
        table = _SMALL_SHAPES if self.rows == 8 else _SPARSE_SHAPES if self.sparse else _SHAPES
        shapes, results = table.get(self.a_format, ((), ()))
        known = self.rows == ROWS or (self.rows == 8 and not self.sparse)
        if not known or self.k not in shapes or self.d_format not in results or self.b_format not in partners(self.a_format):
            name = "mma.sp" if self.sparse else "mma.sync"
            raise UnitError(
                "unsupported",
                f"{name} of m{self.rows}n8k{self.k}, {self.a_format} and {self.b_format} to {self.d_format} is not modelled",
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
    size, rows = instruction.element_bytes, instruction.rows
    k = instruction.row_bytes // size
    left, kept = _matrix(a, rows, k // (1 if metadata is None else 2), size, _a_fragment(size, rows)), None
    if metadata is not None:
        left, kept = spread(left, warp_codes(metadata, selector, k, size), size)
    right = _matrix(b, COLUMNS, k, size, b_fragment(size))
    storage = "<u2" if instruction.d_format == "f16" else "<u4"
    place = tuple(part[:LANES, : rows * COLUMNS // LANES] for part in d_fragment(COLUMNS))
    old = np.empty((rows, COLUMNS), storage)
    old[place] = np.ascontiguousarray(c, np.uint32).view(storage)
    return np.ascontiguousarray(_multiply(instruction, left, right, old, numerics, kept).astype(storage)[place]).view(np.uint32)


def _a_fragment(element_bytes: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, k) of every A value; with eight rows only the first register's."""
    return a_fragment(element_bytes) if rows == ROWS else b_fragment(element_bytes)


def _matrix(registers: np.ndarray, rows: int, k: int, size: int, fragment: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Bit patterns [rows, k] of one operand; forms with half of K have the first half of the registers."""
    values = np.ascontiguousarray(registers, np.uint32).view(f"<u{size}")
    patterns = np.empty((rows, k), f"<u{size}")
    patterns[tuple(part[:LANES, : values.shape[1]] for part in fragment)] = values
    return patterns


def _multiply(
    instruction: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics, kept: np.ndarray | None
) -> np.ndarray:
    if instruction.a_format in WHOLE:
        numbers = integers(a, instruction.a_format), integers(b, instruction.b_format)
        before = c.view(np.int32).astype(np.int64)
        if instruction.a_format == BITS:
            return count_bits(*numbers, before, instruction.bits)
        return accumulation.accumulate_integer(*numbers, before, instruction.saturate).view(np.uint32)
    left, right = decompose(a, instruction.a_format), decompose(b, instruction.b_format)
    if instruction.a_format in FP8:
        return _through_halves(left, right, c, instruction.d_format, numerics, kept)
    old = decode(c, "f16") if instruction.d_format == "f16" else c.view(np.float32)
    return accumulation.accumulate(left, right, old, accumulation.WGMMA, instruction.d_format, numerics=numerics, kept=kept)


def count_bits(a: np.ndarray, b: np.ndarray, c: np.ndarray, operation: BitOperation) -> np.ndarray:
    """uint32 [M, N]: C and how many bits are set in each row of A [M, K] combined with each of B [N, K]."""
    # Matrix products count the ones in both.
    if operation == "xor":
        # a xor b = a (1 - b) + (1 - a) b
        a, b = np.concatenate([a, 1 - a], axis=1), np.concatenate([1 - b, b], axis=1)
    return accumulation.accumulate_integer(a, b, c, False).view(np.uint32)


def _through_halves(
    a: Decomposed, b: Decomposed, c: np.ndarray, d_format: str, numerics: Numerics, kept: np.ndarray | None
) -> np.ndarray:
    """The multiplications of halves, and the HADD2 or FADD, that ptxas emits for sm_90a."""
    k = np.arange(a.value.shape[1])
    number, pattern, nan = (
        (np.float16, np.uint16, accumulation.F16_NAN) if d_format == "f16" else (np.float32, np.uint32, accumulation.F32_NAN)
    )
    total = None
    for chosen in (np.flatnonzero(k % 4 < 2), np.flatnonzero(k % 4 >= 2)):
        parts = (_columns(a, chosen), _columns(b, chosen))
        inside = None if kept is None else kept[:, chosen]
        bits = accumulation.accumulate(*parts, total, accumulation.WGMMA, d_format, numerics=numerics, kept=inside)
        total = bits.astype(pattern).view(number).astype(np.float32)
    assert total is not None
    with np.errstate(all="ignore"):
        result = (total + c.view(number)).astype(number)
    return np.where(np.isnan(result), pattern(nan), result.view(pattern))


def _columns(parts: Decomposed, chosen: np.ndarray) -> Decomposed:
    return Decomposed(parts.value[:, chosen], parts.exponent[:, chosen], parts.lowest[:, chosen])
