"""Repeated launches: what is asked of the driver, that every parameter is the call's own, and that nothing is kept."""

import gc
import sys
import threading
import types
import weakref
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from fake_driver import FakeApi, Torch, install
from interfaces import bf16, gemm, gemm_arrays, interface, scale
from recorder import GEMM_SIZES, Recorder, address, tensors

from pipec.interface import (
    DimensionParameter,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
)
from pipec.runtime import launcher as launcher_module
from pipec.runtime.errors import ArgumentError, LaunchError
from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher

CODE = Image(None, b"cubin", "sm_100a")


def test_fresh_arrays_change_addresses_alone(api):
    call = Launcher(gemm(), CODE)
    recorder = Recorder(api, GEMM_SIZES)
    api.current = 1000
    pool = [tensors() for _ in range(6)]  # all alive, so that no address comes twice
    call(pool[0])
    for arrays in pool[1:]:
        api.calls.clear()
        call(arrays)
        assert set(api.names()) == {"cuCtxGetCurrent", "cuTensorMapReplaceAddress", "cuLaunchKernelEx"}
        _, grid, blocks = recorder.seen[-1]
        assert [address(block) for block in blocks[:3]] == [array.data_ptr() for array in arrays] and grid == (2, 2, 1)
        assert blocks[3] == (64).to_bytes(4, "little")
    api.calls.clear()
    call([*arrays[:2], Torch(bf16(256, 128))])
    assert api.names().count("cuTensorMapReplaceAddress") == 1


def test_threads_do_not_mix_their_launches(api):
    """Eight, between which the interpreter changes as often as it can: each launch has the arguments of one call, on its stream."""
    call = Launcher(gemm(), CODE)
    recorder = Recorder(api, GEMM_SIZES)
    api.current = 1000
    calls = [[tensors(m=128 * (1 + (thread + at) % 2)) for at in range(4)] for thread in range(8)]
    expected, raised = Counter(), []
    for thread, several in enumerate(calls):
        for arrays in several:
            expected[(thread, *(array.data_ptr() for array in arrays))] += 25

    def work(thread):
        try:
            for _ in range(25):
                for arrays in calls[thread]:
                    call(tuple(arrays), stream=thread)
        except Exception as error:  # noqa: BLE001 - it must fail the test, not end a thread
            raised.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not raised
    assert Counter((stream, *map(address, blocks[:3])) for stream, _, blocks in recorder.seen) == expected


def mixed():
    """Every kind of parameter, arguments of both kinds in turn."""
    return interface(
        [
            ScalarArgument("s", "f32"),
            TensorArgument("x", "f32", ("M", "N"), False, True, True),
            ScalarArgument("n", "i32"),
            TensorArgument("y", "f32", ("M", "N"), True, False, True),
            ScalarArgument("big", "u64"),
            ScalarArgument("half", "bf16"),
        ],
        [
            PointerParameter("y", "y"),
            ScalarParameter("half", "half", "bf16"),
            TensorMapParameter("x_map", "x", "f32", (8, 8), "none"),
            ScalarParameter("n", "n", "i32"),
            StrideParameter("x_stride", "x", 0),
            PointerParameter("x", "x"),
            ScalarParameter("s", "s", "f32"),
            DimensionParameter("N", "N"),
            ScalarParameter("big", "big", "u64"),
        ],
        (("ceildiv", "M", 4), 1, 1),
        name="mixed",
    )


MIXED_SIZES = (8, 2, 128, 4, 8, 8, 4, 4, 8)


