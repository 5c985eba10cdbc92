"""Triton's persistent matmul with tensor descriptors (TMA) for a Hopper GPU, and the configurations that suit it: for h200.py."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

_GROUP = 8


@dataclass(frozen=True, slots=True)
class Configuration:
    bm: int
    bn: int
    row: int  # bytes of K in a block
    warps: int
    stages: int

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn}x{self.row}B warps={self.warps} stages={self.stages}"


CONFIGURATIONS = tuple(
    Configuration(*one)
    for one in (
        (128, 256, 128, 8, 3),
        (128, 256, 128, 8, 4),
        (128, 128, 128, 4, 4),
        (128, 128, 128, 8, 6),
        (128, 128, 256, 8, 3),
        (64, 128, 128, 4, 6),
        (64, 64, 128, 4, 6),
        (64, 32, 256, 4, 6),
    )
)


# Sizes are not specialised: they only bound loops, and each specialisation would be compiled once more.
@triton.jit(do_not_specialize=["M", "N", "K"])
def _kernel(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr):
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


def matmul(one: Configuration) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]:
    """D = A @ B.T in one configuration."""
    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def run(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        (m, k), n, bk = a.shape, b.shape[0], one.row // a.element_size()
        boxes = ((a, [one.bm, bk]), (b, [one.bn, bk]), (d, [one.bm, one.bn]))
        described = (TensorDescriptor.from_tensor(tensor, box) for tensor, box in boxes)
        tile = {"BM": one.bm, "BN": one.bn, "BK": bk, "GROUP": _GROUP, "BLOCKS": blocks}
        _kernel[(blocks,)](*described, m, n, k, **tile, num_warps=one.warps, num_stages=one.stages)

    return run
