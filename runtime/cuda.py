"""Launches on a GPU through the CUDA driver: code loading, tensor maps, parameter buffers, copies of host arrays.

Errors name the kernel and, where one is to blame, the parameter. A prepared launch is one buffer of parameter bytes
and one launch configuration, so that repeating it is a single driver call.
"""

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipec.interface import KernelInterface
from pipec.runtime import cubins, guards
from pipec.runtime.arguments import Bound, tensors
from pipec.runtime.cuda_driver import Device, Driver, device, devices, fitting_device, load
from pipec.runtime.errors import DeviceError, LaunchError
from pipec.runtime.hangs import hang
from pipec.runtime.parameters import PointerValue, RecordsValue, TensorMapValue, values_of
from pipec.runtime.views import View
from pipec.watchdog import BYTES

if TYPE_CHECKING:
    from pipec.runtime.launcher import Image

__all__ = ["CudaKernel", "Device", "devices", "fitting_device"]

REMEMBERED = 256  # tensor maps kept per kernel and device
PORTABLE_CLUSTER = 8  # CTAs; up to 16 after opting in
LARGEST_CLUSTER = 16
_DUMMY_BYTES = 256  # stands for a tensor without elements

# Our names of tensor-map element types and swizzles -> the driver's (CUDA driver API, CUtensorMapDataType).
_MAP_DTYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64",
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "tf32": "TFLOAT32",
    "b4x16": "16U4_ALIGN8B", "b4x16_p64": "16U4_ALIGN16B", "b6x16_p32": "16U6_ALIGN16B",
}  # fmt: skip


@dataclass(slots=True)
class Prepared:
    """A launch that only needs its stream; `current_stream` gives it when the caller names none.

    `views`: the tensors in device memory; `copies`: host outputs to fetch afterwards, with their device addresses.
    """

    config: Any
    start: Callable[[], tuple[Any]]  # the driver's call, with all its arguments
    stream: int  # what `config` holds
    current_stream: Callable[[], int]
    views: Mapping[str, View]
    copies: tuple[tuple[View, int], ...]
    allocations: tuple[int, ...]
    keep_alive: tuple[Any, ...] = field(repr=False)


