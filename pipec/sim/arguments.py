"""Kernel arguments: how NumPy arrays and tensor maps become simulated memory and parameter bytes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import ml_dtypes
import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.image import parameter_layout
from .machine.memory.global_memory import GlobalMemory
from .ptx.tree import Function, Variable
from .units.copies.im2col import Im2colMap
from .units.copies.tensormap import ELEMENT_TYPES, Fill, Interleave, TensorMap
from .units.errors import UnitError
from .units.swizzle import SwizzleName

# PTX ISA 4.4.1, from PTX 8.1 on.
_MAXIMUM_PARAMETERS = 32_764
_POINTER = 8


@dataclass(frozen=True)
class ScalarArgument:
    """Parameter bytes, little endian, of exactly the parameter's size."""

    data: bytes


@dataclass(frozen=True)
class ArrayArgument:
    """A pointer to element 0 of `array` (any strides); the kernel works on the caller's memory. `name`: the argument's name in reports."""

    array: np.ndarray
    writable: bool = True
    name: str = ""


@dataclass(frozen=True)
class TensorMapArgument:
    """A 128-byte tensor map over `array`; the map's `address` is replaced by the simulated one. Where the parameter is a pointer, the map
    stands in global memory."""

    map: TensorMap | Im2colMap
    array: np.ndarray
    writable: bool = True
    name: str = ""

    @classmethod
    def of(
        cls,
        array: np.ndarray,
        box: Sequence[int],
        *,
        dtype: str | None = None,
        steps: Sequence[int] | None = None,
        swizzle: SwizzleName = "none",
        interleave: Interleave = "none",
        fill: Fill = "zero",
    ) -> TensorMapArgument:
        """The map of a whole array. `box` and the element strides `steps` are in elements, in the order of the array's dimensions;
        `dtype` is a tensor-map type where the array's dtype does not determine it ("tf32", "b4x16"); the modes are those of TensorMap.
        Raises SimulationError("argument")."""
        name = dtype or _MAP_TYPES.get(array.dtype)
        if name not in ELEMENT_TYPES:
            raise SimulationError("argument", f"a tensor map has no elements of type {dtype or array.dtype}")
        if array.ndim < 1 or len(box) != array.ndim:
            raise SimulationError("argument", f"a box of {len(box)} dimensions over an array of {array.ndim}")
        if array.strides[-1] != array.itemsize and array.shape[-1] > 1:
            raise SimulationError("argument", "the last dimension of a tensor map's array must be contiguous")
        dims = list(array.shape)
        dims[-1] = dims[-1] * array.itemsize * 8 // ELEMENT_TYPES[name].bits
        shape, strides = tuple(reversed(dims)), tuple(reversed(array.strides[:-1]))
        turned = None if steps is None else tuple(reversed(steps))
        return cls(TensorMap(name, shape, strides, tuple(reversed(box)), turned, swizzle, interleave, fill), array)


@dataclass(frozen=True)
class RawArgument:
    """A struct passed by value: `data` with scalars, pointers or tensor maps written over it at byte offsets."""

    data: bytes
    patches: Mapping[int, ScalarArgument | ArrayArgument | TensorMapArgument] = field(default_factory=dict)


Argument = ScalarArgument | ArrayArgument | TensorMapArgument | RawArgument
# Other values that `launch` accepts: an array means a pointer to it, NumPy scalars and bytes are passed as they are, a Python number takes
# the parameter's size.
Loose = Argument | np.ndarray | np.generic | bytes | int | float

