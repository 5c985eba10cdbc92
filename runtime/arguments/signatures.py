"""Splits the arguments of a call into the part that it shares with earlier calls, and the rest: addresses and scalars.

The hot path of every launch: reads seven attributes of a torch tensor, and creates nothing but one list.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from pipec.interface import KernelInterface, TensorArgument
from pipec.runtime.arguments.tensors import alignment
from pipec.runtime.arguments.views import NotAnArray, View, is_torch, view_of

_NO_MEMORY = -1  # replaces the low bits of a null address: an empty tensor, or one whose memory was freed

# The exceptions of an unreadable argument. Binding it to its parameter gives it a message.
UNREADABLE = (AttributeError, BufferError, IndexError, NotAnArray, NotImplementedError, RuntimeError, TypeError, ValueError)

Select = Callable[[Sequence[Any]], Sequence[Any]]


# The arguments of a call, split into: the key, everything that a launch depends on except addresses and scalars; the tensors' addresses,
# in the kernel's order; the scalars; and the arrays of libraries other than torch by tensor index, which keep exported memory alive until
# the launch. A plain tuple: creating a named one takes as long as reading four attributes.
Reading = tuple[tuple[object, ...], list[int], Sequence[Any], dict[int, View] | None]


class Reader:
    """Reads the arguments of one kernel, in its order."""

    def __init__(self, interface: KernelInterface) -> None:
        is_tensor = [isinstance(argument, TensorArgument) for argument in interface.arguments]
        self.tensors = _selection([at for at, one in enumerate(is_tensor) if one])
        self.numbers = None if all(is_tensor) else _selection([at for at, one in enumerate(is_tensor) if not one])
        self.count = len(is_tensor)
        self.low_bits = alignment(interface) - 1  # of an address; they are part of the signature

    def __call__(self, arguments: Sequence[Any]) -> Reading | None:
        """None for arguments whose launch cannot use a plan, such as those in host memory."""
        if len(arguments) != self.count:
            return None
        key: list[Any] = []
        addresses: list[int] = []
        low_bits = self.low_bits
        try:
            for tensor in self.tensors(arguments):
                address = tensor.data_ptr()
                addresses.append(address)
                # Only CUDA tensors have plans, so the device index identifies the device. One nested tuple per tensor: copying its
                # elements takes longer than a nested comparison.
                key.append(
                    (
                        tensor.shape,
                        tensor.stride(),
                        tensor.dtype,
                        tensor.get_device(),
                        tensor.is_neg(),
                        tensor.requires_grad,
                        address & low_bits if address else _NO_MEMORY,
                    )
                )
        except UNREADABLE:
            return self._others(arguments)
        if self.numbers is None:
            return tuple(key), addresses, (), None
        numbers = self.numbers(arguments)
        key += map(type, numbers)
        return tuple(key), addresses, numbers, None

    def _others(self, arguments: Sequence[Any]) -> Reading | None:
        """The same through the protocols common to all array libraries."""
        key: list[Any] = []
        addresses: list[int] = []
        views: dict[int, View] = {}
        try:
            for at, array in enumerate(self.tensors(arguments)):
                view = view_of(array)
                if view.on_host:
                    return None
                if not is_torch(type(array)):
                    views[at] = view
                differentiable = bool(getattr(array, "requires_grad", False))
                low = view.address & self.low_bits if view.address else _NO_MEMORY
                key += (at in views, view.shape, view.strides, view.dtype, view.device, view.readonly, differentiable, low)
                addresses.append(view.address)
        except UNREADABLE:
            return None
        numbers = () if self.numbers is None else self.numbers(arguments)
        return (*key, *map(type, numbers)), addresses, numbers, views


def _selection(places: list[int]) -> Select:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda arguments: [arguments[at] for at in places]
