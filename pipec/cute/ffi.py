"""Functions that CuTe DSL compiles with `--enable-tvm-ffi`, which take tensors without CuTe DSL's own wrappers.

Such a function insists that tensors are on the device, and is linked apart from the engine that knows the simulated runtime. Here its
tensors are those of the host, described as memory of the device, and it runs in that engine.
"""

import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

_CUDA = 2  # kDLCUDA, of DLPack's DLDeviceType

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _Described(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class OnDevice:
    """A tensor of the host, to whoever asks for it by DLPack one of the device."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor.detach() if hasattr(tensor, "detach") else tensor

    def __dlpack__(self, **_: Any) -> Any:
        made = self._tensor.__dlpack__()
        described = _Described.from_address(_capsule_pointer(made, b"dltensor"))
        described.device_type, described.device_id = _CUDA, 0
        return made

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0


# TVMFFISafeCallType: the function's own handle, its arguments, their number, and where its result goes.
_SAFE_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)


def _unpacked(address: int) -> Any:
    """A function that the engine offers by MLIR's packed convention, which has one array with the addresses of all arguments and of the
    result."""
    packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def call(handle: int | None, arguments: int | None, count: int, result: int | None) -> int:
        status = ctypes.c_int32(-1)
        values = (ctypes.c_void_p(handle), ctypes.c_void_p(arguments), ctypes.c_int32(count), ctypes.c_void_p(result), status)
        packed((ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)))
        return status.value

    return _SAFE_CALL(call)


Calls = Callable[[], AbstractContextManager[None]]


def changes(keep: Callable[[Any], None], calls: Calls) -> Iterator[tuple[type, str, object]]:
    """What has to change in which class. `keep` is told of each tensor that is passed, and each call is one of the contexts `calls`.

    Raises ImportError without tvm_ffi, with which CuTe DSL cannot compile such functions either.
    """
    import tvm_ffi
    from cutlass.cutlass_dsl import tvm_ffi_provider

    def on_device(value: Any) -> Any:
        if isinstance(value, tvm_ffi.Tensor):
            return value
        if hasattr(value, "__dlpack__"):
            keep(value)
            return tvm_ffi.from_dlpack(OnDevice(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(on_device, value))
        if isinstance(value, tuple | list):
            return type(value)(map(on_device, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            moved = copy(value)
            for field in dataclasses.fields(value):
                object.__setattr__(moved, field.name, on_device(getattr(value, field.name)))
            return moved
        return value

    def called(before: Callable[..., Any]) -> Callable[..., Any]:
        def call(function: Any, *given: Any, **named: Any) -> Any:
            with calls():
                return before(function, *map(on_device, given), **{name: on_device(value) for name, value in named.items()})

        return call

    def create(function: Any) -> Any:
        if function.engine is None:
            return None
        entry = _unpacked(function.engine.raw_lookup(f"__tvm_ffi_{function.function_name}"))
        pointer = ctypes.cast(entry, ctypes.c_void_p).value
        assert pointer is not None  # a function's address
        return tvm_ffi.Function.__from_extern_c__(pointer, keep_alive_object=(function.engine, entry))

    yield tvm_ffi_provider.TVMFFIJitCompiledFunctionBase, "_create_tvm_ffi_function", create
    for owner in (tvm_ffi_provider.TVMFFIJitCompiledFunction, tvm_ffi_provider.TVMFFIJitCompiledFunctionWithKwargs):
        yield owner, "__call__", called(owner.__dict__["__call__"])
