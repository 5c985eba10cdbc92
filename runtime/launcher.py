"""Calling a compiled kernel: choose the device, check the arguments, launch.

A `Launcher` belongs to one kernel and keeps what it prepared; `launch` is the same for a single call.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipec.interface import KernelInterface
from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.runtime.errors import DeviceError, LaunchError

if TYPE_CHECKING:
    from pipec.runtime.arguments import Bound
    from pipec.runtime.cuda import CudaKernel, Prepared
    from pipec.sim import Options, Result

DEVICES = ("auto", "cuda", "sim")
REMEMBERED = 256  # prepared launches kept per kernel


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel's code: PTX, machine code, or both. `arch` as in `.target`, e.g. "sm_100a"; "" when not known."""

    ptx: str | None
    cubin: bytes | None
    arch: str

    @property
    def multiprocessors(self) -> int:
        """Of the largest GPU that runs the code."""
        return TARGETS[self.arch if self.arch in TARGETS else DEFAULT_TARGET].multiprocessors

    @staticmethod
    def of(code: "Image | str | bytes") -> "Image":
        """From PTX text or a cubin."""
        if isinstance(code, Image):
            return code
        if isinstance(code, str):
            target = re.search(r"^\s*\.target\s+(\w+)", code, re.MULTILINE)
            return Image(code, None, target[1] if target else "")
        return Image(None, bytes(code), "")


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """`simulation`: options of the simulator. `programmatic`: the kernel may start before the one in front of it in the
    stream has ended (programmatic dependent launch; the kernel must wait for it itself); None: as the kernel says."""

    simulation: "Options | None" = None
    programmatic: bool | None = None


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What ran: `device` "sim" or "cuda:N"; `launched` False when the grid was empty; `simulation` the simulator's result."""

    kernel: str
    device: str
    grid: tuple[int, int, int]
    dimensions: Mapping[str, int]
    launched: bool
    simulation: "Result | None" = None


def launch(
    interface: KernelInterface,
    code: Image | str | bytes,
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    device: str = "auto",
    stream: Any = None,
    options: LaunchOptions | None = None,
) -> LaunchResult:
    """Calls a kernel once. `code` is PTX text, a cubin or an Image; `arguments` in the kernel's order or by name.

    `device`: "sim" works in place on host arrays; "cuda" or "cuda:N" launches on a GPU (host arrays are copied there and
    outputs back, and the call then waits for the kernel); "auto" takes the arrays' GPU, or a GPU that fits the kernel, or
    the simulator. Raises ArgumentError, DeviceError, LaunchError, or the simulator's SimulationError.
    """
    return Launcher(interface, code)(arguments, device=device, stream=stream, options=options)


