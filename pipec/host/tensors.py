"""Tensor-like objects for programs of other compilers, in host memory."""

import ctypes
from typing import Any, Self

import numpy as np

from pipec.sim.arguments import byte_span

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Tensor(np.ndarray[Any, Any]):
    """A NumPy array with the tensor attributes that Triton uses, under torch's names; strides are in elements there."""

    device = "cpu"
    allocation: tuple[int, int] | None = None  # address and size of the allocation by `tensor`, for views of it

    def __array_finalize__(self, source: Any) -> None:
        self.allocation = getattr(source, "allocation", None)

    def data_ptr(self) -> int:
        return int(self.ctypes.data)

    def stride(self, dimension: int | None = None) -> Any:
        strides = tuple(stride // self.itemsize for stride in self.strides)
        return strides if dimension is None else strides[dimension]

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return self.itemsize

    def is_contiguous(self) -> bool:
        return bool(self.flags.c_contiguous)

    def clone(self) -> "Tensor":
        return tensor(self)

    def copy_(self, other: Any) -> Self:
        self[...] = other
        return self

    def zero_(self) -> Self:
        return self.copy_(0)


# As cudaMalloc's: kernels are specialised to 16 bytes, tensor maps require 16 or 32, and programs count on more for their workspaces.
_ALIGNMENT = 256


def aligned_bytes(size: int) -> Bytes:
    """Fresh memory with the alignment of a GPU allocator."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size]


def is_aligned(address: int) -> bool:
    return address % _ALIGNMENT == 0


def tensor(array: Any) -> Tensor:
    """A copy of the array in memory with the alignment of a GPU allocator. Anything beyond it is out of bounds."""
    source = np.asarray(array)
    made = aligned_bytes(source.nbytes).view(source.dtype).reshape(source.shape).view(Tensor)
    made.allocation = (made.ctypes.data, source.nbytes)
    made[...] = source
    return made


def memory_of(value: Any) -> Bytes:
    """The bytes of the allocation that contains a tensor, wherever in it the tensor starts. Raises TypeError."""
    if isinstance(value, np.ndarray):
        low, high = byte_span(value)
        first, size = getattr(value, "allocation", None) or (low, high - low)
        whole = first <= low and high <= first + size
        return _bytes(first, size, value.flags.writeable) if whole else _bytes(low, high - low, value.flags.writeable)
    storage = getattr(value, "untyped_storage", None)
    if storage is None and hasattr(value, "base"):  # triton.reinterpret: another type for the same memory
        return memory_of(value.base)
    if storage is None:
        raise TypeError(f"{type(value).__name__} is no tensor whose memory can be found: pass pipec.triton.tensor(array)")
    memory = storage()
    if str(memory.device) != "cpu":  # the tensor itself claims to be on a GPU
        raise TypeError(f"a tensor on {memory.device}: the simulator works on memory of the host, so pass it from the CPU")
    return _bytes(memory.data_ptr(), memory.nbytes(), True)


def _bytes(address: int, size: int, writeable: bool) -> Bytes:
    memory = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
    memory.flags.writeable = writeable
    return memory
