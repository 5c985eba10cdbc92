"""Random kernels that move tiles between tensors, seeded. Without what a hand-over completes, one of seven of them races."""

import random

import pytest
from fuzz.fuzz_movers import attempt
from samples import numbers


@pytest.mark.parametrize("number", numbers("movers", 20, 400))
def test_accepted_kernels_move_tiles_in_order(number: int) -> None:
    assert attempt(random.Random(f"movers/0/{number}")) is None
