"""Rows that blocks walk over several at a time, `t += grid.x * 4`, by hand in one role and by `range` in another."""

import re

import pytest

from pipec.verify.accept import accept
from pipec.verify.checker.configuration import Refused
from tests.protocol.test_spellings import compiled, outcome

BY_RANGE = "for t in range(block.x * 4, m, grid.x * 4):\n    STAGE"
BY_HAND = "t = block.x * 4\nwhile t < m:\n    STAGE\n    t += grid.x * 4"
LIKE = [
    BY_HAND,
    BY_HAND.replace("t += grid.x * 4", "t = t + 4 * grid.x"),
    BY_HAND.replace("t < m", "m > t"),
    "t = block.x\nwhile 4 * t < m:\n    STAGE\n    t += grid.x",
    "for i in range(ceildiv(max(0, m - block.x * 4), grid.x * 4)):\n    STAGE",
    "for t in range(block.x, ceildiv(m, 4), grid.x):\n    STAGE",
]


@pytest.mark.parametrize("other", LIKE)
@pytest.mark.parametrize("grid", ["max(1, min(ceildiv(m, 4), gpu.multiprocessors))", "132"])
def test_it_is_proved(other: str, grid: str) -> None:
    assert outcome(BY_RANGE, other, grid) == "proved"
    assert outcome(other, BY_RANGE, grid) == "proved"


def test_in_a_loop_over_columns() -> None:
    columns = "for c in range(0, n, 512):\n        STAGE"
    one, other = (body.replace("STAGE", columns) for body in (BY_RANGE, BY_HAND))
    assert outcome(one, other, "132") == "proved"


WRONG = [
    BY_HAND.replace("block.x * 4", "block.x * 4 + 4"),
    BY_HAND.replace("block.x * 4", "block.x * 4 + 1"),
    BY_HAND.replace("grid.x * 4", "grid.x * 4 + 1"),
    BY_HAND.replace("grid.x * 4", "grid.x * 3"),
    BY_HAND.replace("t < m", "t <= m"),
    BY_HAND.replace("t < m", "t + 4 <= m"),
    BY_RANGE.replace("block.x * 4", "block.x * 3"),
]


@pytest.mark.parametrize("other", WRONG)
def test_its_neighbour_is_not(other: str) -> None:
    assert outcome(BY_RANGE, other, "max(1, min(ceildiv(m, 4), gpu.multiprocessors))") != "proved"


def test_the_number_of_blocks_is_one_with_which_the_step_fits() -> None:
    """What a condition of launches says of it alone is known where the text is read, also by `verify`."""
    state = compiled(BY_RANGE, BY_HAND, "max(1, min(ceildiv(m, 4), gpu.multiprocessors))")
    assert "grid.x" in state.protocol["k"].sentence
    assert "grid.x" in accept(state.ptx, state.certificates["k"]).conditions
    alone = re.compile(r'\["ge", \[\d+, \[-\d+, "grid.x"\]\]\], ')
    without, times = alone.subn("", state.ptx)
    assert times == 2
    with pytest.raises(Refused):
        accept(without, state.certificates["k"])
