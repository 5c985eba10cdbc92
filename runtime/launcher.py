"""Calling a compiled kernel: selects the device, checks the arguments, launches.

A `Launcher` belongs to one kernel and keeps its prepared launches; `launch` does the same for a single call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipec.interface import MULTIPROCESSORS, KernelInterface, LaunchExpression, ScalarArgument
from pipec.runtime.again import Again, Prepared, Recent, again
from pipec.runtime.arguments.signatures import Reader
from pipec.runtime.arguments.views import recording
from pipec.runtime.errors import DeviceError, LaunchError
from pipec.runtime.image import Image
from pipec.runtime.result import LaunchResult

if TYPE_CHECKING:
    from pipec.runtime.arguments.binding import Bound
    from pipec.runtime.arguments.views import View
    from pipec.runtime.gpu.cuda import CudaKernel
    from pipec.sim import Options

DEVICES = ("auto", "cuda", "sim")
REMEMBERED = 1024  # signatures whose plans are kept per kernel
_TRIES = 8  # recognisers created per signature, at most


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """`simulation`: options of the simulator. `programmatic`: the kernel may start before its predecessor in the stream has ended
    (programmatic dependent launch; the kernel must wait for it itself); None: as the kernel declares. `multiprocessors`: the maximum
    that a kernel whose grid follows the GPU may use; the others are left to other streams."""

    simulation: "Options | None" = None
    programmatic: bool | None = None
    multiprocessors: int | None = None


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


@dataclass(frozen=True, slots=True)
class _Known:
    """What is cached for a signature; `again`, if launches like it can be recognised."""

    prepared: Prepared
    again: Again | None


@dataclass(frozen=True, slots=True)
class _NoDevice:
    """Why there is no device. The exception itself is not kept: its traceback references the caller's arguments."""

    problem: str
    help: str | None


