"""On an sm_90a GPU: launches with fresh tensors, from threads, inside captures; what is kept and what is refused."""

import threading

import pytest
from faults import SOURCE
from gpu.gpus import needs_gpu

import pipec
from pipec.runtime import ArgumentError

pytestmark = needs_gpu


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def doubling():
    """y = 2 x."""
    return pipec.compile(SOURCE, arch="sm_90a")["pass_on"]


def test_fresh_tensors_of_several_shapes(torch):
    kernel = doubling()
    alive = []
    for at in range(200):
        x = torch.randn(128 * (1 + at % 3), 16 * (1 + at % 4), device="cuda")
        y = torch.full_like(x, float("nan"))
        kernel(x, y)
        alive.append((x, y))
    torch.cuda.synchronize()
    assert all(torch.equal(y, 2 * x) for x, y in alive)


def test_slices_at_other_alignments(torch):
    kernel = doubling()
    memory = torch.randn(256, 256, device="cuda")
    for column in (0, 4, 8, 12, 64, 100):
        x = memory[:, column : column + 64]
        y = torch.full((256, 64), float("nan"), device="cuda")
        kernel(x, y)
        assert torch.equal(y, 2 * x)


def test_dropped_tensors_are_free(torch):
    kernel = doubling()
    x = torch.randn(128, 64, device="cuda")
    kernel(x, torch.empty_like(x))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(300):
        kernel(x, torch.empty_like(x))
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_threads_on_streams_of_their_own(torch):
    kernel = doubling()
    shared = torch.randn(256, 64, device="cuda")
    torch.cuda.synchronize()
    wrong, raised = [], []

    def work(index):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for at in range(100):
                    x = shared if at % 2 else torch.randn(256, 64, device="cuda")
                    y, z = (torch.full_like(x, float("nan")) for _ in "yz")
                    kernel(x, y)
                    kernel(y, z)
                    if not torch.equal(z, 4 * x):
                        wrong.append((index, at))
        except Exception as error:  # noqa: BLE001 - it must fail the test, not end a thread
            raised.append(error)

    running = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong and not raised


def test_a_tensor_that_requires_its_gradient(torch):
    kernel = doubling()
    x = torch.randn(128, 64, device="cuda", requires_grad=True)
    y = torch.empty(128, 64, device="cuda")
    for _ in range(2):
        with pytest.raises(ArgumentError, match="`x`: it requires a gradient, and gradients are being recorded"):
            kernel(x, y)
        with torch.no_grad():
            kernel(x, y)
        kernel(x.detach(), y)
        with torch.inference_mode():
            kernel(x, y)
    assert torch.equal(y, 2 * x)
