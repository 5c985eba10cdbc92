"""What C code is told when something is wrong: a status and words, never a crash."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundle.c_bundle import CBundle, DeviceArray, FakeCuda, example, layouts, needs_compiler
from bundle.test_c_launch import BAD_ARGUMENT, CANNOT_LAUNCH, DRIVER_FAILED, NO_DEVICE, SUCCESS, values

pytestmark = needs_compiler

SIZES = {"M": 1024, "N": 512, "K": 192}


@pytest.fixture(scope="module")
def cluster(cuda: FakeCuda, tmp_path_factory: pytest.TempPathFactory) -> CBundle:
    return CBundle(example("gemm_sm90_cluster"), tmp_path_factory.mktemp("cluster"), cuda)


@pytest.fixture
def opened(cluster: CBundle, cuda: FakeCuda) -> Iterator[CBundle]:
    cuda.reset()
    assert cluster.open() == SUCCESS
    yield cluster
    cuda.reset()
    cluster.close()


def launch(bundle: CBundle, stream: int = 0, arrays: list[DeviceArray] | None = None) -> tuple[int, str]:
    interface = bundle.manifest.kernels[0].interface
    return bundle.launch(interface, values(interface, arrays or layouts(interface, SIZES)), stream), bundle.message


def test_opening_asks_for_what_launches_need(cluster: CBundle, cuda: FakeCuda) -> None:
    cuda.reset()
    assert cluster.open() == SUCCESS
    interface = cluster.manifest.kernels[0].interface
    (shared,) = cuda.calls("cuKernelSetAttribute")
    assert (shared["attribute"], shared["value"]) == ("8", str(interface.shared_bytes))
    (asked,) = cuda.calls("cuOccupancyMaxActiveClusters")
    assert asked["cluster"] == ",".join(map(str, interface.cluster)) and asked["block"] == f"{interface.threads},1,1"
    cluster.close()
    ended = [call["call"] for call in cuda.calls()]
    assert ended[-2:] == ["cuLibraryUnload", "cuMemFree"]


@pytest.mark.parametrize(
    "function",
    ["cuCtxGetDevice", "cuDeviceGetName", "cuDeviceGetAttribute", "cuThreadExchangeStreamCaptureMode", "cuLibraryLoadData",
     "cuLibraryGetKernel", "cuKernelSetAttribute", "cuOccupancyMaxActiveClusters", "cuMemAlloc", "cuMemsetD8"],
)  # fmt: skip
def test_every_call_of_opening_may_fail(cluster: CBundle, cuda: FakeCuda, function: str) -> None:
    cuda.reset()
    cuda.fail(function)
    assert cluster.open() == DRIVER_FAILED
    assert f"failed: {function} returned CUDA_ERROR_OUT_OF_MEMORY (out of memory)" in cluster.message
    assert cluster.error.driver == 2 and not cluster.handle
    # What was loaded is given back.
    counts = [sum(call["call"] == name for call in cuda.calls()) for name in ("cuLibraryGetKernel", "cuLibraryUnload")]
    assert counts[0] <= counts[1] or function == "cuLibraryGetKernel"


@pytest.mark.parametrize("function", ["cuTensorMapEncodeTiled", "cuLaunchKernelEx", "cuStreamIsCapturing", "cuStreamGetDevice"])
def test_every_call_of_a_launch_may_fail(opened: CBundle, cuda: FakeCuda, function: str) -> None:
    cuda.fail(function)
    status, message = launch(opened, stream=77)
    assert status == DRIVER_FAILED and f"failed: {function} returned CUDA_ERROR_OUT_OF_MEMORY" in message
    cuda.reset()
    assert launch(opened, stream=77) == (SUCCESS, "")


def test_another_device_than_the_code_is_for(cluster: CBundle, cuda: FakeCuda) -> None:
    cuda.reset(major=10)
    assert cluster.open() == NO_DEVICE
    assert cluster.message == "the bundle has code for sm_90a, but Imaginary GPU is sm_100"


def test_another_context_than_the_bundle_was_opened_in(opened: CBundle, cuda: FakeCuda) -> None:
    cuda.reset(device=1)
    status, message = launch(opened)
    assert status == NO_DEVICE and "no context of the device that the bundle was opened for (Imaginary GPU) is current" in message


def test_a_stream_of_another_device(opened: CBundle, cuda: FakeCuda) -> None:
    cuda.reset(stream_device=1)
    assert launch(opened, stream=77)[0] == NO_DEVICE
    assert "the stream belongs to cuda:1, but the launch is on cuda:0" in opened.message
    assert launch(opened, stream=1)[0] == SUCCESS  # the legacy default stream is of any device
    cuda.reset(stream_device=1, capturing=1)
    assert launch(opened, stream=77)[0] == SUCCESS
    assert cuda.calls("cuStreamGetDevice") == []  # the question would end the capture


def test_no_cluster_fits(cluster: CBundle, cuda: FakeCuda) -> None:
    cuda.reset(clusters=0)
    assert cluster.open() == SUCCESS
    status, message = launch(cluster)
    assert status == CANNOT_LAUNCH and "no cluster of 2 x 1 x 1 CTAs" in message and "fits Imaginary GPU" in message
    cluster.close()


@pytest.mark.parametrize("limit", ["shared_bytes", "threads"])
def test_limits_of_the_device(cluster: CBundle, cuda: FakeCuda, limit: str) -> None:
    cuda.reset(**{limit: 100})
    assert cluster.open() == SUCCESS
    status, message = launch(cluster)
    what = {"shared_bytes": "bytes of shared memory per CTA", "threads": "threads per CTA"}[limit]
    assert status == CANNOT_LAUNCH and f"{what}, but Imaginary GPU allows 100" in message
    assert cuda.calls("cuLaunchKernelEx") == []
    cluster.close()


def test_memory_that_cuda_does_not_know(opened: CBundle, cuda: FakeCuda) -> None:
    arrays = layouts(opened.manifest.kernels[0].interface, SIZES)
    end = arrays[1].data_ptr() + SIZES["N"] * SIZES["K"] * 2 - 1
    cuda.reset(unknown=end)
    assert launch(opened)[0] == BAD_ARGUMENT
    assert f"parameter `b`: it ends at {end:#x}, which is no memory that CUDA knows" in opened.message


@pytest.mark.parametrize("strides", [(2**62, 1), (-(2**63), 1), (2**63 - 1, 2**63 - 1), (2**40, 2**40)])
def test_numbers_that_fit_no_memory(opened: CBundle, strides: tuple[int, int]) -> None:
    arrays = layouts(opened.manifest.kernels[0].interface, SIZES)
    arrays[0]._strides = strides
    status, message = launch(opened, arrays=arrays)
    assert status == BAD_ARGUMENT and message.startswith("kernel `gemm_sm90_cluster`, parameter `a`: ")


@pytest.mark.parametrize("sizes", [(-1, 192), (-(2**63), 192), (2**63 - 1, 2**63 - 1)])
def test_sizes_that_are_none(opened: CBundle, sizes: tuple[int, int]) -> None:
    arrays = layouts(opened.manifest.kernels[0].interface, SIZES)
    arrays[0].shape = sizes
    status, message = launch(opened, arrays=arrays)
    assert status == BAD_ARGUMENT and "parameter `a`: dimension 0 has" in message


def test_null_is_no_bundle_and_no_error_is_wanted(cluster: CBundle, cuda: FakeCuda) -> None:
    cuda.reset()
    cluster.close()
    assert launch(cluster) == (NO_DEVICE, "kernel `gemm_sm90_cluster`: the bundle is not open")
    functions = (getattr(cluster.library, f"{cluster.name}_{one}") for one in ("open", "close"))
    opening, closing = functions
    closing(None)
    assert opening(None, ctypes.byref(cluster.error)) == BAD_ARGUMENT
    assert opening(None, None) == BAD_ARGUMENT
    handle = ctypes.c_void_p()
    assert opening(ctypes.byref(handle), None) == SUCCESS
    closing(handle)


def test_a_grid_without_blocks_launches_nothing(opened: CBundle, cuda: FakeCuda) -> None:
    interface = opened.manifest.kernels[0].interface
    arrays = layouts(interface, {**SIZES, "M": 0})
    cuda.reset()
    assert launch(opened, arrays=arrays) == (SUCCESS, "")
    assert cuda.calls() == []


def test_headers_compile_in_cpp_and_typed_arrays_are_distinguished(tmp_path: Path) -> None:
    from bundle.c_bundle import C11, CPP17, compiled, write

    write(example("gemm_sm90_cluster"), tmp_path)
    program = """#include "gemm_sm90_cluster.h"
int main(void)
{
    pipec_bf16_2d a = pipec_bf16_2d_of(256, 8, 16);
    return gemm_sm90_cluster_launch(NULL, a, a, %s, NULL, NULL) == PIPEC_NO_DEVICE && a.strides[0] == 16 ? 0 : 1;
}
"""
    for command, ending in ((C11, "c"), (CPP17, "cpp")):
        source = tmp_path / f"main.{ending}"
        source.write_text(program % "a")
        compiled(command, "-c", source, "-o", tmp_path / "main.o")
        compiled((*command, "-O2", "-Wconversion"), "-c", tmp_path / "gemm_sm90_cluster.c", "-o", tmp_path / "bundle.o")
        source.write_text(program % "256")
        with pytest.raises(AssertionError, match="incompatible type|could not convert|no known conversion"):
            compiled(command, "-c", source, "-o", tmp_path / "main.o")
