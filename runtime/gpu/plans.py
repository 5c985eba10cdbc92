"""A launch prepared once per signature (pipec.runtime.arguments.signatures), and the per-call state to start it.

A `Plan` is immutable and shared by all threads. A `Frame` is the memory from which the driver reads a launch, owned by one call at a
time: taken from the thread's own pool and returned after the driver's call, which copies all parameters.
"""

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipec.interface import KernelInterface, PointerParameter, ScalarArgument, ScalarParameter, TensorMapParameter
from pipec.isa.dtypes import DTYPES
from pipec.runtime.arguments.overlap import Elements, share_memory
from pipec.runtime.arguments.scalars import scalar_bytes
from pipec.runtime.gpu.cuda_driver import Device, Driver
from pipec.runtime.gpu.streams import DEFAULT_STREAM

_STEP = 64  # bytes: alignment of each parameter, which a tensor map requires (CUDA driver API, CUtensorMap)
_WORD = 8
MAP_BYTES = 128

Pack = Callable[[Any, int, Any], None]  # stores a scalar into a buffer at an offset


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """A non-empty tensor: its name, its index among the kernel's tensors, and its layout (strides in bytes)."""

    name: str
    tensor: int
    extent: int  # bytes from the first to the end of the last element
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything of a launch except addresses, scalars and the stream.

    `shared_bytes`: dynamic shared memory of a CTA (`shared_share`). `image`: the parameters' bytes. `maps`: for each tensor map the
    tensor, its offset in bytes, and the address it was encoded with. `pointers`: tensor and offset in 8-byte words. `scalars`: index
    among the scalars, offset in bytes, and a packing function, which raises struct.error or OverflowError for values out of range.
    """

    grid: tuple[int, int, int]
    programmatic: bool
    shared_bytes: int
    image: bytes
    maps: tuple[tuple[int, int, int], ...]
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int, Pack], ...]
    places: tuple[TensorSlot, ...]
    apart: tuple[tuple[int, int, int, int], ...]  # indices of a written tensor and of another one, and their extents
    differentiable: bool  # a tensor requires a gradient
    current_stream: Callable[[], int]

    def separate(self, addresses: Sequence[int]) -> bool:
        """Whether no written tensor shares memory with another one."""
        for one, other, extent, reach in self.apart:
            # Extents first: almost all tensors are disjoint as a whole, and comparing strided elements is slow.
            begin, start = addresses[one], addresses[other]
            if (
                begin < start + reach
                and start < begin + extent
                and share_memory(self._located(one, begin), self._located(other, start))
            ):
                return False
        return True

    def _located(self, tensor: int, address: int) -> Elements:
        place = next(place for place in self.places if place.tensor == tensor)
        return Elements(address, place.shape, place.strides, place.itemsize)


class Frame:
    """The driver's structures for launches of one kernel, filled for one plan at a time."""

    __slots__ = (
        "_attributes", "_begin", "_driver", "_interface", "_memory", "_parameters", "_replace_address", "buffer", "config", "maps", "plan",
        "pointers", "stream", "words",
    )  # fmt: skip

    def __init__(self, driver: Driver, interface: KernelInterface, layout: "Layout", config: Any, attributes: list[Any]) -> None:
        """`config`: a CUlaunchConfig without grid and stream; `attributes` keeps the objects it refers to alive."""
        size = layout.size
        # ctypes guarantees no alignment, so one step more is allocated than used.
        self._memory = ctypes.create_string_buffer(size + _STEP)
        begin = -(-ctypes.addressof(self._memory) // _STEP) * _STEP
        self.buffer = (ctypes.c_char * size).from_address(begin)
        self.words = (ctypes.c_uint64 * (size // _WORD)).from_address(begin)
        offsets = layout.offsets
        self._begin = begin
        self._parameters = (ctypes.c_void_p * max(len(offsets), 1))(*(begin + offset for offset in offsets))
        self.pointers = ctypes.addressof(self._parameters)
        self.config = config
        self._attributes = attributes
        self._driver, self._interface = driver, interface
        self.stream = DEFAULT_STREAM  # the one in `config`
        self.plan: Plan | None = None
        self._replace_address = driver.replace_address
        # The tensor maps of the plan: tensor, current address, location.
        self.maps: list[list[int]] = []

    def load(self, plan: Plan) -> None:
        """Fills the frame for launches of `plan`."""
        ctypes.memmove(self.buffer, plan.image, len(plan.image))
        self.maps = [[tensor, address, self._begin + offset] for tensor, offset, address in plan.maps]
        self.config.gridDimX, self.config.gridDimY, self.config.gridDimZ = plan.grid
        self.config.sharedMemBytes = plan.shared_bytes
        self.plan = plan

    def fill(self, plan: Plan, addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        """Stores the parameters of one call."""
        # The frame used last is taken first, so a loop over one launch finds its plan loaded.
        if self.plan is not plan:
            self.load(plan)
        words = self.words
        for tensor, word in plan.pointers:
            words[word] = addresses[tensor]
        for slot in self.maps:
            # Calls usually repeat the same tensors: comparing with the map's current address saves a driver call.
            if (address := addresses[slot[0]]) != slot[1]:
                if status := self._replace_address(slot[2], address):
                    self._driver.refuse_address(status, self._interface.name, address)
                slot[1] = address
        if plan.scalars:
            self._fill_scalars(plan, numbers)

    def _fill_scalars(self, plan: Plan, numbers: Sequence[Any]) -> None:
        for at, offset, pack in plan.scalars:
            try:
                pack(self.buffer, offset, numbers[at])
            except (struct.error, OverflowError):
                scalars = [argument for argument in self._interface.arguments if isinstance(argument, ScalarArgument)]
                # `struct` detects a value out of range, but without the argument's name. This raises with it, or converts what `struct`
                # does not accept.
                block = scalar_bytes(self._interface.name, scalars[at], numbers[at])  # the error says why it does not fit
                ctypes.memmove(self._begin + offset, block, len(block))


class Frames(threading.local):
    """The idle frames of one thread; more than one only if a launch interrupts another."""

    def __init__(self) -> None:
        self.free: list[Frame] = []


@dataclass(frozen=True, slots=True)
class Layout:
    """The offset of each parameter in a frame, in bytes."""

    offsets: tuple[int, ...]
    size: int

    @staticmethod
    def of(interface: KernelInterface) -> "Layout":
        offsets, size = [], 0
        for parameter in interface.parameters:
            offsets.append(size)
            size += MAP_BYTES if isinstance(parameter, TensorMapParameter) else _STEP
        return Layout(tuple(offsets), max(size, _STEP))

    def image(self, blocks: Sequence[bytes]) -> bytes:
        """Assembles the parameters' bytes, each at its offset."""
        whole = bytearray(self.size)
        for offset, block in zip(self.offsets, blocks, strict=True):
            whole[offset : offset + len(block)] = block
        return bytes(whole)


# --- shared memory --------------------------------

SHARED_GRANULE = 128  # bytes by which shared memory is allocated


def may_share(interface: KernelInterface) -> bool:
    """Whether CTAs of the kernel can be given more shared memory than they use (`shared_share`). What threads read through pointers is
    cached in the memory that is left, and which CTAs of a cluster fit a group of multiprocessors is the driver's affair."""
    return interface.cluster == (1, 1, 1) and not any(isinstance(row, PointerParameter) for row in interface.parameters)


def shared_share(interface: KernelInterface, device: Device, grid: tuple[int, int, int], programmatic: bool) -> int:
    """The dynamic shared memory, in bytes, with which a launch takes its CTAs.

    It is more than they use where several of them are meant to stay on each multiprocessor and the launch may overlap the one in front of
    it. Such a launch starts CTAs wherever there is room: three or four of them where the one in front has ended, none where it has not. On
    an H200 that makes a copy with two CTAs to a multiprocessor 10 to 20 % slower. Their share leaves room for no more than there should be.
    """
    used = interface.shared_bytes
    each = -(-grid[0] * grid[1] * grid[2] // device.multiprocessors)
    if not programmatic or each < 2 or not may_share(interface):
        return used
    share = device.shared_of_all // each - device.shared_reserved
    return max(used, min(share - share % SHARED_GRANULE, device.shared_bytes))


# --- scalars --------------------------------

# Element types that `struct` encodes like NumPy; it rejects values out of range.
_FORMATS = {
    "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip


def scalar_slots(interface: KernelInterface, layout: Layout, numbers: Sequence[Any]) -> tuple[tuple[int, int, Pack], ...]:
    """The position and packing of each scalar, for scalars of these types."""
    found = []
    scalars = [argument for argument in interface.arguments if isinstance(argument, ScalarArgument)]
    names = [argument.name for argument in scalars]
    for parameter, offset in zip(interface.parameters, layout.offsets, strict=True):
        if isinstance(parameter, ScalarParameter):
            at = names.index(parameter.scalar)
            found.append((at, offset, _pack(interface.name, scalars[at], type(numbers[at]))))
    return tuple(found)


def _pack(kernel: str, argument: ScalarArgument, kind: type) -> Pack:
    dtype = DTYPES[argument.dtype]
    # Types with subtypes (bool is an int, numpy.float64 a float) take the slow path, which distinguishes them.
    if dtype.name in _FORMATS and (kind is int or (kind is float and dtype.is_float)):
        return struct.Struct("<" + _FORMATS[dtype.name]).pack_into

    def pack(buffer: Any, offset: int, value: Any) -> None:
        block = scalar_bytes(kernel, argument, value)
        ctypes.memmove(ctypes.addressof(buffer) + offset, block, len(block))

    return pack
