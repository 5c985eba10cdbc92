"""The precision of a kernel's computations, derived from its operations."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from pipec.isa.dtypes import BYTE_FLOATS, DType
from pipec.kir.ir import Kernel
from pipec.kir.plan.roles import expressions
from pipec.reference.bounded import Precision, Rounding
from pipec.sema.tree import (
    Assign,
    Binary,
    Buffer,
    BufferRef,
    Call,
    Convert,
    Expression,
    Mma,
    Operation,
    ReadBuffer,
    ReadTensor,
    ReadVariable,
    RegisterMma,
    Select,
    Store,
    TmaLoad,
    TmaStore,
    Variable,
    Write,
)
from pipec.sema.types import dtype_of


def precision_of(kernel: Kernel) -> Precision:
    """The errors that the reference of the kernel has to allow for."""
    made, argument = _operands(kernel)
    return Precision(_accumulation(kernel), operand=made, argument=argument, working=_working(kernel), whole=_whole(kernel))


def rounding_to(dtype: np.dtype | str) -> Rounding:
    limits = ml_dtypes.finfo(dtype)
    return Rounding(float(limits.eps) / 2, float(limits.smallest_subnormal) / 2)


def _operations(kernel: Kernel) -> Iterator[Operation]:
    return (operation for role in kernel.roles for block in role.blocks for operation in block.operations)


# The MMA drops the low 13 bits of an element of float32.
_TRUNCATED = Rounding(2.0**-10, 2.0**-136)


def _rounding(dtype: DType) -> Rounding:
    assert dtype.numpy is not None
    return _TRUNCATED if dtype.name == "tf32" else rounding_to(dtype.numpy)


def _coarsest(dtypes: set[DType]) -> Rounding:
    all_of_them = [_rounding(dtype) for dtype in dtypes if dtype.is_float and dtype.numpy]
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


def _operands(kernel: Kernel) -> tuple[Rounding, Rounding]:
    """The error of MMA operands that a kernel itself computes: that of the coarsest float type of the operands that its threads write
    into a tile or hold in registers; 0 if all operands come from the arguments, also where threads write what they have loaded.

    And that of operands which the reference takes from the arguments: none where some MMA uses both as loaded, but what is dropped of
    an argument of float32 that is loaded into a tile of tf32.
    """
    mmas = [operation for operation in _operations(kernel) if isinstance(operation, Mma | RegisterMma)]
    copied = _Copied(kernel)
    writes = [operation for operation in _operations(kernel) if isinstance(operation, Write)]
    written = {write.destination.buffer for write in writes if not copied.into(write.destination.buffer, write.value)}
    loads = [operation for operation in _operations(kernel) if isinstance(operation, TmaLoad)]
    shortened = {load.destination.buffer for load in loads if load.source.tensor.dtype is not load.destination.buffer.dtype}
    dtypes: set[DType] = set()
    dropped: set[DType] = set()
    straight = False
    for mma in mmas:
        operands = [operand.buffer for operand in (mma.a, mma.b) if isinstance(operand, BufferRef)]
        dropped |= {buffer.dtype for buffer in operands if buffer in shortened}
        made = {buffer.dtype for buffer in operands if buffer in written}
        if isinstance(mma, RegisterMma) and isinstance(mma.a, ReadVariable):
            made.add(mma.a_dtype)
        straight = straight or not made
        dtypes |= made
    return _coarsest(dtypes), _coarsest(dropped if straight else dtypes | dropped)


class _Copied:
    """Which values are elements of arguments as they are."""

    def __init__(self, kernel: Kernel) -> None:
        self._assigned: dict[Variable, list[Expression]] = {}
        for operation in _operations(kernel):
            if isinstance(operation, Assign):
                self._assigned.setdefault(operation.variable, []).append(operation.value)

    def into(self, buffer: Buffer, value: Expression) -> bool:
        return dtype_of(value.type) is buffer.dtype and self._loaded(value, frozenset())

    def _loaded(self, value: Expression, through: frozenset[Variable]) -> bool:
        """`through`: variables that are being looked at, whose other values decide."""
        match value:
            case ReadTensor():
                return True
            case ReadVariable(variable):
                values, inner = self._assigned.get(variable, []), through | {variable}
                return variable in through or bool(values) and all(self._loaded(one, inner) for one in values)
            case Select(_, yes, no):
                return self._loaded(yes, through) and self._loaded(no, through)
            case _:
                return False


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


def _whole(kernel: Kernel) -> float:
    """Up to where whole numbers are exact: 2**24 in float32, and 2**53, as far as the reference itself has them, where all types of the
    kernel are integers and float64."""
    held = {tensor.dtype for tensor in kernel.tensors} | {buffer.dtype for buffer in kernel.buffers}
    computed = {dtype_of(node.type) for role in kernel.roles for node in expressions(role)}
    return 2.0**24 if any(dtype.is_float and dtype.bits <= 32 for dtype in held | computed) else 2.0**53
