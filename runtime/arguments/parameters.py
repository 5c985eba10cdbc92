"""Derives launch data from bound arguments, for any device: the grid and one value per kernel parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipec.interface import (
    MULTIPROCESSORS,
    DimensionParameter,
    KernelInterface,
    PointerParameter,
    ScalarParameter,
    StrideParameter,
    TensorMapParameter,
    WatchdogParameter,
    evaluate,
)
from pipec.runtime.arguments.binding import Bound
from pipec.runtime.arguments.tensor_maps import TENSOR_MAP_ALIGNMENT, element_bits, least_row, least_stride
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import ArgumentError
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import GRID, met, names_in
from pipec.verify.data import formula_of
from pipec.vocabulary import Swizzle

STAND_IN_BYTES = 256  # of memory that replaces a tensor without elements
MAXIMUM_GRID = (2**31 - 1, 65_535, 65_535)  # CUDA programming guide, compute capabilities


@dataclass(frozen=True, slots=True)
class TensorMapValue:
    """The arguments of cuTensorMapEncodeTiled except the address; innermost dimension first, strides in bytes.

    `empty`: the tensor has no elements. The map then covers one element of a dummy, since its extents cannot be 0.
    """

    tensor: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle
    empty: bool


@dataclass(frozen=True, slots=True)
class PointerValue:
    """The address of a tensor's first element."""

    tensor: str


@dataclass(frozen=True, slots=True)
class RecordsValue:
    """The address of the memory that the watchdog writes to (pipec.watchdog.BYTES)."""


Value = TensorMapValue | PointerValue | RecordsValue | bytes


def grid_of(interface: KernelInterface, bound: Bound, multiprocessors: int) -> tuple[int, int, int]:
    """The grid in CTAs, on a GPU with the given number of multiprocessors; a 0 in it means that there is nothing to launch."""
    extents = []
    values = {**bound.integers, MULTIPROCESSORS: multiprocessors}
    for axis, (expression, limit) in enumerate(zip(interface.grid, MAXIMUM_GRID, strict=True)):
        try:
            extent = evaluate(expression, values)
        except ZeroDivisionError:
            raise _grid_error(interface, bound, f"the extent along {'xyz'[axis]} divides by zero") from None
        if not 0 <= extent <= limit:
            raise _grid_error(interface, bound, f"the extent along {'xyz'[axis]} is {extent}, outside 0 to {limit}")
        if extent % interface.cluster[axis]:
            size = interface.cluster[axis]
            raise _grid_error(
                interface, bound, f"the extent along {'xyz'[axis]} is {extent}, no multiple of the cluster's {size}"
            )
        extents.append(extent)
    _check_conditions(interface, bound, extents)
    return extents[0], extents[1], extents[2]


def _check_conditions(interface: KernelInterface, bound: Bound, extents: list[int]) -> None:
    """Refuses a launch that the proof of deadlock freedom does not cover."""
    numbers = {**bound.integers, **dict(zip(GRID, extents, strict=True))}
    for condition in map(formula_of, interface.conditions):
        if not met(condition, numbers):
            names = names_in(condition)
            values = ", ".join(f"{name} = {numbers[name]}" for name in names)
            words = condition_words(condition)
            raise ArgumentError(
                interface.name,
                names[0],
                f"the kernel needs {words} ({values})",
                "it is written for such sizes only, and proved for them",
            )


def _grid_error(interface: KernelInterface, bound: Bound, problem: str) -> ArgumentError:
    values = ", ".join(f"{name} = {value}" for name, value in bound.integers.items())
    return ArgumentError(interface.name, "grid", f"{problem} ({values})")


def values_of(interface: KernelInterface, bound: Bound) -> Iterator[Value]:
    """The kernel's parameters in order: bytes for those passed by value, otherwise what the device must convert to an address."""
    for parameter in interface.parameters:
        match parameter:
            case TensorMapParameter():
                yield tensor_map(parameter, bound.views[parameter.tensor])
            case PointerParameter():
                yield PointerValue(parameter.tensor)
            case StrideParameter():
                view = bound.views[parameter.tensor]
                yield (view.strides[parameter.axis] // view.itemsize).to_bytes(8, "little")
            case DimensionParameter():
                yield bound.dimensions[parameter.dimension].to_bytes(4, "little")
            case ScalarParameter():
                yield bound.scalars[parameter.scalar]
            case WatchdogParameter():
                yield RecordsValue()


def tensor_map(parameter: TensorMapParameter, view: View) -> TensorMapValue:
    """The map of `parameter` over `view`; a tensor with fewer dimensions than the box gets leading ones."""
    padding = len(parameter.box) - len(view.shape)
    box = parameter.box[::-1]
    if view.empty:
        rank = len(box)
        dims = (least_row(parameter), *(1,) * (rank - 1))
        strides = (least_stride(parameter),) * (rank - 1)
        return TensorMapValue(parameter.tensor, parameter.dtype, dims, strides, box, parameter.swizzle, True)
    shape = _map_shape(parameter, view)
    outermost = view.shape[0] * view.strides[0] if view.shape else view.itemsize
    outermost = -(-outermost // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
    dims = ((1,) * padding + shape)[::-1]
    strides = ((outermost,) * padding + view.strides)[::-1]
    return TensorMapValue(parameter.tensor, parameter.dtype, dims, strides[1:], box, parameter.swizzle, False)


def _map_shape(parameter: TensorMapParameter, view: View) -> tuple[int, ...]:
    bits = element_bits(parameter) or 8 * view.itemsize
    return (*view.shape[:-1], view.shape[-1] * view.itemsize * 8 // bits) if view.shape else ()
