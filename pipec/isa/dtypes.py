"""The element types, one row each: name, size, and what the tensor-map encoder, the MMA unit and LLVM call them."""

import sys
from typing import Literal

from pipec.record import record

MmaKind = Literal["f16", "tf32", "f8f6f4", "i8"]  # of tcgen05.mma, PTX ISA 9.7.16.10


@record
class DType:
    """An element type. `mma_kind` is the tcgen05.mma kind that reads it, `mma_code` its code in the instruction descriptor; such an MMA
    may accumulate in any of `accumulators`, the usual type first.

    `widens_to`: the types that can represent all of its values, to which it is converted implicitly. A type that `computes` has
    operators and functions of its own; values of other types are converted first.

    Sources: tensor-map names, CUDA driver API CUtensorMapDataType; codes, PTX ISA 9.7.16.4.2 tables 42-44; accumulators, tables 36-38.
    """

    name: str
    bits: int
    family: Literal[
        "float", "signed", "unsigned", "bool", "packed", "scale"
    ]  # packed: smaller than a byte; packed and scale types are for MMAs only
    llvm: str  # the LLVM type of one element in a register
    tensor_map: str | None = None
    mma_kind: MmaKind | None = None
    mma_code: int | None = None
    numpy: str | None = None  # the NumPy (or ml_dtypes) name of the same type
    accumulators: tuple[str, ...] = ()
    widens_to: tuple[str, ...] = ()
    computes: bool = True
    largest: float = sys.float_info.max  # of a float: larger values become infinite

    @property
    def bytes(self) -> int:
        """In memory, where a bool takes a byte."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.family == "float"

    @property
    def is_integer(self) -> bool:
        return self.family in ("signed", "unsigned")

    @property
    def is_packed(self) -> bool:
        """Smaller than a byte; arrays hold them packed, least significant bits first, as bytes."""
        return self.family == "packed"

    @property
    def is_scale(self) -> bool:
        """A scale factor of a block of MMA operands."""
        return self.family == "scale"

    @property
    def is_opaque(self) -> bool:
        """Only MMAs read it: its values are never in registers."""
        return self.is_packed or self.is_scale

    def __str__(self) -> str:
        return self.name


_SUMS = ("f32", "f16")  # accumulators of MMAs of 16-bit and narrower floats
_ROWS = (
    DType("bool", 1, "bool", "i1", None, None, None, "bool"),
    DType("i8", 8, "signed", "i8", "u8", "i8", 1, "int8", ("i32",), ("i32", "i64")),
    DType("u8", 8, "unsigned", "i8", "u8", "i8", 0, "uint8", ("i32",), ("i32", "u32")),
    DType("i16", 16, "signed", "i16", "u16", None, None, "int16", (), ("i32",)),
    DType("u16", 16, "unsigned", "i16", "u16", None, None, "uint16", (), ("i32", "u32")),
    DType("i32", 32, "signed", "i32", "s32", None, None, "int32", (), ("i64",)),
    DType("u32", 32, "unsigned", "i32", "u32", None, None, "uint32", (), ("i64",)),
    DType("i64", 64, "signed", "i64", "s64", None, None, "int64"),
    DType("u64", 64, "unsigned", "i64", "u64", None, None, "uint64"),
    DType("f16", 16, "float", "half", "f16", "f16", 0, "float16", _SUMS, ("f32",), largest=65504.0),
    DType("bf16", 16, "float", "bfloat", "bf16", "f16", 1, "bfloat16", ("f32",), ("f32",), largest=(2 - 2**-7) * 2.0**127),
    DType("f32", 32, "float", "float", "f32", None, None, "float32", (), ("f64",), largest=(2 - 2**-23) * 2.0**127),
    DType("f64", 64, "float", "double", "f64", None, None, "float64"),
    # tf32 is float32 in memory; the MMA unit drops the low 13 bits of what it reads.
    DType("tf32", 32, "float", "float", "f32", "tf32", 2, "float32", ("f32",), computes=False),
    DType("e4m3", 8, "float", "i8", "u8", "f8f6f4", 0, "float8_e4m3fn", _SUMS, computes=False),
    DType("e5m2", 8, "float", "i8", "u8", "f8f6f4", 1, "float8_e5m2", _SUMS, computes=False),
    DType("e2m3", 6, "packed", "i8", "b6x16_p32", "f8f6f4", 3, "uint8", _SUMS),
    DType("e3m2", 6, "packed", "i8", "b6x16_p32", "f8f6f4", 4, "uint8", _SUMS),
    DType("e2m1", 4, "packed", "i8", "b4x16", "f8f6f4", 5, "uint8", _SUMS),
    DType("ue8m0", 8, "scale", "i8", "u8", None, None, "float8_e8m0fnu"),
    DType("ue4m3", 8, "scale", "i8", "u8", None, None, "float8_e4m3fn"),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}

# 8-bit floats that threads convert, two at a time, with dedicated instructions.
BYTE_FLOATS = tuple(row.name for row in _ROWS if row.is_float and row.bits == 8)
