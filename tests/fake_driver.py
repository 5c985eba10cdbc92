"""A CUDA driver that records calls: host memory stands for the device's, structures and enums are those of cuda.bindings."""

import ctypes
from dataclasses import dataclass
from importlib import import_module

from pipec.runtime.gpu import cuda, cuda_driver

STATUS_ALONE = ("cuLaunchKernelEx", "cuTensorMapReplaceAddress")


class FakeApi:
    """Functions answer (CUDA_SUCCESS, value); `fail` maps a function's name to the result it gives instead."""

    def __init__(self, capability=(10, 0), count=1):
        self.real = import_module("cuda.bindings.driver")
        self.capability, self.count = capability, count
        self.calls, self.fail, self.memory, self.launches = [], {}, {}, []
        self.current = 0
        self.owners = {}  # address -> device, where it is not the first

    def __getattr__(self, name):
        if not name.startswith("cu") or name.startswith("cuuint"):
            return getattr(self.real, name)  # enums and structures

        def function(*arguments):
            self.calls.append((name, arguments))
            if name in self.fail:
                return (self.fail[name],) if name in STATUS_ALONE else (self.fail[name], None)
            return (self.real.CUresult.CUDA_SUCCESS, *self.answer(name, arguments))

        return function

    def answer(self, name, arguments):
        handler = getattr(self, f"on_{name}", None)
        if handler is None:
            return ()
        value = handler(*arguments)
        return () if value is None else (value,)

    def names(self):
        return [name for name, _ in self.calls]

    def last(self, name):
        return next(arguments for called, arguments in reversed(self.calls) if called == name)

    def on_cuGetErrorName(self, status):
        return status.name.encode()

    def on_cuGetErrorString(self, status):
        return b"text of " + status.name.encode()

    def on_cuDeviceGetCount(self):
        return self.count

    def on_cuDeviceGet(self, index):
        return index

    def on_cuDeviceGetName(self, size, handle):
        return b"Imaginary GPU\0\0"

    def on_cuDeviceGetAttribute(self, attribute, handle):
        values = {
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448,
            "MAX_THREADS_PER_BLOCK": 1024,
            "MULTIPROCESSOR_COUNT": 148,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233_472,
            "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
        }
        return values[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def on_cuDevicePrimaryCtxRetain(self, handle):
        return 1000 + handle

    def on_cuCtxGetCurrent(self):
        return self.current

    def on_cuCtxPushCurrent(self, context):
        self.before, self.current = self.current, int(context)

    def on_cuCtxPopCurrent(self):
        popped, self.current = self.current, self.before
        return popped

    def on_cuPointerGetAttribute(self, attribute, address):
        return self.owners.get(address, 0)

    def on_cuStreamGetDevice(self, stream):
        return 0

    def on_cuStreamIsCapturing(self, stream):
        return self.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def on_cuThreadExchangeStreamCaptureMode(self, mode):
        return self.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

    def on_cuOccupancyMaxActiveClusters(self, function, config):
        return 4

    def on_cuLibraryLoadData(self, code, *_):
        return 77

    def on_cuLibraryGetKernel(self, library, name):
        return 78

    def on_cuMemAlloc(self, size):
        raw = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(raw) // 256) * 256
        self.memory[address] = raw
        return address

    def on_cuMemFree(self, address):
        del self.memory[address]

    def on_cuMemsetD8(self, address, value, size):
        ctypes.memset(address, value, size)

    def on_cuMemcpyHtoD(self, destination, source, size):
        ctypes.memmove(destination, source, size)

    def on_cuMemcpyDtoH(self, destination, source, size):
        ctypes.memmove(destination, source, size)

    def on_cuTensorMapEncodeTiled(self, dtype, rank, address, *_):
        """What it was made of stands in the map: the address first."""
        encoded = self.real.CUtensorMap()
        ctypes.memmove(int(encoded.getPtr()), address.to_bytes(8, "little") + b"map!" * 30, 128)
        return encoded

    def on_cuTensorMapReplaceAddress(self, place, address):
        assert place % 64 == 0 and ctypes.string_at(place + 8, 120) == b"map!" * 30
        ctypes.memmove(place, address.to_bytes(8, "little"), 8)

    def on_cuLaunchKernelEx(self, config, function, parameters, extra):
        self.launches.append((config, parameters))


def parameter_bytes(address, sizes):
    """The parameter bytes behind the array of pointers that a launch got."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(address)
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]


def install(monkeypatch, fake):
    driver = cuda_driver.Driver(fake)
    monkeypatch.setattr(cuda_driver, "load", lambda: driver)
    monkeypatch.setattr(cuda, "load", lambda: driver)
    return fake


@dataclass(frozen=True)
class TorchDevice:
    type: str
    index: int


class Torch:
    """Looks like a CUDA torch tensor, in host memory."""

    __module__ = "torch"
    is_cuda = False  # so that no current stream is asked for

    def __init__(self, array, index=0, requires_grad=False):
        self.array = array
        self.dtype = f"torch.{array.dtype.name}"
        self.device = TorchDevice("cuda", index)
        self.layout = "torch.strided"
        self.requires_grad = requires_grad

    shape = property(lambda self: self.array.shape)

    def stride(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def element_size(self):
        return self.array.itemsize

    def get_device(self):
        return self.device.index

    def is_conj(self):
        return False

    is_neg = is_conj
