"""The kernels that launch.py launches through Triton: one block that adds two tiles, by pointers or through tensor descriptors."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add(x, y, z, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < size
    tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def add_described(x, y, z, BM: tl.constexpr, BN: tl.constexpr):
    z.store([0, 0], x.load([0, 0]) + y.load([0, 0]))


def described(*tensors: torch.Tensor) -> list[TensorDescriptor]:
    return [TensorDescriptor.from_tensor(tensor, [128, 16]) for tensor in tensors]
