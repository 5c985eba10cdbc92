"""A Triton driver whose GPU is the simulator: answers device queries, and uses PTX in place of machine code."""

import itertools
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from math import prod
from typing import Any, NamedTuple

import triton.testing
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime import driver as active

from pipec.host.distinct import DistinctFindings
from pipec.host.stream import Stream
from pipec.host.tensors import Bytes
from pipec.isa.targets import WARP, Target
from pipec.sim import Options, Result
from pipec.triton.beside import replacements
from pipec.triton.launcher import Launcher

_PTX_VERSION = 90  # supported by the assemblers of CUDA 13; otherwise Triton uses the newest version it knows


_NUMBERS = itertools.count(1000)
_THREADS = re.compile(r"\.reqntid ([\d, ]+)")


class Function(NamedTuple):
    """A launchable kernel."""

    name: str
    ptx: str


class Utilities:
    """The device functions that Triton uses to load a kernel."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[None, Function, int, int, int]:
        """No module, which Triton would unload by whichever driver is active then; the function, registers, spills, maximum threads."""
        ptx = binary.decode()
        threads = prod(int(size) for size in _THREADS.findall(ptx)[0].split(",")) if _THREADS.search(ptx) else WARP
        # The assembler would determine the number of registers: here, the maximum.
        return None, Function(name, ptx), self._target.registers_per_thread(threads), 0, self._target.max_threads

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": self._target.shared_bytes,
            "max_num_regs": self._target.registers,
            "multiprocessor_count": self._target.multiprocessors,
            "warpSize": WARP,
        }


class Event:
    """A point in time of the simulated device: the number of instruction slots so far. It ranks kernels, but is not a time."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self._slots = 0

    def record(self, stream: Any = None) -> None:
        self._slots = active.active.slots

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: "Event") -> float:
        return (end._slots - self._slots) / 1e6


class DeviceInterface:
    """The functions of `torch.cuda` that programs use, for a single device that is always ready."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        pass

    @staticmethod
    def current_device() -> int:
        return int(active.active.get_current_device())

    @staticmethod
    def get_device_capability(device: Any = None) -> tuple[int, int]:
        capability: int = active.active.capability
        return capability // 10, capability % 10


def _benchmark(call: Callable[[], object], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any) -> Any:
    """One run, since all runs are equal: instruction slots instead of milliseconds."""
    before = active.active.slots
    call()
    slots = (active.active.slots - before) / 1e6
    return slots if quantiles is None else [slots] * len(quantiles)


class SimulatorDriver(DriverBase):  # type: ignore[misc]  # Triton has no types
    """`slots` and `findings` over all launches so far."""

    def __init__(self, target: Target, options: Options) -> None:
        super().__init__()
        self._target, self.options = target, options
        self.capability = target.capability
        self.utils = Utilities(target)
        self.launcher_cls = Launcher
        self.findings, self.stream = DistinctFindings(), Stream()
        self.reachable: list[tuple[object, Bytes]] = []  # tensors, and their memory
        self._addressed: Callable[[], list[Bytes]] = list  # the memory of tensors whose addresses the program has asked for
        self.slots = 0
        self._number = next(_NUMBERS)
        self._undo: list[Callable[[], object]] = []

    # ----------------------------------------------------------------------------------------------- installing

    def install(self) -> None:
        self._before = active._active
        active.set_active(self)
        # The results of this compilation must never be taken for machine code by a process with a GPU.
        folder = tempfile.TemporaryDirectory(prefix="pipec-triton-")
        self._undo.append(folder.cleanup)
        self._set(knobs.cache, "dir", folder.name)
        self._set(CUDABackend, "make_cubin", lambda backend, ptx, *_: ptx.encode())
        parse = CUDABackend.parse_options
        self._set(CUDABackend, "parse_options", lambda backend, given: parse(backend, {"ptx_version": _PTX_VERSION, **given}))
        for name in ("do_bench", "do_bench_cudagraph"):
            self._set(triton.testing, name, _benchmark)
        for owner, name, value in replacements():
            self._set(owner, name, value)
        with suppress(ImportError):  # without torch nothing asks it for a GPU
            from pipec.host.torch_cuda import as_cuda

            torch = ExitStack()
            self._addressed = torch.enter_context(as_cuda(self._target, Event)).memory
            self._undo.append(torch.close)

    def uninstall(self) -> None:
        active._active = self._before
        while self._undo:
            self._undo.pop()()

    def _set(self, owner: Any, name: str, value: object) -> None:
        before = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)

    def beside(self) -> list[Bytes]:
        """What kernels may access through addresses alone."""
        return [*(memory for _, memory in self.reachable), *self._addressed()]

    def ended(self, result: Result) -> None:
        """Records the findings and the cost of a launch."""
        self.slots += result.statistics.time
        self.findings.add(result.findings)
        self.stream.ends(result.touched)

    # ---------------------------------------------------------------------------------------- what Triton asks

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, WARP)

    def get_current_device(self) -> int:
        """A number that no GPU has: Triton's compilation cache is keyed by it."""
        return self._number

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return DeviceInterface.get_device_capability()

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> type[DeviceInterface]:
        return DeviceInterface

    def get_benchmarker(self) -> Callable[..., Any]:
        return _benchmark

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, cache: None) -> None:
        pass
