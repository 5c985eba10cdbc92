"""Hopper's warpgroup MMA (PTX ISA 9.7.15): descriptors, register fragments and the operation, as measured on hardware."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from pipec.record import record

from ..errors import UnitError
from ..layouts import Reading
from ..numbers import numerics as accumulation
from ..numbers.formats import decode, decompose, integers
from ..numbers.numerics import Numerics
from ..products import Accumulator, Product
from ..protocols import SharedMemory
from ..swizzle import SwizzleName
from ..tcgen05.descriptors import MatrixDescriptor
from ..tcgen05.footprint import operand_granules
from ..tcgen05.operands import read_elements
from .sparsity import expand

ROWS = 64
THREADS = 128
FP8 = frozenset({"e4m3", "e5m2"})
INTEGERS = frozenset({"s8", "u8"})
BITS = "b1"
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))
_LAYOUT_NAMES: Final[tuple[SwizzleName, ...]] = ("none", "128B", "64B", "32B")


@record
class OperandType:
    """Bytes of an element in shared memory, K of one instruction, result formats, and partners for the other operand."""

    element_bytes: int
    k: int
    results: tuple[str, ...]
    partners: frozenset[str]


OPERAND_TYPES = {
    "f16": OperandType(2, 16, ("f16", "f32"), frozenset({"f16"})),
    "bf16": OperandType(2, 16, ("f32",), frozenset({"bf16"})),
    "tf32": OperandType(4, 8, ("f32",), frozenset({"tf32"})),
    **{name: OperandType(1, 32, ("f16", "f32"), FP8) for name in FP8},
    **{name: OperandType(1, 32, ("s32",), INTEGERS) for name in INTEGERS},
    # 256 single bits, counted as bytes of eight.
    BITS: OperandType(1, 32, ("s32",), frozenset({BITS})),
}


@record
class Instruction:
    """wgmma.mma_async.m64nNkK: formats, N, and the immediates.  `a_mn_major`/`b_mn_major` are the transpose bits."""

    n: int
    d_format: str
    a_format: str
    b_format: str
    negate_a: bool = False
    negate_b: bool = False
    a_mn_major: bool = False
    b_mn_major: bool = False
    saturate: bool = False
    sparse: bool = False

    @property
    def k(self) -> int:
        """Elements in a row of A and a column of B; for single bits, their bytes."""
        return OPERAND_TYPES[self.a_format].k * (2 if self.sparse else 1)

    @property
    def a_k(self) -> int:
        """Stored elements in a row of A."""
        return OPERAND_TYPES[self.a_format].k

    @property
    def element_bytes(self) -> int:
        return OPERAND_TYPES[self.a_format].element_bytes

    def validate(self) -> Instruction:
        """UnitError "illegal" for types, shapes and immediates that the instruction does not support."""
        for name in (self.a_format, self.b_format):
            if name not in OPERAND_TYPES:
                raise UnitError("illegal", f"wgmma operand type {name!r} is none of {', '.join(OPERAND_TYPES)}")
        row = OPERAND_TYPES[self.a_format]
        if self.b_format not in row.partners or self.d_format not in row.results:
            raise UnitError("illegal", f"wgmma of {self.a_format} and {self.b_format} to {self.d_format}")
        whole = self.d_format == "s32"
        allowed = _INTEGER_N if whole else tuple(range(8, 257, 8))
        if self.n not in allowed:
            raise UnitError(
                "illegal", f"wgmma N = {self.n} for {self.a_format}; allowed: {allowed[0]}, {allowed[1]} .. {allowed[-1]}"
            )
        if (self.a_mn_major or self.b_mn_major) and self.element_bytes != 2:
            raise UnitError("illegal", f"wgmma transposes 16-bit types only, {self.a_format} has {8 * self.element_bytes} bits")
        if self.sparse and self.a_format == BITS:
            raise UnitError("illegal", "wgmma of single bits has no sparse form")
        if whole and (self.negate_a or self.negate_b):
            raise UnitError("illegal", f"wgmma of {self.a_format} has no negation")
        return self


@lru_cache(maxsize=4096)
def decode_descriptor(descriptor: int) -> MatrixDescriptor:
    """A 64-bit wgmma matrix descriptor; reserved bits must be zero (hardware ignores them, PTX forbids them)."""
    if not 0 <= descriptor < 1 << 64:
        raise UnitError("illegal", f"wgmma descriptor {descriptor:#x} has more than 64 bits")
    for low, width in ((14, 2), (30, 2), (46, 3), (52, 10)):
        value = descriptor >> low & ((1 << width) - 1)
        if value:
            raise UnitError(
                "illegal", f"wgmma descriptor {descriptor:#018x}: bits {low}-{low + width - 1} are {value}, must be 0"
            )
    return MatrixDescriptor(
        # Addresses and offsets are in units of 16 bytes, 14 bits of them: 256 KiB.
        start=(descriptor & 0x3FFF) << 4,
        leading_offset=(descriptor >> 16 & 0x3FFF) << 4,
        stride_offset=(descriptor >> 32 & 0x3FFF) << 4,
        layout=_LAYOUT_NAMES[descriptor >> 62],
        base_offset=descriptor >> 49 & 7,
    )


@lru_cache(maxsize=128)
def d_fragment(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of every D value: int64 [128 threads, N/2 values]; an f16 register holds two neighbouring values."""
    thread = np.arange(THREADS, dtype=np.int64)[:, None]
    value = np.arange(n // 2, dtype=np.int64)[None, :]
    warp, lane = thread // 32, thread % 32
    # Each warp has 16 rows. Values come in pairs of neighbours, then the row 8 below, then 8 columns to the right.
    return 16 * warp + lane // 4 + value // 2 % 2 * 8, value // 4 * 8 + lane % 4 * 2 + value % 2


@lru_cache(maxsize=8)
def a_fragment(element_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, k) of every A value in registers: int64 [128 threads, 4 registers * values per register]."""
    per_register = 4 // element_bytes
    thread = np.arange(THREADS, dtype=np.int64)[:, None]
    value = np.arange(4 * per_register, dtype=np.int64)[None, :]
    register, part = value // per_register, value % per_register
    warp, lane = thread // 32, thread % 32
    return 16 * warp + lane // 4 + register % 2 * 8, lane % 4 * per_register + part + register // 2 * (4 * per_register)


def wgmma(
    instruction: Instruction,
    a: int | np.ndarray,
    b: int,
    shared_memory: SharedMemory,
    d: np.ndarray | None,
    numerics: Numerics = "exact",
    metadata: np.ndarray | None = None,
    selector: int = 0,
) -> np.ndarray:
    """New D registers (uint32 [128 threads, registers]) of one warpgroup.

    a  64-bit descriptor, or registers uint32 [128, 4];  b  64-bit descriptor;  d  old registers, None for scale-d false;
    metadata  uint32 [128] of the sparse form, with its selector
    """
    old = None if d is None else gather_d(instruction, d)
    return scatter_d(instruction, product(instruction, a, b, shared_memory, old, numerics, metadata, selector))


def product(
    instruction: Instruction,
    a: int | np.ndarray,
    b: int,
    shared_memory: SharedMemory,
    d: np.ndarray | None,
    numerics: Numerics = "exact",
    metadata: np.ndarray | None = None,
    selector: int = 0,
) -> np.ndarray:
    """The same with old and new D as bit patterns: uint32 or uint16 [64, N]."""
    instruction.validate()
    left, kept = _read_a(instruction, a, shared_memory), None
    if metadata is not None:
        left, kept = expand(left, metadata, selector, instruction.element_bytes)
    right = _read_matrix(instruction, b, instruction.n, instruction.b_mn_major, shared_memory, instruction.k)
    old = None if d is None else _numbers(instruction, d)
    return _multiply(instruction, left, right, old, numerics, kept)


# A loop's instructions repeat whenever its ring of stages wraps around.
@lru_cache(maxsize=512)
def shared_operands(instruction: Instruction, a: int | None, b: int) -> tuple[tuple[Reading, ...], np.ndarray]:
    """The operands that an instruction reads from shared memory (`a` None for A in registers), and the granules that they occupy."""
    instruction.validate()
    size, what = instruction.element_bytes, instruction
    found = [Reading("B", decode_descriptor(b), what.n, what.k, size, what.b_mn_major, what.b_format)]
    if a is not None:
        found.append(Reading("A", decode_descriptor(a), ROWS, what.a_k, size, what.a_mn_major, what.a_format))
    parts = [operand_granules(one.descriptor, one.rows, one.k, one.element_bytes, one.mn_major) for one in found]
    return tuple(found), np.unique(np.concatenate(parts))


def product_of(instruction: Instruction, operands: Sequence[Reading], accumulates: bool) -> Product:
    """The product of the operands that `shared_operands` returns."""
    b, *a = operands
    signs = instruction.negate_a, instruction.negate_b
    return Product(Accumulator("the accumulator", instruction.d_format), a[0] if a else None, b, signs, accumulates)


def _read_a(instruction: Instruction, a: int | np.ndarray, shared_memory: SharedMemory) -> np.ndarray:
    if isinstance(a, (int, np.integer)):
        return _read_matrix(instruction, int(a), ROWS, instruction.a_mn_major, shared_memory, instruction.a_k)
    # Registers have a fixed order; only a descriptor can transpose an operand.
    if instruction.a_mn_major:
        raise UnitError("illegal", "wgmma with A in registers cannot transpose A (bit is 1)")
    registers = np.ascontiguousarray(a, np.uint32)
    if registers.shape != (THREADS, 4):
        raise UnitError("illegal", f"wgmma takes A registers of shape {(THREADS, 4)}, got {registers.shape}")
    storage = f"<u{instruction.element_bytes}"
    patterns = np.empty((ROWS, instruction.a_k), storage)
    patterns[a_fragment(instruction.element_bytes)] = registers.view(storage)
    return patterns


def _read_matrix(
    instruction: Instruction, matrix: int, rows: int, mn_major: bool, shared_memory: SharedMemory, k: int
) -> np.ndarray:
    return read_elements(shared_memory, decode_descriptor(matrix), rows, k, instruction.element_bytes, mn_major)


def gather_d(instruction: Instruction, registers: np.ndarray) -> np.ndarray:
    """The patterns of D, uint32 or uint16 [64, N], from registers uint32 [128 threads, registers]."""
    storage = "<u2" if instruction.d_format == "f16" else "<u4"
    values = np.ascontiguousarray(registers, np.uint32).view(storage)
    place = d_fragment(instruction.n)
    if values.shape != place[0].shape:
        raise UnitError("illegal", f"wgmma takes {place[0].shape[1]} values of D per thread, got {values.shape}")
    patterns = np.empty((ROWS, instruction.n), storage)
    patterns[place] = values
    return patterns


def _numbers(instruction: Instruction, patterns: np.ndarray) -> np.ndarray:
    """D as numbers."""
    if instruction.d_format == "s32":
        return patterns.view(np.int32).astype(np.int64)
    return patterns.view(np.float32) if instruction.d_format == "f32" else decode(patterns, "f16")


def scatter_d(instruction: Instruction, patterns: np.ndarray) -> np.ndarray:
    """The registers, uint32 [128 threads, registers], of patterns of D."""
    values = np.ascontiguousarray(patterns[d_fragment(instruction.n)])
    return values.view(np.uint32)


def _multiply(
    instruction: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray | None, numerics: Numerics, kept: np.ndarray | None
) -> np.ndarray:
    """Result patterns [64, N], uint32 or uint16."""
    if instruction.a_format == BITS:
        # The bit order within a byte is irrelevant as long as both sides use the same.
        ones = [np.unpackbits(part, axis=1).astype(np.float64) for part in (a, b)]
        return accumulation.accumulate_integer(ones[0], ones[1], c, False).view(np.uint32)
    if instruction.a_format in INTEGERS:
        numbers = integers(a, instruction.a_format), integers(b, instruction.b_format)
        return accumulation.accumulate_integer(*numbers, c, instruction.saturate).view(np.uint32)
    left, right = (
        decompose(a, instruction.a_format, instruction.negate_a),
        decompose(b, instruction.b_format, instruction.negate_b),
    )
    # 8-bit floats keep fewer bits below the largest exponent (measured; docs/fidelity.md).
    model = accumulation.WGMMA_FP8 if instruction.a_format in FP8 else accumulation.WGMMA
    return accumulation.accumulate(left, right, c, model, instruction.d_format, numerics=numerics, kept=kept)
