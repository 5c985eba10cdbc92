"""Binds what a caller passes to a kernel's parameters and refuses what the kernel cannot take, before anything runs.

The rules are the same on the simulator and on a GPU. Those of tensor maps: CUDA driver API, cuTensorMapEncodeTiled, and
what was measured on hardware (stores clip the innermost dimension at 16 bytes, not at the element).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from pipec.diag.shown import shown
from pipec.interface import KernelInterface, ScalarArgument, StrideParameter, TensorArgument, TensorMapParameter
from pipec.isa.dtypes import DTYPES, DType
from pipec.runtime.arguments.views import NotAnArray, View, contiguous_strides, is_recorded, view_of
from pipec.runtime.errors import ArgumentError

TENSOR_MAP_ALIGNMENT = 16  # bytes, of the base and of every stride but the innermost
UNPACKING_ALIGNMENT = 32  # bytes, of maps that unpack 4- or 6-bit elements
UNPACKED_ELEMENTS = 128  # of a row, in whole pieces of which such maps read
UNPACKING_MAPS = ("b4x16_p64", "b6x16_p32")
MAXIMUM_DIMENSION = 2**31 - 1  # dimensions are passed as i32
MAXIMUM_STRIDE = 2**40 - 1  # bytes, of a tensor map


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel's arguments after all checks.

    `views`: each tensor, strides of dimensions of size 0 or 1 made regular. `scalars`: each scalar's bytes as the kernel
    reads them. `integers`: what launch expressions may name, dimensions and integer scalars. `device`: "cpu" or "cuda:N".
    """

    views: dict[str, View]
    scalars: dict[str, bytes]
    integers: dict[str, int]
    dimensions: dict[str, int]
    device: str


def bind(interface: KernelInterface, arguments: Sequence[Any] | Mapping[str, Any]) -> Bound:
    """Checks everything that can be checked without a device; raises ArgumentError."""
    values = _named(interface, arguments)
    views: dict[str, View] = {}
    scalars: dict[str, bytes] = {}
    integers: dict[str, int] = {}
    for argument in interface.arguments:
        value = values[argument.name]
        if isinstance(argument, ScalarArgument):
            scalars[argument.name] = scalar_bytes(interface.name, argument, value)
            if not DTYPES[argument.dtype].is_float:
                integers[argument.name] = int(value)
        else:
            views[argument.name] = _tensor(interface, argument, value)
    dimensions = _dimensions(interface, views)
    check_overlap(interface, views)
    return Bound(views, scalars, integers | dimensions, dimensions, _common_device(interface, views))


def tensors(interface: KernelInterface) -> Iterator[TensorArgument]:
    return (argument for argument in interface.arguments if isinstance(argument, TensorArgument))


def alignment(interface: KernelInterface) -> int:
    """The largest that is asked of the address of any of the kernel's tensors, in bytes: a power of two."""
    if any(isinstance(parameter, TensorMapParameter) and parameter.dtype in UNPACKING_MAPS for parameter in interface.parameters):
        return UNPACKING_ALIGNMENT
    if any(argument.through_tensor_map for argument in tensors(interface)):
        return TENSOR_MAP_ALIGNMENT
    return max((DTYPES[argument.dtype].bytes for argument in tensors(interface)), default=1)


def _named(interface: KernelInterface, arguments: Sequence[Any] | Mapping[str, Any]) -> Mapping[str, Any]:
    names = [argument.name for argument in interface.arguments]
    listed = ", ".join(names)
    if not isinstance(arguments, Mapping):
        if not isinstance(arguments, Sequence) or isinstance(arguments, str | bytes):
            raise ArgumentError(interface.name, "(all)", f"pass a list of values ({listed}) or a mapping, not {shown(arguments)}")
        if len(arguments) != len(names):
            at = names[len(arguments)] if len(arguments) < len(names) else "(none)"
            raise ArgumentError(interface.name, at, f"the kernel takes {len(names)} arguments ({listed}), got {len(arguments)}")
        return dict(zip(names, arguments, strict=True))
    for name in names:
        if name not in arguments:
            raise ArgumentError(interface.name, name, f"no value was passed; the kernel takes {listed}")
    for name in arguments:
        if name not in names:
            raise ArgumentError(interface.name, str(name), f"there is no such parameter; the kernel takes {listed}")
    return arguments


