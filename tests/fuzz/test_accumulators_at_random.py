"""Random kernels of accumulators in tensor memory, seeded. Where each reader cleared what nothing was multiplied into, and warps that
share rows did not meet, most of them raced."""

import random

import pytest
from fuzz.fuzz_accumulators import attempt
from samples import numbers


@pytest.mark.parametrize("number", numbers("accumulators", 16, 200))
def test_accepted_kernels_share_accumulators(number: int) -> None:
    assert attempt(random.Random(f"accumulators/0/{number}")) is None
