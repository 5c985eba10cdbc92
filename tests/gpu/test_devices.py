"""On a machine with two sm_90a GPUs: arrays, streams and launches on the second."""

import pytest
from faults import SOURCE
from gpu.gpus import needs_two_gpus

import pipec
from pipec.runtime import ArgumentError, DeviceError
from pipec.runtime.arguments.views import view_of

pytestmark = needs_two_gpus


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def tensors(torch, device):
    x = torch.randn(768, 64, device=device)
    return x, torch.full_like(x, float("nan"))


def test_arrays_on_the_second_gpu(torch):
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x, y = tensors(torch, device)
        assert kernel(x, y).device == device
        assert kernel(x, y).device == device  # the repeated launch
        torch.cuda.synchronize(device)
        assert torch.equal(y, 2 * x)
        assert torch.cuda.current_device() == 0  # as it was


def test_host_arrays_to_the_second_gpu():
    import numpy as np

    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, y = np.ones((768, 64), np.float32), np.zeros((768, 64), np.float32)
    assert kernel(x, y, device="cuda:1").device == "cuda:1"
    assert np.array_equal(y, 2 * x)


def test_the_current_stream_of_the_second_gpu(torch):
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, y = tensors(torch, "cuda:1")
    torch.cuda.synchronize("cuda:1")
    side = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(side):
        kernel(x, y)
        kernel(y, x)
    side.synchronize()
    assert torch.equal(x, 2 * y)


def test_a_stream_of_the_other_gpu(torch):
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, y = tensors(torch, "cuda:1")
    stream = torch.cuda.Stream("cuda:0")
    with pytest.raises(DeviceError, match="kernel `pass_on`: the stream belongs to cuda:0, but the launch is on cuda:1"):
        kernel(x, y, stream=stream)
    kernel(x, y)
    with pytest.raises(DeviceError, match="the stream belongs to cuda:0"):  # also of a launch that is known
        kernel(x, y, stream=stream)
    torch.cuda.synchronize("cuda:1")
    assert torch.equal(y, 2 * x)


def test_arrays_on_both_gpus(torch):
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, _ = tensors(torch, "cuda:0")
    _, y = tensors(torch, "cuda:1")
    with pytest.raises(ArgumentError, match="`y`: it is on device `cuda:1`, but `x` is on `cuda:0`"):
        kernel(x, y)


def test_an_interface_that_does_not_tell_its_device(torch):
    class Bare:
        """What __cuda_array_interface__ promises and no more."""

        def __init__(self, tensor):
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__
            self.tensor = tensor

    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, y = tensors(torch, "cuda:1")
    torch.cuda.synchronize("cuda:1")
    assert view_of(Bare(x)).device == "cuda:1"
    assert kernel(Bare(x), Bare(y)).device == "cuda:1"
    torch.cuda.synchronize("cuda:1")
    assert torch.equal(y, 2 * x)


def test_a_graph_on_the_second_gpu(torch):
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    x, y = tensors(torch, "cuda:1")
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(x, y)
        graph.replay()
    torch.cuda.synchronize("cuda:1")
    assert torch.equal(y, 2 * x)
