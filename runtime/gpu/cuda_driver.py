"""The CUDA driver API through cuda.bindings: loading it, its errors as exceptions, and its devices.

Can be imported without a GPU or driver; `load` then raises a DeviceError that says what is missing.
"""

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NoReturn

from pipec.runtime.errors import DeviceError, LaunchError

_USE_SIMULATOR = "use device='sim'"
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

# Results of a faulting kernel, whichever call reports them, and their meaning.
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel touched memory outside of every allocation, or memory that was freed",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel touched an address that is no multiple of what the access needs",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel ended in an illegal instruction, or reached memory that an instruction must not",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a kernel used an address of another memory than the instruction works on",
    "CUDA_ERROR_INVALID_PC": "a kernel jumped out of its code",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel ended in a fault, for example a trap",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran longer than the system allows",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel's stack was corrupted",
    "CUDA_ERROR_ASSERT": "a kernel's assertion failed",
}
_WAITING = ("cuStreamSynchronize",)  # calls that report the result of the launch before them
_FIND = "go on in a fresh process; device='sim' with the same arguments, or compute-sanitizer, finds the access"
_HELP = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the machine code is for another GPU: compile for the architecture of this one",
    "CUDA_ERROR_INVALID_IMAGE": "the machine code is damaged or for another GPU: compile for the architecture of this one",
    "CUDA_ERROR_NOT_FOUND": "the code holds no kernel of this name",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block has fewer registers or less memory: use fewer threads or stages",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "a graph is being captured: host arrays and waiting calls cannot be part of one",
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": "a graph is being captured: pass the stream that it is captured from",
}


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. `capability` (10, 0) is sm_100; sizes in bytes."""

    index: int
    name: str
    capability: tuple[int, int]
    shared_bytes: int  # dynamic shared memory that one CTA may opt in to
    max_threads: int
    multiprocessors: int
    shared_of_all: int  # shared memory of a multiprocessor
    shared_reserved: int  # that each CTA takes of it beside its own

    @property
    def arch(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def runs(self, arch: str) -> bool:
        """Whether code for `arch` runs here: "sm_100a" on 10.0 only, "sm_100f" on 10.x, "sm_90" on 9.0 and later."""
        match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
        if match is None:
            return True  # unknown: the driver decides when it loads the code
        wanted = (int(match[1]), int(match[2]))
        if match[3] == "a":
            return self.capability == wanted
        if match[3] == "f":
            return self.capability[0] == wanted[0] and self.capability >= wanted
        return self.capability >= wanted


class Driver:
    """Calls of the driver API that raise on errors. `api` is the module cuda.bindings.driver, or a substitute with the same functions.

    `library` is the driver itself, for functions that cuda.bindings was seen to implement wrongly, or supports only for structures that
    it allocated.
    """

    def __init__(self, api: Any, library: ctypes.CDLL | None = None) -> None:
        self.api = api
        self._contexts: dict[int, int] = {}
        self._attribute = None if library is None else library.cuPointerGetAttribute
        # Stores an address (second) in the tensor map at another address (first); returns the status.
        self.replace_address: Callable[[int, int], int] = partial(_replace_through, api)
        if library is not None:
            library.cuTensorMapReplaceAddress.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
            self.replace_address = library.cuTensorMapReplaceAddress

    def call(self, function: str, *arguments: Any, kernel: str, doing: str, help: str | None = None) -> Any:
        """The result of a driver function; `doing` describes its purpose for messages."""
        status, *values = getattr(self.api, function)(*arguments)
        if status:
            self.refuse(status, function, kernel, doing, help)
        return values[0] if len(values) == 1 else (values or None)

    def refuse(self, status: Any, function: str, kernel: str, doing: str, help: str | None = None) -> NoReturn:
        """Raises the error for a result other than success."""
        name, text = self.describe(status)
        problem = f"{doing} failed: {function} returned {name} ({text})"
        raise LaunchError(kernel, problem, help or self._help(function, name), function, name)

    def _help(self, function: str, name: str) -> str | None:
        if name == "CUDA_ERROR_OUT_OF_MEMORY":
            status, *sizes = self.api.cuMemGetInfo()
            return None if int(status) or len(sizes) < 2 else f"{int(sizes[0])} of {int(sizes[1])} bytes are free"
        if name in _FAULTS and function not in _WAITING:
            return f"the fault is of work launched earlier in this process ({_FAULTS[name]}); the GPU's context is lost: {_FIND}"
        return f"{_FAULTS[name]}; the GPU's context is lost: {_FIND}" if name in _FAULTS else _HELP.get(name)

    def describe(self, status: Any) -> tuple[str, str]:
        """Name and text of a result code."""
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            failed, text = getattr(self.api, function)(status)
            texts.append(text.decode(errors="replace") if int(failed) == 0 and text else str(int(status)))
        return texts[0], texts[1]

    def is_current(self, kernel: str, index: int) -> bool:
        """Whether the device's primary context (the one torch and CuPy use) is current."""
        status, current = self.api.cuCtxGetCurrent()
        if status:
            self.refuse(status, "cuCtxGetCurrent", kernel, "asking for the current context")
        # Called at each launch, when the context has long been retained.
        return int(current) == (self._contexts.get(index) or self.primary_context(index))

    def owner_of(self, address: int) -> int | None:
        """The device that owns the memory at an address; None for memory unknown to CUDA."""
        attribute = self.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        if self._attribute is not None:
            found = ctypes.c_int(-1)
            failed = self._attribute(ctypes.byref(found), ctypes.c_int(int(attribute)), ctypes.c_uint64(address))
            return None if failed or found.value < 0 else found.value
        status, *values = self.api.cuPointerGetAttribute(attribute, address)
        return None if int(status) or not values else int(values[0])

    def refuse_address(self, status: int, kernel: str, address: int) -> NoReturn:
        """Raises the error for a result of `replace_address` other than 0."""
        doing = f"putting address {address:#x} into a tensor map"
        self.refuse(self.api.CUresult(status), "cuTensorMapReplaceAddress", kernel, doing)

    @contextmanager
    def uncaptured(self, kernel: str) -> Iterator[None]:
        """Lets this thread load code and allocate during stream capture."""
        doing = "allowing calls during a capture"
        mode = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.call("cuThreadExchangeStreamCaptureMode", mode, kernel=kernel, doing=doing)
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", before, kernel=kernel, doing=doing)

    @contextmanager
    def context(self, kernel: str, index: int) -> Iterator[None]:
        """Makes the device's primary context current temporarily."""
        if self.is_current(kernel, index):
            yield
            return
        doing = f"switching to device {index}"
        self.call("cuCtxPushCurrent", self.api.CUcontext(self.primary_context(index)), kernel=kernel, doing=doing)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent", kernel=kernel, doing=f"switching back from device {index}")

    def primary_context(self, index: int) -> int:
        """The handle of a device's primary context; kept for the life of the process."""
        if index not in self._contexts:
            handle = self.call("cuDeviceGet", index, kernel="(device)", doing=f"opening device {index}")
            context = self.call("cuDevicePrimaryCtxRetain", handle, kernel="(device)", doing=f"opening device {index}")
            self._contexts[index] = int(context)
        return self._contexts[index]


