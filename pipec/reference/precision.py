"""The precision of a kernel's computations, derived from its operations."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from pipec.isa.dtypes import BYTE_FLOATS, DType
from pipec.kir.ir import Kernel
from pipec.kir.plan.roles import expressions
from pipec.reference.bounded import Precision, Rounding
from pipec.sema.tree import (
    Binary,
    BufferRef,
    Call,
    Convert,
    Mma,
    Operation,
    ReadBuffer,
    ReadVariable,
    RegisterMma,
    Store,
    TmaStore,
    Write,
)
from pipec.sema.types import dtype_of


def precision_of(kernel: Kernel) -> Precision:
    """The errors that the reference of the kernel has to allow for."""
    made, straight = _operands(kernel)
    return Precision(_accumulation(kernel), operand=made, argument=Rounding() if straight else made, working=_working(kernel))


def rounding_to(dtype: np.dtype | str) -> Rounding:
    limits = ml_dtypes.finfo(dtype)
    return Rounding(float(limits.eps) / 2, float(limits.smallest_subnormal) / 2)


def _operations(kernel: Kernel) -> Iterator[Operation]:
    return (operation for role in kernel.roles for block in role.blocks for operation in block.operations)


def _coarsest(dtypes: set[DType]) -> Rounding:
    all_of_them = [rounding_to(dtype.numpy) for dtype in dtypes if dtype.is_float and dtype.numpy]
    return Rounding(
        max((one.relative for one in all_of_them), default=0.0), max((one.absolute for one in all_of_them), default=0.0)
    )


def _accumulation(kernel: Kernel) -> float:
    """The error of adding one term to a sum, relative to its largest value: 2**-23 if float32 is truncated after each term; 2**-15 with
    float16 accumulators, which round to 2**-11 after each MMA of 16 terms, and with 8-bit floats accumulated in registers, which are
    truncated to 13 bits after each MMA of 32 terms."""
    coarse = any(buffer.space == "tensor" and buffer.dtype.name == "f16" for buffer in kernel.buffers)
    mmas = [operation for operation in _operations(kernel) if isinstance(operation, RegisterMma)]
    coarse = coarse or any(mma.accumulator.dtype.name == "f16" or mma.a_dtype.name in BYTE_FLOATS for mma in mmas)
    return 2.0**-15 if coarse else 2.0**-23


def _operands(kernel: Kernel) -> tuple[Rounding, bool]:
    """The error of MMA operands that a kernel itself computes: that of the coarsest float type of the operands that its threads write
    into a tile or hold in registers; 0 if all operands come from the arguments.

    And whether there are MMAs whose operands are both used as loaded.
    """
    mmas = [operation for operation in _operations(kernel) if isinstance(operation, Mma | RegisterMma)]
    written = {operation.destination.buffer for operation in _operations(kernel) if isinstance(operation, Write)}
    dtypes: set[DType] = set()
    straight = False
    for mma in mmas:
        made = {
            operand.buffer.dtype for operand in (mma.a, mma.b) if isinstance(operand, BufferRef) and operand.buffer in written
        }
        if isinstance(mma, RegisterMma) and isinstance(mma.a, ReadVariable):
            made.add(mma.a_dtype)
        straight = straight or not made
        dtypes |= made
    return _coarsest(dtypes), straight


def _working(kernel: Kernel) -> Rounding:
    """Of the coarsest type narrower than float32 in which the kernel computes, accumulates into an output, or keeps values; 0 if it
    only rounds what it stores."""
    dtypes = {
        store.destination.tensor.dtype for store in _operations(kernel) if isinstance(store, Store | TmaStore) and store.reduce
    }
    written = {operation.destination.buffer for operation in _operations(kernel) if isinstance(operation, Write)}
    for role in kernel.roles:
        for node in expressions(role):
            match node:
                case Binary() | Call():
                    dtypes.add(dtype_of(node.type))
                case Convert(Convert() as inner):
                    dtypes.add(dtype_of(inner.type))
                case ReadBuffer(source) if source.buffer in written:
                    dtypes.add(source.buffer.dtype)
                case _:
                    pass
    return _coarsest({dtype for dtype in dtypes if dtype.bits < 32})
