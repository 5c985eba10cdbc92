"""A few of the random texts that ask for tensor memory."""

import random

from fuzz.fuzz_tensor_memory import attempt, text

from pipec.protocol.judge import judge


def test_tensor_memory() -> None:
    for seed in range(100):
        assert not (found := attempt(random.Random(seed))), found


def test_some_are_proved() -> None:
    assert 20 < sum(judge(text(random.Random(seed)), "k").certificate is not None for seed in range(60)) < 50