def _replace_through(api: Any, tensor_map: int, address: int) -> int:
    (status,) = api.cuTensorMapReplaceAddress(tensor_map, address)
    return int(status)


@cache
def load() -> Driver:
    """The driver, initialised; raises DeviceError."""
    try:
        # A failing import of cuda.bindings costs far more than this. Calls through PyDLL return quickly and keep the GIL.
        library = ctypes.PyDLL(_LIBRARY)
    except OSError:
        raise DeviceError(f"there is no NVIDIA driver here ({_LIBRARY} cannot be loaded)", _USE_SIMULATOR) from None
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise DeviceError(f"the package cuda-python is missing ({error})", "python -m pip install 'pipec[cuda]'") from None
    driver = Driver(api, library)
    (status,) = api.cuInit(0)
    if int(status) != 0:
        name, text = driver.describe(status)
        raise DeviceError(f"there is a driver, but no GPU that it can use: cuInit returned {name} ({text})", _USE_SIMULATOR)
    return driver


def devices() -> tuple[Device, ...]:
    """The GPUs of this machine; raises DeviceError if there is no driver."""
    return tuple(device(index) for index in range(_ask(load(), "cuDeviceGetCount")))


def device(index: int) -> Device:
    """One GPU; raises DeviceError for an index that does not exist."""
    driver = load()
    count = _ask(driver, "cuDeviceGetCount")
    if not 0 <= index < count:
        raise DeviceError(f"there is no device cuda:{index}; this machine has {count}", _USE_SIMULATOR)
    handle = _ask(driver, "cuDeviceGet", index)
    attribute = driver.api.CUdevice_attribute

    def value(name: str) -> int:
        return int(_ask(driver, "cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    return Device(
        index,
        _ask(driver, "cuDeviceGetName", 256, handle).split(b"\0")[0].decode(errors="replace"),
        (value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")),
        value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        value("MAX_THREADS_PER_BLOCK"),
        value("MULTIPROCESSOR_COUNT"),
        value("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        value("RESERVED_SHARED_MEMORY_PER_BLOCK"),
    )


def fitting_device(arch: str) -> Device:
    """The first GPU that runs code for `arch`; raises DeviceError naming the GPUs that do not."""
    found = devices()
    for one in found:
        if one.runs(arch):
            return one
    listed = ", ".join(f"cuda:{one.index} {one.name} ({one.arch})" for one in found) or "none"
    raise DeviceError(
        f"the kernel is compiled for {arch}, which no GPU here runs: {listed}",
        f"compile it for the GPU (arch='{found[0].arch}a') or {_USE_SIMULATOR}" if found else _USE_SIMULATOR,
    )


def _ask(driver: Driver, function: str, *arguments: Any) -> Any:
    try:
        return driver.call(function, *arguments, kernel="(device)", doing="looking for devices")
    except LaunchError as error:
        raise DeviceError(error.problem, _USE_SIMULATOR) from None
