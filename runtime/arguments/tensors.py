"""Requirements of a kernel on an array: rank, type, sizes and strides, and the rules of tensor maps.

The rules of tensor maps are from the CUDA driver API, cuTensorMapEncodeTiled, and from measurements (stores clip the innermost dimension
at 16 bytes, not at the element).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from pipec.interface import KernelInterface, StrideParameter, TensorArgument, TensorMapParameter
from pipec.isa.dtypes import DTYPES, DType
from pipec.runtime.arguments.tensor_maps import TENSOR_MAP_ALIGNMENT, UNPACKED_ELEMENTS, UNPACKING_ALIGNMENT, UNPACKING_MAPS
from pipec.runtime.arguments.views import NotAnArray, View, contiguous_strides, is_recorded, view_of
from pipec.runtime.errors import ArgumentError

MAXIMUM_DIMENSION = 2**31 - 1  # dimensions are passed as i32
MAXIMUM_STRIDE = 2**40 - 1  # bytes, of a tensor map


def tensors(interface: KernelInterface) -> Iterator[TensorArgument]:
    return (argument for argument in interface.arguments if isinstance(argument, TensorArgument))


def alignment(interface: KernelInterface) -> int:
    """The largest alignment required of any of the kernel's tensors, in bytes: a power of two."""
    if any(isinstance(parameter, TensorMapParameter) and parameter.dtype in UNPACKING_MAPS for parameter in interface.parameters):
        return UNPACKING_ALIGNMENT
    if any(argument.through_tensor_map for argument in tensors(interface)):
        return TENSOR_MAP_ALIGNMENT
    return max((DTYPES[argument.dtype].bytes for argument in tensors(interface)), default=1)


