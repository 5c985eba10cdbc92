"""Triton and Gluon programs without a GPU: they compile as for one, and run in the simulator.

    import pipec.triton
    pipec.triton.install(arch="sm_100a")          # before the first launch
    x = pipec.triton.tensor(np.ones(1024, np.float32))
    kernel[(4,)](x, ..., BLOCK=256)               # an unmodified @triton.jit function

Arguments are tensors of torch on the CPU, or NumPy arrays as `tensor` makes them of any. A kernel with undefined behaviour raises
SimulationError with the line of the Triton source; warnings are collected by `findings()`. See docs/sanitizer.md.
"""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pipec.host.tensors import Tensor, memory_of, tensor
from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.sim.findings import Finding
from pipec.sim.machine.machine import Options

if TYPE_CHECKING:
    from pipec.triton.driver import SimulatorDriver

# Distributions that are imported as `triton`, what they are called, and the release whose launch protocol launcher.py implements.
_SUPPORTED = (("triton", "Triton", "3.9"), ("fbtriton", "fbtriton", "3.7"))
_NEEDED = " or ".join(f"{title} {release}" for _, title, release in _SUPPORTED)

_installed: list["SimulatorDriver"] = []


class NoTriton(RuntimeError):
    """Triton is not installed, or is an unsupported release."""


def install(arch: str = DEFAULT_TARGET, options: Options | None = None) -> None:
    """From now on Triton compiles for `arch` and launches in the simulator, with `options`. Installing again changes both.

    Raises NoTriton, and ValueError for a target that pipec does not support.
    """
    if arch not in TARGETS:
        raise ValueError(f"arch={arch!r}: there is {', '.join(TARGETS)}")
    _check_release()
    try:
        from pipec.triton.driver import SimulatorDriver
    except ImportError as error:
        raise NoTriton(f"{_NEEDED} is needed: {error}") from None
    uninstall()
    driver = SimulatorDriver(TARGETS[arch], options or Options(trace=False))
    driver.install()
    _installed.append(driver)


def _check_release() -> None:
    for name, title, release in _SUPPORTED:
        with suppress(PackageNotFoundError):
            found = version(name)
            if not f"{found}.".startswith(f"{release}."):
                raise NoTriton(f"{title} {release} is needed, and {found} is here")
            return
    raise NoTriton(f"{_NEEDED} is needed")


def uninstall() -> None:
    """Triton looks for a GPU again."""
    while _installed:
        _installed.pop().uninstall()


def findings(*, clear: bool = False) -> list[Finding]:
    """Warnings from launches since `install`, or since they were last cleared."""
    found = [finding for driver in _installed for finding in driver.findings]
    if clear:
        for driver in _installed:
            driver.findings.clear()
    return found


def reachable(*tensors: object) -> None:
    """Tensors that kernels access through addresses in memory (tables of pointers), in addition to their arguments. Kept alive until
    `uninstall`. Raises TypeError for anything but a host tensor."""
    for driver in _installed:
        driver.reachable += [(one, memory_of(one)) for one in tensors]


__all__ = ["NoTriton", "Tensor", "findings", "install", "reachable", "tensor", "uninstall"]
