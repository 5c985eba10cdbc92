"""torch as a program sees it on a machine with a GPU, with host memory.

Programs written for a GPU name it everywhere: `device="cuda"`, `x.cuda()`, `x.is_cuda`, `torch.cuda.synchronize()`. While `as_cuda` is
installed all of these behave as on a machine with one GPU, and tensors stay in host memory, where the simulator works. Copies between
host and device are still copies. torch's own computations run on the CPU. Operators that a program registers for CUDA are the ones that
its tensors get, and what it would have compiled runs as it is written.
"""

import ctypes
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Self

import torch
import torch.utils._device
from torch.overrides import TorchFunctionMode

from pipec.host.addressed import Addressed
from pipec.host.tensors import aligned_bytes, is_aligned
from pipec.isa.targets import RESERVED_SHARED_BYTES, WARP, Target

_HOST = torch.device("cpu")
_DEVICE = torch.device("cuda", 0)
_COPIES = {"to", "cuda", "cpu"}  # moves a tensor between host and device
# Of torch and of its tensors, what returns fresh memory.
_ALLOCATIONS = {
    "empty", "empty_like", "empty_strided", "new_empty", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full",
    "full_like", "new_full", "rand", "rand_like", "randn", "randn_like", "randint", "arange", "tensor", "clone",
}  # fmt: skip
_RELEASE = "13.0"  # of CUDA: programs ask for it before they use what is new on a target
_MEMORY = 178 << 30  # bytes; far more than any program here uses
_TRUE_DEVICE = torch._C.TensorBase.device


class _OnTheHost(TorchFunctionMode):  # type: ignore[misc]  # torch is not there when types are checked
    """Requests for GPU memory get host memory."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func is torch.device:
            # A number alone is one of the accelerator's devices, of which torch's build for the CPU has none.
            return func(*(("cuda", *args) if args and type(args[0]) is int else args), **(kwargs or {}))
        if name in ("cuda", "pin_memory") and args and isinstance(args[0], torch.Tensor):
            return _aligned(args[0].clone())
        named = {key: _host(value) if key == "device" else value for key, value in (kwargs or {}).items() if key != "pin_memory"}
        if isinstance(named.get("device"), int):
            named["device"] = _HOST
        placed = tuple(_host(value) for value in args)
        if name == "to" and len(placed) > 1 and isinstance(placed[1], int):
            placed = (placed[0], _HOST, *placed[2:])
        made = func(*placed, **named)
        if name in _COPIES and isinstance(made, torch.Tensor) and made is args[0] and _names_a_device(name, placed, named):
            return _aligned(made.clone())  # on a GPU there would be two tensors
        if name in _ALLOCATIONS and type(made) is torch.Tensor:
            return _aligned(made)
        return made


def _aligned(made: torch.Tensor) -> torch.Tensor:
    """A fresh tensor, in memory as aligned as a GPU's: torch aligns that of the host to 64 bytes."""
    storage = made.untyped_storage()
    if is_aligned(storage.data_ptr()) or not storage.nbytes() or made.layout != torch.strided:
        return made
    memory = aligned_bytes(storage.nbytes())
    ctypes.memmove(memory.ctypes.data, storage.data_ptr(), memory.nbytes)
    moved = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    with torch.no_grad():
        made.data = torch.empty(0, dtype=made.dtype).set_(moved, made.storage_offset(), made.shape, made.stride())
    return made


def _names_a_device(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether the call specifies a device, not only an element type."""
    return (
        name != "to" or isinstance(named.get("device"), torch.device) or any(one == _HOST for one in args[1:] if _is_place(one))
    )


def _is_place(value: Any) -> bool:
    return isinstance(value, torch.device | str)


def _host(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return _HOST
    if isinstance(value, str) and (value in ("cpu", "cuda") or value.startswith("cuda:")):
        return _HOST
    return value


class _Generator(torch.Generator):  # type: ignore[misc]
    """Generates the same numbers as on the CPU."""

    def __new__(cls, device: Any = "cpu") -> Self:
        return super().__new__(cls, _host(device))  # type: ignore[no-any-return]


class _Stream:
    """All work is done when its call returns, so streams need not order anything."""

    cuda_stream = 0
    device = _DEVICE

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def nothing(self, *_: Any, **__: Any) -> None:
        """Waits and records."""

    synchronize = wait_stream = wait_event = nothing

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event


def _always(value: object) -> Callable[..., object]:
    """One function per name: torch's own function tables reject one with two names."""
    return lambda *_, **__: value


def _properties(target: Target) -> SimpleNamespace:
    capability = target.capability
    return SimpleNamespace(
        name=f"pipec's simulator of {target.name}",
        major=capability // 10,
        minor=capability % 10,
        multi_processor_count=target.multiprocessors,
        total_memory=_MEMORY,
        warp_size=WARP,
        max_threads_per_block=target.max_threads,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=target.registers,
        shared_memory_per_block=48 << 10,  # without asking for more
        shared_memory_per_block_optin=target.shared_bytes,
        shared_memory_per_multiprocessor=target.shared_bytes + RESERVED_SHARED_BYTES,
        L2_cache_size=(126 if capability >= 100 else 50) << 20,
        is_integrated=False,
        is_multi_gpu_board=False,
    )


class _Device(nullcontext[None]):
    """torch.cuda.device and device_of: there is one device."""

    idx, prev_idx = 0, -1

    def __init__(self, *_: object) -> None:
        super().__init__()


def _cuda(target: Target, event: type) -> dict[str, object]:
    """The contents of `torch.cuda`, by name."""
    properties = _properties(target)
    constants: dict[str, object] = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": (properties.major, properties.minor),
        "get_device_properties": properties,
        "get_device_name": properties.name,
        "current_stream": _Stream(),
        "default_stream": _Stream(),
        "mem_get_info": (_MEMORY, _MEMORY),
        "is_current_stream_capturing": False,
    }
    table: dict[str, object] = {name: _always(value) for name, value in constants.items()}
    table |= {"Stream": _Stream, "Event": event, "stream": lambda stream: stream or nullcontext()}
    table |= {"device": _Device, "device_of": _Device}
    table |= {"get_rng_state": lambda *_: torch.get_rng_state(), "set_rng_state": lambda state, *_: torch.set_rng_state(state)}
    table |= {name: _always(None) for name in _DONE} | {name: _always(0) for name in _UNMEASURED}
    return table