class Launcher:
    """One kernel, callable from any thread; keeps loaded code and prepared launches, but no arguments."""

    def __init__(self, interface: KernelInterface, code: Image | str | bytes) -> None:
        self.interface = interface
        self.image = Image.of(code)
        self._names = tuple(argument.name for argument in interface.arguments)
        scalars = [argument.name for argument in interface.arguments if isinstance(argument, ScalarArgument)]
        # Scalars that the grid or a condition depends on: their values are part of the signature.
        self._shaping = tuple(
            scalars.index(name) for name in sorted({*scalars} & {*_names_in((interface.grid, interface.conditions))})
        )
        self._follows = MULTIPROCESSORS in _names_in(interface.grid)  # the grid depends on the GPU
        self._read = Reader(interface)
        self._cuda: dict[int, CudaKernel] = {}
        self._known: dict[tuple[object, ...], _Known] = {}
        self.recent = Recent(self._read.tensors)
        self._lock = Lock()
        self._fitting: int | _NoDevice | None = None

    def __call__(
        self,
        arguments: Sequence[Any] | Mapping[str, Any],
        *,
        device: str = "auto",
        stream: Any = None,
        options: LaunchOptions | None = None,
    ) -> LaunchResult:
        if options is None and type(arguments) is tuple:
            result = self.recent.launch(arguments, device, stream)
            if result is not None:
                return result
        options = options or _DEFAULTS
        # The simulator takes far longer than any check, so its launches are not cached.
        if device == "sim":
            return self._unknown(arguments, device, stream, options, None)
        ordered = arguments if type(arguments) is tuple else self._ordered(arguments)
        reading = self._read(ordered)
        if reading is None:
            return self._unknown(arguments, device, stream, options, None)
        key, addresses, numbers, views = reading
        for at in self._shaping:
            # A bool or a NumPy integer equals an int and would share its plan, which packs an int.
            if type(numbers[at]) is not int:
                return self._unknown(arguments, device, stream, options, None)
            key += (numbers[at],)
        signature = (device, options.programmatic, options.multiprocessors, key)
        known = self._known.get(signature)
        if known is None:
            return self._unknown(arguments, device, stream, options, signature)
        prepared = known.prepared
        plan = prepared.plan
        # Both can change from call to call with the same signature. The slow path finds the message to refuse with.
        if (plan.differentiable and recording()) or not plan.separate(addresses):
            return self._unknown(arguments, device, stream, options, None)  # raises the error
        if views:
            self._check_memory(prepared, addresses, views)
        # From the second launch of a signature on, this is all that remains, and even less if the next one is recognised.
        prepared.kernel.launch(plan, addresses, numbers, stream)
        if known.again is not None:
            tried = self.recent.tried(known.again, ordered)
            self.recent.keep(self._renewed(signature, known, ordered) if tried else known.again, ordered)
        return prepared.result

    def _renewed(self, signature: tuple[object, ...], known: _Known, arguments: Sequence[Any]) -> Again | None:
        """For a launch with the signature of the last one, whose tensors were not recognised because torch's state has changed."""
        last = known.again
        if last is None or last.made >= _TRIES:
            return last
        new = again(known.prepared, last.device, self._read, arguments, self._shaping, last.made + 1)
        self._remember(signature, _Known(known.prepared, new))
        return new

    def _ordered(self, arguments: Sequence[Any] | Mapping[str, Any]) -> Sequence[Any]:
        """In the kernel's order; too few if a name is missing."""
        if not isinstance(arguments, Mapping):
            return arguments
        return [arguments[name] for name in self._names if name in arguments] if len(arguments) == len(self._names) else ()

    def _check_memory(self, known: Prepared, addresses: Sequence[int], views: "Mapping[int, View]") -> None:
        """Checks that arrays of libraries other than torch are in memory known to CUDA."""
        from pipec.runtime.gpu import guards

        for place in known.plan.places:
            if place.tensor in views:
                guards.check_memory(known.kernel.driver, self.interface.name, place.name, addresses[place.tensor], place.extent)

    def _unknown(
        self, arguments: Any, device: str, stream: Any, options: LaunchOptions, signature: tuple[object, ...] | None
    ) -> LaunchResult:
        """A launch with all checks; its plan is cached under `signature`."""
        from pipec.runtime.arguments.binding import bind
        from pipec.runtime.arguments.parameters import grid_of

        bound = bind(self.interface, arguments)
        where = self._resolve(device, bound)
        if where == "sim":
            return self._simulate(bound, grid_of(self.interface, bound, _at_most(self.image.multiprocessors, options)), options)
        kernel = self._kernel(int(where.removeprefix("cuda:")))
        # A block that does not fit the device at all is rejected before querying how many fit.
        kernel.check_limits()
        resident = kernel.resident() if self._follows else kernel.device.multiprocessors
        grid = grid_of(self.interface, bound, _at_most(resident, options))
        result = LaunchResult(self.interface.name, where, grid, bound.dimensions, 0 not in grid)
        if not result.launched:
            return result
        programmatic = self.interface.programmatic_launch if options.programmatic is None else options.programmatic
        # Copies have new addresses each time and the call synchronises, so a plan would save nothing.
        if bound.device == "cpu":
            kernel.launch_copies(bound, grid, programmatic, stream)
            return result
        numbers = [given for given, name in zip(self._ordered(arguments), self._names, strict=True) if name in bound.scalars]
        plan = kernel.plan(bound, grid, programmatic, numbers)
        kernel.launch(plan, [view.address for view in bound.views.values()], numbers, stream)
        if signature is not None:
            prepared = Prepared(kernel, plan, result)
            ordered = self._ordered(arguments)
            usual = options == _DEFAULTS
            new = again(prepared, device, self._read, ordered, self._shaping, 1) if usual else None
            self.recent.keep(new, ordered)
            self._remember(signature, _Known(prepared, new))
        return result

    def _remember(self, signature: tuple[object, ...], known: _Known) -> None:
        with self._lock:
            if len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[signature] = known

    def _simulate(self, bound: "Bound", grid: tuple[int, int, int], options: LaunchOptions) -> LaunchResult:
        if self.image.ptx is None:
            raise LaunchError(self.interface.name, "the simulator runs PTX, but only machine code was given", "pass the PTX text")
        # Imported late: a process that only launches on a GPU never loads the simulator.
        from pipec.runtime.simulate import simulate

        launched = 0 not in grid
        result = simulate(self.interface, self.image.ptx, bound, grid, options.simulation) if launched else None
        return LaunchResult(self.interface.name, "sim", grid, bound.dimensions, launched, result)

    def _resolve(self, device: str, bound: "Bound") -> str:
        """ "sim" or "cuda:N"; raises DeviceError for a device that does not exist or does not match the arrays."""
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
        from pipec.runtime.gpu import cuda

        if self._fitting is None:
            try:
                self._fitting = cuda.fitting_device(self.image.arch).index
            except DeviceError as missing:
                self._fitting = _NoDevice(missing.problem, missing.help)
        if isinstance(self._fitting, _NoDevice):
            if required:
                raise DeviceError(self._fitting.problem, self._fitting.help)
            return "sim"
        return f"cuda:{self._fitting}"

    def _kernel(self, index: int) -> "CudaKernel":
        from pipec.runtime.gpu.cuda import CudaKernel

        with self._lock:
            if index not in self._cuda:
                self._cuda[index] = CudaKernel(self.interface, self.image, index)
            return self._cuda[index]


_DEFAULTS = LaunchOptions()


def _at_most(multiprocessors: int, options: LaunchOptions) -> int:
    return multiprocessors if options.multiprocessors is None else max(1, min(multiprocessors, options.multiprocessors))


def _names_in(expression: LaunchExpression) -> Iterator[str]:
    """The names in a launch expression, including operators."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, tuple):
        for part in expression:
            yield from _names_in(part)
