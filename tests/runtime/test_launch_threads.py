"""Launches of one kernel on many threads, and one inside another."""

import sys
import threading
import types

from fake_driver import Torch, parameter_bytes
from interfaces import gemm, gemm_arrays
from recorder import GEMM_SIZES, address, tensors

from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher

CODE = Image(None, b"cubin", "sm_100a")


def test_threads_share_nothing(api):
    """Launches of one kernel on many threads, each with its stream: none lands in another's stream or with another's addresses."""
    call = Launcher(gemm(), CODE)
    mistakes, count, mine = [], 300, threading.local()
    barrier = threading.Barrier(8)
    api.current = 1000
    api.calls = types.SimpleNamespace(append=lambda _: None, clear=lambda: None)

    def driver(config, function, parameters, extra):
        for _ in range(3):  # long enough for others to interfere
            found = (
                int(config.hStream),
                config.gridDimX,
                [address(block) for block in parameter_bytes(parameters, GEMM_SIZES)[:3]],
            )
            if found != mine.expected:
                mistakes.append((found, mine.expected))

    def work(stream):
        sets = [[Torch(array) for array in gemm_arrays(128 * (1 + at % 3))] for at in range(6)]
        barrier.wait()
        for at in range(count):
            arrays = sets[at % len(sets)]
            mine.expected = stream, arrays[0].shape[0] // 128, [array.data_ptr() for array in arrays]
            call(tuple(arrays), stream=stream)

    api.on_cuLaunchKernelEx = driver
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=work, args=(stream,)) for stream in range(11, 19)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not mistakes and len(api.launches) == 0


def test_code_is_loaded_once_for_all_threads(api):
    call = Launcher(gemm(), CODE)
    barrier = threading.Barrier(8)

    def work():
        arrays = tensors()
        barrier.wait()
        call(arrays)

    running = [threading.Thread(target=work) for _ in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(api.launches) == 8 and api.names().count("cuLibraryLoadData") == 1


def test_a_launch_inside_a_launch(api):
    """A finaliser or a signal handler may launch while a launch of the same thread is under way."""
    call = Launcher(gemm(), CODE)
    outer, inner = tensors(), tensors()
    call(outer)
    seen = []

    def nested(config, function, parameters, extra):
        if len(seen) < 1:
            seen.append(None)
            call(inner, stream=9)
        seen.append((int(config.hStream), address(parameter_bytes(parameters, GEMM_SIZES)[0])))

    api.on_cuLaunchKernelEx = nested
    call(outer, stream=5)
    assert seen[1:] == [(9, inner[0].data_ptr()), (5, outer[0].data_ptr())]
