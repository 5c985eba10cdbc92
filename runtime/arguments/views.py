"""The runtime's view of an array from any library: NumPy, torch, DLPack or __cuda_array_interface__.

Nothing is copied and no other library is imported: a view holds the address, the extents and the owner of the memory.
"""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipec.runtime.arguments import dlpack
from pipec.runtime.errors import DeviceError

HOST = "cpu"


class NotAnArray(Exception):
    """The object is not a supported kind of array; the text says why."""


@dataclass(frozen=True, slots=True)
class View:
    """An array in memory. Strides in bytes, outermost first; `dtype` a NumPy or ml_dtypes name; `device` "cpu" or "cuda:N"."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    readonly: bool
    device: str
    owner: Any = field(compare=False, hash=False, repr=False)  # keeps the memory alive

    @property
    def on_host(self) -> bool:
        return self.device == HOST

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def extent(self) -> int:
        """Bytes from the first to the end of the last element, for non-negative strides; 0 if empty."""
        if self.empty:
            return 0
        return sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)) + self.itemsize

    def bytes_in_place(self) -> np.ndarray:
        """The memory of a host array from its first to its last byte, as a flat uint8 array that shares it."""
        if self.empty:
            return np.zeros(0, np.uint8)
        buffer = (ctypes.c_ubyte * self.extent).from_address(self.address)
        flat = np.frombuffer(memoryview(buffer), np.uint8)
        flat.flags.writeable = not self.readonly
        return flat


def view_of(array: object) -> View:
    """The view of any array that the runtime takes; raises NotAnArray."""
    # Before the protocols, which NumPy and torch support too: native attributes say more (masks, gradients) and are faster to read.
    if isinstance(array, np.ndarray):
        return _numpy(array)
    if is_torch(type(array)):
        return _torch(array)
    kind = type(array).__name__
    try:
        view = _by_protocol(array)
    except NotAnArray:
        raise
    except Exception as error:  # noqa: BLE001 - the code of somebody else's class
        raise NotAnArray(f"`{kind}` does not describe its memory: {type(error).__name__}: {error}") from None
    if view is None:
        raise NotAnArray(f"`{kind}` is not an array")
    return view


def _by_protocol(array: Any) -> View | None:
    # The CUDA interface first: it states that the memory is on a GPU, and needs no capsule to be released.
    for attribute, read in _PROTOCOLS:
        if getattr(array, attribute, None) is not None:
            view = read(array)
            _check_described(view)
            return view
    return None


def _check_described(view: View) -> None:
    """A protocol may return invalid values."""
    whole = all(isinstance(number, int) for number in (view.address, *view.shape, *view.strides))
    if not whole or len(view.shape) != len(view.strides):
        raise NotAnArray(f"its address {view.address!r}, shape {view.shape!r} and strides {view.strides!r} are no array's")
    # Python integers are unbounded; ctypes would silently truncate them.
    if min(view.shape, default=0) < 0 or not 0 <= view.address < 2**64 or max(map(abs, view.strides), default=0) >= 2**63:
        raise NotAnArray(f"address {view.address}, shape {view.shape} and strides {view.strides} lie outside of any memory")


def is_torch(kind: type) -> bool:
    """Whether values of this type are torch tensors; decided without importing torch."""
    return hasattr(kind, "data_ptr") and any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)


def is_recorded(array: object) -> bool:
    """Whether torch would record gradients for operations on the array."""
    if not (is_torch(type(array)) and getattr(array, "requires_grad", False)):
        return False
    return recording()


def recording() -> bool:
    """Whether torch currently records gradients in this thread."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.is_grad_enabled())


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a contiguous array, last dimension fastest."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _numpy(array: np.ndarray) -> View:
    if hasattr(array, "mask"):
        raise NotAnArray("a masked array, and a kernel would not see the mask; pass `.filled(value)` or `.data`")
    return View(
        array.ctypes.data,
        array.shape,
        array.strides,
        array.dtype.name if array.dtype.isnative else array.dtype.str,
        array.itemsize,
        not array.flags.writeable,
        HOST,
        array,
    )


def _torch(tensor: Any) -> View:
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise NotAnArray(f"a torch tensor on device `{tensor.device}` is neither in host nor in CUDA memory")
    if str(tensor.layout) != "torch.strided":
        raise NotAnArray(f"a torch tensor of layout `{tensor.layout}` is not strided")
    # The sign is a flag of the tensor, not part of its bytes.
    if tensor.is_conj() or tensor.is_neg():
        raise NotAnArray("a torch tensor with a pending conjugation or negation; call `.resolve_neg()`")
    itemsize = tensor.element_size()
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:  # a wrapper around other tensors
        raise NotAnArray(f"a torch tensor without memory of its own (`{type(tensor).__name__}`): {error}") from None
    return View(
        address,
        tuple(tensor.shape),
        tuple(step * itemsize for step in tensor.stride()),
        str(tensor.dtype).removeprefix("torch."),
        itemsize,
        False,
        HOST if kind == "cpu" else f"cuda:{tensor.device.index or 0}",
        tensor,
    )


def _cuda_array_interface(array: Any) -> View:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3."""
    interface = array.__cuda_array_interface__
    if not isinstance(interface, dict):
        raise NotAnArray(f"`{type(array).__name__}` gives a {type(interface).__name__} for what should be a dictionary")
    if interface.get("mask") is not None:
        raise NotAnArray("a masked array")
    address, readonly = interface["data"]
    shape = tuple(interface["shape"])
    dtype, itemsize = _type_string(interface["typestr"], array)
    strides = interface.get("strides")
    return View(
        address,
        shape,
        contiguous_strides(shape, itemsize) if strides is None else tuple(strides),
        dtype,
        itemsize,
        bool(readonly),
        f"cuda:{_cuda_index(array, address)}",
        array,
    )


def _type_string(text: str, array: Any) -> tuple[str, int]:
    # bfloat16 and float8 have no type string: their producers write "<V2" or "|V1" and keep the name in `.dtype`.
    dtype = np.dtype(text)
    if dtype.kind != "V":
        return (dtype.name if dtype.isnative else text), dtype.itemsize
    named = getattr(array, "dtype", None)
    return str(getattr(named, "name", named)), dtype.itemsize


def _cuda_index(array: Any, address: int) -> int:
    """The protocol does not include the device: the array's own attribute does, otherwise the driver knows the owner of the memory."""
    device = getattr(array, "device", None)
    index = getattr(device, "id", getattr(device, "index", None))
    if isinstance(index, int):
        return index
    from pipec.runtime.gpu import cuda_driver

    try:
        return cuda_driver.load().owner_of(address) or 0
    except DeviceError:
        return 0


def _dlpack(array: Any) -> View:
    try:
        tensor = dlpack.read(array)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise NotAnArray(f"`{type(array).__name__}` does not export its memory through DLPack: {error}") from None
    shape = tensor.shape
    itemsize = tensor.itemsize
    strides = contiguous_strides(shape, itemsize) if tensor.strides is None else tuple(s * itemsize for s in tensor.strides)
    device = HOST if tensor.on_host else f"cuda:{tensor.device_index}"
    return View(tensor.address, shape, strides, tensor.dtype, itemsize, tensor.readonly, device, tensor.owner)


_PROTOCOLS: tuple[tuple[str, Callable[[Any], View]], ...] = (
    ("__cuda_array_interface__", _cuda_array_interface),
    ("__dlpack__", _dlpack),
)