def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy or ml_dtypes type that stores `dtype`."""
    assert dtype.numpy is not None
    return np.dtype(getattr(ml_dtypes, dtype.numpy, None) or dtype.numpy)


@dataclass(frozen=True, slots=True)
class Subject:
    """A tensor under check: its declaration, the argument, and the axes that have a stride parameter."""

    kernel: str
    declared: TensorArgument
    view: View
    stride_axes: frozenset[int]
    unpacked: bool = False  # a tensor map unpacks its elements

    def refuse(self, problem: str, help: str | None = None) -> ArgumentError:
        return ArgumentError(self.kernel, self.declared.name, problem, help)


def checked_tensor(interface: KernelInterface, declared: TensorArgument, value: Any) -> View:
    try:
        view = view_of(value)
    except NotAnArray as reason:
        dtype = DTYPES[declared.dtype].numpy
        raise ArgumentError(
            interface.name,
            declared.name,
            f"expected an array of {declared.dtype}: {reason}",
            f"pass a NumPy array ({dtype}), a torch tensor, or an object with __dlpack__ or __cuda_array_interface__",
        ) from None
    axes = frozenset(p.axis for p in interface.parameters if isinstance(p, StrideParameter) and p.tensor == declared.name)
    maps = [p for p in interface.parameters if isinstance(p, TensorMapParameter) and p.tensor == declared.name]
    subject = Subject(interface.name, declared, view, axes, any(p.dtype in UNPACKING_MAPS for p in maps))
    if is_recorded(value):
        raise subject.refuse(
            "it requires a gradient, and gradients are being recorded: what a kernel does is not, so they would be wrong without a word",
            f"pass `{declared.name}.detach()`, or call the kernel under `torch.no_grad()`",
        )
    # The layout is checked only if type, rank and sizes are right: strides for another element type are meaningless.
    for check in TYPE_CHECKS:
        check(subject)
    # Before the stride checks: the stride of a one-element dimension is arbitrary in NumPy.
    subject = replace(subject, view=regular(subject))
    if not view.empty:
        for check in LAYOUT_CHECKS:
            check(subject)
    if declared.written and view.readonly:
        raise subject.refuse("the kernel writes it, but the array is read-only", "pass a writable array, for example a `.copy()`")
    return subject.view


def _check_rank(subject: Subject) -> None:
    want, got = subject.declared.shape, subject.view.shape
    if len(want) != len(got):
        shape = ", ".join(map(str, want))
        raise subject.refuse(f"expected {len(want)} dimensions ({shape}), got {len(got)}: shape {got}")


def _check_dtype(subject: Subject) -> None:
    dtype, got = DTYPES[subject.declared.dtype], subject.view.dtype
    if dtype.is_scale and got == "uint8":
        return  # the bytes of the factors
    if dtype.is_packed and got != dtype.numpy:
        help = f"pack them: `pipec.reference.packed_arrays.pack({subject.declared.name}, {dtype.name!r})`"
        raise subject.refuse(f"expected {dtype} elements packed into bytes (uint8), got {got}", help)
    if got != dtype.numpy:
        home = "ml_dtypes" if hasattr(ml_dtypes, str(dtype.numpy)) else "numpy"
        help = f"convert it: `{subject.declared.name}.astype({home}.{dtype.numpy})`"
        raise subject.refuse(f"expected element type {dtype} ({dtype.numpy}), got {got}", help)


def _check_sizes(subject: Subject) -> None:
    for axis, size in enumerate(subject.view.shape):
        if size > MAXIMUM_DIMENSION:
            raise subject.refuse(f"dimension {axis} has {size} elements; a kernel takes at most {MAXIMUM_DIMENSION}")


def regular(subject: Subject) -> View:
    """The view with normalised strides of dimensions of size 0 or 1: NumPy and torch leave them arbitrary."""
    view = subject.view
    if view.empty:
        return replace(view, strides=contiguous_strides(view.shape, view.itemsize))
    strides = list(view.strides)
    wanted = view.itemsize
    for axis in range(len(strides) - 1, -1, -1):
        if view.shape[axis] == 1:
            strides[axis] = wanted
        wanted = strides[axis] * view.shape[axis]
        if subject.declared.through_tensor_map:
            # A tensor map requires a stride even for a one-element dimension, so a valid one is chosen.
            wanted = -(-wanted // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
    return replace(view, strides=tuple(strides))


def _check_whole_elements(subject: Subject) -> None:
    """Packed rows must have whole elements; those unpacked by a map, multiples of 128."""
    dtype, view = DTYPES[subject.declared.dtype], subject.view
    if not dtype.is_packed:
        return
    size = view.shape[-1]
    if size * 8 % dtype.bits:
        raise subject.refuse(f"rows of {size} bytes are no whole number of {dtype} elements of {dtype.bits} bits")
    elements = size * 8 // dtype.bits
    if subject.unpacked and elements % UNPACKED_ELEMENTS:
        raise subject.refuse(
            f"rows of {elements} {dtype} elements: TMA unpacks whole pieces of {UNPACKED_ELEMENTS}",
            f"pad the rows with zeros to a multiple of {UNPACKED_ELEMENTS} elements",
        )
    for axis, stride in enumerate(view.strides[:-1]):
        if subject.unpacked and stride % UNPACKING_ALIGNMENT:
            raise subject.refuse(
                f"stride {stride} bytes of dimension {axis} is no multiple of {UNPACKING_ALIGNMENT}, as TMA needs to unpack {dtype}"
            )
    if subject.unpacked and not view.on_host and view.address % UNPACKING_ALIGNMENT:
        raise subject.refuse(
            f"the first element lies {view.address % UNPACKING_ALIGNMENT} bytes past a multiple of {UNPACKING_ALIGNMENT}",
            "pass an array that starts at the beginning of its allocation, or a copy of this one",
        )


def _check_direction(subject: Subject) -> None:
    for axis, stride in enumerate(subject.view.strides):
        if stride < 0:
            help = f"pass a copy: `numpy.ascontiguousarray({subject.declared.name})`"
            raise subject.refuse(f"dimension {axis} runs backwards (stride {stride} bytes)", help)


def _check_innermost(subject: Subject) -> None:
    view, last = subject.view, len(subject.view.shape) - 1
    if last < 0 or (last in subject.stride_axes and not subject.declared.through_tensor_map):
        return
    if view.strides[last] != view.itemsize:
        raise subject.refuse(
            f"the innermost dimension must be contiguous: its stride is {view.strides[last]} bytes, the element has {view.itemsize}",
            f"pass a copy: `numpy.ascontiguousarray({subject.declared.name})`, or `.contiguous()` for a torch tensor",
        )


def _check_base(subject: Subject) -> None:
    through_map = subject.declared.through_tensor_map
    alignment = TENSOR_MAP_ALIGNMENT if through_map else subject.view.itemsize
    if excess := subject.view.address % alignment:
        why = "a tensor map (TMA) needs" if through_map else "its element type needs"
        raise subject.refuse(
            f"the first element lies {excess} bytes past a multiple of {alignment}; {why} {alignment}-byte alignment",
            "pass an array that starts at the beginning of its allocation, or a copy of this one",
        )


def _check_outer_strides(subject: Subject) -> None:
    declared, view = subject.declared, subject.view
    contiguous = contiguous_strides(view.shape, view.itemsize)
    for axis in range(len(view.shape) - 1):
        stride = view.strides[axis]
        if declared.through_tensor_map:
            _check_map_stride(subject, axis, stride)
        if not declared.through_pointer:
            continue
        # The kernel computes such an address from sizes alone.
        if axis not in subject.stride_axes and view.shape[axis] > 1 and stride != contiguous[axis]:
            raise subject.refuse(
                f"the array must have no gaps: dimension {axis} has stride {stride} bytes, expected {contiguous[axis]}",
                f"pass a copy: `numpy.ascontiguousarray({declared.name})`, or `.contiguous()` for a torch tensor",
            )
        if stride % view.itemsize:
            raise subject.refuse(f"stride {stride} bytes of dimension {axis} is no multiple of the element's {view.itemsize}")


def _check_map_stride(subject: Subject, axis: int, stride: int) -> None:
    view = subject.view
    if stride % TENSOR_MAP_ALIGNMENT:
        step = TENSOR_MAP_ALIGNMENT // view.itemsize
        inner = view.shape[-1]
        padded = -(-inner // step) * step
        sizes = ", ".join(map(str, (*view.shape[:-1], padded)))
        raise subject.refuse(
            f"stride {stride} bytes of dimension {axis} is no multiple of {TENSOR_MAP_ALIGNMENT}, which a tensor map (TMA) needs",
            f"pad the rows to a multiple of {step} elements and pass a slice: `numpy.zeros(({sizes}), dtype)[..., :{inner}]`",
        )
    if stride > MAXIMUM_STRIDE:
        raise subject.refuse(f"stride {stride} bytes of dimension {axis} exceeds the {MAXIMUM_STRIDE} of a tensor map")


def _check_clipping(subject: Subject) -> None:
    declared, view = subject.declared, subject.view
    if not (declared.written and declared.through_tensor_map and view.shape):
        return
    inner = view.shape[-1] * view.itemsize
    if inner % TENSOR_MAP_ALIGNMENT:
        step = TENSOR_MAP_ALIGNMENT // view.itemsize
        name = declared.shape[-1]
        raise subject.refuse(
            f"its rows have {_elements(view.shape[-1])} ({inner} bytes), but a TMA store writes whole 16-byte pieces: "
            f"it would write {TENSOR_MAP_ALIGNMENT - inner % TENSOR_MAP_ALIGNMENT} bytes past the end of a row",
            f"make dimension `{name}` a multiple of {step} elements",
        )


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _check_self_overlap(subject: Subject) -> None:
    view = subject.view
    if not subject.declared.written:
        return
    reach = view.itemsize
    # From the smallest stride on: a stride larger than the extent of all smaller dimensions cannot alias them.
    for stride, size in sorted((stride, size) for stride, size in zip(view.strides, view.shape, strict=True) if size > 1):
        if stride < reach:
            raise subject.refuse(
                f"the kernel writes it, but its elements overlap: stride {stride} bytes is less than the {reach} bytes it steps over",
                "pass an array that has memory of its own for each element",
            )
        reach += (size - 1) * stride


TYPE_CHECKS: tuple[Callable[[Subject], None], ...] = (_check_rank, _check_dtype, _check_sizes)
LAYOUT_CHECKS: tuple[Callable[[Subject], None], ...] = (
    _check_whole_elements,
    _check_direction,
    _check_innermost,
    _check_base,
    _check_outer_strides,
    _check_clipping,
    _check_self_overlap,
)


def element_shape(argument: TensorArgument, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of an array in elements: packed elements are passed as bytes."""
    dtype = DTYPES[argument.dtype]
    return (*shape[:-1], shape[-1] * 8 // dtype.bits) if dtype.is_packed and shape else shape
