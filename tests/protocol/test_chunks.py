"""Loops over chunks, with another loop in each: `for i in range(0, n, 4): for j in range(i, min(i + 4, n))`."""

import pytest

from tests.protocol.test_spellings import outcome

CHUNKS = "for i in range(0, n, 4):\n    for j in range(i, min(i + 4, n)):\n        STAGE"
ALIKE = [
    "for i in range(n):\n    STAGE",
    "i = n\nwhile i > 0:\n    STAGE\n    i = i - 1",
    "if n > 0:\n    STAGE\nfor i in range(1, n):\n    STAGE",
    "for i in range(ceildiv(max(n, 0), 4)):\n    for j in range(4 * i, min(4 * i + 4, n)):\n        STAGE",
    CHUNKS,
]
OTHERS = [
    "for i in range(n + 1):\n    STAGE",
    "for i in range(0, n, 4):\n    for j in range(i, i + 4):\n        STAGE",
    "for i in range(0, n, 5):\n    for j in range(i, min(i + 4, n)):\n        STAGE",
    "for i in range(0, n, 4):\n    for j in range(i, min(i + 5, n)):\n        STAGE",
]


@pytest.mark.parametrize("other", ALIKE)
@pytest.mark.parametrize("fills", [True, False])
def test_as_many_turns_as_there_are_elements(other: str, fills: bool) -> None:
    assert outcome(*((CHUNKS, other) if fills else (other, CHUNKS))) == "proved"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("fills", [True, False])
def test_other_numbers_of_turns(other: str, fills: bool) -> None:
    assert outcome(*((CHUNKS, other) if fills else (other, CHUNKS))) == "refuted"