# --- scalars --------------------------------


def scalar_bytes(kernel: str, argument: ScalarArgument, value: Any) -> bytes:
    """What the kernel reads of a scalar; raises ArgumentError for a value that its type does not hold."""
    dtype = DTYPES[argument.dtype]
    if isinstance(value, type) or getattr(value, "shape", ()) != () or not hasattr(value, "__float__"):
        raise ArgumentError(kernel, argument.name, f"expected one {dtype} value, got {_described(value)}")
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


def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy or ml_dtypes type that stores `dtype`."""
    assert dtype.numpy is not None
    return np.dtype(getattr(ml_dtypes, dtype.numpy, None) or dtype.numpy)


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"`{type(value).__name__}`" + (f" of shape {tuple(shape)}" if shape else "")


# --- one tensor --------------------------------


@dataclass(frozen=True, slots=True)
class _Subject:
    """A tensor under check: what the kernel declares, what was passed, and which axes have a stride parameter."""

    kernel: str
    declared: TensorArgument
    view: View
    stride_axes: frozenset[int]
    unpacked: bool = False  # a tensor map unpacks its elements

    def refuse(self, problem: str, help: str | None = None) -> ArgumentError:
        return ArgumentError(self.kernel, self.declared.name, problem, help)


def _tensor(interface: KernelInterface, declared: TensorArgument, value: Any) -> View:
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
    subject = _Subject(interface.name, declared, view, axes, any(p.dtype in UNPACKING_MAPS for p in maps))
    if is_recorded(value):
        raise subject.refuse(
            "it requires a gradient, and gradients are being recorded: what a kernel does is not, so they would be wrong without a word",
            f"pass `{declared.name}.detach()`, or call the kernel under `torch.no_grad()`",
        )
    for check in _TYPE_CHECKS:
        check(subject)
    subject = replace(subject, view=_regular(subject))
    if not view.empty:
        for check in _LAYOUT_CHECKS:
            check(subject)
    if declared.written and view.readonly:
        raise subject.refuse("the kernel writes it, but the array is read-only", "pass a writable array, for example a `.copy()`")
    return subject.view


def _check_rank(subject: _Subject) -> None:
    want, got = subject.declared.shape, subject.view.shape
    if len(want) != len(got):
        shape = ", ".join(map(str, want))
        raise subject.refuse(f"expected {len(want)} dimensions ({shape}), got {len(got)}: shape {got}")


def _check_dtype(subject: _Subject) -> None:
    dtype, got = DTYPES[subject.declared.dtype], subject.view.dtype
    if dtype.is_scale and got == "uint8":
        return  # the bytes of the factors
    if dtype.is_packed and got != dtype.numpy:
        help = f"pack them: `pipec.reference.narrow.pack({subject.declared.name}, {dtype.name!r})`"
        raise subject.refuse(f"expected {dtype} elements packed into bytes (uint8), got {got}", help)
    if got != dtype.numpy:
        home = "ml_dtypes" if hasattr(ml_dtypes, str(dtype.numpy)) else "numpy"
        help = f"convert it: `{subject.declared.name}.astype({home}.{dtype.numpy})`"
        raise subject.refuse(f"expected element type {dtype} ({dtype.numpy}), got {got}", help)


def _check_sizes(subject: _Subject) -> None:
    for axis, size in enumerate(subject.view.shape):
        if size > MAXIMUM_DIMENSION:
            raise subject.refuse(f"dimension {axis} has {size} elements; a kernel takes at most {MAXIMUM_DIMENSION}")


def _regular(subject: _Subject) -> View:
    """The view with the strides that a dimension of size 0 or 1 should have: NumPy and torch leave them arbitrary."""
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
            wanted = -(-wanted // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
    return replace(view, strides=tuple(strides))


def _check_whole_elements(subject: _Subject) -> None:
    """Packed rows hold whole elements; those that a map unpacks, whole pieces of 128."""
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


def _check_direction(subject: _Subject) -> None:
    for axis, stride in enumerate(subject.view.strides):
        if stride < 0:
            help = f"pass a copy: `numpy.ascontiguousarray({subject.declared.name})`"
            raise subject.refuse(f"dimension {axis} runs backwards (stride {stride} bytes)", help)


def _check_innermost(subject: _Subject) -> None:
    view, last = subject.view, len(subject.view.shape) - 1
    if last < 0 or (last in subject.stride_axes and not subject.declared.through_tensor_map):
        return
    if view.strides[last] != view.itemsize:
        raise subject.refuse(
            f"the innermost dimension must be contiguous: its stride is {view.strides[last]} bytes, the element has {view.itemsize}",
            f"pass a copy: `numpy.ascontiguousarray({subject.declared.name})`, or `.contiguous()` for a torch tensor",
        )


def _check_base(subject: _Subject) -> None:
    through_map = subject.declared.through_tensor_map
    alignment = TENSOR_MAP_ALIGNMENT if through_map else subject.view.itemsize
    if excess := subject.view.address % alignment:
        why = "a tensor map (TMA) needs" if through_map else "its element type needs"
        raise subject.refuse(
            f"the first element lies {excess} bytes past a multiple of {alignment}; {why} {alignment}-byte alignment",
            "pass an array that starts at the beginning of its allocation, or a copy of this one",
        )


def _check_outer_strides(subject: _Subject) -> None:
    declared, view = subject.declared, subject.view
    contiguous = contiguous_strides(view.shape, view.itemsize)
    for axis in range(len(view.shape) - 1):
        stride = view.strides[axis]
        if declared.through_tensor_map:
            _check_map_stride(subject, axis, stride)
        if not declared.through_pointer:
            continue
        if axis not in subject.stride_axes and view.shape[axis] > 1 and stride != contiguous[axis]:
            raise subject.refuse(
                f"the array must have no gaps: dimension {axis} has stride {stride} bytes, expected {contiguous[axis]}",
                f"pass a copy: `numpy.ascontiguousarray({declared.name})`, or `.contiguous()` for a torch tensor",
            )
        if stride % view.itemsize:
            raise subject.refuse(f"stride {stride} bytes of dimension {axis} is no multiple of the element's {view.itemsize}")


def _check_map_stride(subject: _Subject, axis: int, stride: int) -> None:
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


def _check_clipping(subject: _Subject) -> None:
    declared, view = subject.declared, subject.view
    if not (declared.written and declared.through_tensor_map and view.shape):
        return
    inner = view.shape[-1] * view.itemsize
    if inner % TENSOR_MAP_ALIGNMENT:
        step = TENSOR_MAP_ALIGNMENT // view.itemsize
        name = declared.shape[-1]
        raise subject.refuse(
            f"its rows have {view.shape[-1]} elements ({inner} bytes), but a TMA store writes whole 16-byte pieces: "
            f"it would write {TENSOR_MAP_ALIGNMENT - inner % TENSOR_MAP_ALIGNMENT} bytes past the end of a row",
            f"make dimension `{name}` a multiple of {step} elements",
        )


def _check_self_overlap(subject: _Subject) -> None:
    view = subject.view
    if not subject.declared.written:
        return
    reach = view.itemsize
    for stride, size in sorted((stride, size) for stride, size in zip(view.strides, view.shape, strict=True) if size > 1):
        if stride < reach:
            raise subject.refuse(
                f"the kernel writes it, but its elements overlap: stride {stride} bytes is less than the {reach} bytes it steps over",
                "pass an array that has memory of its own for each element",
            )
        reach += (size - 1) * stride


_TYPE_CHECKS: tuple[Callable[[_Subject], None], ...] = (_check_rank, _check_dtype, _check_sizes)
_LAYOUT_CHECKS: tuple[Callable[[_Subject], None], ...] = (
    _check_whole_elements,
    _check_direction,
    _check_innermost,
    _check_base,
    _check_outer_strides,
    _check_clipping,
    _check_self_overlap,
)


# --- all tensors together --------------------------------


def element_shape(argument: TensorArgument, view: View) -> tuple[int, ...]:
    """The extents in elements: packed elements are passed as bytes."""
    bits = DTYPES[argument.dtype].bits
    return view.shape if not DTYPES[argument.dtype].is_packed else (*view.shape[:-1], view.shape[-1] * 8 // bits)


def _dimensions(interface: KernelInterface, views: Mapping[str, View]) -> dict[str, int]:
    found: dict[str, tuple[int, str, int]] = {}
    for argument in tensors(interface):
        for axis, (declared, size) in enumerate(zip(argument.shape, element_shape(argument, views[argument.name]), strict=True)):
            if isinstance(declared, int):
                if declared != size:
                    problem = f"dimension {axis} must be {declared}, got {size}: shape {views[argument.name].shape}"
                    raise ArgumentError(interface.name, argument.name, problem)
                continue
            known, owner, at = found.setdefault(declared, (size, argument.name, axis))
            if known != size:
                raise ArgumentError(
                    interface.name,
                    argument.name,
                    f"dimension `{declared}` is {size} here (axis {axis}) but {known} in `{owner}` (axis {at})",
                    f"`{owner}` and `{argument.name}` must agree in `{declared}`; is one of them transposed?",
                )
    return {name: size for name, (size, _, _) in found.items()}


def check_overlap(interface: KernelInterface, views: Mapping[str, View]) -> None:
    """No tensor that the kernel writes shares memory with another; raises ArgumentError."""
    for argument in tensors(interface):
        for other in tensors(interface) if argument.written else ():
            if other.name == argument.name or not _share_memory(views[argument.name], views[other.name]):
                continue
            mine, theirs = views[argument.name].address, views[other.name].address
            raise ArgumentError(
                interface.name,
                argument.name,
                f"the kernel writes it, but it shares memory with `{other.name}` (addresses {mine:#x} and {theirs:#x})",
                f"pass an array of its own for `{argument.name}`",
            )


def _share_memory(one: View, two: View) -> bool:
    if one.device != two.device or one.empty or two.empty:
        return False
    if one.address + one.extent <= two.address or two.address + two.extent <= one.address:
        return False
    return share_memory(*(Elements(view.address, view.shape, view.strides, view.itemsize) for view in (one, two)))


@dataclass(frozen=True, slots=True)
class Elements:
    """Where the elements of a tensor lie; strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        typestr = f"|V{self.itemsize}"
        return {"version": 3, "data": (self.address, True), "shape": self.shape, "strides": self.strides, "typestr": typestr}


def share_memory(one: Elements, two: Elements) -> bool:
    """Whether an element of one lies where an element of the other does; True when that takes too long to tell."""
    try:
        # NumPy decides this from addresses and strides alone; the memory (perhaps a GPU's) is not touched.
        return np.shares_memory(np.asarray(one), np.asarray(two), max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _common_device(interface: KernelInterface, views: Mapping[str, View]) -> str:
    device, owner = "cpu", ""
    for name, view in views.items():
        if not owner:
            device, owner = view.device, name
        elif view.device != device:
            raise ArgumentError(
                interface.name,
                name,
                f"it is on device `{view.device}`, but `{owner}` is on `{device}`",
                "move all arrays to one device; arrays in host memory are copied there and back",
            )
    return device
