"""Exceptions of the runtime: each names the kernel, and a remedy if known."""

from collections.abc import Mapping, Sequence
from typing import Any


class RuntimeFault(Exception):
    """Base class of the runtime's errors. `problem` is what is wrong, `help` the remedy."""

    def __init__(self, problem: str, help: str | None = None) -> None:
        super().__init__(problem + (f"\n  help: {help}" if help else ""))
        self.problem = problem
        self.help = help

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickling (an error from another process): restored from its state, as its parameters are not its `args`."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type["RuntimeFault"], args: tuple[Any, ...]) -> "RuntimeFault":
    fault = kind.__new__(kind)
    fault.args = args
    return fault


class ArgumentError(RuntimeFault, ValueError):
    """An argument that the kernel does not accept; raised before anything runs. `parameter`: empty if the call as a whole does not fit."""

    def __init__(self, kernel: str, parameter: str, problem: str, help: str | None = None) -> None:
        super().__init__(f"kernel `{kernel}`{f', parameter `{parameter}`' if parameter else ''}: {problem}", help)
        self.kernel = kernel
        self.parameter = parameter


class DeviceError(RuntimeFault):
    """There is no device to run on: no driver, no GPU, or none with the kernel's architecture."""


class LaunchError(RuntimeFault):
    """The device or its driver refused a launch; `call` is the driver function, `status` its result name."""

    def __init__(self, kernel: str, problem: str, help: str | None = None, call: str = "", status: str = "") -> None:
        super().__init__(f"kernel `{kernel}`: {problem}", help)
        self.kernel = kernel
        self.call = call
        self.status = status


class HangError(LaunchError):
    """A kernel compiled with a watchdog was blocked: diagnostic E1010.

    `blocked` has an entry for each waiting warp, as in the simulator's deadlock report: "cta", "role", "warp", "pipeline", "side",
    "stage", "phase", "iteration", "line" and the sentence under "text"; `cycle` is the wait cycle, empty if none is visible; `report`
    has all of it as text. `lost` means that the GPU's context is lost: this process can launch nothing more on it.
    """

    code = "E1010"

    def __init__(
        self, kernel: str, seconds: float, blocked: Sequence[Mapping[str, Any]], cycle: Sequence[str], report: str, lost: bool
    ) -> None:
        self.summary = f"a wait took longer than {seconds:g} s"
        super().__init__(kernel, f"it hangs: {self.summary} ({self.code}); blocked:\n{report}", LOST if lost else None)
        self.seconds = seconds
        self.blocked = blocked
        self.cycle = cycle
        self.report = report
        self.lost = lost


LOST = "the trap ended the GPU's context: nothing more can be launched from this process, go on in a fresh one"
