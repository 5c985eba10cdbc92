"""Reads a DLPack capsule without importing its producer; NumPy's own reader supports neither bfloat16 nor float8.

Structures and codes: DLPack 1.1, dlpack.h. The capsule is kept, not consumed: its destructor frees the tensor.
"""

import ctypes
from dataclasses import dataclass, field
from typing import Any

_HOST_KINDS = {1: "cpu", 3: "cuda_host"}
_DEVICE_KINDS = {2: "cuda", 13: "cuda_managed"}
_READ_ONLY = 1
_LEGACY_STREAM = 1  # the stream that the producer must order its writes before (array API, __dlpack__)

# (type code, bits) -> NumPy or ml_dtypes name
_TYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype = ctypes.c_int
_capsule_is.argtypes = (ctypes.py_object, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class ExportedTensor:
    """A tensor as described by DLPack. Strides in elements, or None if contiguous."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    itemsize: int
    readonly: bool
    on_host: bool
    device_index: int
    owner: Any = field(repr=False)


def read(array: Any) -> ExportedTensor:
    """The exported tensor; raises ValueError for memory or types that a kernel cannot take, and whatever the producer raises."""
    kind, _ = array.__dlpack_device__()
    if int(kind) not in _HOST_KINDS | _DEVICE_KINDS:
        raise ValueError(f"device kind {int(kind)} is neither host nor CUDA memory")
    capsule = _export(array, {"stream": _LEGACY_STREAM} if int(kind) in _DEVICE_KINDS else {})
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ValueError(f"DLPack version {versioned.major}.{versioned.minor} is not known")
        tensor, readonly = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        tensor, readonly = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor")), False
    dtype = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise ValueError(f"element type (code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes) has no counterpart")
    rank = tensor.rank
    return ExportedTensor(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[:rank]),
        tuple(tensor.strides[:rank]) if tensor.strides else None,
        dtype,
        tensor.bits // 8,
        readonly,
        tensor.device_kind in _HOST_KINDS,
        tensor.device_index,
        (array, capsule),
    )


def _export(array: Any, options: dict[str, int]) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 1), **options)
    except TypeError:  # a producer older than DLPack 1.0
        return array.__dlpack__(**options)
