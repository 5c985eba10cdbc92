"""CuTe DSL programs without a GPU: they compile as for one, and run in the simulator.

    import pipec.cute
    pipec.cute.install(arch="sm_90a")             # before the program imports cutlass
    import cutlass.cute as cute
    cute.compile(function, from_dlpack(x), ...)   # an unmodified @cute.jit function

Arguments are tensors in host memory, of torch or NumPy. A kernel with undefined behaviour raises SimulationError with the line of the
CuTe DSL source; warnings are collected by `findings()`. See docs/sanitizer.md.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.sim.findings import Finding
from pipec.sim.machine.machine import Options

if TYPE_CHECKING:
    from pipec.cute.device import SimulatedDevice

_SUPPORTED = "4.8"  # the release whose compiled functions device.py serves

_installed: list["SimulatedDevice"] = []


class NoCute(RuntimeError):
    """CuTe DSL is not installed, is an unsupported release, or was imported too early."""


def install(arch: str = DEFAULT_TARGET, options: Options | None = None) -> None:
    """From now on CuTe DSL compiles for `arch` and launches in the simulator, with `options`. Installing again changes the options.

    Raises NoCute, also if the arch changes or CuTe DSL was imported before (it reads its settings once), and ValueError for a target that
    pipec does not support.
    """
    if arch not in TARGETS:
        raise ValueError(f"arch={arch!r}: there is {', '.join(TARGETS)}")
    try:
        found = version("nvidia-cutlass-dsl")
    except PackageNotFoundError as error:
        raise NoCute(f"CuTe DSL {_SUPPORTED} is needed: {error}") from None
    if not f"{found}.".startswith(f"{_SUPPORTED}."):
        raise NoCute(f"CuTe DSL {_SUPPORTED} is needed, and {found} is here")
    earlier = _installed[-1] if _installed else None
    if "cutlass" in sys.modules and (earlier is None or earlier.target is not TARGETS[arch]):
        raise NoCute("CuTe DSL reads its settings when it is imported: install before that, and for one target")
    uninstall()
    try:
        from pipec.cute.device import SimulatedDevice

        device = SimulatedDevice(TARGETS[arch], options or Options(trace=False))
        device.install()
    except ImportError as error:
        raise NoCute(f"CuTe DSL {_SUPPORTED} is needed: {error}") from None
    _installed.append(device)


def uninstall() -> None:
    """CuTe DSL looks for a GPU again. Functions that are compiled already stay with the simulator."""
    while _installed:
        _installed.pop().uninstall()


def findings(*, clear: bool = False) -> list[Finding]:
    """Warnings from launches since `install`, or since they were last cleared."""
    found = [finding for device in _installed for finding in device.findings]
    if clear:
        for device in _installed:
            device.findings.clear()
    return found


def reachable(*tensors: object) -> None:
    """Tensors that kernels access by addresses alone (`make_ptr`, tables of pointers). Kept alive until `uninstall`."""
    for device in _installed:
        for one in tensors:
            device.keep(one)


__all__ = ["NoCute", "findings", "install", "reachable", "uninstall"]
