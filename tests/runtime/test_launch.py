"""Launching on the simulator, choosing a device, made-up arguments, and what importing the runtime costs."""

import gc
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from interfaces import bf16, gemm, gemm_arrays, interface

from pipec.interface import (
    DimensionParameter,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
)
from pipec.runtime import ArgumentError, DeviceError, Launcher, LaunchError, LaunchOptions, launch, random_arguments
from pipec.runtime.gpu import cuda_driver
from pipec.sim import Options, SimulationError

# y[row, column] = x[row, column] * s, one CTA per row.
SCALE = """\
.version 8.8
.target sm_100a
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u64 x_stride, .param .u32 n, .param .f32 s)
.reqntid 32, 1, 1
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u64 %rd3, [x_stride];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [s];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  cvt.u64.u32 %rd4, %r3;
  cvt.u64.u32 %rd5, %r2;
  mad.lo.u64 %rd6, %rd4, %rd3, %rd5;
  shl.b64 %rd6, %rd6, 2;
  add.u64 %rd7, %rd1, %rd6;
  ld.global.f32 %f2, [%rd7];
  mul.f32 %f3, %f2, %f1;
  mad.lo.u32 %r4, %r3, %r1, %r2;
  cvt.u64.u32 %rd8, %r4;
  shl.b64 %rd8, %rd8, 2;
  add.u64 %rd9, %rd2, %rd8;
  st.global.f32 [%rd9], %f3;
DONE:
  ret;
}
"""


def scale_interface(**changes):
    return interface(
        [
            TensorArgument("x", "f32", ("M", "N"), False, False, True),
            TensorArgument("y", "f32", ("M", "N"), True, False, True),
            ScalarArgument("s", "f32"),
        ],
        [
            PointerParameter("x", "x"),
            PointerParameter("y", "y"),
            StrideParameter("x_stride", "x", 0),
            DimensionParameter("n", "N"),
            ScalarParameter("s", "s", "f32"),
        ],
        ("M", 1, 1),
        name="scale",
        **({"threads": 32, "shared_bytes": 0, "tensor_columns": 0} | changes),
    )


# Copies a 16 x 8 float box through shared memory: tensor map in, tensor map out.
COPY = """\
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry copy(.param .align 64 .b8 in_map[128], .param .align 64 .b8 out_map[128])
.reqntid 32, 1, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  mov.b64 %rd1, in_map;
  cvta.param.u64 %rd1, %rd1;
  mov.b64 %rd2, out_map;
  cvta.param.u64 %rd2, %rd2;
  mov.u32 %r1, smem;
  add.u32 %r2, %r1, 1024;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra DONE;
  mbarrier.init.shared::cta.b64 [%r2], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {0, 0}], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  @!%p2 bra WAIT;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, 0}], [%r1];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
}
"""


def copy_interface():
    return interface(
        [TensorArgument("x", "f32", ("M", "N"), False, True, False), TensorArgument("y", "f32", ("M", "N"), True, True, False)],
        [TensorMapParameter("in_map", "x", "f32", (16, 8), "none"), TensorMapParameter("out_map", "y", "f32", (16, 8), "none")],
        name="copy",
        threads=32,
        shared_bytes=2048,
    )


def test_by_address_in_place():
    x = np.random.default_rng(0).standard_normal((5, 20), np.float32)
    y = np.zeros((5, 16), np.float32)
    result = launch(scale_interface(), SCALE, [x[:, 2:18], y, 3.0], device="sim")
    assert (y == x[:, 2:18] * np.float32(3)).all()
    assert (result.device, result.grid, result.dimensions) == ("sim", (5, 1, 1), {"M": 5, "N": 16})
    assert result.simulation.statistics.thread_instructions > 0


@pytest.mark.parametrize("shape", [(16, 8), (3, 8), (16, 4)])
def test_through_tensor_maps(shape):
    arrays = [np.zeros((20, 12), np.float32)[: shape[0], : shape[1]] for _ in "xy"]
    arrays[0][...] = np.arange(arrays[0].size).reshape(shape)
    launch(copy_interface(), COPY, arrays, device="sim")
    assert (arrays[1] == arrays[0]).all()


def test_empty_tensors_still_run():
    arrays = [np.zeros((16, 0), np.float32), np.zeros((16, 0), np.float32)]
    assert launch(copy_interface(), COPY, arrays, device="sim").launched


def test_an_empty_grid_runs_nothing():
    result = launch(scale_interface(), SCALE, [np.zeros((0, 8), np.float32), np.zeros((0, 8), np.float32), 1.0], device="sim")
    assert not result.launched and result.simulation is None and result.grid == (0, 1, 1)


def test_auto_without_a_gpu_is_the_simulator(monkeypatch):
    def missing():
        raise DeviceError("there is no NVIDIA driver here")

    monkeypatch.setattr(cuda_driver, "load", missing)
    call = Launcher(scale_interface(), SCALE)
    arguments = [np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32), 2.0]
    assert call(arguments).device == "sim"
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        call(arguments, device="cuda")


