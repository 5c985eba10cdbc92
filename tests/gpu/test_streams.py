"""On an sm_90a GPU: graphs, streams, other libraries' arrays, and what the driver's errors become."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import SOURCE
from gpu.gpus import needs_gpu

import pipec
from pipec.runtime import ArgumentError, Image, Launcher, LaunchError, LaunchOptions

pytestmark = needs_gpu

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def doubling():
    """y = 2 x; a fresh program, so that nothing is loaded yet."""
    return pipec.compile(SOURCE, arch="sm_90a")["pass_on"]


def tensors(torch, columns=64):
    x = torch.randn(768, columns, device="cuda")
    return x, torch.full_like(x, float("nan"))


@pytest.mark.parametrize("warm", [False, True], ids=["loaded in the capture", "loaded before"])
def test_a_captured_graph_replays(torch, warm):
    kernel = doubling()
    x, y = tensors(torch)
    z = torch.empty_like(y)
    if warm:
        kernel(x, z)
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y)
        kernel(y, z)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        y.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, 2 * x) and torch.equal(z, 4 * x)


def test_what_cannot_be_captured_says_so(torch):
    kernel = doubling()
    x, y = tensors(torch)
    kernel(x, y)
    host = np.ones((768, 64), np.float32)
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        with pytest.raises(LaunchError, match="captured into a graph, and arrays in host memory"):
            kernel(host, host.copy(), device="cuda", stream=stream)
        with pytest.raises(LaunchError, match="captured into a graph, and a launch with a watchdog"):
            kernel(x, y, debug="watchdog", stream=stream)
        kernel(x, y)
    y.fill_(0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)


def test_streams(torch):
    kernel = doubling()
    x, y = tensors(torch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        kernel(x, y)  # torch's current stream
        kernel(y, x)
    side.synchronize()
    assert torch.equal(x, 2 * y)
    kernel(x, y, stream=side)
    kernel(x, y, stream=side.cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)


def test_programmatic_launches_one_after_the_other(torch):
    """The attribute is accepted; the kernels have no data in common, since this one does not wait for those in front of it."""
    kernel = doubling()
    pairs = [tensors(torch) for _ in range(8)]
    torch.cuda.synchronize()
    for x, y in pairs:
        kernel(x, y, options=LaunchOptions(programmatic=True))
    torch.cuda.synchronize()
    assert all(torch.equal(y, 2 * x) for x, y in pairs)


@pytest.mark.parametrize(
    ("example", "constants"),
    [
        ("gemm_sm90", {"BN": 64, "STAGES": 8}),
        ("gemm_sm90_persistent", {}),
        ("gemm_sm90_pingpong", {}),
        ("gemm_sm90_swapped", {"ONCE": True, "CX": 2, "CY": 2, "BM": 80, "BN": 128, "STAGES": 7}),
    ],
)
def test_a_chain_of_launches_that_overlap(torch, example: str, constants: dict[str, object]) -> None:
    """Each multiplies what the one in front has left, and writes over what that one reads: nothing may be read or written early."""
    kernel = pipec.compile(EXAMPLES / f"{example}.pipe", constants=constants)[example]
    assert kernel.interface.programmatic_launch
    generator = torch.Generator(device="cuda").manual_seed(1)
    first, by = (torch.randn(768, 768, device="cuda", generator=generator).bfloat16() for _ in "ab")
    by /= 768**0.5

    def chain(options: LaunchOptions | None):
        here, there = first.clone(), torch.empty_like(first)
        for _ in range(200):
            kernel(here, by, there, options=options)
            here, there = there, here
        torch.cuda.synchronize()
        return here

    wanted = chain(LaunchOptions(programmatic=False))
    assert wanted.isfinite().all() and not torch.equal(wanted, first)
    for _ in range(5):
        assert torch.equal(chain(None), wanted)


def test_arrays_of_other_libraries_are_used_where_they_are(torch):
    cupy = pytest.importorskip("cupy")
    kernel = doubling()
    x = cupy.arange(768 * 64, dtype=cupy.float32).reshape(768, 64)
    y = cupy.zeros_like(x)
    kernel(x, y)
    cupy.cuda.runtime.deviceSynchronize()
    assert bool((y == 2 * x).all())

    class Exported:
        """DLPack alone."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    z = torch.zeros(768, 64, device="cuda")
    kernel(Exported(x), Exported(z))
    torch.cuda.synchronize()
    assert np.array_equal(z.cpu().numpy(), 2 * cupy.asnumpy(x))


