"""Blocks that a multiprocessor holds, against the limits of compute capability 9.0 and 10.0 (CUDA C++ programming guide): 228 KiB of shared
memory, of which each block has 1 KiB in addition to its own; 65,536 registers; 2,048 threads; 32 blocks; 512 columns of tensor memory."""

import pytest

from pipec.predict.occupancy import resident_blocks
from pipec.predict.ptx.code import Code


@pytest.mark.parametrize(
    ("shared", "threads", "registers", "columns", "blocks"),
    [
        (232_448, 128, 0, 0, 1),  # all that one block may have
        (115_712, 128, 0, 0, 2),  # 2 * (115,712 + 1,024) is exactly 228 KiB
        (115_713, 128, 0, 0, 1),
        (76_800, 128, 0, 0, 3),
        (0, 32, 0, 0, 32),
        (0, 1024, 0, 0, 2),
        (0, 1, 0, 0, 32),
        (0, 65, 0, 0, 21),  # as 96 threads
        (0, 384, 168, 0, 1),
        (0, 128, 128, 0, 4),
        (0, 128, 121, 0, 4),  # registers are allocated by eights
        (0, 128, 0, 256, 2),
        (0, 128, 0, 512, 1),
        (300_000, 4096, 255, 512, 1),  # what fits nowhere is launched all the same, or fails
    ],
)
def test_each_limit(shared: int, threads: int, registers: int, columns: int, blocks: int) -> None:
    assert resident_blocks(shared, threads, registers, columns) == blocks


def test_columns_of_ptx() -> None:
    text = """.visible .entry k()
{
  mov.b32 %r7, 256;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [x], %r7;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [y], 128;
  ret;
}
"""
    assert Code(text, "k", 128).tensor_columns == 384
