"""Random kernels over pairs of CTAs, seeded. With what orders accesses in one CTA taken for both, one in four of the accepted ones went
wrong."""

import random

import pytest
from fuzz.fuzz_pairs import attempt
from samples import numbers


@pytest.mark.parametrize("number", numbers("pairs", 40, 600))
def test_accepted_kernels_are_right_in_both_ctas(number: int) -> None:
    assert attempt(random.Random(f"pairs/0/{number}")) is None
