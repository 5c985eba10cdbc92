"""A grouped product with gathered rows in Triton, by pointers, as fused mixtures of experts have it: for h200_gathered.py."""

from dataclasses import dataclass
from itertools import pairwise

import torch
import triton
import triton.language as tl

_GROUP = 8


@dataclass(frozen=True, slots=True)
class Configuration:
    bm: int
    bn: int
    bk: int
    warps: int
    stages: int

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk} warps={self.warps} stages={self.stages}"


CONFIGURATIONS = tuple(
    Configuration(*one)
    for one in (
        (128, 256, 64, 8, 3),
        (128, 128, 64, 8, 3),
        (128, 128, 64, 4, 4),
        (64, 128, 64, 4, 4),
        (64, 256, 64, 4, 3),
        (16, 128, 128, 4, 4),
    )
)


def tiles_of(begins: torch.Tensor, bm: int) -> torch.Tensor:
    """Group, first row and end of the rows of each tile of `bm` rows."""
    limits = begins.tolist()
    rows = [(group, first, end) for group, (start, end) in enumerate(pairwise(limits)) for first in range(start, end, bm)]
    return torch.tensor(rows, device=begins.device, dtype=torch.int32)


@triton.jit(do_not_specialize=["rows", "N"])
def _kernel(a, token, b, d, tiles, rows, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    columns = tl.cdiv(N, BN)
    t = tl.program_id(0)
    first = t // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    tile = first + t % (GROUP * columns) % size
    n = t % (GROUP * columns) // size * BN
    group = tl.load(tiles + 3 * tile).to(tl.int64)
    row = tl.load(tiles + 3 * tile + 1) + tl.arange(0, BM)
    mine = row < tl.load(tiles + 3 * tile + 2)
    source = tl.load(token + row, mask=mine, other=0).to(tl.int64)
    column, k = n + tl.arange(0, BN), tl.arange(0, BK)
    left = a + source[:, None] * K + k[None, :]
    right = b + group * N * K + column[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK):
        inside = k < K - at
        x = tl.load(left, mask=mine[:, None] & inside[None, :], other=0.0)
        y = tl.load(right, mask=(column < N)[None, :] & inside[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
        left += BK
        right += BK
    target = d + row.to(tl.int64)[:, None] * N + column[None, :]
    tl.store(target, acc.to(tl.bfloat16), mask=mine[:, None] & (column < N)[None, :])


def multiply(
    one: Configuration, tiles: torch.Tensor, a: torch.Tensor, token: torch.Tensor, b: torch.Tensor, d: torch.Tensor
) -> None:
    n, k, rows = b.shape[1], b.shape[2], tiles.shape[0]
    grid = (rows * triton.cdiv(n, one.bn),)
    blocks = {"BM": one.bm, "BN": one.bn, "BK": one.bk, "GROUP": _GROUP}
    _kernel[grid](a, token, b, d, tiles, rows, n, k, **blocks, num_warps=one.warps, num_stages=one.stages)
