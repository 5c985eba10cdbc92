"""Arrays that share memory: a kernel must not write to an array that it also accesses under another name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipec.interface import KernelInterface
from pipec.runtime.arguments.tensors import tensors
from pipec.runtime.arguments.views import View
from pipec.runtime.errors import ArgumentError


def check_overlap(interface: KernelInterface, views: Mapping[str, View]) -> None:
    """No tensor that the kernel writes shares memory with another; raises ArgumentError."""
    for argument in tensors(interface):
        for other in tensors(interface) if argument.written else ():
            if other.name == argument.name or not views_share_memory(views[argument.name], views[other.name]):
                continue
            mine, theirs = views[argument.name].address, views[other.name].address
            raise ArgumentError(
                interface.name,
                argument.name,
                f"the kernel writes it, but it shares memory with `{other.name}` (addresses {mine:#x} and {theirs:#x})",
                f"pass an array of its own for `{argument.name}`",
            )


def views_share_memory(one: View, two: View) -> bool:
    if one.device != two.device or one.empty or two.empty:
        return False
    if one.address + one.extent <= two.address or two.address + two.extent <= one.address:
        return False
    return share_memory(*(Elements(view.address, view.shape, view.strides, view.itemsize) for view in (one, two)))


@dataclass(frozen=True, slots=True)
class Elements:
    """The memory layout of a tensor; strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        typestr = f"|V{self.itemsize}"
        return {"version": 3, "data": (self.address, True), "shape": self.shape, "strides": self.strides, "typestr": typestr}


def share_memory(one: Elements, two: Elements) -> bool:
    """Whether the two have an element in common; True if that takes too long to decide."""
    try:
        # NumPy decides this from addresses and strides alone; the memory (possibly a GPU's) is not touched.
        return np.shares_memory(np.asarray(one), np.asarray(two), max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
