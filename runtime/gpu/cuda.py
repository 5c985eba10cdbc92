"""Launches on a GPU through the CUDA driver: code loading, tensor maps, copies of host arrays, the driver's call.

Errors name the kernel and, where applicable, the parameter. State shared by threads is created once, under a lock, and never changed;
state written by a launch is owned by that launch (pipec.runtime.gpu.plans).
"""

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from pipec.interface import KernelInterface
from pipec.runtime.arguments import tensor_maps
from pipec.runtime.arguments.binding import Bound
from pipec.runtime.arguments.parameters import STAND_IN_BYTES, PointerValue, RecordsValue, TensorMapValue, Value, values_of
from pipec.runtime.arguments.tensors import tensors
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import DeviceError, LaunchError
from pipec.runtime.gpu import cubins, guards
from pipec.runtime.gpu.cuda_driver import Device, Driver, device, devices, fitting_device, load
from pipec.runtime.gpu.plans import MAP_BYTES, Frame, Frames, Layout, Plan, TensorSlot, may_share, scalar_slots, shared_share
from pipec.runtime.gpu.streams import DEFAULT_STREAM, KNOWN_STREAMS, current_stream_of, stream_handle
from pipec.runtime.gpu.watched import Records

if TYPE_CHECKING:
    from pipec.runtime.image import Image

__all__ = ["CudaKernel", "Device", "devices", "fitting_device"]

PORTABLE_CLUSTER = 8  # CTAs; up to 16 after opting in
LARGEST_CLUSTER = 16


