"""Random ways to ask something of a parameter, seeded."""

import random

import pytest
from fuzz.fuzz_parameters import attempt
from samples import volume


@pytest.mark.parametrize("seed", range(4))
def test_what_is_proved_of_a_parameter_happens(seed: int) -> None:
    for number in range(volume(25, 400)):
        assert attempt(random.Random(f"parameters/{seed}/{number}")) is None
