"""Right programs whose code decides by what it loads, or by the extent of the grid: read, and proved."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

# Warps of one role of which an elected thread issues the MMA; whether the accumulator was written is loaded from shared memory.
ELECTED = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 16], b=tile[bf16, 8, 16]), stages=1)
    output = OutputTilePipeline(tmem[f32, 128, 8], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 16)):
            with input.produce() as s:
                tma.load(s.a, a[0, k * 16])
                tma.load(s.b, b[0, k * 16])
    role mma(warps=4) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 16)):
                with input.consume() as s:
                    with elect():
                        mma(acc, s.a, s.b)
    role epi(warps=4) consumes output:
        with output.consume() as acc:
            store(d[0, 0], acc)
"""
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
        (ELECTED, "if threads of a role that load one place find the same there and the tensor memory"),
        (ONE_BLOCK, "for all sizes;"),
    ],
    ids=["elected", "one block"],
)
def test_it_is_proved(text: str, said: str) -> None:
    state = compile_source(Source("k.pipe", text), Options())
    assert state.diagnostics == []
    assert state.protocol["k"].outcome == "proved"
    assert said in state.protocol["k"].sentence