@pytest.mark.skipif(cuda_driver.sys.platform != "linux", reason="names the Linux library")
def test_the_missing_driver_is_named(monkeypatch):
    cuda_driver.load.cache_clear()
    monkeypatch.setattr(cuda_driver, "_LIBRARY", "libcuda-not-here.so.1")
    with pytest.raises(DeviceError, match=r"libcuda-not-here.so.1 cannot be loaded.*\n  help: use device='sim'"):
        cuda_driver.load()
    cuda_driver.load.cache_clear()


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "sim:0", ""])
def test_unknown_devices(device):
    with pytest.raises(DeviceError, match="there is no device"):
        launch(scale_interface(), SCALE, [np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32), 1.0], device=device)


def test_the_simulator_needs_ptx():
    with pytest.raises(LaunchError, match="kernel `scale`: the simulator runs PTX"):
        launch(scale_interface(), b"\x7fELF", [np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32), 1.0], device="sim")


def test_simulator_options_and_errors_pass_through():
    arguments = [np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32), 1.0]
    with pytest.raises(SimulationError, match="step_limit"):
        launch(scale_interface(), SCALE, arguments, device="sim", options=LaunchOptions(simulation=Options(step_limit=3)))


def grid_error(kernel, arguments):
    with pytest.raises(ArgumentError) as caught:
        launch(kernel, SCALE, arguments, device="sim")
    assert caught.value.parameter == "grid"
    return str(caught.value)


def test_grids_that_no_device_takes():
    arrays = gemm_arrays(256, 128, 64)
    arguments, parameters = gemm().arguments, gemm().parameters
    assert "y is 65536, outside 0 to 65535 (M = 256" in grid_error(interface(arguments, parameters, (1, 65_536, 1)), arrays)
    assert "x is -1" in grid_error(interface(arguments, parameters, (("-", 0, 1), 1, 1)), arrays)
    assert "divides by zero" in grid_error(interface(arguments, parameters, (("//", "M", 0), 1, 1)), arrays)
    clustered = interface(arguments, parameters, (3, 1, 1), cluster=(2, 1, 1))
    assert "x is 3, no multiple of the cluster's 2" in grid_error(clustered, arrays)


# --- made-up arguments --------------------------------


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "tf32", "f64", "e4m3", "e5m2", "i8", "u8", "i32", "i64", "bool"])
def test_made_up_arguments_are_accepted(dtype):
    from pipec.runtime.arguments.binding import bind

    kernel = gemm(dtype, scalar=True)
    values = {"M": 33, "N": 64, "K": 37}
    made = random_arguments(kernel, values, seed=1)
    again = random_arguments(kernel, values, seed=1)
    assert made["a"].shape == (33, 37) and bind(kernel, made).dimensions == values
    assert made["a"].tobytes() == again["a"].tobytes() and made["a"].astype(np.float64).any()
    assert not made["d"].astype(np.float64).any()


def test_made_up_integers_are_small():
    made = random_arguments(gemm("i8"), {"M": 64, "N": 64, "K": 64})
    assert made["a"].min() == -4 and made["a"].max() == 4


def test_made_up_scalars_can_be_given():
    made = random_arguments(gemm(scalar=True), {"M": 8, "N": 8, "K": 8, "scale": 2.5})
    assert made["scale"] == 2.5 and isinstance(random_arguments(gemm(scalar=True), {"M": 8, "N": 8, "K": 8})["scale"], float)


def test_a_dimension_without_a_value_is_named():
    with pytest.raises(ArgumentError, match=r"parameter `a`: dimension `K` has no value\n  help: give one: --shape K=256"):
        random_arguments(gemm(), {"M": 8, "N": 8})
    with pytest.raises(ArgumentError, match="`M` is -1"):
        random_arguments(gemm(), {"M": -1, "N": 8, "K": 1})


def test_bfloat16_is_random_too():
    assert random_arguments(gemm(), {"M": 8, "N": 8, "K": 8})["a"].dtype == ml_dtypes.bfloat16
    assert bf16(1).dtype == ml_dtypes.bfloat16


def test_importing_the_runtime_imports_nothing_large():
    code = "import sys, pipec.runtime; print(sorted({'numpy', 'cuda', 'pipec.sim', 'ml_dtypes'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("device", ["auto", "sim", "cuda", "cuda:0", "elsewhere"])
def test_nothing_of_the_caller_is_kept_whatever_becomes_of_the_call(device, monkeypatch):
    """Also not by an exception that is kept: its traceback reaches the frames of everyone above."""
    monkeypatch.setattr(cuda_driver, "_LIBRARY", "libnone.so")
    cuda_driver.load.cache_clear()
    call, alive = Launcher(scale_interface(), SCALE), []

    def attempt(wrong):
        arrays = [np.zeros((2, 8), np.float32) for _ in "xy"]
        alive.extend(map(weakref.ref, arrays))
        try:
            call([*arrays, "no number" if wrong else 2.0], device=device)
        except (ArgumentError, DeviceError):
            return None
        return True

    outcomes = [attempt(wrong) for wrong in (False, False, True, True)]
    gc.collect()
    assert outcomes == [device in ("auto", "sim") or None] * 2 + [None] * 2
    assert [reference() is None for reference in alive] == [True] * 8
