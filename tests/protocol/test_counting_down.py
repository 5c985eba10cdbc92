"""Loops that count down within others, from the outer counter or from a size."""

import pytest

from tests.protocol.test_spellings import outcome

TRIANGLES = [
    "for i in range(n):\n    for j in range(i, -1, -1):\n        STAGE",
    "for i in range(n):\n    for j in range(i + 1):\n        STAGE",
    "for i in range(n):\n    STAGE\n    for j in range(i, 0, -1):\n        STAGE",
]
RECTANGLES = [
    "for i in range(n):\n    for j in range(m - 1, -1, -1):\n        STAGE",
    "for i in range(n):\n    for j in range(m):\n        STAGE",
    "for t in range(n * m):\n    STAGE",
]
LONGER = [
    "for i in range(n):\n    for j in range(i, -2, -1):\n        STAGE",
    "for i in range(n):\n    for j in range(m, -1, -1):\n        STAGE",
]


@pytest.mark.parametrize("loops", [TRIANGLES, RECTANGLES])
@pytest.mark.parametrize("one", range(3))
def test_as_many_turns_as_up(loops: list[str], one: int) -> None:
    bounds = "if 0 <= n and n <= 30000 and 0 <= m and m <= 30000:\n    "
    first, *others = [bounds + text.replace("\n", "\n    ") for text in (loops[one], *loops)]
    assert [outcome(first, other) for other in others] == ["proved"] * 3


@pytest.mark.parametrize(("loops", "longer"), [(TRIANGLES, LONGER[0]), (RECTANGLES, LONGER[1])])
def test_a_turn_more(loops: list[str], longer: str) -> None:
    assert [outcome(longer, other) for other in loops] == ["refuted"] * 3
