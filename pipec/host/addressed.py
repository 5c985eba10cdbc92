"""Tensors whose addresses a program has asked for: it may hand them to kernels in tables of pointers, or as numbers."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pipec.host.tensors import memory_of
from pipec.sim.ptx.types import Bytes

_TRUE = torch._C.TensorBase.data_ptr
# Whoever passes a tensor to a kernel asks for its address as well, and knows the tensor itself.
_LAUNCHERS = ("triton.", "pipec.", "torch.")


class Addressed:
    """The memory of these tensors, as long as it is in use; they are not kept alive."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[Any, Bytes]] = {}

    @property
    def data_ptr(self) -> Callable[[Any], int]:
        """In the place of `torch.Tensor.data_ptr`."""

        def asked(tensor: Any) -> int:
            address: int = _TRUE(tensor)
            if address and not sys._getframe(1).f_globals.get("__name__", "").startswith(_LAUNCHERS):
                storage = tensor.untyped_storage()
                self._storages[storage.data_ptr()] = StorageWeakRef(storage), memory_of(tensor)
            return address

        return asked

    def memory(self) -> list[Bytes]:
        self._storages = {place: one for place, one in self._storages.items() if not one[0].expired()}
        return [memory for _, memory in self._storages.values()]
