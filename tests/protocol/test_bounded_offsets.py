"""Rows of a group between two numbers in memory, each bounded by the size: in tiles that are counted, with what is left in the last one."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel grouped[G: int = 3](x: tensor[bf16, M, K], w: tensor[bf16, G, N, K], offs: tensor[i32, 4], y: tensor[bf16, M, N]):
    grid(G, ceildiv(N, 128))
    ab = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 128, 64]), stages=4)
    role load(warps=1) produces ab:
        lo = min(max(load(offs[block.x]), 0), M)
        hi = min(max(load(offs[block.x + 1]), 0), M)
        for t in range(LOADED):
            m = lo + t * 128
            for k in range(ceildiv(K, 64)):
                with ab.produce() as s:
                    tma.load(s.a, x[m, k * 64])
                    tma.load(s.b, w[block.x, block.y * 128, k * 64])
    role compute(warps=8) consumes ab:
        lo = min(max(load(offs[block.x]), 0), M)
        hi = min(max(load(offs[block.x + 1]), 0), M)
        for t in range(COMPUTED):
            m = lo + t * 128
            acc = accumulator(f32, 128, 128)
            for k in range(ceildiv(K, 64)):
                with ab.consume() as s:
                    mma(acc, s.a, s.b)
            store(y[m, block.y * 128], cast[bf16](acc), rows=hi - m)
"""
TILES = "ceildiv(hi - lo, 128)"


def outcome(computed: str) -> str:
    text = KERNEL.replace("LOADED", TILES).replace("COMPUTED", computed)
    state = compile_source(Source("grouped.pipe", text), Options("sm_90a", allow_undecided=True))
    assert "grouped" in state.protocol, state.diagnostics
    return state.protocol["grouped"].outcome


def test_a_difference_of_bounded_numbers_does_not_wrap() -> None:
    assert outcome(TILES) == "proved"


@pytest.mark.parametrize("wrong", ["ceildiv(hi - lo, 64)", "(hi - lo) // 128", "ceildiv(hi, 128)", "ceildiv(hi - lo + 1, 128)"])
def test_another_number_of_tiles_is_not_proved(wrong: str) -> None:
    assert outcome(wrong) != "proved"


BOUNDED = """
kernel k(ix: tensor[i32, 5], z: tensor[f32, M]):
    grid(4)
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
        lo = LOW
        hi = HIGH
        for i in range(lo, hi, 64):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        lo = LOW
        hi = HIGH
        LOOP
            p.consumer_signal_and_step()
            STEP
"""
LOW, HIGH = "min(max(load(ix[block.x]), 0), M)", "min(max(load(ix[block.x + 1]), 0), M)"
COUNTED = "for i in range(ceildiv(hi - lo, 64)):"


def counted(loop: str, low: str = LOW, step: str = "pass") -> str:
    text = BOUNDED.replace("LOW", low).replace("HIGH", HIGH).replace("LOOP", loop).replace("STEP", step)
    state = compile_source(Source("bounded.pipe", text), Options("sm_90a", allow_undecided=True))
    return state.protocol["k"].outcome if "k" in state.protocol else "refused"


@pytest.mark.parametrize(
    ("loop", "step"),
    [(COUNTED, "pass"), ("left = hi - lo\n        while left > 0:", "left -= 64"), ("while lo < hi:", "lo += 64")],
)
def test_elements_between_two_numbers_are_counted_or_stepped_over(loop: str, step: str) -> None:
    assert counted(loop, step=step) == "proved"


@pytest.mark.parametrize(
    ("loop", "low"),
    [
        ("for i in range((hi - lo) // 64):", LOW),
        ("for i in range(ceildiv(hi - lo, 32)):", LOW),
        ("for i in range(ceildiv(hi, 64)):", LOW),
    ],
)
def test_elements_counted_otherwise_are_not(loop: str, low: str) -> None:
    assert counted(loop, low) != "proved"
