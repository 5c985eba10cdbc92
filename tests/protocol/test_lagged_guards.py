"""A role that may run ahead by some blocks, held back by signals that are not given for the last ones; in each block a loop of its own."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, N]):
    grid(1)
    ring = ProducerConsumerPipeline(stages={stages})
    throttle = ProducerConsumerPipeline(stages={ahead})
    role load(warps=1) produces ring consumes throttle:
        for i in range(ceildiv(M, 32)):
            if {held}:
                throttle.consumer_signal_and_step()
            for j in range(ceildiv(N, 128)):
                ring.producer_signal_and_step()
    role work(warps=1) consumes ring produces throttle:
        for i in range(ceildiv(M, 32)):
            for j in range(ceildiv(N, 128)):
                ring.consumer_signal_and_step()
            if {told}:
                throttle.producer_signal_and_step()
"""
RIGHT = [
    (6, 2, "i >= 2", "i + 2 < ceildiv(M, 32)"),
    (6, 2, "i > 1", "i < ceildiv(M, 32) - 2"),
    (3, 1, "i >= 1", "i + 1 < ceildiv(M, 32)"),
    (4, 3, "i >= 2", "i + 2 < ceildiv(M, 32)"),
]
WRONG = [
    (6, 2, "i >= 1", "i + 2 < ceildiv(M, 32)"),
    (6, 2, "i >= 2", "i + 2 < ceildiv(M, 32) - 1"),
    (6, 2, "i >= 2", "i + 3 < ceildiv(M, 32)"),
    (3, 1, "i >= 0", "i < ceildiv(M, 32)"),
]


def proved(stages: int, ahead: int, held: str, told: str) -> bool:
    text = KERNEL.format(stages=stages, ahead=ahead, held=held, told=told)
    return not compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize(("stages", "ahead", "held", "told"), RIGHT)
def test_as_many_signals_as_waits_are_proved(stages: int, ahead: int, held: str, told: str) -> None:
    assert proved(stages, ahead, held, told)


@pytest.mark.parametrize(("stages", "ahead", "held", "told"), WRONG)
def test_other_numbers_of_signals_are_not(stages: int, ahead: int, held: str, told: str) -> None:
    assert not proved(stages, ahead, held, told)
