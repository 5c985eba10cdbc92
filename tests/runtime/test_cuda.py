"""The CUDA side against a driver that records: what is asked of it, in which order, and what its errors become."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from fake_driver import FakeApi, Torch, install, parameter_bytes
from interfaces import bf16, gemm, gemm_arrays, interface, scale

from pipec.interface import MULTIPROCESSORS, PointerParameter, TensorArgument
from pipec.runtime.arguments import tensor_maps
from pipec.runtime.errors import ArgumentError, DeviceError, LaunchError
from pipec.runtime.gpu import cubins, cuda_driver, plans
from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher, LaunchOptions

CODE = Image(None, b"cubin", "sm_100a")


def test_a_launch_encodes_maps_and_passes_parameters(api):
    arrays = [Torch(array) for array in gemm_arrays(256, 128, 64)]
    call = Launcher(gemm(), CODE)  # keeps the parameter buffer that is looked at below
    result = call(arrays)
    assert (result.device, result.grid, result.launched) == ("cuda:0", (2, 2, 1), True)
    dtype, rank, address, dims, strides, box, steps, _, swizzle, _, _ = next(
        a for n, a in api.calls if n == "cuTensorMapEncodeTiled"
    )
    assert (dtype.name, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, arrays[0].data_ptr())
    assert [[int(v) for v in values] for values in (dims, strides, box, steps)] == [[64, 256], [128], [64, 128], [1, 1]]
    assert swizzle.name == "CU_TENSOR_MAP_SWIZZLE_128B"
    config, parameters = api.launches[0]
    assert (config.gridDimX, config.gridDimY, config.blockDimX, config.sharedMemBytes) == (2, 2, 192, 200_000)
    assert parameter_bytes(parameters, (128, 128, 128, 4))[3] == (64).to_bytes(4, "little")
    assert api.names().count("cuTensorMapEncodeTiled") == 3
    attribute, value, _, _ = api.last("cuKernelSetAttribute")
    assert attribute.name.endswith("MAX_DYNAMIC_SHARED_SIZE_BYTES") and value == 232_448


def test_a_repeated_launch_is_one_driver_call(api):
    arrays = [Torch(array) for array in gemm_arrays()]
    call = Launcher(gemm(), CODE)
    first = call(arrays)
    api.current = 1000  # as torch leaves it
    api.calls.clear()
    assert call(arrays) == first
    assert api.names() == ["cuCtxGetCurrent", "cuLaunchKernelEx"]
    by_name = dict(zip("abd", arrays, strict=True))
    call(by_name)
    api.calls.clear()
    assert call(by_name) == first
    assert api.names() == ["cuCtxGetCurrent", "cuLaunchKernelEx"]
    call([Torch(array) for array in gemm_arrays(128, 128, 64)])
    assert len(api.launches) == 5 and api.launches[4][0].gridDimX == 1


def test_streams(api):
    arrays = [Torch(array) for array in gemm_arrays()]
    call = Launcher(gemm(), CODE)
    for stream, handle in (
        (None, 0),
        (5, 5),
        (type("S", (), {"cuda_stream": 6})(), 6),
        (type("S", (), {"ptr": 7})(), 7),
        (type("S", (), {"__cuda_stream__": lambda self: (0, 8)})(), 8),
    ):
        call(arrays, stream=stream)
        assert int(api.launches[-1][0].hStream) == handle
    with pytest.raises(DeviceError, match="`str` is not a stream"):
        call(arrays, stream="main")


def test_cluster_and_programmatic_attributes(api):
    kernel = interface(gemm().arguments, gemm().parameters, (16, 1, 1), cluster=(16, 1, 1))
    Launcher(kernel, CODE)([Torch(array) for array in gemm_arrays()], options=LaunchOptions(programmatic=True))
    config, _ = api.launches[0]
    cluster, programmatic = config.attrs
    assert cluster.id.name.endswith("CLUSTER_DIMENSION") and cluster.value.clusterDim.x == 16
    assert programmatic.id.name.endswith("PROGRAMMATIC_STREAM_SERIALIZATION")
    assert any(
        arguments[0].name.endswith("NON_PORTABLE_CLUSTER_SIZE_ALLOWED")
        for n, arguments in api.calls
        if n == "cuKernelSetAttribute"
    )


def test_host_arrays_are_copied_there_and_back(api):
    kernel = interface(
        [TensorArgument("x", "f32", ("N",), False, False, True), TensorArgument("y", "f32", ("N",), True, False, True)],
        [PointerParameter("x", "x"), PointerParameter("y", "y")],
    )

    def run(config, function, parameters, extra):
        x, y = (int.from_bytes(block, "little") for block in parameter_bytes(parameters, (8, 8)))
        ctypes.memmove(y, x, 16)

    api.on_cuLaunchKernelEx = run
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert Launcher(kernel, CODE)([x, y], device="cuda").device == "cuda:0"
    assert (y == x).all() and not api.memory
    assert api.names().count("cuMemcpyDtoH") == 1 and "cuStreamSynchronize" in api.names()


def test_only_the_elements_of_an_output_come_back(api):
    kernel = interface([TensorArgument("y", "i8", ("M", "N"), True, True, False)])
    memory = np.zeros((4, 64), np.int8)

    def run(*_):
        memory[:, 32:] = 7  # written by somebody else meanwhile
        (address,) = api.memory
        ctypes.memset(address, 1, 3 * 64 + 32)

    api.on_cuLaunchKernelEx = run
    Launcher(kernel, CODE)([memory[:, :32]], device="cuda")
    assert (memory[:, :32] == 1).all() and (memory[:, 32:] == 7).all()


def test_nothing_stays_allocated_after_a_fault(api):
    api.fail["cuStreamSynchronize"] = api.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(LaunchError, match="cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda")
    assert "kernel `gemm`: running it (with `a` 0x" in str(caught.value) and "outside of every allocation" in caught.value.help
    assert not api.memory


def test_empty_arrays_get_a_stand_in(api):
    Launcher(gemm(), CODE)([bf16(256, 0), bf16(128, 0), bf16(256, 128)], device="cuda")
    maps = [arguments for name, arguments in api.calls if name == "cuTensorMapEncodeTiled"]
    assert [int(extent) for extent in maps[0][3]] == [1, 1] and maps[0][2] == maps[1][2] != maps[2][2]
    assert len(api.launches) == 1


def test_an_empty_grid_launches_nothing(api):
    result = Launcher(gemm(), CODE)([bf16(0, 64), bf16(128, 64), bf16(0, 128)], device="cuda")
    assert not result.launched and not api.launches and "cuLibraryLoadData" not in api.names()


def test_a_refused_tensor_map_names_the_parameter(api):
    api.fail["cuTensorMapEncodeTiled"] = api.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(
        LaunchError, match=r"kernel `gemm`: encoding the tensor map of parameter `a` \(dims \(64, 256\)"
    ) as caught:
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()])
    assert caught.value.status == "CUDA_ERROR_INVALID_VALUE" and caught.value.call == "cuTensorMapEncodeTiled"


@pytest.mark.parametrize(
    "function",
    ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelSetAttribute", "cuLaunchKernelEx", "cuMemAlloc", "cuMemcpyHtoD"],
)
def test_every_driver_error_names_the_kernel(api, function):
    api.fail[function] = api.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match=f"kernel `gemm`: .* failed: {function} returned CUDA_ERROR_INVALID_VALUE"):
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda")
    assert not api.memory


def test_limits_of_the_device(api):
    kernel = interface(gemm().arguments, shared_bytes=300_000)
    with pytest.raises(LaunchError, match="needs 300000 bytes of shared memory per CTA, but Imaginary GPU allows 232448"):
        Launcher(kernel, CODE)(gemm_arrays(), device="cuda")


def test_wrong_architecture(monkeypatch):
    install(monkeypatch, FakeApi(capability=(9, 0)))
    with pytest.raises(DeviceError, match="compiled for sm_100a, which no GPU here runs: cuda:0 Imaginary GPU") as caught:
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda")
    assert "arch='sm_90a'" in caught.value.help
    with pytest.raises(DeviceError, match="is compiled for sm_100a, but cuda:0"):
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()])


def test_devices_that_do_not_exist(api):
    with pytest.raises(DeviceError, match="there is no device cuda:3; this machine has 1"):
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda:3")
    with pytest.raises(DeviceError, match="the arrays are on `cuda:0`, but device 'cuda:1'"):
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()], device="cuda:1")
    with pytest.raises(DeviceError, match="works on host memory"):
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()], device="sim")


def test_which_code_runs_where():
    device = cuda_driver.Device(0, "GPU", (10, 3), 232_448, 1024, 148, 233_472, 1024)
    runs = {arch: device.runs(arch) for arch in ("sm_100a", "sm_100f", "sm_103a", "sm_90", "sm_90a", "sm_120f", "sm_110", "")}
    assert runs == {
        "sm_100a": False, "sm_100f": True, "sm_103a": True, "sm_90": True, "sm_90a": False, "sm_120f": False, "sm_110": False, "": True,
    }  # fmt: skip


def test_scalars_and_strides_by_value(api):
    x, y = np.zeros((8, 19), np.float32)[:, :16], np.zeros((8, 16), np.float32)
    call = Launcher(scale(), CODE)
    call([Torch(x), Torch(y), 2.0, 3])
    config, parameters = api.launches[0]
    blocks = parameter_bytes(parameters, (8, 8, 8, 4, 4, 4))
    assert blocks[1:2] + blocks[3:] == [(19).to_bytes(8, "little"), b"\x08\0\0\0", np.float32(2).tobytes(), b"\3\0\0\0"]
    assert config.gridDimX == 6


def test_arguments_are_checked_before_the_driver_is_asked(api):
    with pytest.raises(ArgumentError):
        Launcher(gemm(), CODE)([bf16(256, 64), bf16(128, 72), bf16(256, 128)], device="cuda")
    assert not api.calls


def test_code_is_assembled_once_and_kept_on_disk(monkeypatch, tmp_path):
    from pipec.ptx import assemble

    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path))
    ptx = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n"
    first = cubins.machine_code(Image.of(ptx), "k")
    assert first.startswith(b"\x7fELF") and [path.suffix for path in tmp_path.iterdir()] == [".cubin"]
    monkeypatch.setattr(assemble, "assemble", None)
    assert cubins.machine_code(Image.of(ptx), "k") == first


def test_another_assembler_or_target_means_other_machine_code(monkeypatch, tmp_path):
    from pipec.ptx import assemble

    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path))
    ptx = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n"
    found = assemble.available()
    for versions, code, kept in (
        (found, ptx, 1),
        (found, ptx, 1),
        ({name: f"{version}.1" for name, version in found.items()}, ptx, 2),
        (found, ptx.replace("sm_90a", "sm_100a"), 3),
        (found, ptx + "\n", 4),
    ):
        monkeypatch.setattr(assemble, "available", lambda versions=versions: versions)
        cubins.machine_code(Image.of(code), "k")
        assert len(list(tmp_path.iterdir())) == kept


def test_without_an_assembler_the_driver_gets_the_ptx(monkeypatch):
    from pipec.ptx import assemble

    monkeypatch.setattr(assemble, "available", dict)
    assert cubins.machine_code(Image(".target sm_100a", None, "sm_100a"), "k") == b".target sm_100a\0"


def test_bad_ptx_is_a_launch_error(monkeypatch):
    monkeypatch.setenv("PIPEC_CACHE_DIR", "")
    with pytest.raises(LaunchError, match="kernel `k`: .* rejects the generated PTX"):
        cubins.machine_code(Image.of(".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n  rot;\n}\n"), "k")


def test_types_of_tensor_maps_are_those_of_the_table():
    from pipec.isa.dtypes import DTYPES

    types = {row.tensor_map for row in DTYPES.values()} - {None}
    assert {hasattr(FakeApi().CUtensorMapDataType, tensor_maps.element_type(name)) for name in types} == {True}
    assert all(row.numpy is None or hasattr(ml_dtypes, row.numpy) or np.dtype(row.numpy) for row in DTYPES.values())


# --- what the driver is asked before a launch --------------------------------


def test_memory_that_cuda_does_not_know(api):
    arrays = [Torch(array) for array in gemm_arrays()]
    end = arrays[1].data_ptr() + arrays[1].array.nbytes - 1
    api.owners[end] = None
    with pytest.raises(ArgumentError, match=f"`b`: it ends at {end:#x}, which is no memory that CUDA knows"):
        Launcher(gemm(), CODE)(arrays)
    assert not api.launches


def test_a_stream_of_another_device(api):
    arrays = [Torch(array) for array in gemm_arrays()]
    api.on_cuStreamGetDevice = lambda stream: 1 if stream == 5 else 0
    call = Launcher(gemm(), CODE)
    with pytest.raises(DeviceError, match="kernel `gemm`: the stream belongs to cuda:1, but the launch is on cuda:0"):
        call(arrays, stream=5)
    for stream in (7, 7, 9, 7):
        call(arrays, stream=stream)
    assert api.names().count("cuStreamGetDevice") == 3  # once for each stream


def test_a_stream_that_is_captured_is_not_asked_for_its_device(api):
    arrays = [Torch(array) for array in gemm_arrays()]
    status = api.CUstreamCaptureStatus
    call = Launcher(gemm(), CODE)
    for captured, asked in ((status.CU_STREAM_CAPTURE_STATUS_ACTIVE, 0), (status.CU_STREAM_CAPTURE_STATUS_NONE, 1)):
        api.on_cuStreamIsCapturing = lambda stream, captured=captured: captured
        call(arrays, stream=7)
        call(arrays, stream=0)
        assert api.names().count("cuStreamGetDevice") == asked


def test_host_arrays_cannot_be_captured(api):
    api.on_cuStreamIsCapturing = lambda stream: api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    with pytest.raises(LaunchError, match="captured into a graph, and arrays in host memory are copied"):
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda", stream=5)
    assert not api.memory and "cuMemAlloc" not in api.names()


def test_code_is_loaded_outside_of_a_capture(api):
    Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()])
    names = api.names()
    first, last = (at for at, name in enumerate(names) if name == "cuThreadExchangeStreamCaptureMode")
    assert first < names.index("cuLibraryLoadData") < last


def test_a_cluster_that_does_not_fit(api):
    kernel = interface(gemm().arguments, gemm().parameters, (16, 1, 1), cluster=(16, 1, 1))
    api.on_cuOccupancyMaxActiveClusters = lambda function, config: 0
    with pytest.raises(LaunchError, match="no cluster of 16 x 1 x 1 CTAs, each with 192 threads and 200000 bytes") as caught:
        Launcher(kernel, CODE)([Torch(array) for array in gemm_arrays()])
    assert "Imaginary GPU" in str(caught.value) and not api.launches


def following(blocks, cluster=2):
    """A kernel whose blocks stay: at most `blocks`, in clusters."""
    tiles = ("*", ("ceildiv", "M", 2), ("ceildiv", "N", 1))
    grid = ("*", cluster, ("min", tiles, ("max", 1, ("//", blocks, cluster)) if isinstance(blocks, str) else blocks // cluster))
    return interface(gemm().arguments, gemm().parameters, (grid, 1, 1), cluster=(cluster, 1, 1))


@pytest.mark.parametrize(
    ("cluster", "fitting", "blocks"), [(2, 74, 148), (2, 71, 142), (8, 16, 128), (8, 18, 144), (8, 40, 144), (1, 0, 148)]
)
@pytest.mark.filterwarnings("error")
def test_blocks_that_follow_the_gpu_are_those_that_fit_at_the_same_time(api, cluster, fitting, blocks):
    api.on_cuOccupancyMaxActiveClusters = lambda function, config: fitting
    call = Launcher(following(MULTIPROCESSORS, cluster), CODE)
    arrays = [Torch(array) for array in gemm_arrays()]
    assert call(arrays).grid == (blocks, 1, 1)
    assert call(arrays, options=LaunchOptions(multiprocessors=20)).grid == (20 // cluster * cluster, 1, 1)
    assert call(arrays).grid == (blocks, 1, 1)
    assert api.names().count("cuOccupancyMaxActiveClusters") == (cluster > 1)


def test_blocks_that_wait_for_others_to_end_are_reported(api):
    api.on_cuOccupancyMaxActiveClusters = lambda function, config: 16
    arrays = [Torch(array) for array in gemm_arrays()]
    with pytest.warns(RuntimeWarning, match=r"18 clusters of 8 x 1 x 1 CTAs, but Imaginary GPU has room for 16 at the same time"):
        assert Launcher(following(144, 8), CODE)(arrays).grid == (144, 1, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "kernel", [following(128, 8), interface(gemm().arguments, gemm().parameters, (160, 1, 1), cluster=(8, 1, 1))]
)
def test_other_grids_are_not_told_of(api, kernel):
    """As many as fit, and a block for each tile: it is no loss that those wait."""
    api.on_cuOccupancyMaxActiveClusters = lambda function, config: 16
    assert Launcher(kernel, CODE)([Torch(array) for array in gemm_arrays()]).launched


@pytest.mark.parametrize(("says", "asked", "set_"), [(True, None, 1), (True, False, 0), (False, None, 0), (False, True, 1)])
def test_programmatic_launch_is_what_the_kernel_says(api, says, asked, set_):
    kernel = interface(gemm().arguments, gemm().parameters, programmatic_launch=says)
    Launcher(kernel, CODE)([Torch(array) for array in gemm_arrays()], options=LaunchOptions(programmatic=asked))
    config, _ = api.launches[0]
    assert config.numAttrs == set_


MULTIPROCESSORS_HERE = 148


@pytest.mark.parametrize(
    ("blocks", "used", "overlapping", "taken"),
    [
        (2 * MULTIPROCESSORS_HERE, 48_000, True, 233_472 // 2 - 1024),
        (MULTIPROCESSORS_HERE + 1, 48_000, True, 233_472 // 2 - 1024),
        (3 * MULTIPROCESSORS_HERE, 48_000, True, 233_472 // 3 - 1024),
        (2 * MULTIPROCESSORS_HERE, 48_000, False, 48_000),  # starts where nothing else runs
        (MULTIPROCESSORS_HERE, 48_000, True, 48_000),
        (5 * MULTIPROCESSORS_HERE, 48_000, True, 48_000),  # more than fit
        (2 * MULTIPROCESSORS_HERE, 116_000, True, 116_000),
        (0, 48_000, True, 48_000),
    ],
)
def test_blocks_that_share_a_multiprocessor_leave_no_room_for_more(blocks, used, overlapping, taken):
    device = cuda_driver.Device(0, "GPU", (9, 0), 232_448, 1024, MULTIPROCESSORS_HERE, 233_472, 1024)
    kernel = interface(gemm().arguments, gemm().parameters, shared_bytes=used)
    assert plans.shared_share(kernel, device, (blocks, 1, 1), overlapping) == taken
    # No further one finds room beside those that belong there.
    each = -(-blocks // MULTIPROCESSORS_HERE)
    assert taken == used or (each + 1) * (taken + 1024) > 233_472 >= each * (taken + 1024)


@pytest.mark.parametrize("kernel", [scale(), interface(gemm().arguments, gemm().parameters, cluster=(2, 1, 1))])
def test_what_pointers_read_and_clusters_keep_their_memory(kernel):
    device = cuda_driver.Device(0, "GPU", (9, 0), 232_448, 1024, MULTIPROCESSORS_HERE, 233_472, 1024)
    assert plans.shared_share(kernel, device, (2 * MULTIPROCESSORS_HERE, 1, 1), True) == kernel.shared_bytes


def test_a_launch_is_given_its_share(api):
    kernel = interface(gemm().arguments, gemm().parameters, ("M", 1, 1), shared_bytes=48_000, programmatic_launch=True)
    call = Launcher(kernel, CODE)
    for rows, overlapping, taken in ((296, True, 115_712), (296, False, 48_000), (128, True, 48_000)):
        call([Torch(array) for array in gemm_arrays(rows, 128, 64)], options=LaunchOptions(programmatic=overlapping))
        assert api.launches[-1][0].sharedMemBytes == taken
    attribute, value, _, _ = api.last("cuKernelSetAttribute")
    assert attribute.name.endswith("MAX_DYNAMIC_SHARED_SIZE_BYTES") and value == 232_448


def test_out_of_memory_says_how_much_there_is(api):
    api.fail["cuMemAlloc"] = api.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    api.answer = lambda name, arguments: (5, 7) if name == "cuMemGetInfo" else type(api).answer(api, name, arguments)
    with pytest.raises(LaunchError, match=r"copying parameter `a` \(32768 bytes\)") as caught:
        Launcher(gemm(), CODE)(gemm_arrays(), device="cuda")
    assert caught.value.help == "5 of 7 bytes are free"


def test_a_fault_that_another_call_reports_is_not_blamed_on_it(api):
    api.fail["cuLaunchKernelEx"] = api.CUresult.CUDA_ERROR_MISALIGNED_ADDRESS
    with pytest.raises(LaunchError, match="work launched earlier in this process"):
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()])


def test_what_wrong_machine_code_is(api):
    api.fail["cuLibraryLoadData"] = api.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(LaunchError, match="loading the code failed") as caught:
        Launcher(gemm(), CODE)([Torch(array) for array in gemm_arrays()])
    assert "is for another GPU" in caught.value.help
