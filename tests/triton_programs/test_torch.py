"""Programs that ask torch for a GPU run over tensors of the host. They need torch, which the tests of pipec do not install."""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import triton  # after torch has been looked for
import triton.language as tl

import pipec.triton
from pipec.sim import SimulationError


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    pipec.triton.install("sm_90a")
    yield
    pipec.triton.uninstall()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        twice[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y

    @staticmethod
    def backward(ctx, gradient):
        result = torch.empty(gradient.shape, device="cuda", dtype=gradient.dtype)
        twice[(1,)](gradient.contiguous(), result, gradient.numel(), BLOCK=256)
        return result


def test_a_kernel_on_the_gpu() -> None:
    x = torch.randn(200, device="cuda")
    assert x.is_cuda and x.device == torch.device("cuda", 0) and x.device.index == torch.cuda.current_device()
    assert torch.equal(Twice.apply(x), 2 * x)


@triton.jit
def sums(table, out, n, BLOCK: tl.constexpr):
    x = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


def test_a_table_of_addresses() -> None:
    """What a program asks the address of, kernels may reach: as long as it is there, and no further."""
    parts = [torch.randn(50, device="cuda") for _ in range(3)]
    table = torch.tensor([part.view(5, 10)[1:].data_ptr() for part in parts], device="cuda")
    out = torch.zeros(3, device="cuda")
    sums[(3,)](table, out, 40, BLOCK=64)
    torch.testing.assert_close(out, torch.stack([part[10:].sum() for part in parts]))
    with pytest.raises(SimulationError, match="out_of_bounds"):
        sums[(3,)](table, out, 41, BLOCK=64)


def test_the_release_of_cuda_is_known() -> None:
    """Libraries offer kernels for a new target from some release on."""
    assert tuple(map(int, torch.version.cuda.split("."))) >= (12, 8)


@pytest.mark.parametrize("size", [1, 100, 3000, 70_000])
def test_memory_is_aligned_as_on_a_gpu(size: int) -> None:
    """Each tensor is as large as asked for, so that what is beyond it is out of bounds."""
    for made in (torch.empty(size), torch.randn(size, requires_grad=True), torch.ones(size).clone(), torch.zeros(size).cuda()):
        assert made.data_ptr() % 256 == 0 and made.untyped_storage().nbytes() == 4 * size
    x = torch.full((size,), 3.0, requires_grad=True)
    (x.clone() * 2).sum().backward()
    assert x.sum() == 3 * size and x.grad.sum() == 2 * size


def test_the_gpu_by_other_names() -> None:
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.device(0) == torch.device("cuda", 0) and torch.get_device_module() is torch.cuda
    assert torch.zeros(2, device=torch.accelerator.current_accelerator()).is_cuda


def test_streams_and_random_states() -> None:
    torch.zeros(4, device="cuda").record_stream(torch.cuda.current_stream())
    torch.cuda.set_stream(torch.cuda.Stream())
    state = torch.cuda.get_rng_state()
    drawn = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), drawn)


def test_a_backward_pass() -> None:
    x = torch.randn(200, device="cuda:0", requires_grad=True)
    Twice.apply(x).sum().backward()
    assert torch.equal(x.grad, torch.full((200,), 2.0, device="cuda"))
    (gradient,) = torch.autograd.grad(Twice.apply(x).sum(), x)
    assert torch.equal(gradient, x.grad)


@pytest.mark.parametrize("move", ["x.cuda()", "x.to('cuda')", "x.to(0)", "x.to(torch.device('cuda'))", "x.cpu()", "x.to('cpu')"])
def test_what_is_moved_is_a_copy(move: str) -> None:
    x = torch.zeros(10)
    y = eval(move, {"x": x, "torch": torch})
    y += 1
    assert not x.any() and y.sum() == 10


@pytest.mark.parametrize("same", ["x.to(torch.float32)", "x.float()", "x.contiguous()", "x.detach()", "x.view(10)"])
def test_what_is_not_moved_is_no_copy(same: str) -> None:
    x = torch.zeros(10)
    y = eval(same, {"x": x, "torch": torch})
    assert y.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "make",
    [
        "torch.tensor([1, 2], device='cuda')",
        "torch.arange(4, device=0)",
        "torch.empty((2, 3), device='cuda', pin_memory=True)",
        "torch.full((3,), 1.0, device=torch.device('cuda'))",
        "torch.randn(3, device='cuda', generator=torch.Generator(device='cuda').manual_seed(1))",
        "torch.zeros(3).pin_memory()",
        "torch.zeros(3).to('cuda', torch.float16, non_blocking=True)",
        "torch.nn.Linear(3, 4).cuda().weight",
        "torch.nn.Linear(3, 4, device='cuda')(torch.zeros(2, 3, device='cuda'))",
    ],
)
def test_ways_to_a_tensor_on_the_gpu(make: str) -> None:
    assert eval(make, {"torch": torch}).is_cuda


