"""wmma (PTX ISA 9.7.14.4): a warp's MMA on fragments whose layout PTX leaves open.

Here value v of lane l is element 32 v + l of the matrix in row-major order; where the registers have more positions than the matrix has
elements, the elements repeat from the first. The accumulation is as in `mma.sync` (`mma`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from pipec.record import record

from ..errors import UnitError
from ..numbers import numerics as accumulation
from ..numbers.formats import decode, decompose, integers
from ..numbers.numerics import Numerics
from .mma import BITS, LANES, NIBBLES, WHOLE, BitOperation, count_bits

MatrixName = Literal["a", "b", "c", "d"]
# Rows and columns of D by K of the instruction.
_LARGE, _SMALL = ((16, 16), (8, 32), (32, 8)), ((8, 8),)
_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), (16, _LARGE)),
    "tf32": (8, ((16, 16),)),
    "f64": (4, _SMALL),
    **dict.fromkeys(NIBBLES, (32, _SMALL)),
    BITS: (128, _SMALL),
}
_BITS = {
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "tf32": 32,
    "f32": 32,
    "s32": 32,
    "f64": 64,
    **dict.fromkeys(NIBBLES, 4),
    BITS: 1,
}
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    **dict.fromkeys(WHOLE, ("s32",)),
}


@record
class Fragment:
    """`registers` per lane holding a matrix of `rows` by `columns`. Elements of less than a byte are counted in bytes along K, of `bits`
    each otherwise."""

    rows: int
    columns: int
    bits: int
    registers: int

    @property
    def element_bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def register(self) -> np.dtype[Any]:
        """The type of each of them: 64 bits for f64."""
        return np.dtype(f"<u{max(4, self.element_bytes)}")

    @property
    def per_register(self) -> int:
        return self.register.itemsize // self.element_bytes

    def matrix(self, registers: np.ndarray) -> np.ndarray:
        """Bit patterns [rows, columns] of registers [lanes, registers]."""
        values = np.ascontiguousarray(registers, self.register).view(f"<u{self.element_bytes}")
        return np.ascontiguousarray(values.T.reshape(-1)[: self.rows * self.columns].reshape(self.rows, self.columns))

    def lanes(self, patterns: np.ndarray) -> np.ndarray:
        """Inverse of `matrix`."""
        flat = patterns.astype(f"<u{self.element_bytes}").reshape(-1)
        values = np.resize(flat, self.registers * self.per_register * LANES).reshape(-1, LANES)
        return np.ascontiguousarray(values.T).view(self.register)


@record
class Shape:
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"


@lru_cache(maxsize=64)
def fragment(shape: Shape, which: MatrixName, format_name: str) -> Fragment:
    """UnitError "unsupported" for shapes and types that are not modelled."""
    bits, result = _BITS.get(format_name, 0), which in ("c", "d")
    # A result type is supported if any operand type of this shape has it.
    operands = [name for name, (k, sizes) in _SHAPES.items() if k == shape.k and (shape.m, shape.n) in sizes]
    if not (any(format_name in _RESULTS[name] for name in operands) if result else format_name in operands):
        raise UnitError("unsupported", f"wmma of {shape} with {format_name} in {which.upper()} is not modelled")
    k = shape.k * bits // 8 if bits < 8 else shape.k
    rows, columns = {"a": (shape.m, k), "b": (k, shape.n)}.get(which, (shape.m, shape.n))
    # Halves of A and B occupy eight registers in every shape; everything else is stored once.
    each = max(32, bits) // max(8, bits)
    registers = 8 if format_name == "f16" and not result else rows * columns // (LANES * each)
    return Fragment(rows, columns, bits, registers)


@record
class Instruction:
    """wmma.mma: D = A * B + C. The types of D and C may differ for halves."""

    shape: Shape
    a_format: str
    b_format: str
    c_format: str
    d_format: str
    saturate: bool = False
    bits: BitOperation = "xor"

    def validate(self) -> Instruction:
        """UnitError "unsupported" for combinations that are not modelled."""
        results, mixed = _RESULTS.get(self.a_format, ()), self.a_format != self.b_format
        cut = self.saturate and (results != ("s32",) or self.a_format == BITS)
        if self.c_format not in results or self.d_format not in results or mixed or cut:
            types = f"{self.a_format}, {self.b_format} and {self.c_format} to {self.d_format}"
            raise UnitError("unsupported", f"wmma of {types} is not modelled")
        for which, name in (("a", self.a_format), ("c", self.c_format)):
            fragment(self.shape, "a" if which == "a" else "c", name)
        return self


def wmma(what: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics = "exact") -> np.ndarray:
    """D registers (uint32 [32 lanes, registers]) from those of A, B and C, of all types but f64."""
    left = fragment(what.shape, "a", what.a_format).matrix(a)
    right = np.ascontiguousarray(fragment(what.shape, "b", what.b_format).matrix(b).T)
    old = fragment(what.shape, "c", what.c_format).matrix(c)
    return fragment(what.shape, "d", what.d_format).lanes(_multiply(what, left, right, old, numerics))


def _multiply(what: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics) -> np.ndarray:
    if what.a_format in WHOLE:
        numbers, before = (integers(a, what.a_format), integers(b, what.b_format)), c.view(np.int32).astype(np.int64)
        if what.a_format == BITS:
            return count_bits(*numbers, before, what.bits)
        return accumulation.accumulate_integer(*numbers, before, what.saturate).view(np.uint32)
    left, right = decompose(a, what.a_format), decompose(b, what.b_format)
    old = decode(c, "f16") if what.c_format == "f16" else c.view(np.float32)
    return accumulation.accumulate(left, right, old, accumulation.WGMMA, what.d_format, numerics=numerics)
