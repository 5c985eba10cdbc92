"""The place of a tile, its row and its column, that a role carries on by itself: a column goes on by the number of blocks, and into the
next rows where that is beyond the last column."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, N]):
    rows = ceildiv(M, 128)
    cols = ceildiv(N, 128)
    assume(N > 0)
    grid({blocks})
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        m = block.x // cols
        n = block.x % cols
        while m < rows:
            p.producer_signal_and_step()
            n += {blocks}
            while n >= cols:
                n -= cols
                m += 1
    role work(warps=1) consumes p:
        {begin}
        while m < rows:
            p.consumer_signal_and_step()
            n += {step}
            while {beyond}:
                n -= {back}
                m += {further}
"""
BEGIN = "m = block.x // cols\n        n = block.x % cols"
RIGHT = [
    {"blocks": "3"},
    {"blocks": "7"},
    {"blocks": "4", "beyond": "cols <= n"},
    {"blocks": "4", "begin": "n = block.x % cols\n        m = block.x // cols"},
]
WRONG = [
    {"blocks": "3", "step": "2"},
    {"blocks": "3", "beyond": "n > cols"},
    {"blocks": "3", "further": "2"},
    {"blocks": "3", "back": "(cols + 1)"},
    {"blocks": "3", "begin": "m = block.x // cols\n        n = block.x % rows"},
]


def proved(how: dict[str, str]) -> bool:
    said = {"step": how["blocks"], "beyond": "n >= cols", "back": "cols", "further": "1", "begin": BEGIN, **how}
    return not compile_source(Source("k.pipe", KERNEL.format(**said)), Options("sm_90a")).failed


@pytest.mark.parametrize("how", RIGHT, ids=str)
def test_the_same_place_is_proved(how: dict[str, str]) -> None:
    assert proved(how)


@pytest.mark.parametrize("how", WRONG, ids=str)
def test_another_place_is_not(how: dict[str, str]) -> None:
    assert not proved(how)
