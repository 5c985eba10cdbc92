"""Triton's persistent matmul with tensor descriptors (TMA) for a Hopper GPU, autotuned over the tiles that suit it: for h200.py."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

_GROUP = 8


def _configurations() -> list[triton.Config]:
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=warps, num_stages=stages)
        for bm, bn, bk, warps, stages in (
            (128, 256, 64, 8, 3),
            (128, 256, 64, 8, 4),
            (128, 128, 64, 4, 4),
            (128, 128, 128, 8, 3),
            (128, 256, 128, 8, 3),
            (64, 64, 64, 4, 4),
        )
    ]


def _boxes(arguments: dict) -> None:
    arguments["a"].block_shape = [arguments["BM"], arguments["BK"]]
    arguments["b"].block_shape = [arguments["BN"], arguments["BK"]]
    arguments["d"].block_shape = [arguments["BM"], arguments["BN"]]


for _one in (_CONFIGURATIONS := _configurations()):
    _one.pre_hook = _boxes


@triton.autotune(configs=_CONFIGURATIONS, key=["M", "N", "K", "BYTES"])
@triton.jit
def _kernel(
    a, b, d, M, N, K, BYTES, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr
):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), rows * columns, BLOCKS, flatten=True):
        first = t // (GROUP * columns) * GROUP
        size = min(rows - first, GROUP)
        m = (first + t % (GROUP * columns) % size) * BM
        n = t % (GROUP * columns) // size * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        d.store([m, n], acc.to(tl.bfloat16))


def matmul(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
    (m, k), n = a.shape, b.shape[0]
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    described = (TensorDescriptor.from_tensor(tensor, [1, 16]) for tensor in (a, b, d))
    _kernel[(blocks,)](*described, m, n, k, a.element_size(), GROUP=_GROUP, BLOCKS=blocks)
