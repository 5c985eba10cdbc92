"""Calls compiled kernels: checks arguments, then launches on a GPU or on the simulator.

    from pipec import runtime
    runtime.launch(interface, ptx, (a, b, d), device="auto")

Importing this is cheap: NumPy, the simulator and CUDA are imported by the first call that needs them.
"""

from typing import TYPE_CHECKING, Any

from pipec.runtime.errors import ArgumentError, DeviceError, HangError, LaunchError, RuntimeFault

if TYPE_CHECKING:
    from pipec.runtime.arguments.sample import random_arguments
    from pipec.runtime.gpu.cuda import devices
    from pipec.runtime.image import Image
    from pipec.runtime.launcher import Launcher, LaunchOptions, launch
    from pipec.runtime.result import LaunchResult

_LAZY = {
    "Image": "image",
    "LaunchOptions": "launcher",
    "LaunchResult": "result",
    "Launcher": "launcher",
    "launch": "launcher",
    "devices": "gpu.cuda",
    "random_arguments": "arguments.sample",
}

__all__ = [
    "ArgumentError",
    "DeviceError",
    "HangError",
    "Image",
    "LaunchError",
    "LaunchOptions",
    "LaunchResult",
    "Launcher",
    "RuntimeFault",
    "devices",
    "launch",
    "random_arguments",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
