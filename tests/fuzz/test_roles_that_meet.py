"""Random kernels whose roles store the same rows are refused; and the count sees them."""

import random

import pytest
from effort import reached
from fuzz import fuzz_roles_that_meet
from samples import numbers


@pytest.mark.parametrize("number", numbers("roles_that_meet", 60, 1000))
def test_roles_that_meet(number: int) -> None:
    assert fuzz_roles_that_meet.attempt(random.Random(f"roles_that_meet/0/{number}")) is None


def test_what_is_accepted_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the launches in which sizes differ."""
    monkeypatch.setattr("pipec.kir.global_memory.overlaps.unusual", lambda *given, **named: iter(()))
    assert reached(4, (fuzz_roles_that_meet.attempt(random.Random(f"roles_that_meet/0/{number}")) for number in range(120)))
