"""Random turns of blocks, seeded: those that are said to come do."""

import random

import pytest
from fuzz.fuzz_turns_of_blocks import Drawn, attempt
from samples import numbers


@pytest.mark.parametrize("number", numbers("turns of blocks", 12, 600))
def test_turns_that_are_said_to_come_do(number: int) -> None:
    assert attempt(random.Random(f"turns_of_blocks/0/{number}")) is None


def test_blocked_turns_are_noticed() -> None:
    loop = "for t in range(n):"
    assert Drawn((1, 1, 3), (loop, "    with semaphore(c[t], block.z, 3):", "        pass")).blocked() is None
    assert (
        Drawn((1, 1, 3), (loop, "    with semaphore(c[t % 2], block.z, 3):", "        pass")).blocked()
        == "n = 3, block (0, 0, 0)"
    )
