"""Rings whose position is not where the stage is counted: drained between tiles, tried before they are waited for, come around in the
first tile."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

# The last drain of a tile waits for what the next tile waits for again: it catches up with two stages a turn.
DRAINED = """
kernel k(n: i32, m: i32, x: tensor[f32, 64, 32], y: tensor[f32, 64, 32]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=STAGES)
    role a(warps=1) produces ring:
        for t in range(m):
            for i in range(n):
                with ring.produce() as s:
                    tma.load(s.x, x[0, 0])
                with ring.produce() as s:
                    tma.load(s.x, x[8, 0])
            ring.drain_producer()
    role b(warps=1) consumes ring:
        for t in range(m):
            for i in range(BOUND):
                with ring.consume() as s:
                    store(y[0, 0], s.x)
"""

# Both rings have three stages: one register counts for them, and the wait for the second is passed over where it was tried.
TRIED = """
kernel k(n: i32, x: tensor[f32, 64, 32], y: tensor[f32, 64, 32]):
    grid(1)
    first = ProducerConsumerPipeline(stages=3)
    second = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=3)
    role a(warps=1) produces first, second:
        for i in range(n):
            first.producer_signal_and_step()
            ready = second.try_acquire_producer()
            second.wait_consumer_if_needed(ready)
            with elect():
                tma.load(second.payload.x[second.producer_stage()], x[0, 0], second.producer_mbar())
            second.producer_step()
    role b(warps=1) consumes first:
        for i in range(n):
            first.consumer_signal_and_step()
    role c(warps=1) consumes second:
        for i in range(BOUND):
            with second.consume() as s:
                store(y[0, 0], s.x)
"""

# The inner loop has two turns in the first tile, which are followed as they are: the stage is where it was, and its phase is not.
AROUND = """
kernel k(n: i32):
    grid(1)
    ring = ProducerConsumerPipeline(stages=STAGES)
    role a(warps=1) produces ring:
        for t in range(n):
            for i in range(2 * t + STAGES):
                ring.producer_signal_and_step()
    role b(warps=1) consumes ring:
        for t in range(n):
            for i in range(2 * t):
                ring.consumer_signal_and_step()
            for i in range(BOUND):
                ring.consumer_signal_and_step()
"""


def outcome(text: str, bound: str, stages: int = 3) -> str:
    source = Source("k.pipe", text.replace("BOUND", bound).replace("STAGES", str(stages)))
    state = compile_source(source, Options("sm_100a", allow_undecided=True))
    return state.protocol["k"].outcome


@pytest.mark.parametrize("stages", [3, 5])
def test_a_ring_that_is_drained_between_tiles(stages: int) -> None:
    assert outcome(DRAINED, "2 * n", stages) == "proved"
    assert outcome(DRAINED, "2 * n - 1", stages) == "refuted"


def test_rings_that_are_counted_together_and_one_of_them_tried() -> None:
    assert outcome(TRIED, "n") == "proved"
    assert outcome(TRIED, "n - 1") == "refuted"


@pytest.mark.parametrize("stages", [2, 3])
def test_a_ring_that_comes_around_in_the_first_tile(stages: int) -> None:
    assert outcome(AROUND, str(stages), stages) == "proved"
    assert outcome(AROUND, str(stages - 1), stages) == "refuted"