def test_every_parameter_is_the_calls_own(api):
    """Random sequences of calls that differ in one or many arguments, against what each alone would pass."""
    call = Launcher(mixed(), CODE)
    recorder = Recorder(api, MIXED_SIZES)
    random = np.random.default_rng(7)
    shapes = [(rows, columns) for rows in (4, 8, 9) for columns in (16, 32) for _ in range(3)]
    pool = [(*shape, Torch(np.zeros((shape[0], shape[1] + 16), np.float32)[:, : shape[1]])) for shape in shapes]
    outputs = {shape: [Torch(np.zeros(shape, np.float32)) for _ in range(2)] for shape in shapes}
    scalars = [
        (1.5, 3, 2**64 - 1, 0.5),
        (-0.0, -(2**31), 0, 2),
        (np.float32(2.5), np.int64(7), True, ml_dtypes.bfloat16(3)),
        (0.0, 3.0, 5, 1e-3),
        (2, 4, 6, 8),
    ]
    for _ in range(400):
        rows, columns, x = pool[random.integers(len(pool))]
        y = outputs[rows, columns][random.integers(2)]
        s, n, big, half = scalars[random.integers(len(scalars))]
        call((s, x, n, y, big, half))
        expected = [
            y.data_ptr().to_bytes(8, "little"),
            np.array(float(half)).astype(ml_dtypes.bfloat16).tobytes(),
            x.data_ptr().to_bytes(8, "little"),
            np.int32(n).tobytes(),
            np.int64(columns + 16).tobytes(),
            x.data_ptr().to_bytes(8, "little"),
            np.float32(s).tobytes(),
            np.int32(columns).tobytes(),
            np.uint64(big).tobytes(),
        ]
        _, grid, blocks = recorder.seen[-1]
        assert [block[: len(wanted)] for block, wanted in zip(blocks, expected, strict=True)] == expected
        assert grid == (-(-rows // 4), 1, 1)


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (2, 2**31, "does not fit i32"),
        (2, 1.5, "expected a whole number"),
        (4, -1, "does not fit u64"),
        (0, 1e39, "does not fit f32"),
        (0, "x", "one f32 value"),
    ],
)
def test_scalars_are_checked_on_every_launch(api, at, value, problem):
    call = Launcher(mixed(), CODE)
    arguments = [1.0, Torch(np.zeros((8, 16), np.float32)), 3, Torch(np.zeros((8, 16), np.float32)), 5, 0.5]
    call(tuple(arguments))
    wrong = list(arguments)
    wrong[at] = value
    for _ in range(2):
        with pytest.raises(ArgumentError, match=problem):
            call(tuple(wrong))
    assert len(api.launches) == 1
    call(tuple(arguments))
    assert len(api.launches) == 2


def test_scalars_of_the_grid_belong_to_the_signature(api):
    call = Launcher(scale(), CODE)
    recorder = Recorder(api, (8, 8, 8, 4, 4, 4))
    x, y = (Torch(np.zeros((8, 16), np.float32)) for _ in "xy")
    for steps in (3, 1, 3, np.int32(2), 2.0, np.array(5)):
        call((x, y, 2.0, steps))
        assert recorder.seen[-1][1] == (2 * int(steps), 1, 1) and recorder.seen[-1][2][5] == np.int32(steps).tobytes()
    with pytest.raises(ArgumentError, match="whole number"):
        call((x, y, 2.0, 2.5))


# --- what the same signature does not answer --------------------------------


def test_what_differs_is_checked_again(api):
    """Each of these arguments differs from those of a launch that went well in one thing."""
    call = Launcher(gemm(), CODE)
    memory = bf16(600, 64)
    for _ in range(2):
        call(tensors())
        a, b, d = tensors()
        with pytest.raises(ArgumentError, match="it shares memory with `a`"):
            whole = bf16(256, 128)
            call([Torch(whole[:, :64]), b, Torch(whole)])
        with pytest.raises(ArgumentError, match="bytes past a multiple of 16"):
            call([Torch(memory.reshape(-1)[4 : 4 + 256 * 64].reshape(256, 64)), b, d])
        with pytest.raises(ArgumentError, match="expected element type"):
            call([Torch(np.zeros((256, 64), np.float16)), b, d])
        with pytest.raises(ArgumentError, match="innermost dimension must be contiguous"):
            call([Torch(bf16(64, 256).T), b, d])
        with pytest.raises(ArgumentError, match="it is on device `cuda:1`"):
            call([a, Torch(b.array, index=1), d])
        with pytest.raises(ArgumentError, match="pending conjugation or negation"):
            negated = Torch(b.array)
            negated.is_neg = lambda: True
            call([a, negated, d])
        with pytest.raises(ArgumentError, match="takes 3 arguments"):
            call([a, b])
        with pytest.raises(ArgumentError, match="no value was passed"):
            call({"a": a, "b": b, "e": d})
    assert len(api.launches) == 2


def test_interleaved_arrays_are_distinguished_from_shared_ones(api):
    """Column blocks of one matrix lie within each other's range of addresses."""
    call = Launcher(gemm(), CODE)
    whole = bf16(256, 64 + 128 + 64)
    b = Torch(bf16(128, 64))
    left, right, far = Torch(whole[:, :64]), Torch(whole[:, 64:192]), Torch(whole[:, 192:])
    shared = Torch(whole[:, 32:96])
    for _ in range(3):
        call([left, b, right])
        call([far, b, right])
        with pytest.raises(ArgumentError, match="shares memory with `a`"):
            call([shared, b, right])
    assert len(api.launches) == 6


def test_a_tensor_that_lost_its_memory(api):
    call = Launcher(gemm(), CODE)
    a, b, d = tensors()
    call([a, b, d])
    a.data_ptr = lambda: 0
    api.owners[0] = None
    with pytest.raises(ArgumentError, match="`a`: it begins at 0x0, which is no memory"):
        call([a, b, d])


