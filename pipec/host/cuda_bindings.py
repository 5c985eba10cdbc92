"""NVIDIA's Python bindings of CUDA (`cuda.bindings`) as a program sees them on a machine with one GPU.

Programs ask them which device is current, what it can do, and in which context they are. They answer so without a driver. What would
allocate memory, load code or launch is left as it is, and fails for want of a driver.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from pipec.isa.targets import RESERVED_SHARED_BYTES, WARP, Target

RELEASE = 13000  # of CUDA, as its functions number it
_CONTEXT = 1  # a handle; zero would mean that there is none


def changes(target: Target) -> Iterator[tuple[ModuleType, str, object]]:
    """In which module what function is to be replaced, by what. None where the bindings are not installed."""
    try:
        from cuda.bindings import driver, runtime
    except ImportError:
        return
    for module, status, functions in (
        (driver, driver.CUresult.CUDA_SUCCESS, _of_driver(driver, target)),
        (runtime, runtime.cudaError_t.cudaSuccess, _of_runtime(target)),
    ):
        for name, answer in functions.items():
            if hasattr(module, name):
                yield module, name, _succeeding(status, answer)


def _succeeding(status: object, answer: Callable[..., tuple[object, ...]]) -> Callable[..., tuple[object, ...]]:
    """As in the bindings: what a function returns stands behind its status."""
    return lambda *given, **named: (status, *answer(*given, **named))


def _always(*values: object) -> Callable[..., tuple[object, ...]]:
    return lambda *_, **__: values


def _of_driver(driver: Any, target: Target) -> dict[str, Callable[..., tuple[object, ...]]]:
    context = driver.CUcontext(_CONTEXT)
    table = {
        "cuDriverGetVersion": _always(RELEASE),
        "cuDeviceGetCount": _always(1),
        "cuDeviceGet": _always(driver.CUdevice(0)),
        "cuDeviceGetName": _always(f"pipec's simulator of {target.name}".encode()),
        "cuDeviceGetAttribute": lambda attribute, _: (attribute_of(target, int(attribute)),),
        "cuCtxGetDevice": _always(driver.CUdevice(0)),
    }
    contexts = ("cuCtxGetCurrent", "cuCtxCreate", "cuDevicePrimaryCtxRetain", "cuStreamGetCtx")
    table |= {name: _always(context) for name in contexts}
    done = (
        "cuInit",
        "cuCtxSetCurrent",
        "cuCtxPushCurrent",
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuDevicePrimaryCtxRelease",
    )
    return table | {name: _always() for name in done}


def _of_runtime(target: Target) -> dict[str, Callable[..., tuple[object, ...]]]:
    table = {
        "cudaDriverGetVersion": _always(RELEASE),
        "cudaRuntimeGetVersion": _always(RELEASE),
        "cudaGetDevice": _always(0),
        "cudaGetDeviceCount": _always(1),
        "cudaDeviceGetAttribute": lambda attribute, _: (attribute_of(target, int(attribute)),),
    }
    done = ("cudaSetDevice", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaGetLastError", "cudaPeekAtLastError")
    return table | {name: _always() for name in done}


def attribute_of(target: Target, attribute: int) -> int:
    """By CUdevice_attribute, whose numbers are also those of cudaDeviceAttr. Zero for what is not known here."""
    return {
        1: target.max_threads,  # threads of a CTA
        8: 48 << 10,  # shared bytes of a CTA that asks for no more
        10: WARP,
        12: target.registers,
        16: target.multiprocessors,
        39: 2048,  # threads of a multiprocessor
        75: target.capability // 10,
        76: target.capability % 10,
        81: target.shared_bytes + RESERVED_SHARED_BYTES,  # of a multiprocessor
        82: target.registers,  # of a multiprocessor
        95: 1,  # cooperative launches
        97: target.shared_bytes,
        120: 1,  # clusters
    }.get(attribute, 0)
