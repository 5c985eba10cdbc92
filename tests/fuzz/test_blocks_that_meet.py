"""Random kernels whose blocks store the same elements are refused; and the count sees them."""

import random

import pytest
from fuzz import fuzz_blocks_that_meet
from samples import numbers


@pytest.mark.parametrize("number", numbers("blocks_that_meet", 24, 400))
def test_blocks_that_meet(number: int) -> None:
    assert fuzz_blocks_that_meet.attempt(random.Random(f"blocks_that_meet/0/{number}")) is None


def test_what_is_accepted_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the launches in which sizes differ a fifth of the kernels that meet is accepted."""
    monkeypatch.setattr("pipec.kir.global_memory.overlaps.unusual", lambda *given, **named: iter(()))
    assert any(fuzz_blocks_that_meet.attempt(random.Random(f"blocks_that_meet/0/{number}")) for number in range(60))