# Of `torch.cuda`, what is already the case.
_DONE = (
    "set_device", "set_stream", "synchronize", "init", "empty_cache", "ipc_collect", "manual_seed", "manual_seed_all",
    "reset_peak_memory_stats", "reset_max_memory_allocated", "set_per_process_memory_fraction", "set_sync_debug_mode", "_sleep",
)  # fmt: skip
_UNMEASURED = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "get_sync_debug_mode", "utilization",
)  # fmt: skip


# In torch's extension for CUDA, which its build for the CPU lacks.
_EXTENSION: dict[str, object] = {
    "_cuda_getDevice": 0,
    "_cuda_setDevice": None,
    "_cuda_exchangeDevice": 0,
    "_cuda_maybeExchangeDevice": 0,
    "_cuda_getDeviceCount": 1,
    "_cuda_getCurrentRawStream": 0,
}
# `torch.accelerator`, which is a GPU by another name.
_ACCELERATOR: dict[str, object] = {
    "is_available": True,
    "device_count": 1,
    "current_accelerator": torch.device("cuda"),
    "current_device_index": 0,
    "current_device_idx": 0,
    "current_stream": _Stream(),
    "set_device_index": None,
    "set_device_idx": None,
    "set_stream": None,
    "synchronize": None,
    "empty_cache": None,
}
# Where the implementations of operators are registered that tensors on a GPU get.
_KEYS = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}


def _compile(model: Any = None, **_: Any) -> Any:
    """torch.compile, as a function and as a decorator."""
    return (lambda function: function) if model is None else model


def _implement(mode: TorchFunctionMode) -> Callable[..., None]:
    """torch.library.Library.impl: `mode` is entered again in Python's implementations, as torch suspends it while it calls them."""
    before, taken = torch.library.Library.impl, set[tuple[str, str, str]]()

    def impl(library: Any, name: Any, function: Any, dispatch_key: str = "", **given: Any) -> None:
        asked = dispatch_key or library.dispatch_key
        key = _KEYS.get(asked, asked)
        place = library.ns, str(name), key
        if key != asked:
            taken.add(place)
        elif place in taken:
            return  # an implementation for the host, of which there are no tensors
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may replace the one for the host
            before(library, name, _entering(mode, function), key, **given)

    return impl


def _entering(mode: TorchFunctionMode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    # torch compares its marker of no implementation by identity.
    return function if function is torch.library.fallthrough_kernel else entered


def _device(tensor: torch.Tensor) -> torch.device:
    found: torch.device = _TRUE_DEVICE.__get__(tensor)
    return _DEVICE if found == _HOST else found


@contextmanager
def as_cuda(target: Target, event: type) -> Iterator[Addressed]:
    """While it is entered, torch has one GPU of the target. `event` replaces `torch.cuda.Event`. Gives the tensors whose addresses are
    asked for."""
    addressed = Addressed()
    place = torch.utils._device.DeviceContext.__init__
    default = torch.set_default_device
    backward = torch.autograd.function.BackwardCFunction.apply
    mode = _OnTheHost()

    # torch suspends its modes while it works, and `Tensor.backward` is at work while an operator's own backward runs.
    with_mode = _entering(mode, backward)

    changes: list[tuple[Any, str, object]] = [(torch.cuda, name, value) for name, value in _cuda(target, event).items()]
    changes += [
        (torch, "Generator", _Generator),
        (torch, "set_default_device", lambda device: default(_host(device))),
        (torch.utils._device.DeviceContext, "__init__", lambda self, device: place(self, _host(device))),
        (torch.autograd.function.BackwardCFunction, "apply", with_mode),
        (torch.library.Library, "impl", _implement(mode)),
        (torch, "compile", _compile),
        (torch.version, "cuda", _RELEASE),
        *((torch._C, name, _always(value)) for name, value in _EXTENSION.items()),
        *((torch.accelerator, name, _always(value)) for name, value in _ACCELERATOR.items()),
        (torch._C, "_get_accelerator", _always(torch.device("cuda"))),
        *((torch.cuda.nvtx, name, _always(0)) for name in ("range_push", "range_pop", "range_start", "range_end", "mark")),
        (torch.Tensor, "device", property(_device)),
        (torch.Tensor, "is_cuda", property(lambda tensor: _device(tensor) == _DEVICE)),
        (torch.Tensor, "is_cpu", property(lambda tensor: False)),
        (torch.Tensor, "get_device", lambda tensor: 0),
        (torch.Tensor, "record_stream", lambda tensor, stream: None),
        (torch.Tensor, "data_ptr", addressed.data_ptr),
    ]
    undo = [_set(owner, name, value) for owner, name, value in changes]
    mode.__enter__()
    try:
        yield addressed
    finally:
        mode.__exit__(None, None, None)
        for restore in reversed(undo):
            restore()


_MISSING = object()


def _set(owner: Any, name: str, value: object) -> Callable[[], None]:
    """Sets an attribute; returns a function that restores it, even if it was inherited."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    return (lambda: delattr(owner, name)) if before is _MISSING else (lambda: setattr(owner, name, before))
