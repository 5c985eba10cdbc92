"""Scalars as the bytes that a kernel reads."""

from typing import Any

import numpy as np

from pipec.diag.shown import shown
from pipec.interface import ScalarArgument
from pipec.isa.dtypes import DTYPES, DType
from pipec.runtime.arguments.tensors import numpy_dtype
from pipec.runtime.errors import ArgumentError


def scalar_bytes(kernel: str, argument: ScalarArgument, value: Any) -> bytes:
    """The bytes that the kernel reads for a scalar; raises ArgumentError for a value that its type cannot hold."""
    dtype = DTYPES[argument.dtype]
    if isinstance(value, type) or getattr(value, "shape", ()) != () or not hasattr(value, "__float__"):
        raise ArgumentError(kernel, argument.name, f"expected one {dtype} value, got {described(value)}")
    if getattr(value, "mask", False):
        raise ArgumentError(kernel, argument.name, f"expected one {dtype} value, got one that is masked out")
    if dtype.is_float:
        return _float_bytes(kernel, argument.name, dtype, value)
    try:
        whole = int(value)
        exact = whole == value
    except Exception:  # noqa: BLE001 - not a number, infinity, or the code of somebody else's class
        exact = False
    if not exact:
        raise ArgumentError(kernel, argument.name, f"expected a whole number for {dtype}, got {shown(value)}")
    low, high = _integer_range(dtype)
    if not low <= whole <= high:
        raise ArgumentError(kernel, argument.name, f"{shown(whole)} does not fit {dtype}, which holds {low} to {high}")
    return np.array(whole, numpy_dtype(dtype)).tobytes()


def _float_bytes(kernel: str, name: str, dtype: DType, value: Any) -> bytes:
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(kernel, name, f"{shown(value)} does not fit {dtype}") from None
    except Exception:  # noqa: BLE001 - the code of somebody else's class
        raise ArgumentError(kernel, name, f"expected one {dtype} value, got {shown(value)}") from None
    with np.errstate(over="ignore"):
        stored = np.array(number).astype(numpy_dtype(dtype))
    if np.isfinite(number) and not np.isfinite(stored.astype(np.float64)):
        raise ArgumentError(kernel, name, f"{number!r} does not fit {dtype}")
    return stored.tobytes()


def _integer_range(dtype: DType) -> tuple[int, int]:
    if dtype.family == "signed":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"`{type(value).__name__}`" + (f" of shape {tuple(shape)}" if shape else "")
