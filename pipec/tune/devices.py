"""Which GPU a call's arguments would run on."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from pipec.tune.tuned import Gpu


def gpu_for(arch: str, arguments: Sequence[Any], device: str) -> Gpu | None:
    """The device of the arguments, the requested one, or the first that runs code for `arch`; None if there is none.

    Invalid arguments are reported by the launcher, not here.
    """
    for argument in arguments:
        place: Any = getattr(argument, "device", None)
        if getattr(argument, "is_cuda", False):  # torch
            return _gpu(arch, place.index)
        if hasattr(argument, "__cuda_array_interface__"):  # CuPy and similar
            return _gpu(arch, getattr(place, "id", 0))
    index = device.removeprefix("cuda").removeprefix(":")
    return _gpu(arch, int(index) if index.isdecimal() and len(index) < 4 else None)


@cache
def _gpu(arch: str, index: int | None) -> Gpu | None:
    from pipec.runtime import DeviceError
    from pipec.runtime.gpu.cuda_driver import device, fitting_device

    try:
        found = fitting_device(arch) if index is None else device(index)
    except DeviceError:
        return None
    return Gpu(found.name, found.multiprocessors) if found.runs(arch) else None
