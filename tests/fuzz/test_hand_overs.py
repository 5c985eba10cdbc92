"""Random accesses between random hand-overs, seeded (`fuzz_hand_overs.py`)."""

import random

import pytest
from fuzz.fuzz_hand_overs import attempt, tried
from fuzz.hand_over_kernels import draw
from samples import numbers


@pytest.mark.parametrize("number", numbers("hand_overs", 30, 500))
def test_accepted_kernels_do_not_race(number: int) -> None:
    assert attempt(random.Random(f"hand_overs/0/{number}")) is None


def test_most_of_them_go_wrong_where_nothing_is_refused() -> None:
    drawn = [draw(random.Random(f"hand_overs/0/{number}")) for number in range(8, 16)]
    assert sum(tried(text, roles, unchecked=True) is not None for text, roles in drawn) > 4
