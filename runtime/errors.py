"""What the runtime raises: each error names the kernel, and what to do about it where that is known."""


class RuntimeFault(Exception):
    """Base of the runtime's errors. `problem` says what is wrong, `help` what would mend it."""

    def __init__(self, problem: str, help: str | None = None) -> None:
        super().__init__(problem + (f"\n  help: {help}" if help else ""))
        self.problem = problem
        self.help = help


class ArgumentError(RuntimeFault, ValueError):
    """An argument that the kernel cannot be called with; raised before anything runs."""

    def __init__(self, kernel: str, parameter: str, problem: str, help: str | None = None) -> None:
        super().__init__(f"kernel `{kernel}`, parameter `{parameter}`: {problem}", help)
        self.kernel = kernel
        self.parameter = parameter


class DeviceError(RuntimeFault):
    """There is no device to run on: no driver, no GPU, or none of the kernel's architecture."""


class LaunchError(RuntimeFault):
    """The device or its driver refused a launch; `call` is the driver function, `status` its result name."""

    def __init__(self, kernel: str, problem: str, help: str | None = None, call: str = "", status: str = "") -> None:
        super().__init__(f"kernel `{kernel}`: {problem}", help)
        self.kernel = kernel
        self.call = call
        self.status = status
