"""PTX scalar types: width, meaning and the NumPy dtype in which lanes hold them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipec.record import record

from .. import compiled

LANES = compiled.LANES
LANE = np.arange(LANES)

# The 32 lanes of a register; the dtype is that of the PTX type, which only the instruction knows.
LaneValues = npt.NDArray[Any]
LaneMask = npt.NDArray[np.bool_]
Addresses = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

Meaning = Literal["s", "u", "b", "f", "p"]


@record
class Type:
    """`meaning`: signed, unsigned, bits, float, predicate; packed types have meaning b."""

    name: str
    bits: int
    meaning: Meaning
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)


_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT = {16: np.float16, 32: np.float32, 64: np.float64}


def _table() -> dict[str, Type]:
    table = {}
    for bits in (8, 16, 32, 64):
        table[f"u{bits}"] = Type(f"u{bits}", bits, "u", np.dtype(_UNSIGNED[bits]))
        table[f"b{bits}"] = Type(f"b{bits}", bits, "b", np.dtype(_UNSIGNED[bits]))
        table[f"s{bits}"] = Type(f"s{bits}", bits, "s", np.dtype(_SIGNED[bits]))
    for bits in (16, 32, 64):
        table[f"f{bits}"] = Type(f"f{bits}", bits, "f", np.dtype(_FLOAT[bits]))
    packed = {
        "bf16": 16,
        "tf32": 32,
        "f16x2": 32,
        "bf16x2": 32,
        "u16x2": 32,
        "s16x2": 32,
        "f32x2": 64,
        "e4m3": 8,
        "e5m2": 8,
        "e4m3x2": 16,
        "e5m2x2": 16,
        "e2m3x2": 16,
        "e3m2x2": 16,
        "e2m1x2": 8,
        "ue8m0x2": 16,
        "e4m3x4": 32,
        "e5m2x4": 32,
        "e2m3x4": 32,
        "e3m2x4": 32,
        "e2m1x4": 16,
    }
    for name, bits in packed.items():
        table[name] = Type(name, bits, "b", np.dtype(_UNSIGNED[bits]))
    table["b128"] = Type("b128", 128, "b", np.dtype((np.uint64, 2)))
    table["pred"] = Type("pred", 1, "p", np.dtype(bool))
    return table


TYPES = _table()


def unsigned(bits: int) -> Type:
    """The untyped-bits type of a width; predicates for 1."""
    return TYPES["pred"] if bits == 1 else TYPES[f"b{bits}"]


def zeros(type_: Type) -> LaneValues:
    """A register of 32 lanes holding zero; b128 registers have shape (32, 2), low half first."""
    return np.zeros((LANES, 2), np.uint64) if type_.bits == 128 else np.zeros(LANES, unsigned(type_.bits).dtype)