class CudaArray:
    """An array of another library."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {
            "version": 3, "data": (array.ctypes.data, False), "shape": array.shape, "strides": array.strides, "typestr": array.dtype.str,
        }  # fmt: skip
        self.dtype = array.dtype


def test_arrays_of_other_libraries(api):
    call = Launcher(gemm(), CODE)
    recorder = Recorder(api, GEMM_SIZES)
    for _ in range(3):
        arrays = [CudaArray(array) for array in gemm_arrays()]
        api.calls.clear()
        call(arrays)
        assert [address(block) for block in recorder.seen[-1][2][:3]] == [array.array.ctypes.data for array in arrays]
        assert api.names().count("cuPointerGetAttribute") >= 6  # they may say anything
    assert "cuTensorMapEncodeTiled" not in api.names()
    api.owners[arrays[2].array.ctypes.data] = None
    with pytest.raises(ArgumentError, match="`d`: it begins at"):
        call(arrays)


# --- gradients --------------------------------


@pytest.fixture
def recording(monkeypatch):
    """torch, of which only this is asked; `on` says whether gradients are recorded."""
    state = types.SimpleNamespace(on=True)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(is_grad_enabled=lambda: state.on))
    return state


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_tensor_that_requires_its_gradient(api, recording, at):
    call = Launcher(gemm(), CODE)
    for _ in range(2):
        arrays = tensors()
        arrays[at].requires_grad = True
        name = "abd"[at]
        recording.on = True
        with pytest.raises(ArgumentError, match=f"`{name}`: it requires a gradient, and gradients are being recorded") as caught:
            call(arrays)
        assert f"`{name}.detach()`" in caught.value.help and "`torch.no_grad()`" in caught.value.help
        recording.on = False
        call(arrays)
    recording.on = True
    call(tensors())
    assert len(api.launches) == 3


def test_gradients_on_the_simulator(recording):
    arrays = tensors()
    for array in arrays:
        array.device = types.SimpleNamespace(type="cpu", index=None)
    arrays[1].requires_grad = True
    with pytest.raises(ArgumentError, match="`b`: it requires a gradient"):
        Launcher(gemm(), CODE)(arrays, device="sim")


# --- nothing is kept --------------------------------


@pytest.mark.parametrize("kind", [Torch, CudaArray])
def test_nothing_of_the_caller_is_kept(api, kind):
    call = Launcher(gemm(), CODE)
    alive = []
    for rows in (128, 128, 256, 128):
        arrays = [kind(array) for array in gemm_arrays(rows)]
        alive += [weakref.ref(array) for array in arrays] + [weakref.ref(array.array) for array in arrays]
        api.calls.clear()
        call(arrays)
        call(dict(zip("abd", arrays, strict=True)))
    api.calls.clear()
    del arrays
    gc.collect()
    assert not [reference() for reference in alive if reference() is not None]


def test_no_growth(api, monkeypatch):
    monkeypatch.setattr(launcher_module, "REMEMBERED", 8)
    call = Launcher(gemm(), CODE)
    api.calls = api.launches = types.SimpleNamespace(append=lambda _: None)

    def rounds(count):
        for at in range(count):
            call(tensors(m=128 * (1 + at % 12)))
        gc.collect()

    def growth(launches):
        before = len(gc.get_objects()), sys.getallocatedblocks()
        rounds(launches)
        return len(gc.get_objects()) - before[0], sys.getallocatedblocks() - before[1]

    rounds(120)
    # What a launch left behind would be an object and several blocks in each of these rounds; what Python's own stores and the other
    # threads of the test runner take comes in some of them.
    objects, blocks = zip(*(growth(240) for _ in range(4)), strict=True)
    assert min(objects) < 120 and min(blocks) < 240
    assert len(call._known) == 8


# --- errors --------------------------------


def test_a_refused_address_names_the_call(api):
    call = Launcher(gemm(), CODE)
    first, arrays = tensors(), tensors()
    call(first)
    api.fail["cuTensorMapReplaceAddress"] = api.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match="kernel `gemm`: putting address 0x.* failed: cuTensorMapReplaceAddress returned"):
        call(arrays)
    api.fail.clear()
    recorder = Recorder(api, GEMM_SIZES)
    call(arrays)
    assert [address(block) for block in recorder.seen[0][2][:3]] == [array.data_ptr() for array in arrays]


def test_each_device_has_its_own(monkeypatch):
    api = install(monkeypatch, FakeApi(count=2))
    call = Launcher(gemm(), CODE)
    contexts = []
    api.on_cuLaunchKernelEx = lambda *_: contexts.append(api.current)
    for index in (0, 1, 0, 1):
        result = call([Torch(array, index) for array in gemm_arrays()])
        assert result.device == f"cuda:{index}"
    assert contexts == [1000, 1001, 1000, 1001]
