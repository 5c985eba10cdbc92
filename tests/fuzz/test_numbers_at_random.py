"""Random arithmetic of conditions, seeded."""

import random

import pytest
from fuzz.fuzz_numbers import attempt
from samples import volume


@pytest.mark.parametrize("seed", range(4))
def test_conditions_are_those_of_the_simulator(seed: int) -> None:
    for number in range(volume(60, 1000)):
        assert attempt(random.Random(f"numbers/{seed}/{number}")) is None
