"""Random kernels that move tiles between tensors, seeded. Without what a hand-over completes, one of seven of them races."""

import random

import pytest
from fuzz.fuzz_movers import attempt
from samples import numbers


@pytest.mark.parametrize("number", numbers("movers", 20, 400))
def test_what_is_accepted_moves_in_order(number: int) -> None:
    assert attempt(random.Random(f"movers/0/{number}")) is None
