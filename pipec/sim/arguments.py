"""Kernel arguments: how NumPy arrays and tensor maps become simulated memory and parameter bytes."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .errors import SimulationError
from .memory import GlobalMemory
from .program import parameter_layout
from .tree import Function
from .units.errors import UnitError
from .units.tensormap import TensorMap


@dataclass(frozen=True)
class ScalarArgument:
    """Parameter bytes, little endian, exactly as long as the parameter."""

    data: bytes


@dataclass(frozen=True)
class ArrayArgument:
    """A pointer to element 0 of `array` (any strides); the kernel works on the caller's memory."""

    array: np.ndarray
    writable: bool = True


@dataclass(frozen=True)
class TensorMapArgument:
    """A 128-byte tensor map over `array`; the map's `address` is replaced by the simulated one."""

    map: TensorMap
    array: np.ndarray
    writable: bool = True


@dataclass(frozen=True)
class RawArgument:
    """A struct passed by value: `data` with pointers or tensor maps written over it at byte offsets."""

    data: bytes
    patches: Mapping[int, ArrayArgument | TensorMapArgument] = field(default_factory=dict)


Argument = ScalarArgument | ArrayArgument | TensorMapArgument | RawArgument


def byte_span(array: np.ndarray) -> tuple[int, int]:
    """First and one-past-last host address that any element of `array` occupies."""
    if array.size == 0:
        raise SimulationError("argument", "an array argument has no elements")
    low = high = array.__array_interface__["data"][0]
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


class Placement:
    """Maps host memory into the simulated address space; overlapping arrays share one allocation."""

    def __init__(self, memory: GlobalMemory, arguments: Sequence[Argument]) -> None:
        self.keep_alive = arguments
        holders = [(index, holder) for index, argument in enumerate(arguments) for holder in _holders(argument)]
        spans = sorted((*byte_span(holder.array), holder.writable, index) for index, holder in holders)
        self.regions: list[tuple[int, int, int]] = []
        merged: list[list] = []
        for low, high, writable, index in spans:
            if merged and low < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
                merged[-1][2] |= writable
            else:
                merged.append([low, high, writable, index])
        for low, high, writable, index in sorted(merged, key=lambda region: region[3]):
            data = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)
            allocation = memory.add(data, bool(writable), f"argument {index}")
            self.regions.append((low, high, allocation.base))

    def address(self, array: np.ndarray) -> int:
        """Simulated address of element 0."""
        host = array.__array_interface__["data"][0]
        for low, high, base in self.regions:
            if low <= host < high:
                return base + host - low
        raise SimulationError("argument", "an array was not placed")

    def bytes_of(self, argument: Argument) -> bytes:
        if isinstance(argument, ScalarArgument):
            return bytes(argument.data)
        if isinstance(argument, ArrayArgument):
            return self.address(argument.array).to_bytes(8, "little")
        if isinstance(argument, TensorMapArgument):
            try:
                return dataclasses.replace(argument.map, address=self.address(argument.array)).encode()
            except UnitError as error:
                raise SimulationError("argument", error.message) from error
        data = bytearray(argument.data)
        for offset, patch in argument.patches.items():
            value = self.bytes_of(patch)
            if offset + len(value) > len(data):
                raise SimulationError("argument", f"a patch at byte {offset} does not fit into {len(data)} bytes")
            data[offset : offset + len(value)] = value
        return bytes(data)


def _holders(argument: Argument) -> list[ArrayArgument | TensorMapArgument]:
    if isinstance(argument, (ArrayArgument, TensorMapArgument)):
        return [argument]
    if isinstance(argument, RawArgument):
        return list(argument.patches.values())
    if isinstance(argument, ScalarArgument):
        return []
    raise SimulationError("argument", f"{type(argument).__name__} is not a kernel argument")


def parameter_block(function: Function, placement: Placement, arguments: Sequence[Argument]) -> np.ndarray:
    """The bytes of the parameter space. Raises SimulationError("argument") if number or sizes do not fit."""
    layout = parameter_layout(function)
    if len(layout) != len(arguments):
        raise SimulationError("argument", f"kernel `{function.name}` has {len(layout)} parameters, {len(arguments)} given")
    block = np.zeros(max((offset + size for offset, size in layout), default=0) + 8, np.uint8)
    for number, ((offset, size), argument) in enumerate(zip(layout, arguments, strict=True)):
        data = placement.bytes_of(argument)
        if len(data) != size:
            raise SimulationError(
                "argument",
                f"parameter {number} of `{function.name}` has {size} bytes, {len(data)} given ({type(argument).__name__})",
            )
        block[offset : offset + size] = np.frombuffer(data, np.uint8)
    return block
