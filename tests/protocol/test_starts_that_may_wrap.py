"""Loops that begin at a product of sizes, which may leave 32 bits: where all roles begin at the same number it does not matter."""

import pytest

from tests.protocol.test_spellings import compiled, outcome

BALANCED = (
    "base = m // grid.x\nextra = m % grid.x\n"
    "for t in range(block.x * base + min(block.x, extra), (block.x + 1) * base + min(block.x + 1, extra)):\n    STAGE"
)
WALKED = "t = {start}\nwhile t < {stop}:\n    STAGE\n    t += 1"
BACKWARDS = "t = {stop}\nwhile t > {start}:\n    t -= 1\n    STAGE"
RANGE = "for t in range({start}, {stop}):\n    STAGE"
ENDS = [
    ("block.x * n", "(block.x + 1) * n"),
    ("block.x * n", "block.x * n + m"),
    ("n * m", "n * m + n"),
    ("block.x * (m // grid.x)", "block.x * (m // grid.x) + m // grid.x"),
]


@pytest.mark.parametrize(("start", "stop"), ENDS)
@pytest.mark.parametrize("other", [RANGE, WALKED, BACKWARDS])
def test_it_is_proved_for_all_sizes(start: str, stop: str, other: str) -> None:
    plain, spelled = (one.format(start=start, stop=stop) for one in (RANGE, other))
    assert outcome(plain, spelled, "max(1, min(m, 132))") == "proved"


def test_counted_from_0_they_are_where_a_launch_can_be_asked() -> None:
    plain = RANGE.format(start="n * m", stop="n * m + n")
    found = compiled(plain, "for i in range(n):\n    STAGE", "max(1, min(m, 132))").protocol["k"]
    assert found.outcome == "proved" and "m * n" in found.sentence


def test_balanced_shares_are_proved() -> None:
    assert outcome(BALANCED, BALANCED, "max(1, min(m, 132))") == "proved"


OTHERS = [
    (RANGE.format(start="block.x * n", stop="block.x * n + m"), "for i in range(m):\n    STAGE"),
    (
        RANGE.format(start="block.x * n", stop="block.x * n + m"),
        RANGE.format(start="block.x * n + 1", stop="block.x * n + m + 1"),
    ),
    (RANGE.format(start="n * m", stop="n * m + n"), RANGE.format(start="n * m - 1", stop="n * m + n")),
    (BALANCED, BALANCED.replace("min(block.x + 1, extra)", "min(block.x + 2, extra)")),
    (BALANCED, BALANCED.replace("min(block.x, extra)", "min(block.x - 1, extra)")),
]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_numbers_of_turns_are_not(one: str, other: str) -> None:
    """Some of them are others only where the start wraps, which a launch cannot be asked of each block."""
    assert outcome(one, other, "max(1, min(m, 132))") != "proved"