@dataclass(frozen=True, slots=True)
class Copies:
    """Host arrays copied to the device for one launch: the allocations, and the outputs to fetch with their device addresses."""

    views: Mapping[str, View]
    outputs: tuple[tuple[View, int], ...] = ()
    allocations: tuple[int, ...] = ()


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
        self.layout = Layout.of(interface)
        self.function: Any = None  # once loaded
        self._frames = {programmatic: Frames() for programmatic in (False, True)}
        # Reentrant, since creating one shared object may require another: the cluster occupancy requires the loaded kernel.
        self._lock = RLock()  # held while an object shared by all launches is created
        self._clusters: int | None = None  # resident at the same time on the device
        self._dummy: int | None = None
        self._records = None if interface.watchdog is None else Records(self.driver, interface)
        self._streams: set[int] = set(guards.DEFAULT_STREAMS)  # known to belong to this device

    # --- limits --------------------------------

    def check_limits(self) -> None:
        """Rejects what the device cannot hold, before anything is loaded."""
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

    def _loaded(self) -> Any:
        """The loaded kernel, opted in to its shared memory and cluster size."""
        with self._lock:
            if self.function is None:
                with self.driver.uncaptured(self.name):
                    self.function = self._load()
        return self.function

    def _load(self) -> Any:
        code = cubins.machine_code(self.image, self.name)
        # A library is the driver's context-independent module; it lives as long as this process.
        library = self._call("cuLibraryLoadData", code, [], [], 0, [], [], 0, doing="loading the code", help=self._loading_help())
        function = self._call("cuLibraryGetKernel", library, self.name.encode(), doing=f"finding kernel `{self.name}`")
        attributes = self.driver.api.CUfunction_attribute
        handle = self._call("cuDeviceGet", self.device.index, doing="opening the device")
        most = self.device.shared_bytes if may_share(self.interface) else self.interface.shared_bytes
        wanted = [(attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)]
        if np.prod(self.interface.cluster) > PORTABLE_CLUSTER:
            wanted.append((attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
        for attribute, value in wanted:
            self._call("cuKernelSetAttribute", attribute, value, function, handle, doing=f"setting {attribute.name} to {value}")
        return function

    def _loading_help(self) -> str | None:
        if self.image.cubin is not None:
            return None
        return "a driver takes PTX up to its own version: update it, or install nvidia-nvjitlink to load machine code instead"

    # --- clusters --------------------------------

    def resident(self) -> int:
        """The number of CTAs for kernels whose grid follows the GPU: one per multiprocessor, in as many clusters as fit at the same
        time.

        A cluster must fit into one group of multiprocessors (GPC): those left over in a group are not used.
        """
        size = int(np.prod(self.interface.cluster))
        if size == 1:
            return self.device.multiprocessors
        with self._context():
            self._loaded()
            return min(self.device.multiprocessors, self._clusters_that_fit() * size)

    def _clusters_that_fit(self) -> int:
        """Queried once; raises LaunchError if not even one fits. 0 for a kernel without clusters."""
        if self.interface.cluster == (1, 1, 1):
            return 0
        with self._lock:
            if self._clusters is None:
                config, _ = self.configured(False)
                config.gridDimX, config.gridDimY, config.gridDimZ = self.interface.cluster
                # The grid does not affect the result, but a configuration without one is rejected.
                self._clusters = guards.active_clusters(self.driver, self.interface, self.device, self.function, config)
            return self._clusters

    # --- preparing --------------------------------

    def plan(self, bound: Bound, grid: tuple[int, int, int], programmatic: bool, numbers: Sequence[Any] | None = None) -> Plan:
        """A prepared launch for arrays in device memory that differ from these only in their addresses.

        `numbers`: the scalars, if others of the same types may follow. Without them, those of `bound` are fixed.
        """
        with self._context():
            self._loaded()
            guards.check_pointers(self.driver, self.name, bound.views)
            if clusters := self._clusters_that_fit():
                guards.tell_second_wave(self.interface, self.device, grid, clusters)
            values = tuple(values_of(self.interface, bound))
            image = self.layout.image([self._block(value, bound.views) for value in values])
        places = self._places(bound.views)
        maps, pointers = self._address_slots(values, {place.name: place for place in places}, bound.views)
        return Plan(
            grid=grid,
            programmatic=programmatic,
            shared_bytes=shared_share(self.interface, self.device, grid, programmatic),
            image=image,
            maps=maps,
            pointers=pointers,
            scalars=() if numbers is None else scalar_slots(self.interface, self.layout, numbers),
            places=places,
            apart=tuple(self._pairs(places)),
            # Recorded in the plan, not rejected here: whether torch records gradients is checked at each launch.
            differentiable=any(getattr(view.owner, "requires_grad", False) for view in bound.views.values()),
            current_stream=current_stream_of(bound.views, self.device.index),
        )

    def _places(self, views: Mapping[str, View]) -> tuple[TensorSlot, ...]:
        found = ((argument.name, at, views[argument.name]) for at, argument in enumerate(tensors(self.interface)))
        return tuple(
            TensorSlot(name, at, view.extent, view.itemsize, view.shape, view.strides)
            for name, at, view in found
            if not view.empty
        )

    def _address_slots(
        self, values: Sequence[Value], places: Mapping[str, TensorSlot], views: Mapping[str, View]
    ) -> tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]:
        """Where a frame stores addresses: in tensor maps, and plain pointers. Empty tensors keep their dummy."""
        maps, pointers = [], []
        for value, offset in zip(values, self.layout.offsets, strict=True):
            if isinstance(value, TensorMapValue | PointerValue) and value.tensor in places:
                tensor = places[value.tensor].tensor
                if isinstance(value, TensorMapValue):
                    maps.append((tensor, offset, views[value.tensor].address))
                else:
                    pointers.append((tensor, offset // 8))
        return tuple(maps), tuple(pointers)

    def _pairs(self, places: Collection[TensorSlot]) -> Iterator[tuple[int, int, int, int]]:
        """Pairs of each written tensor with every other one, as in `Plan.apart`; two written ones appear once."""
        written = {argument.name for argument in tensors(self.interface) if argument.written}
        for one in places:
            for other in places:
                # Tensors that are only read may overlap.
                if one.name in written and other is not one and (other.name not in written or other.tensor > one.tensor):
                    yield one.tensor, other.tensor, one.extent, other.extent

    def configured(self, programmatic: bool) -> tuple[Any, list[Any]]:
        """A launch configuration without grid and stream, and the objects it refers to."""
        api = self.driver.api
        config = api.CUlaunchConfig()
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
            # Only allows the overlap: the kernel's own griddepcontrol.wait orders its accesses.
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config, attributes

    def _block(self, value: Value, views: Mapping[str, View]) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, RecordsValue):
            assert self._records is not None, "only a kernel with a watchdog has a parameter for its records"
            return self._records.address().to_bytes(8, "little")
        view = views[value.tensor]
        address = self._dummy_address() if view.empty else view.address
        if isinstance(value, PointerValue):
            return address.to_bytes(8, "little")
        return self._tensor_map(value, address)

    def _tensor_map(self, value: TensorMapValue, address: int) -> bytes:
        api = self.driver.api
        encoded = self._call(
            "cuTensorMapEncodeTiled",
            getattr(api.CUtensorMapDataType, tensor_maps.element_type(value.dtype)),
            len(value.dims),
            address,
            [api.cuuint64_t(extent) for extent in value.dims],
            [api.cuuint64_t(stride) for stride in value.strides],
            [api.cuuint32_t(extent) for extent in value.box],
            [api.cuuint32_t(tensor_maps.ELEMENT_STEP) for _ in value.box],
            getattr(api.CUtensorMapInterleave, tensor_maps.INTERLEAVE),
            getattr(api.CUtensorMapSwizzle, tensor_maps.swizzle_mode(value.swizzle)),
            getattr(api.CUtensorMapL2promotion, tensor_maps.PROMOTION),
            getattr(api.CUtensorMapFloatOOBfill, tensor_maps.FILL),
            doing=f"encoding the tensor map of parameter `{value.tensor}` (dims {value.dims}, strides {value.strides} bytes, "
            f"box {value.box}, swizzle {value.swizzle}, address {address:#x})",
        )
        # The bytes, not the object: the map is embedded in the frame's parameters, from where the driver copies it.
        return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)

    # --- memory --------------------------------

    def _on_device(self, bound: Bound) -> Copies:
        """Copies host arrays to device memory including gaps, so that strides are preserved."""
        views, outputs, allocations = {}, [], []
        written = {argument.name for argument in tensors(self.interface) if argument.written}
        try:
            for name, view in bound.views.items():
                views[name] = view
                if view.empty:
                    continue
                doing = f"copying parameter `{name}` ({view.extent} bytes) to {self.device.name}"
                address = int(self._call("cuMemAlloc", view.extent, doing=doing))
                allocations.append(address)
                # Outputs as well: a kernel may leave elements unchanged, and the padding belongs to the caller.
                self._call("cuMemcpyHtoD", address, view.address, view.extent, doing=doing)
                views[name] = replace(view, address=address, device=f"cuda:{self.device.index}")
                if name in written:
                    outputs.append((view, address))
        except LaunchError:
            self._free(allocations)
            raise
        return Copies(views, tuple(outputs), tuple(allocations))

    def _fetch(self, view: View, address: int) -> None:
        """Copies an output back, but only its elements: the gaps of its memory may belong to another array."""
        fetched = np.empty(view.extent, np.uint8)
        self._call("cuMemcpyDtoH", fetched.ctypes.data, address, view.extent, doing="copying an output back")
        element = np.dtype(f"V{view.itemsize}")
        theirs, ours = (
            np.ndarray(view.shape, element, buffer=memory, strides=view.strides) for memory in (view.bytes_in_place(), fetched)
        )
        theirs[...] = ours

    def _free(self, allocations: Sequence[int]) -> None:
        for address in allocations:
            self.driver.api.cuMemFree(address)  # after a fault every call fails; the first error is the relevant one

    def _dummy_address(self) -> int:
        with self._lock:
            if self._dummy is None:
                with self.driver.uncaptured(self.name):
                    # A tensor map rejects null addresses, even for an array without elements, and a box may still be fetched from it.
                    address = int(self._call("cuMemAlloc", STAND_IN_BYTES, doing="allocating a stand-in for an empty array"))
                    self._call("cuMemsetD8", address, 0, STAND_IN_BYTES, doing="clearing the stand-in for an empty array")
                self._dummy = address
            return self._dummy

    # --- launching --------------------------------

    def launch(self, plan: Plan, addresses: Sequence[int], numbers: Sequence[Any], stream: Any) -> None:
        """Launches on `stream` (None: torch's current one for torch tensors, else the default stream).

        `addresses`: those of the kernel's tensors in device memory; `numbers`: its scalars.
        """
        handle = plan.current_stream() if stream is None else self._accepted(stream)
        if self._records is not None:
            with self._context():
                guards.refuse_capture(self.driver, self.name, handle, "a launch with a watchdog waits for the kernel's end")
                self._records.check()
                self._start(plan, addresses, numbers, handle)
                self._wait(plan, addresses, handle)
        elif self.driver.is_current(self.name, self.device.index):
            self._start(plan, addresses, numbers, handle)
        else:
            with self._context():
                self._start(plan, addresses, numbers, handle)

    def launch_copies(self, bound: Bound, grid: tuple[int, int, int], programmatic: bool, stream: Any) -> None:
        """Launches on copies of host arrays, waits, and copies outputs back."""
        # Not torch's stream: host arrays belong to no stream, and the call synchronises.
        handle = DEFAULT_STREAM if stream is None else self._accepted(stream)
        with self._context():
            if handle not in guards.DEFAULT_STREAMS:
                guards.refuse_capture(self.driver, self.name, handle, "arrays in host memory are copied and waited for")
            if self._records is not None:
                self._records.check()
            self._loaded()
            copies = self._on_device(bound)
            try:
                there = replace(bound, views=dict(copies.views), device=f"cuda:{self.device.index}")
                plan = self.plan(there, grid, programmatic)
                addresses = [view.address for view in copies.views.values()]
                self._start(plan, addresses, (), handle)
                self._wait(plan, addresses, handle)
                for view, address in copies.outputs:
                    self._fetch(view, address)
            finally:
                if self._records is None or not self._records.lost:  # otherwise it would wait for the kernel
                    self._free(copies.allocations)

    def _wait(self, plan: Plan, addresses: Sequence[int], handle: int) -> None:
        """Waits for the kernel's end; raises HangError if its watchdog reported a hang."""
        located = ((place, addresses[place.tensor]) for place in plan.places)
        places = ", ".join(f"`{place.name}` {address:#x} to {address + place.extent:#x}" for place, address in located)
        doing = f"running it (with {places})"
        if self._records is None:
            self._call("cuStreamSynchronize", handle, doing=doing)
        else:
            self._records.wait(handle, doing)

    def _accepted(self, stream: Any) -> int:
        """The handle of a stream given by the caller, which must belong to this device."""
        handle = stream_handle(stream)
        if handle not in self._streams and guards.check_stream(self.driver, self.name, self.device, handle):
            if len(self._streams) > KNOWN_STREAMS:
                # Cleared completely: the driver reuses handles, so their age says nothing.
                self._streams = set(guards.DEFAULT_STREAMS)
            self._streams.add(handle)
        return handle

    def _frame(self, programmatic: bool) -> Frame:
        return Frame(self.driver, self.interface, self.layout, *self.configured(programmatic))

    def _start(self, plan: Plan, addresses: Sequence[int], numbers: Sequence[Any], handle: int) -> None:
        free = self._frames[plan.programmatic].free
        frame = free.pop() if free else self._frame(plan.programmatic)
        frame.fill(plan, addresses, numbers)
        if handle != frame.stream:
            frame.config.hStream = frame.stream = handle
        # Bypasses `_call`, whose overhead is as large as that of the driver.
        (status,) = self.driver.api.cuLaunchKernelEx(frame.config, self.function, frame.pointers, 0)
        if status:
            self.driver.refuse(status, "cuLaunchKernelEx", self.name, "launching it")
        # Not in a `finally`: a frame whose call was interrupted may be half filled, and a new one is cheap.
        free.append(frame)

    def _call(self, function: str, *arguments: Any, doing: str, help: str | None = None) -> Any:
        return self.driver.call(function, *arguments, kernel=self.name, doing=doing, help=help)

    def _context(self) -> AbstractContextManager[None]:
        return self.driver.context(self.name, self.device.index)