_MAP_TYPES = {
    np.dtype(stored): name
    for stored, name in (
        (np.uint8, "u8"),
        (np.int8, "u8"),
        (ml_dtypes.float8_e4m3fn, "u8"),
        (ml_dtypes.float8_e5m2, "u8"),
        (np.uint16, "u16"),
        (np.int16, "u16"),
        (np.uint32, "u32"),
        (np.int32, "s32"),
        (np.uint64, "u64"),
        (np.int64, "s64"),
        (np.float16, "f16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.float32, "f32"),
        (np.float64, "f64"),
    )
}


def byte_span(array: np.ndarray) -> tuple[int, int]:
    """First and one-past-last host address that any element of `array` occupies."""
    if array.size == 0:
        raise SimulationError("argument", "an array argument has no elements")
    low = high = array.ctypes.data
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


class _Span(NamedTuple):
    """Host memory from `low` to `high` that an argument refers to."""

    low: int
    high: int
    writable: bool
    argument: int

    def joined(self, other: _Span) -> _Span:
        return self._replace(high=max(self.high, other.high), writable=self.writable or other.writable)


class Placement:
    """Maps host memory into the simulated address space; overlapping arrays share one allocation."""

    def __init__(self, memory: GlobalMemory, arguments: Sequence[Argument], further: Sequence[np.ndarray] = ()) -> None:
        self.keep_alive = arguments
        holders = [(index, holder) for index, argument in enumerate(arguments) for holder in _holders(argument)]
        holders += [(len(arguments) + number, _further(number, array)) for number, array in enumerate(further)]
        spans = sorted(_Span(*byte_span(holder.array), holder.writable, index) for index, holder in holders)
        # A struct has several; its index identifies it.
        names = {index: f"`{one.name}`" for index, one in holders if one.name}
        self.memory = memory
        merged: list[_Span] = []
        for span in spans:
            if merged and span.low < merged[-1].high:
                merged[-1] = merged[-1].joined(span)
            else:
                merged.append(span)
        for low, high, writable, index in sorted(merged, key=lambda span: span.argument):
            data = np.frombuffer(memoryview((ctypes.c_uint8 * (high - low)).from_address(low)), np.uint8)
            what = f"argument {index}" if index < len(arguments) else f"allocation {index - len(arguments)}"
            what = names.get(index) or what
            memory.answer_at(low, high, memory.add(data, writable, what).base)

    def address(self, array: np.ndarray) -> int:
        """Simulated address of element 0."""
        host = array.ctypes.data
        for region in self.memory.regions:
            if region.low <= host < region.high:
                return region.base + host - region.low
        raise SimulationError("argument", "an array was not placed")

    def bytes_of(self, argument: Argument) -> bytes:
        if isinstance(argument, ScalarArgument):
            return bytes(argument.data)
        if isinstance(argument, ArrayArgument):
            return self.address(argument.array).to_bytes(8, "little")
        if isinstance(argument, TensorMapArgument):
            try:
                return replace(argument.map, address=self.address(argument.array)).encode()
            except UnitError as error:
                raise SimulationError("argument", error.message) from error
        data = bytearray(argument.data)
        for offset, patch in argument.patches.items():
            value = self.bytes_of(patch)
            if offset < 0 or offset + len(value) > len(data):
                raise SimulationError("argument", f"a patch at byte {offset} does not fit into {len(data)} bytes")
            data[offset : offset + len(value)] = value
        return bytes(data)

    def parameter(self, argument: Argument, size: int, number: int) -> bytes:
        """The bytes of a parameter that has this many."""
        data = self.bytes_of(argument)
        if isinstance(argument, TensorMapArgument) and size == _POINTER:
            map_ = np.frombuffer(bytearray(data), np.uint8)
            return self.memory.add(map_, argument.writable, f"the tensor map of argument {number}").base.to_bytes(size, "little")
        return data


def _further(number: int, array: object) -> ArrayArgument:
    if not isinstance(array, np.ndarray):
        raise SimulationError("argument", f"allocation {number} is a {type(array).__name__}, no array")
    return ArrayArgument(array, array.flags.writeable)


def _holders(argument: Argument) -> list[ArrayArgument | TensorMapArgument]:
    if isinstance(argument, (ArrayArgument, TensorMapArgument)):
        return [argument]
    if isinstance(argument, RawArgument):
        return [patch for patch in argument.patches.values() if not isinstance(patch, ScalarArgument)]
    if isinstance(argument, ScalarArgument):
        return []
    raise SimulationError("argument", f"{type(argument).__name__} is not a kernel argument")


def strict(function: Function, arguments: Sequence[Loose]) -> list[Argument]:
    """Converts every argument to the form of its parameter. Raises SimulationError("argument") when the counts differ or a Python number
    does not fit."""
    if len(function.parameters) != len(arguments):
        raise SimulationError(
            "argument", f"kernel `{function.name}` has {len(function.parameters)} parameters, {len(arguments)} given"
        )
    return [
        _strict(f"parameter {number} of `{function.name}`", parameter, given)
        for number, (parameter, given) in enumerate(zip(function.parameters, arguments, strict=True))
    ]


def _strict(what: str, parameter: Variable, given: Loose) -> Argument:
    if isinstance(given, np.ndarray):
        return ArrayArgument(given, given.flags.writeable)
    if isinstance(given, np.generic):
        return ScalarArgument(given.tobytes())
    if isinstance(given, (bytes, bytearray)):
        return RawArgument(bytes(given))
    if not isinstance(given, (bool, int, float)):
        return given
    try:
        if isinstance(given, float):
            return ScalarArgument(struct.pack({2: "<e", 4: "<f", 8: "<d"}[parameter.size], given))
        return ScalarArgument(given.to_bytes(parameter.size, "little", signed=given < 0))
    except (KeyError, OverflowError, struct.error):
        raise SimulationError("argument", f"{what} has {parameter.size} bytes; {given} does not fit") from None


def parameter_block(function: Function, placement: Placement, arguments: Sequence[Argument]) -> np.ndarray:
    """The bytes of the parameter space. Raises SimulationError("argument") if the count or a size does not match."""
    layout = parameter_layout(function)
    whole = max((offset + size for offset, size in layout), default=0)
    if whole > _MAXIMUM_PARAMETERS:
        raise SimulationError(
            "argument", f"the parameters of `{function.name}` have {whole} bytes, at most {_MAXIMUM_PARAMETERS}"
        )
    block = np.zeros(whole + 8, np.uint8)
    for number, ((offset, size), argument) in enumerate(zip(layout, arguments, strict=True)):
        data = placement.parameter(argument, size, number)
        if len(data) != size:
            raise SimulationError(
                "argument",
                f"parameter {number} of `{function.name}` has {size} bytes, {len(data)} given ({type(argument).__name__})",
            )
        block[offset : offset + size] = np.frombuffer(data, np.uint8)
    return block
