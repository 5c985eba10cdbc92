"""The CUDA driver API through cuda.bindings: loading it, its errors as exceptions, and the devices it knows.

Imports on a machine without GPU or driver; `load` then raises a DeviceError that says what is missing.
"""

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from pipec.runtime.errors import DeviceError, LaunchError

_USE_SIMULATOR = "use device='sim'"
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. `capability` (10, 0) is sm_100; sizes in bytes."""

    index: int
    name: str
    capability: tuple[int, int]
    shared_bytes: int  # dynamic shared memory one CTA may opt in to
    max_threads: int
    multiprocessors: int

    @property
    def arch(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def runs(self, arch: str) -> bool:
        """Whether code for `arch` runs here: "sm_100a" on 10.0 alone, "sm_100f" on 10.x, "sm_90" on 9.0 and later."""
        match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
        if match is None:
            return True  # not known: the driver decides when it loads the code
        wanted = (int(match[1]), int(match[2]))
        if match[3] == "a":
            return self.capability == wanted
        if match[3] == "f":
            return self.capability[0] == wanted[0] and self.capability >= wanted
        return self.capability >= wanted


class Driver:
    """Calls of the driver API that raise. `api` is the module cuda.bindings.driver, or a stand-in of the same shape."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self._contexts: dict[int, int] = {}

    def call(self, function: str, *arguments: Any, kernel: str, doing: str, help: str | None = None) -> Any:
        """The value that a driver function returns; `doing` says for the message what it was for."""
        status, *values = getattr(self.api, function)(*arguments)
        if status:
            self.refuse(status, function, kernel, doing, help)
        return values[0] if len(values) == 1 else (values or None)

    def refuse(self, status: Any, function: str, kernel: str, doing: str, help: str | None = None) -> NoReturn:
        """Raises what a result other than success means."""
        name, text = self.describe(status)
        raise LaunchError(kernel, f"{doing} failed: {function} returned {name} ({text})", help, function, name)

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
        return int(current) == self.primary_context(index)

    @contextmanager
    def context(self, kernel: str, index: int) -> Iterator[None]:
        """Makes the device's primary context current for a while."""
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


@cache
def load() -> Driver:
    """The driver, initialised; raises DeviceError."""
    try:
        ctypes.CDLL(_LIBRARY)  # a failing import of cuda.bindings costs far more than this
    except OSError:
        raise DeviceError(f"there is no NVIDIA driver here ({_LIBRARY} cannot be loaded)", _USE_SIMULATOR) from None
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise DeviceError(f"the package cuda-python is missing ({error})", "python -m pip install cuda-python") from None
    driver = Driver(api)
    (status,) = api.cuInit(0)
    if int(status) != 0:
        name, text = driver.describe(status)
        raise DeviceError(f"there is a driver, but no GPU that it can use: cuInit returned {name} ({text})", _USE_SIMULATOR)
    return driver


def devices() -> tuple[Device, ...]:
    """The GPUs of this machine; raises DeviceError when there is no driver."""
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
