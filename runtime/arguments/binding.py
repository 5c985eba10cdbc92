"""Binds call arguments to a kernel's parameters and rejects what the kernel cannot take, before anything runs.

The rules are the same for the simulator and a GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipec.diag.shown import shown
from pipec.interface import KernelInterface, ScalarArgument
from pipec.isa.dtypes import DTYPES
from pipec.runtime.arguments.overlap import check_overlap
from pipec.runtime.arguments.scalars import scalar_bytes
from pipec.runtime.arguments.tensors import checked_tensor, element_shape, tensors
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel's arguments after all checks.

    `views`: each tensor, with the strides of dimensions of size 0 or 1 normalised. `scalars`: each scalar's bytes as the kernel reads
    them. `integers`: the names available to launch expressions, dimensions and integer scalars. `device`: "cpu" or "cuda:N".
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
                # A float cannot determine the number of blocks.
                integers[argument.name] = int(value)
        else:
            views[argument.name] = checked_tensor(interface, argument, value)
    dimensions = _dimensions(interface, views)
    # After the dimensions: if sizes disagree, that is the error, and an overlap is its consequence.
    check_overlap(interface, views)
    return Bound(views, scalars, integers | dimensions, dimensions, _common_device(interface, views))


def _named(interface: KernelInterface, arguments: Sequence[Any] | Mapping[str, Any]) -> Mapping[str, Any]:
    names = [argument.name for argument in interface.arguments]
    listed = ", ".join(names)
    if not isinstance(arguments, Mapping):
        if not isinstance(arguments, Sequence) or isinstance(arguments, str | bytes):
            raise ArgumentError(interface.name, "", f"pass a list of values ({listed}) or a mapping, not {shown(arguments)}")
        if len(arguments) != len(names):
            at = names[len(arguments)] if len(arguments) < len(names) else ""
            raise ArgumentError(interface.name, at, f"the kernel takes {len(names)} arguments ({listed}), got {len(arguments)}")
        return dict(zip(names, arguments, strict=True))
    for name in names:
        if name not in arguments:
            raise ArgumentError(interface.name, name, f"no value was passed; the kernel takes {listed}")
    for name in arguments:
        if name not in names:
            raise ArgumentError(interface.name, str(name), f"there is no such parameter; the kernel takes {listed}")
    return arguments


def _dimensions(interface: KernelInterface, views: Mapping[str, View]) -> dict[str, int]:
    found: dict[str, tuple[int, str, int]] = {}
    for argument in tensors(interface):
        for axis, (declared, size) in enumerate(
            zip(argument.shape, element_shape(argument, views[argument.name].shape), strict=True)
        ):
            if isinstance(declared, int):
                if declared != size:
                    problem = f"dimension {axis} must be {declared}, got {size}: shape {views[argument.name].shape}"
                    raise ArgumentError(interface.name, argument.name, problem)
                continue
            # The first tensor with the dimension determines it, in parameter order: messages then name the first mention.
            known, owner, at = found.setdefault(declared, (size, argument.name, axis))
            if known != size:
                raise ArgumentError(
                    interface.name,
                    argument.name,
                    f"dimension `{declared}` is {size} here (axis {axis}) but {known} in `{owner}` (axis {at})",
                    f"`{owner}` and `{argument.name}` must agree in `{declared}`; is one of them transposed?",
                )
    return {name: size for name, (size, _, _) in found.items()}


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
