"""On an sm_90a GPU: kernels as operators of torch, eager and compiled, in graphs, with autocast and gradients."""

from pathlib import Path

import pytest
from gpu.gpus import needs_gpu

import pipec

pytestmark = needs_gpu
torch = pytest.importorskip("torch", reason="torch is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples"

ADD = '''
kernel add_into(x: tensor[f32, M, 64], y: tensor[f32, M, 64], scale: f32):
    """arch: sm_90a"""
    grid(ceildiv(M, 64))
    role one(warps=4):
        store(y[block.x * 64, 0], load(y[block.x * 64, 0], 64, 64) + load(x[block.x * 64, 0], 64, 64) * scale)
'''


def gemm():
    return pipec.compile(EXAMPLES / "gemm_sm90_persistent.pipe", arch="sm_90a")["gemm_sm90_persistent"]


def backward(inputs, results, gradient):
    a, b = inputs
    return gradient @ b, gradient.T @ a


@pytest.fixture(scope="module")
def linear():
    from pipec.torch import op

    return op(gemm(), name="linear_tested", backward=backward, autocast=torch.bfloat16)


@pytest.fixture(scope="module")
def add_into():
    from pipec.torch import op

    return op(pipec.compile(ADD, arch="sm_90a")["add_into"], name="add_into_tested")


def operands(m=256, n=512, k=128, **options):
    return (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16, **options) for rows in (m, n))


def close(d, a, b):
    torch.testing.assert_close(d.float(), a.float() @ b.float().T, rtol=2e-2, atol=2e-1)


def test_eager(linear):
    a, b = operands()
    close(linear(a, b), a, b)


def test_the_library_finds_no_fault(linear, add_into):
    torch.library.opcheck(linear, tuple(operands(requires_grad=True)))
    x, y = torch.randn(2, 128, 64, device="cuda")
    torch.library.opcheck(add_into, (x, y, 2.0))


def test_compiled_as_one_graph_with_sizes_that_change(linear):
    compiled = torch.compile(lambda a, b: linear(a, b).relu() + 1, fullgraph=True, dynamic=True)
    for m in (128, 256, 384):
        a, b = operands(m=m)
        torch.testing.assert_close(compiled(a, b), (linear(a, b).relu() + 1))


def test_inside_a_cuda_graph(linear):
    a, b = operands()
    linear(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = linear(a, b)
    a.copy_(torch.randn_like(a))
    graph.replay()
    torch.cuda.synchronize()
    close(d, a, b)


def test_gradients(linear):
    a, b = operands(requires_grad=True)
    linear(a, b).float().square().sum().backward()
    c, e = (one.detach().float().requires_grad_() for one in (a, b))
    (c @ e.T).square().sum().backward()
    for one, other in ((a, c), (b, e)):
        difference = (one.grad.float() - other.grad).norm() / other.grad.norm()
        assert difference < 0.02


def test_autocast(linear):
    a, b = (one.float() for one in operands())
    with torch.autocast("cuda", torch.bfloat16):
        d = linear(a, b)
    assert d.dtype is torch.bfloat16
    close(d, a, b)


def test_what_is_changed_in_place_has_another_version(add_into):
    x, y = torch.randn(2, 128, 64, device="cuda")
    before, version = y.clone(), y._version
    add_into(x, y, 0.5)
    assert y._version > version
    torch.testing.assert_close(y, before + 0.5 * x)


def test_without_a_gradient_of_its_own_none_is_made_up():
    from pipec.torch import op

    a, b = operands(requires_grad=True)
    with pytest.raises(RuntimeError, match="[Aa]utograd"):
        op(gemm(), name="linear_without_gradient")(a, b).sum().backward()


def test_what_is_changed_in_place_takes_no_tensor_that_wants_a_gradient(add_into):
    x, y = torch.randn(2, 128, 64, device="cuda")
    parameter = x.clone().requires_grad_()
    before, version = y.clone(), y._version
    with pytest.raises(RuntimeError, match="autograd"):
        add_into(parameter, y, 0.5)
    assert y._version == version and torch.equal(y, before)
    with torch.no_grad():
        add_into(parameter, y, 0.5)
    torch.testing.assert_close(y, before + 0.5 * x)


def test_a_second_operator_of_the_same_name_replaces_the_first():
    from pipec.torch import op

    a, b = operands()
    for _ in range(2):
        close(op(gemm(), name="linear_twice")(a, b), a, b)
