"""Triangular loops from one side against the other, or against one loop: as many turns in all, though not in any tile."""

import pytest

from tests.protocol.test_spellings import compiled, outcome

ASCENDING = "for i in range(n):\n    for j in range(i):\n        STAGE"
DESCENDING = "for i in range(n - 1, -1, -1):\n    for j in range(i):\n        STAGE"
BEHIND = "for i in range(n):\n    for j in range(i + 1, n):\n        STAGE"
DOWN = "for i in range(n):\n    for j in range(i - 1, -1, -1):\n        STAGE"
FLAT = "for i in range(n * (n - 1) // 2):\n    STAGE"
WHOLE = "for i in range(n):\n    for j in range(i + 1):\n        STAGE"
PAIRS = [(ASCENDING, DESCENDING), (ASCENDING, FLAT), (ASCENDING, BEHIND), (BEHIND, FLAT), (DOWN, FLAT), (DESCENDING, BEHIND)]
OTHERS = [
    (ASCENDING, DESCENDING.replace("range(i)", "range(i + 1)")),
    (ASCENDING, DESCENDING.replace("n - 1", "n")),
    (ASCENDING, DESCENDING.replace("-1, -1", "1, -1")),
    (ASCENDING, FLAT.replace("n - 1", "n + 1")),
    (ASCENDING, FLAT.replace(" // 2", " // 2 + 1")),
    (WHOLE, BEHIND),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_as_many_turns_in_all(one: str, other: str) -> None:
    assert outcome(one, other, assumed="n >= 0") == "proved"


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_triangles(one: str, other: str) -> None:
    assert outcome(one, other, assumed="n >= 0") == "refuted"


def test_of_one_loop_the_launch_is_asked_that_the_product_fits() -> None:
    found = compiled(ASCENDING, FLAT, assumed="n >= 0").protocol["k"]
    assert found.outcome == "proved" and " * n <= 2147483647" in found.sentence
