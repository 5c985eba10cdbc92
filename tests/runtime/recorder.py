"""What a launch passes to the driver that records."""

from fake_driver import Torch, parameter_bytes
from interfaces import gemm_arrays

GEMM_SIZES = (128, 128, 128, 4)


def tensors(m=256, n=128, k=64):
    return [Torch(array) for array in gemm_arrays(m, n, k)]


class Recorder:
    """The parameters of each launch as the driver sees them, copied during its call."""

    def __init__(self, api, sizes):
        self.sizes, self.seen = sizes, []
        api.on_cuLaunchKernelEx = self

    def __call__(self, config, function, parameters, extra):
        blocks = parameter_bytes(parameters, self.sizes)
        self.seen.append((int(config.hStream), (config.gridDimX, config.gridDimY, config.gridDimZ), blocks))


def address(block):
    return int.from_bytes(block[:8], "little")
