"""wmma (PTX ISA 9.7.14.4): a warp's MMA on fragments whose layout PTX leaves open.

Here value v of lane l is element 32 v + l of the matrix, row by row; where the registers have more places than the matrix elements,
those behind the last one hold it anew from the first. What is added up is as for `mma.sync` (`mma`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from ..errors import UnitError
from ..numbers import numerics as accumulation
from ..numbers.formats import decode, decompose, integers
from ..numbers.numerics import Numerics
from .mma import LANES
from .wgmma import INTEGERS

MatrixName = Literal["a", "b", "c", "d"]
# Rows and columns of D by K of the instruction.
_SHAPES = {16: ((16, 16), (8, 32), (32, 8)), 8: ((16, 16),)}
_K = {"f16": 16, "bf16": 16, "s8": 16, "u8": 16, "tf32": 8}
_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f32": 4, "s32": 4}
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",)}


@dataclass(frozen=True)
class Fragment:
    """`registers` of 32 bits per lane that hold a matrix of `rows` by `columns`."""

    rows: int
    columns: int
    element_bytes: int
    registers: int

    @property
    def per_register(self) -> int:
        return 4 // self.element_bytes

    def matrix(self, registers: np.ndarray) -> np.ndarray:
        """Patterns [rows, columns] of registers uint32 [lanes, registers]."""
        values = np.ascontiguousarray(registers, np.uint32).view(f"<u{self.element_bytes}")
        return np.ascontiguousarray(values.T.reshape(-1)[: self.rows * self.columns].reshape(self.rows, self.columns))

    def lanes(self, patterns: np.ndarray) -> np.ndarray:
        """Inverse of `matrix`."""
        flat = patterns.astype(f"<u{self.element_bytes}").reshape(-1)
        values = np.resize(flat, self.registers * self.per_register * LANES).reshape(-1, LANES)
        return np.ascontiguousarray(values.T).view(np.uint32)


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"


@lru_cache(maxsize=64)
def fragment(shape: Shape, which: MatrixName, format_name: str) -> Fragment:
    """UnitError "unsupported" for shapes and types that are not modelled."""
    size, result = _BYTES.get(format_name, 0), which in ("c", "d")
    known = any(format_name in results for results in _RESULTS.values()) if result else _K.get(format_name) == shape.k
    if not size or not known or (shape.m, shape.n) not in _SHAPES.get(shape.k, ()):
        raise UnitError("unsupported", f"wmma of {shape} with {format_name} in {which.upper()} is not modelled")
    rows, columns = {"a": (shape.m, shape.k), "b": (shape.k, shape.n)}.get(which, (shape.m, shape.n))
    # Halves of A and B take eight registers in every shape; all else is stored once.
    registers = 8 if format_name == "f16" and not result else rows * columns * size // (4 * LANES)
    return Fragment(rows, columns, size, registers)


@dataclass(frozen=True)
class Instruction:
    """wmma.mma: D = A times B plus C. D and C may differ for halves."""

    shape: Shape
    a_format: str
    b_format: str
    c_format: str
    d_format: str
    saturate: bool = False

    def validate(self) -> Instruction:
        """UnitError "unsupported" for combinations that are not modelled."""
        results, mixed = _RESULTS.get(self.a_format, ()), self.a_format != self.b_format
        if self.c_format not in results or self.d_format not in results or mixed or (self.saturate and results != ("s32",)):
            types = f"{self.a_format}, {self.b_format} and {self.c_format} to {self.d_format}"
            raise UnitError("unsupported", f"wmma of {types} is not modelled")
        for which, name in (("a", self.a_format), ("c", self.c_format)):
            fragment(self.shape, "a" if which == "a" else "c", name)
        return self


def wmma(what: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics = "exact") -> np.ndarray:
    """D registers (uint32 [32 lanes, registers]) from those of A, B and C."""
    left = fragment(what.shape, "a", what.a_format).matrix(a)
    right = np.ascontiguousarray(fragment(what.shape, "b", what.b_format).matrix(b).T)
    old = fragment(what.shape, "c", what.c_format).matrix(c)
    return fragment(what.shape, "d", what.d_format).lanes(_multiply(what, left, right, old, numerics))


def _multiply(what: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, numerics: Numerics) -> np.ndarray:
    if what.a_format in INTEGERS:
        numbers = integers(a, what.a_format), integers(b, what.b_format)
        return accumulation.accumulate_integer(*numbers, c.view(np.int32).astype(np.int64), what.saturate).view(np.uint32)
    left, right = decompose(a, what.a_format), decompose(b, what.b_format)
    old = decode(c, "f16") if what.c_format == "f16" else c.view(np.float32)
    return accumulation.accumulate(left, right, old, accumulation.WGMMA, what.d_format, numerics=numerics)