class CudaKernel:
    """A kernel loaded for one device."""

    def __init__(self, interface: KernelInterface, image: "Image", index: int) -> None:
        self.interface = interface
        self.name = interface.name
        self.device = device(index)
        if not self.device.runs(image.arch):
            raise DeviceError(
                f"kernel `{self.name}` is compiled for {image.arch}, but cuda:{index} ({self.device.name}) is {self.device.arch}",
                f"compile it with arch='{self.device.arch}a', or use device='sim' with host arrays",
            )
        self.driver: Driver = load()
        self.image = image
        self._maps: OrderedDict[tuple, bytes] = OrderedDict()
        self._function: Any = None
        self._dummy: int | None = None
        self._records: int | None = None
        self._streams: set[int] = set(guards.DEFAULT_STREAMS)  # that belong to this device

    # --- limits --------------------------------

    def check_limits(self) -> None:
        """Refuses what the device cannot hold, before anything is loaded."""
        interface, limits = self.interface, self.device
        x, y, z = interface.cluster
        for what, wanted, limit in (
            ("bytes of shared memory per CTA", interface.shared_bytes, limits.shared_bytes),
            ("threads per CTA", interface.threads, limits.max_threads),
            ("CTAs per cluster", x * y * z, LARGEST_CLUSTER),
        ):
            if wanted > limit:
                raise LaunchError(self.name, f"it needs {wanted} {what}, but {limits.name} allows {limit}")

    # --- code --------------------------------

    def function(self) -> Any:
        """The loaded kernel, with its shared memory and cluster size opted in to."""
        if self._function is None:
            with self.driver.uncaptured(self.name):
                self._function = self._load()
        return self._function

    def _load(self) -> Any:
        code = cubins.machine_code(self.image, self.name)
        # The library is the driver's context-independent module; it lives as long as this process.
        library = self._call("cuLibraryLoadData", code, [], [], 0, [], [], 0, doing="loading the code", help=self._loading_help())
        function = self._call("cuLibraryGetKernel", library, self.name.encode(), doing=f"finding kernel `{self.name}`")
        attributes = self.driver.api.CUfunction_attribute
        handle = self._call("cuDeviceGet", self.device.index, doing="opening the device")
        wanted = [(attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, self.interface.shared_bytes)]
        if np.prod(self.interface.cluster) > PORTABLE_CLUSTER:
            wanted.append((attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
        for attribute, value in wanted:
            self._call("cuKernelSetAttribute", attribute, value, function, handle, doing=f"setting {attribute.name} to {value}")
        return function

    def _loading_help(self) -> str | None:
        if self.image.cubin is not None:
            return None
        return "a driver takes PTX up to its own version: update it, or install nvidia-nvjitlink to load machine code instead"

    # --- preparing --------------------------------

    def prepare(self, bound: Bound, grid: tuple[int, int, int], programmatic: bool) -> Prepared:
        """Everything of a launch but the stream. Host arrays are copied to the device here."""
        with self._context():
            function = self.function()
            guards.check_pointers(self.driver, self.name, bound.views)
            config, attributes = self._config(grid, programmatic)
            guards.check_cluster(self.driver, self.interface, self.device, function, config)
            views, copies, allocations = self._on_device(bound)
            blocks = [
                value if isinstance(value, bytes) else self._device_value(value, views)
                for value in values_of(self.interface, replace(bound, views=views))
            ]
        buffer, pointers = _parameter_buffer(blocks)
        keep = (buffer, pointers, attributes, function)
        current = _current_stream_of(bound.views, self.device.index)
        start = partial(self.driver.api.cuLaunchKernelEx, config, function, ctypes.addressof(pointers), 0)
        return Prepared(config, start, 0, current, views, copies, allocations, keep)

    def _config(self, grid: tuple[int, int, int], programmatic: bool) -> tuple[Any, list[Any]]:
        api = self.driver.api
        config = api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = self.interface.threads, 1, 1
        config.sharedMemBytes = self.interface.shared_bytes
        attributes = []
        if self.interface.cluster != (1, 1, 1):
            attribute = api.CUlaunchAttribute()
            attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = attribute.value.clusterDim
            size.x, size.y, size.z = self.interface.cluster
            attributes.append(attribute)
        if programmatic:
            attribute = api.CUlaunchAttribute()
            attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config, attributes

    def _device_value(self, value: TensorMapValue | PointerValue | RecordsValue, views: Mapping[str, View]) -> bytes:
        if isinstance(value, RecordsValue):
            return self._records_address().to_bytes(8, "little")
        view = views[value.tensor]
        address = self._dummy_address() if view.empty else view.address
        if isinstance(value, PointerValue):
            return address.to_bytes(8, "little")
        return self._tensor_map(value, address)

    def _tensor_map(self, value: TensorMapValue, address: int) -> bytes:
        key = (value, address)
        if key in self._maps:
            self._maps.move_to_end(key)
            return self._maps[key]
        api = self.driver.api
        encoded = self._call(
            "cuTensorMapEncodeTiled",
            getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_DTYPES[value.dtype]}"),
            len(value.dims),
            address,
            [api.cuuint64_t(extent) for extent in value.dims],
            [api.cuuint64_t(stride) for stride in value.strides],
            [api.cuuint32_t(extent) for extent in value.box],
            [api.cuuint32_t(1) for _ in value.box],
            api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{value.swizzle.upper()}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            doing=f"encoding the tensor map of parameter `{value.tensor}` (dims {value.dims}, strides {value.strides} bytes, "
            f"box {value.box}, swizzle {value.swizzle}, address {address:#x})",
        )
        self._maps[key] = ctypes.string_at(int(encoded.getPtr()), 128)
        if len(self._maps) > REMEMBERED:
            self._maps.popitem(last=False)
        return self._maps[key]

    # --- memory --------------------------------

    def _on_device(self, bound: Bound) -> tuple[dict[str, View], tuple[tuple[View, int], ...], tuple[int, ...]]:
        """The views in device memory: host arrays are copied with their gaps, so that strides stay what they are."""
        if bound.device != "cpu":
            return dict(bound.views), (), ()
        views, copies, allocations = {}, [], []
        written = {argument.name for argument in tensors(self.interface) if argument.written}
        try:
            for name, view in bound.views.items():
                views[name] = view
                if view.empty:
                    continue
                doing = f"copying parameter `{name}` ({view.extent} bytes) to {self.device.name}"
                address = int(self._call("cuMemAlloc", view.extent, doing=doing))
                allocations.append(address)
                self._call("cuMemcpyHtoD", address, view.address, view.extent, doing=doing)
                views[name] = replace(view, address=address, device=f"cuda:{self.device.index}")
                if name in written:
                    copies.append((view, address))
        except LaunchError:
            self._free(allocations)
            raise
        return views, tuple(copies), tuple(allocations)

    def _fetch(self, view: View, address: int) -> None:
        """Copies an output back, its elements only: the gaps of its memory may belong to another array."""
        fetched = np.empty(view.extent, np.uint8)
        self._call("cuMemcpyDtoH", fetched.ctypes.data, address, view.extent, doing="copying an output back")
        element = np.dtype(f"V{view.itemsize}")
        theirs, ours = (
            np.ndarray(view.shape, element, buffer=memory, strides=view.strides) for memory in (view.bytes_in_place(), fetched)
        )
        theirs[...] = ours

    def _free(self, allocations: Sequence[int]) -> None:
        for address in allocations:
            self.driver.api.cuMemFree(address)  # after a fault every call fails; the first error is the one to tell

    def _dummy_address(self) -> int:
        if self._dummy is None:
            with self.driver.uncaptured(self.name):
                address = int(self._call("cuMemAlloc", _DUMMY_BYTES, doing="allocating a stand-in for an empty array"))
                self._call("cuMemsetD8", address, 0, _DUMMY_BYTES, doing="clearing the stand-in for an empty array")
            self._dummy = address
        return self._dummy

    # --- watchdog --------------------------------

    def _records_address(self) -> int:
        """The device's address of the records, which stand in host memory: they can be read when the context is lost."""
        flags = self.driver.api.CU_MEMHOSTALLOC_DEVICEMAP | self.driver.api.CU_MEMHOSTALLOC_PORTABLE
        doing = "allocating the watchdog's records in host memory"
        if self._records is None:
            with self.driver.uncaptured(self.name):
                self._records = int(self._call("cuMemHostAlloc", BYTES, flags, doing=doing))
            ctypes.memset(self._records, 0, BYTES)
        return int(self._call("cuMemHostGetDevicePointer", self._records, 0, doing=doing))

    def _watch(self, prepared: Prepared) -> None:
        """Waits for the kernel's end; raises HangError with what the watchdog wrote, if it did."""
        places = ", ".join(
            f"`{name}` {view.address:#x} to {view.address + view.extent:#x}" for name, view in prepared.views.items()
        )
        try:
            self._call("cuStreamSynchronize", prepared.stream, doing=f"running it (with {places})")
        except LaunchError:
            written = ctypes.string_at(self._records, BYTES) if self._records is not None else b""
            if (found := hang(self.interface, written, lost=True)) is not None:
                raise found from None
            raise

    # --- launching --------------------------------

    def launch(self, prepared: Prepared, stream: Any) -> None:
        """Launches on `stream` (None: torch's current one for torch tensors, else the default stream)."""
        handle = prepared.current_stream() if stream is None else stream_handle(stream)
        if handle != prepared.stream:
            self._use_stream(prepared, handle)
        if prepared.allocations:
            self._launch_and_fetch(prepared)
        elif self._records is not None:
            with self._context():
                guards.refuse_capture(self.driver, self.name, handle, "a launch with a watchdog waits for the kernel's end")
                self._start(prepared)
                self._watch(prepared)
        elif self.driver.is_current(self.name, self.device.index):
            self._start(prepared)
        else:
            with self._context():
                self._start(prepared)

    def _use_stream(self, prepared: Prepared, handle: int) -> None:
        if handle not in self._streams and guards.check_stream(self.driver, self.name, self.device, handle):
            self._streams.add(handle)
        prepared.config.hStream = prepared.stream = handle

    def refuse_capture(self, stream: Any) -> None:
        """Raises LaunchError for host arrays on a stream that is being captured."""
        if stream is not None and (handle := stream_handle(stream)) not in guards.DEFAULT_STREAMS:
            why = "arrays in host memory are copied and waited for"
            with self._context():
                guards.refuse_capture(self.driver, self.name, handle, why)

    def _start(self, prepared: Prepared) -> None:
        # The one call of a repeated launch: without the layers of `_call`, which cost as much as the driver itself.
        (status,) = prepared.start()
        if status:
            self.driver.refuse(status, "cuLaunchKernelEx", self.name, "launching it")

    def _launch_and_fetch(self, prepared: Prepared) -> None:
        with self._context():
            try:
                self._start(prepared)
                self._watch(prepared)
                for view, address in prepared.copies:
                    self._fetch(view, address)
            finally:
                self._free(prepared.allocations)

    def _call(self, function: str, *arguments: Any, doing: str, help: str | None = None) -> Any:
        return self.driver.call(function, *arguments, kernel=self.name, doing=doing, help=help)

    def _context(self) -> AbstractContextManager[None]:
        return self.driver.context(self.name, self.device.index)


def _parameter_buffer(blocks: Sequence[bytes]) -> tuple[Any, Any]:
    """One buffer with every parameter's bytes, each at a multiple of 64, and the array of pointers to them."""
    offsets, size = [], 0
    for block in blocks:
        offsets.append(size)
        size += -(-len(block) // 64) * 64
    buffer = ctypes.create_string_buffer(max(size, 1))
    base = ctypes.addressof(buffer)
    for offset, block in zip(offsets, blocks, strict=True):
        ctypes.memmove(base + offset, block, len(block))
    return buffer, (ctypes.c_void_p * max(len(blocks), 1))(*(base + offset for offset in offsets))


def stream_handle(stream: Any) -> int:
    """The driver's handle of a stream: an int, torch (`cuda_stream`), CuPy (`ptr`), cuda.core (`__cuda_stream__`, `handle`)."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if (handle := getattr(stream, attribute, None)) is not None:
            return int(handle)
    raise DeviceError(f"`{type(stream).__name__}` is not a stream", "pass a torch, CuPy or cuda.core stream, or its handle")


def _default_stream() -> int:
    return 0


def _current_stream_of(views: Mapping[str, View], index: int) -> Callable[[], int]:
    """What gives the stream that the arrays' library works on: torch's current one, else the default stream."""
    for view in views.values():
        if type(view.owner).__module__.partition(".")[0] == "torch" and getattr(view.owner, "is_cuda", False):
            import torch

            raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch.compile and Triton use: no Stream object is made
            return (lambda: int(torch.cuda.current_stream(index).cuda_stream)) if raw is None else partial(raw, index)
    return _default_stream
