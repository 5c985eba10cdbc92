"""Generated arguments for a kernel: what `pipec run` passes if the user only gives the dimensions."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipec.diag.shown import shown
from pipec.interface import KernelInterface, ScalarArgument, TensorArgument
from pipec.isa.dtypes import DTYPES, DType
from pipec.runtime.arguments.tensor_maps import TENSOR_MAP_ALIGNMENT
from pipec.runtime.arguments.tensors import MAXIMUM_DIMENSION, numpy_dtype
from pipec.runtime.errors import ArgumentError

# Bit patterns of scale factors: powers of two from 1/4 to 4, numbers from 1/4 to 3.75.
_FACTORS = {"ue8m0": (125, 129), "ue4m3": (0x28, 0x47)}
_ADDRESSABLE = 2**62  # bytes
SMALL = 4  # integers are between -4 and 4, so that sums of products stay far from overflow


def random_arguments(interface: KernelInterface, values: Mapping[str, float], seed: int = 0) -> dict[str, Any]:
    """One argument per parameter, by name, in the kernel's order; deterministic in the seed.

    `values` gives each launch-bound dimension, and scalars that should not be random. Floats are drawn from the standard normal
    distribution, integers between -4 and 4 (0 and 4 if unsigned); tensors that are overwritten are zero. Rows accessed through a tensor
    map are padded to 16 bytes, so any extent is possible. Raises ArgumentError.
    """
    if not isinstance(seed, int) or seed < 0:
        raise ArgumentError(interface.name, "(seed)", f"the seed must be a whole number, 0 or more, not {shown(seed)}")
    generator = np.random.default_rng(seed)
    arguments: dict[str, Any] = {}
    for argument in interface.arguments:
        dtype = DTYPES[argument.dtype]
        if isinstance(argument, ScalarArgument):
            number = _numbers(generator, dtype, ())
            drawn = float(number) if dtype.is_float else int(number)
            arguments[argument.name] = values.get(argument.name, drawn)
        else:
            shape = tuple(_size(interface, argument, size, values) for size in argument.shape)
            arguments[argument.name] = _array(generator, argument, dtype, shape)
    return arguments


def _size(interface: KernelInterface, argument: TensorArgument, size: str | int, values: Mapping[str, float]) -> int:
    if isinstance(size, int):
        return size
    if not isinstance(values, Mapping) or size not in values:
        raise ArgumentError(interface.name, argument.name, f"dimension `{size}` has no value", f"give one: --shape {size}=256")
    extent = values[size]
    if not isinstance(extent, numbers.Integral) or not 0 <= extent <= MAXIMUM_DIMENSION:
        problem = f"dimension `{size}` is {shown(extent)}: it must be a whole number from 0 to {MAXIMUM_DIMENSION}"
        raise ArgumentError(interface.name, argument.name, problem)
    return int(extent)


def _array(generator: np.random.Generator, argument: TensorArgument, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    stored = numpy_dtype(dtype)
    if dtype.is_packed:
        shape = (*shape[:-1], shape[-1] * dtype.bits // 8)
    padded = shape
    if argument.through_tensor_map and len(shape) > 1:
        step = TENSOR_MAP_ALIGNMENT // stored.itemsize
        padded = (*shape[:-1], -(-shape[-1] // step) * step)
    if math.prod(padded) * stored.itemsize >= _ADDRESSABLE:  # otherwise NumPy raises a ValueError
        raise MemoryError
    memory = np.zeros(padded, stored)
    array = memory[..., : shape[-1]] if shape else memory
    if argument.accumulated or not argument.written:
        array[...] = _numbers(generator, dtype, shape)
    return array


def _numbers(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    stored = numpy_dtype(dtype)
    if dtype.family == "bool":
        return generator.integers(0, 2, shape).astype(stored)
    if dtype.is_packed:
        return generator.integers(0, 256, shape, np.uint8)
    if dtype.name in _FACTORS:
        return generator.integers(*_FACTORS[dtype.name], shape, np.uint8, endpoint=True).view(stored)
    if dtype.is_integer:
        return np.asarray(generator.integers(-SMALL if dtype.family == "signed" else 0, SMALL + 1, shape)).astype(stored)
    drawn = np.asarray(generator.standard_normal(shape, np.float32)).astype(stored)
    if dtype.name == "tf32":
        # The MMA unit ignores the low 13 bits of its inputs; numbers without them have the same value everywhere.
        drawn = (drawn.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return drawn
