"""Launches of kernels with a watchdog against a driver that records: what its record becomes, and that they wait."""

import ctypes

import numpy as np
import pytest
from fake_driver import Torch, parameter_bytes
from interfaces import gemm, gemm_arrays, interface

from pipec.runtime.errors import HangError, LaunchError
from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher

CODE = Image(None, b"cubin", "sm_100a")


def watched(api, **changes):
    """A kernel with a watchdog, whose records are host memory as on a GPU."""
    from pipec.interface import BarrierRange, RoleWarps, Watchdog, WatchdogParameter

    api.on_cuMemHostAlloc = lambda size, flags: api.on_cuMemAlloc(size)
    api.on_cuMemHostGetDevicePointer = lambda address, flags: address
    fields = {
        "roles": (RoleWarps("load", 0, 1, None),),
        "barriers": (BarrierRange("ring", "empty", 2, 512, 1),),
        "watchdog": Watchdog(10**9, "gemm.pipe", (("ring", ("load",), ()),)),
    }
    return interface(gemm().arguments, [*gemm().parameters, WatchdogParameter("gemm_watchdog")], **(fields | changes))


def a_hang(api):
    """What a launch of a kernel that hangs does: the record, then the trap."""
    from pipec.watchdog import MARK, WORDS

    def run(config, function, parameters, extra):
        (address,) = (int.from_bytes(block, "little") for block in parameter_bytes(parameters, (128, 128, 128, 4, 8))[4:])
        words = {
            "mark": MARK,
            "lanes": 1,
            "barrier": 520,
            "parity": 0,
            "iteration": 3,
            "line": 7,
            "column": 3,
            "state": 0x7FFFF800,
        }
        ctypes.memmove(address, b"".join(words.get(name, 0).to_bytes(4, "little") for name in WORDS), 4 * len(WORDS))
        api.fail["cuStreamSynchronize"] = api.CUresult.CUDA_ERROR_LAUNCH_FAILED

    api.on_cuLaunchKernelEx = run


@pytest.mark.parametrize("arrays", [lambda: [Torch(array) for array in gemm_arrays()], gemm_arrays], ids=["device", "host"])
def test_a_hang_becomes_an_exception_that_names_the_stage(api, arrays):
    kernel = watched(api)
    a_hang(api)
    with pytest.raises(
        HangError, match="role `load` .*pipeline `ring`, empty barrier, stage 1 .*iteration 4, gemm.pipe:7:3"
    ) as caught:
        Launcher(kernel, CODE)(arrays(), device="cuda" if isinstance(arrays()[0], np.ndarray) else "auto")
    assert caught.value.lost and "fresh one" in str(caught.value)


@pytest.mark.parametrize("arrays", [lambda: [Torch(array) for array in gemm_arrays()], gemm_arrays], ids=["device", "host"])
def test_a_hang_is_reported_although_the_driver_waits_forever(api, arrays, monkeypatch):
    monkeypatch.setattr("pipec.runtime.gpu.watched.PATIENCE", 0.05)
    kernel = watched(api)
    a_hang(api)
    api.fail["cuStreamQuery"] = api.CUresult.CUDA_ERROR_NOT_READY
    call = Launcher(kernel, CODE)
    device = "cuda" if isinstance(arrays()[0], np.ndarray) else "auto"
    with pytest.raises(HangError, match="role `load` ") as caught:
        call(arrays(), device=device)
    assert caught.value.lost and "cuStreamSynchronize" not in api.names() and "cuMemFree" not in api.names()
    launches = len(api.launches)
    with pytest.raises(LaunchError, match="hangs since an earlier launch"):
        call(arrays(), device=device)
    assert len(api.launches) == launches


def test_a_kernel_that_takes_its_time_is_waited_for(api, monkeypatch):
    """The stream is not done when it is asked first, and nothing is written."""
    monkeypatch.setattr("pipec.runtime.gpu.watched.PATIENCE", 0.0)
    asked = iter([api.CUresult.CUDA_ERROR_NOT_READY] * 20 + [api.CUresult.CUDA_SUCCESS])
    monkeypatch.setattr(type(api), "cuStreamQuery", lambda self, stream: (next(asked),), raising=False)
    Launcher(watched(api), CODE)([Torch(array) for array in gemm_arrays()])
    assert next(asked, None) is None


def test_other_faults_of_a_watched_kernel_stay_what_they_are(api):
    api.fail["cuStreamSynchronize"] = api.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        Launcher(watched(api), CODE)([Torch(array) for array in gemm_arrays()])
    assert not isinstance(caught.value, HangError)


def test_a_watched_launch_waits_and_cannot_be_captured(api):
    kernel = watched(api)
    call = Launcher(kernel, CODE)
    call([Torch(array) for array in gemm_arrays()])
    assert api.names().index("cuLaunchKernelEx") < api.names().index("cuStreamSynchronize")
    api.on_cuStreamIsCapturing = lambda stream: api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    before = len(api.launches)
    with pytest.raises(LaunchError, match="is being captured into a graph, and a launch with a watchdog waits"):
        call([Torch(array) for array in gemm_arrays()])
    assert len(api.launches) == before