def test_addresses_that_are_no_memory(torch):
    class Pretends:
        def __init__(self, address, shape):
            self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": "<f4", "data": (address, False)}

    kernel = doubling()
    x, y = tensors(torch)
    with pytest.raises(ArgumentError, match="`x`: it begins at 0x1000, which is no memory that CUDA knows"):
        kernel(Pretends(0x1000, (768, 64)), y)
    torch.cuda.empty_cache()
    with pytest.raises(ArgumentError, match="`x`: it ends at 0x"):
        kernel(Pretends(x.data_ptr(), (768, 1 << 24)), Pretends(0x10000, (768, 1 << 24)))


def test_memory_that_is_not_enough(torch):
    kernel = doubling()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - (1 << 30), dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(LaunchError, match=r"copying parameter `x` \(3221225472 bytes\)") as caught:
            kernel(np.zeros((1 << 20, 768), np.float32), np.zeros((1 << 20, 768), np.float32), device="cuda")
        assert "bytes are free" in (caught.value.help or "") and caught.value.status == "CUDA_ERROR_OUT_OF_MEMORY"
    finally:
        del hog
        torch.cuda.empty_cache()
    x, y = tensors(torch)
    kernel(x, y)  # nothing is broken
    assert torch.equal(y, 2 * x)


def test_machine_code_of_another_gpu(torch):
    program = pipec.compile(SOURCE, arch="sm_100a")
    image = Image(None, program.cubin(), "")
    with pytest.raises(LaunchError, match="kernel `pass_on`: .* failed: cu") as caught:
        Launcher(program["pass_on"].interface, image)(list(tensors(torch)))
    assert "for another GPU" in (caught.value.help or "")


# Which launch is the first to see the fault is the driver's affair, and so is what a lost context does to the end of the process.
FAULT = """
import json, os, sys
import numpy as np
sys.path.insert(0, "runtime")
from test_launch import SCALE, scale_interface
from pipec.runtime import Launcher, LaunchError
offset, arrays = sys.argv[1], sys.argv[2]
ptx = SCALE.replace("sm_100a", "sm_90a").replace("st.global.f32 [%rd9]", f"st.global.f32 [%rd9+{offset}]")
call = Launcher(scale_interface(), ptx)
x, y = np.ones((4, 16), np.float32), np.ones((4, 16), np.float32)
told = []
if arrays == "torch":
    import torch
    x, y = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
for _ in range(20):
    if told:
        break
    try:
        call([x, y, 2.0], device="cuda")
        if arrays == "torch":
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                pass
    except LaunchError as error:
        told.append([str(error), error.call, error.status])
print(json.dumps(told), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("offset", "statuses"),
    [
        # Which of the two depends on what lies there.
        ("0x7fffff00", ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_INVALID_ADDRESS_SPACE")),
        ("1", ("CUDA_ERROR_MISALIGNED_ADDRESS",)),
    ],
)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_faults_of_kernels(offset, statuses, arrays):
    done = subprocess.run(
        [sys.executable, "-c", FAULT, offset, arrays], cwd=TESTS, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (first,) = json.loads(done.stdout.splitlines()[-1])
    text, call, found = first
    assert found in statuses and "kernel `scale`" in text and "context is lost" in text, first
    if arrays == "numpy":  # the call waited for its own kernel: it can name what the kernel was given
        assert call == "cuStreamSynchronize" and "`y` 0x" in text
    else:  # seen by the next launch, which must not take the blame
        assert "work launched earlier in this process" in text
