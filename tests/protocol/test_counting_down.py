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


MULTIPLES = [
    "for i in range(0, SIZE, STEP):\n    STAGE",
    "for i in range(SIZE - STEP, -1, -STEP):\n    STAGE",
    "for i in range(SIZE - 1, -1, -STEP):\n    STAGE",
    "i = SIZE\nwhile i > 0:\n    i -= STEP\n    STAGE",
    "i = SIZE\nwhile i != 0:\n    i -= STEP\n    STAGE",
]
UNITS = [("64", "n", "n >= 0 and n % 64 == 0"), ("64", "n", "n >= 0 and n % 192 == 0"), ("2", "2 * n", "n >= 0")]


def _of_multiples(one: str, other: str, step: str, size: str, assumed: str) -> str:
    return outcome(*(each.replace("SIZE", size).replace("STEP", step) for each in (one, other)), assumed=assumed)


@pytest.mark.parametrize(("step", "size", "assumed"), UNITS)
@pytest.mark.parametrize("one", MULTIPLES)
def test_down_from_the_last_multiple(one: str, step: str, size: str, assumed: str) -> None:
    assert [_of_multiples(one, other, step, size, assumed) for other in MULTIPLES] == ["proved"] * len(MULTIPLES)


NO_MULTIPLES = [
    ("n >= 0", MULTIPLES[0], MULTIPLES[1], "refuted"),
    ("n >= 0 and n % 32 == 0", MULTIPLES[0], MULTIPLES[1], "refuted"),
    ("n >= 0 and n % 32 == 0", MULTIPLES[2], MULTIPLES[3], "proved"),
    ("n >= 0 and n % 64 == 0", MULTIPLES[0], MULTIPLES[1].replace("SIZE - STEP", "SIZE - 128"), "refuted"),
    ("n >= 0 and n % 64 == 0", MULTIPLES[0], MULTIPLES[1].replace("-1,", "0,"), "refuted"),
    # A counter that goes past the number that ends its loop goes round.
    ("n >= 0", MULTIPLES[4], MULTIPLES[4], "open"),
    ("n >= 0 and n % 64 == 0", *(MULTIPLES[4].replace("!= 0", "!= 32"),) * 2, "open"),
    ("n % 64 == 0", MULTIPLES[4], MULTIPLES[4], "open"),
]


@pytest.mark.parametrize(("assumed", "one", "other", "found"), NO_MULTIPLES)
def test_down_from_other_numbers(assumed: str, one: str, other: str, found: str) -> None:
    assert _of_multiples(one, other, "64", "n", assumed) == found


FROM_CONSTANTS = [
    "for i in range(-7, END):\n    STAGE",
    "for i in range(-3, END - 3):\n    STAGE",
    "for i in range(0, -(END), -1):\n    STAGE",
    "i = 5\nwhile i > -(END):\n    STAGE\n    i -= 3",
]


@pytest.mark.parametrize("loop", FROM_CONSTANTS)
def test_from_a_constant_towards_a_parameter(loop: str) -> None:
    """Only where it begins says that the counter does not leave its type on the other side."""
    assert outcome(loop.replace("END", "n"), loop.replace("END", "n")) == "proved"
    assert outcome(loop.replace("END", "n"), loop.replace("END", "n + 4")) == "refuted"
