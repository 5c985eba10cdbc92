"""NumPy's own inner loops, for machine code to call, so that results are bit-identical to NumPy's."""

from __future__ import annotations

import ctypes
import functools
from contextlib import suppress

import numpy as np

with suppress(ImportError):
    import llvmlite.binding as llvm

_DOUBLE = np.dtype(np.float64).num


class _Function(ctypes.Structure):
    """The beginning of PyUFuncObject, which NumPy's headers declare (numpy/ufuncobject.h)."""

    _fields_ = (
        ("object", ctypes.c_ssize_t * 2),
        ("inputs", ctypes.c_int),
        ("outputs", ctypes.c_int),
        ("arguments", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("loops", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("types_count", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@functools.cache
def of_doubles(function: np.ufunc) -> tuple[str, str] | None:
    """The names of the loop of a function of one float64, and of its data argument ("null": none); None where there is no such loop, or
    NumPy's layout is not the one known here."""
    found = _Function.from_address(id(function))
    if (found.inputs, found.outputs, found.types_count) != (1, 1, function.ntypes) or found.name != function.__name__.encode():
        return None
    for number in range(found.types_count):
        if found.types[2 * number : 2 * number + 2] == bytes([_DOUBLE, _DOUBLE]):
            name = f"numpy_{function.__name__}_f64"
            llvm.add_symbol(name, found.loops[number])
            data = found.data[number] if found.data else None
            if data is None:
                return name, "null"
            llvm.add_symbol(f"{name}_data", data)
            return name, f"@{name}_data"
    return None