def test_default_devices() -> None:
    with torch.device("cuda"):
        assert torch.zeros(3).is_cuda
    torch.set_default_device("cuda")
    assert torch.ones(3).sum().item() == 3
    torch.set_default_device(None)


def test_what_the_device_says_of_itself() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (9, 0) == torch.cuda.get_device_capability("cuda")
    properties = torch.cuda.get_device_properties("cuda")
    assert (properties.multi_processor_count, properties.major) == (132, 9)
    assert properties.L2_cache_size == 50 << 20
    assert properties.shared_memory_per_block == 48 << 10 < properties.shared_memory_per_block_optin
    with torch.cuda.device(0) as nothing, torch.cuda.device_of(torch.zeros(1, device="cuda")):
        assert nothing is None and torch.cuda.device(0).idx == torch.cuda.current_device()


def test_streams_and_events() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    x = torch.ones(64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    stream.wait_event(torch.cuda.current_stream().record_event(torch.cuda.Event()))
    with torch.cuda.device(x.device), torch.cuda.stream(stream):
        start.record()
        twice[(1,)](x, x, 64, BLOCK=64)
        end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0 and x.sum() == 128


def test_afterwards_torch_is_as_before() -> None:
    pipec.triton.uninstall()
    assert not torch.zeros(2).is_cuda and str(torch.zeros(2).device) == "cpu"
    assert "device" not in vars(torch.Tensor) and type(torch.Generator()) is torch._C.Generator


def test_occupancy_can_be_computed() -> None:
    """As the tutorial on softmax does, which divides by the registers that a kernel takes."""
    x = torch.ones(64, device="cuda")
    kernel = twice.warmup(x, x, 64, BLOCK=64, grid=(1,))
    kernel._init_handles()
    assert 0 < kernel.n_regs <= 255


def test_torch_can_list_its_functions() -> None:
    """`torch.compiler` does, which libraries import while they are imported; it takes a function of two names for a mistake."""
    from torch._dynamo.trace_rules import get_torch_obj_rule_map

    get_torch_obj_rule_map.cache_clear()
    assert torch.cuda.synchronize in get_torch_obj_rule_map()
    get_torch_obj_rule_map.cache_clear()


def test_what_tutorials_use_beside_kernels() -> None:
    """Triton's profiler, which measures nothing, its binding of cuBLAS, and ranges that a profiler would show."""
    import triton.profiler as proton
    from triton._C.libtriton import nvidia

    x = torch.arange(200.0, device="cuda")
    proton.start("nothing", hook="triton")
    torch.cuda.nvtx.range_push("twice")
    with proton.scope("twice", {"flops": 200}):
        y = Twice.apply(x)
    torch.cuda.nvtx.range_pop()
    proton.finalize()
    assert torch.equal(y, 2 * x)
    a, b = torch.randn(8, 16, device="cuda"), torch.randn(4, 16, device="cuda")
    d, whole = torch.empty(8, 4, device="cuda"), torch.ones(8, 4, device="cuda")
    cublas = nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8))
    cublas.matmul(a, b, d)
    assert torch.allclose(d, a @ b.T)
    cublas.gemm(a, b, whole, d, 2.0, 3.0)
    assert torch.allclose(d, 2 * (a @ b.T) + 3)


@torch.library.custom_op("pipec_test::doubled", mutates_args=())
def doubled_before(x: torch.Tensor) -> torch.Tensor:
    """Registered before a GPU is there, for all devices."""
    return 2 * x


@pytest.mark.parametrize("device_types", [None, "cuda"])
def test_operators_of_a_program(device_types: str | None) -> None:
    name = f"pipec_test::tripled_{device_types}"

    @torch.library.custom_op(name, mutates_args=(), device_types=device_types)
    def tripled(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return torch.empty(x.shape, device=x.device).copy_(3 * x)  # in an operator, too

    if device_types is not None:

        @tripled.register_kernel("cpu")
        def _(x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("there are no tensors on the host")

    x = torch.ones(3, device="cuda")
    assert torch.equal(tripled(x), 3 * x)
    assert torch.equal(doubled_before(x), 2 * x)


def test_a_library_of_operators() -> None:
    library = torch.library.Library("pipec_test_library", "DEF")
    library.define("halved(Tensor x) -> Tensor")
    library.impl("halved", lambda x: torch.full(x.shape, 0.5, device="cuda") * x, "CUDA")
    assert torch.equal(torch.ops.pipec_test_library.halved(torch.ones(4, device="cuda")), torch.full((4,), 0.5))


def test_what_would_be_compiled_runs_as_it_is() -> None:
    @torch.compile(fullgraph=True, dynamic=True)
    def next_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.zeros(3, device="cuda")
    assert torch.equal(next_one(x), torch.compile(lambda x: 1 + x)(x)) and torch._C._cuda_getCurrentRawStream(0) == 0