class Launcher:
    """One kernel, ready to be called; remembers loaded code and prepared launches."""

    def __init__(self, interface: KernelInterface, code: Image | str | bytes) -> None:
        self.interface = interface
        self.image = Image.of(code)
        self._cuda: dict[int, CudaKernel] = {}
        self._remembered: OrderedDict[tuple, tuple[CudaKernel, Prepared, LaunchResult]] = OrderedDict()
        self._fitting: int | None | DeviceError = None

    def __call__(
        self,
        arguments: Sequence[Any] | Mapping[str, Any],
        *,
        device: str = "auto",
        stream: Any = None,
        options: LaunchOptions | None = None,
    ) -> LaunchResult:
        options = options or _DEFAULTS
        signature = _signature(arguments, device, options) if self._cuda else None
        # The same launch as an earlier one: same addresses, extents and scalars, so every check has been made.
        if signature is not None and (known := self._remembered.get(signature)) is not None:
            kernel, prepared, result = known
            kernel.launch(prepared, stream)
            return result
        from pipec.runtime.arguments import bind
        from pipec.runtime.parameters import grid_of

        bound = bind(self.interface, arguments)
        where = self._resolve(device, bound)
        if where == "sim":
            return self._simulate(bound, grid_of(self.interface, bound, self.image.multiprocessors), options)
        kernel = self._kernel(int(where.removeprefix("cuda:")))
        grid = grid_of(self.interface, bound, kernel.device.multiprocessors)
        kernel.check_limits()
        result = LaunchResult(self.interface.name, where, grid, bound.dimensions, 0 not in grid)
        if result.launched:
            if bound.device == "cpu":
                kernel.refuse_capture(stream)
            programmatic = self.interface.programmatic_launch if options.programmatic is None else options.programmatic
            prepared = kernel.prepare(bound, grid, programmatic)
            kernel.launch(prepared, stream)
            if signature is None:
                signature = _signature(arguments, device, options)
            if signature is not None and bound.device != "cpu":
                self._remembered[signature] = kernel, prepared, result
                if len(self._remembered) > REMEMBERED:
                    self._remembered.popitem(last=False)
        return result

    def _simulate(self, bound: "Bound", grid: tuple[int, int, int], options: LaunchOptions) -> LaunchResult:
        if self.image.ptx is None:
            raise LaunchError(self.interface.name, "the simulator runs PTX, but only machine code was given", "pass the PTX text")
        from pipec.runtime.simulate import simulate

        launched = 0 not in grid
        result = simulate(self.interface, self.image.ptx, bound, grid, options.simulation) if launched else None
        return LaunchResult(self.interface.name, "sim", grid, bound.dimensions, launched, result)

    def _resolve(self, device: str, bound: "Bound") -> str:
        """ "sim" or "cuda:N"; raises DeviceError for a device that is not there or does not fit the arrays."""
        name, _, index = device.partition(":")
        if name not in DEVICES or (index and not (name == "cuda" and index.isdigit())):
            raise DeviceError(f"there is no device {device!r}", "use 'auto', 'sim', 'cuda' or 'cuda:N'")
        on_gpu = bound.device != "cpu"
        if name == "sim":
            if on_gpu:
                help = "pass NumPy arrays, or copies: `tensor.cpu()`"
                raise DeviceError(f"the simulator works on host memory, but the arrays are on `{bound.device}`", help)
            return "sim"
        if on_gpu:
            if index and bound.device != device:
                raise DeviceError(f"the arrays are on `{bound.device}`, but device {device!r} was asked for")
            return bound.device
        if index:
            return device
        return self._fitting_gpu(name == "cuda")

    def _fitting_gpu(self, required: bool) -> str:
        from pipec.runtime import cuda

        if self._fitting is None:
            try:
                self._fitting = cuda.fitting_device(self.image.arch).index
            except DeviceError as missing:
                self._fitting = missing
        if isinstance(self._fitting, DeviceError):
            if required:
                raise self._fitting
            return "sim"
        return f"cuda:{self._fitting}"

    def _kernel(self, index: int) -> "CudaKernel":
        if index not in self._cuda:
            from pipec.runtime.cuda import CudaKernel

            self._cuda[index] = CudaKernel(self.interface, self.image, index)
        return self._cuda[index]


_DEFAULTS = LaunchOptions()

# --- recognising a repeated launch --------------------------------


def _torch_signature(tensor: Any) -> tuple:
    # An address is one of one device only, so the device need not be asked for.
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _interface_signature(array: Any) -> tuple:
    interface = array.__cuda_array_interface__
    return interface["data"], interface["shape"], interface.get("strides"), interface["typestr"]


def _number_signature(number: float) -> tuple:
    return type(number), repr(number)


# Type of an argument -> what identifies it, or None for types whose launches are prepared anew each time.
_SIGNATURES: dict[type, Callable[[Any], tuple] | None] = {int: _number_signature, float: _number_signature}


def _signature_of_type(kind: type) -> Callable[[Any], tuple] | None:
    if kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "data_ptr"):
        return _torch_signature
    return _interface_signature if hasattr(kind, "__cuda_array_interface__") else None


def _signature(arguments: Sequence[Any] | Mapping[str, Any], device: str, options: LaunchOptions) -> tuple | None:
    parts: list[Any] = [device, options.programmatic]
    if isinstance(arguments, Mapping):
        parts.extend(arguments)
        arguments = tuple(arguments.values())
    for argument in arguments:
        kind = type(argument)
        if kind not in _SIGNATURES:
            _SIGNATURES[kind] = _signature_of_type(kind)
        identify = _SIGNATURES[kind]
        if identify is None:
            return None
        parts.append(identify(argument))
    return tuple(parts)
