"""The first block of keys, and those of a window that ends with the row: a loop over all with a condition, against the number of blocks."""

from itertools import product

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N]):
    grid(ceildiv(M, 64))
    p = ProducerConsumerPipeline(stages=3)
    lo = block.x - {width} + 1
    role load(warps=1) produces p:
        for j in range(block.x + 1):
            if {guard}:
                p.producer_signal_and_step()
    role take(warps=1) consumes p:
        for i in range({count}):
            p.consumer_signal_and_step()
"""
GUARDS = ("j == 0 or j >= lo", "j >= lo or j < 1")
COUNTS = ("1 + block.x + 1 - max(1, lo)", "block.x + 2 - max(lo, 1)", "1 + min(block.x, {width})")
WRONG = {
    "one more": (GUARDS[0], "2 + block.x + 1 - max(1, lo)"),
    "also where the window begins with the first block": (GUARDS[0], "1 + block.x + 1 - max(0, lo)"),
    "without the first block": ("j >= lo", COUNTS[0]),
    "a window of one more": ("j == 0 or j >= lo - 1", COUNTS[0]),
    "two first blocks": ("j < 2 or j >= lo", COUNTS[0]),
}


def failed(guard: str, count: str, width: int) -> bool:
    text = TEXT.format(width=width, guard=guard, count=count.format(width=width))
    return compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize(("guard", "count", "width"), [*product(GUARDS, COUNTS, (1, 2))])
def test_it_is_proved(guard: str, count: str, width: int) -> None:
    assert not failed(guard, count, width)


@pytest.mark.parametrize("wrong", WRONG)
def test_another_number_is_not(wrong: str) -> None:
    assert failed(*WRONG[wrong], 2)
