"""Kernel interfaces and arrays for the runtime's tests, as the compiler would hand them over."""

import ml_dtypes
import numpy as np

from pipec.interface import (
    DimensionParameter,
    KernelInterface,
    PointerParameter,
    RoleWarps,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
)


def interface(arguments, parameters=(), grid=(1, 1, 1), name="gemm", cluster=(1, 1, 1), **changes):
    fields = {
        "threads": 192,
        "shared_bytes": 200_000,
        "tensor_columns": 256,
        "roles": (RoleWarps("load", 0, 1, None),),
        "barriers": (),
        "source": "gemm.pipe",
    }
    return KernelInterface(
        name=name, arguments=tuple(arguments), parameters=tuple(parameters), grid=grid, cluster=cluster, **(fields | changes)
    )


def gemm(dtype="bf16", scalar=False):
    """D[M, N] = A[M, K] @ B[N, K].T through tensor maps, tile 128 x 64 x 64."""
    arguments = [
        TensorArgument("a", dtype, ("M", "K"), False, True, False),
        TensorArgument("b", dtype, ("N", "K"), False, True, False),
        TensorArgument("d", dtype, ("M", "N"), True, True, False),
    ]
    parameters = [
        TensorMapParameter("a_map", "a", dtype, (128, 64), "128B"),
        TensorMapParameter("b_map", "b", dtype, (64, 64), "128B"),
        TensorMapParameter("d_map", "d", dtype, (128, 64), "128B"),
        DimensionParameter("K", "K"),
    ]
    if scalar:
        arguments.append(ScalarArgument("scale", "f32"))
        parameters.append(ScalarParameter("scale", "scale", "f32"))
    return interface(arguments, parameters, (("ceildiv", "M", 128), ("ceildiv", "N", 64), 1))


def scale():
    """y = x * s by address, with a row stride for x only; n rows are a scalar."""
    return interface(
        [
            TensorArgument("x", "f32", ("M", "N"), False, False, True),
            TensorArgument("y", "f32", ("M", "N"), True, False, True),
            ScalarArgument("s", "f32"),
            ScalarArgument("steps", "i32"),
        ],
        [
            PointerParameter("x", "x"),
            StrideParameter("x_stride", "x", 0),
            PointerParameter("y", "y"),
            DimensionParameter("M", "M"),
            ScalarParameter("s", "s", "f32"),
            ScalarParameter("steps", "steps", "i32"),
        ],
        (("*", ("ceildiv", "M", 4), "steps"), 1, 1),
        name="scale",
    )


def bf16(*shape):
    return np.zeros(shape, ml_dtypes.bfloat16)


def gemm_arrays(m=256, n=128, k=64):
    return [bf16(m, k), bf16(n, k), bf16(m, n)]
