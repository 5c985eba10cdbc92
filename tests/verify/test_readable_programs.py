"""Right programs whose code decides by what it loads, or by the extent of the grid: read, and proved."""

import pytest
from elected import ELECTED_MMA

from pipec.driver import Options, compile_source
from pipec.source import Source

# A branch on the block's place in a grid of one block, of the elected lane alone.
ONE_BLOCK = """
kernel k(y: tensor[f32, 4, 64]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role A(warps=1) produces p:
        if block.x == 0:
            p.producer_signal_and_step()
    role B(warps=1) consumes p:
        p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ELECTED_MMA,
            "of a tensor or of a flag that pipec keeps, get the same value and the tensor memory",
        ),
        (ONE_BLOCK, "for all sizes;"),
    ],
    ids=["elected", "one block"],
)
def test_it_is_proved(text: str, said: str) -> None:
    state = compile_source(Source("k.pipe", text), Options())
    assert state.diagnostics == []
    assert state.protocol["k"].outcome == "proved"
    assert said in state.protocol["k"].sentence
