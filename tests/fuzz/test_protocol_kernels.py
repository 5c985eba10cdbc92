"""Random kernels, seeded: no kernel that pipec proves hangs, races or differs, and no refusal names sizes at which nothing is
wrong."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from effort import give_up_soon
from fuzz.fuzz_protocol import kernel
from fuzz.protocol_judge import WAITING, judge
from fuzz.protocol_orders import right_kernel
from fuzz.protocol_text import source_of
from samples import numbers

FIRST, MANY, CHUNK = 50, 500, 25
TAKEN = numbers("protocol kernels", 50, MANY - FIRST)
STATES = 500  # of the token model, for each set of sizes


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is proved can go wrong here; `make fuzz` searches on."""
    give_up_soon(monkeypatch)


def contradictions(kernels: Iterable[int]) -> tuple[list[str], Counter[bool]]:
    """What must never be, and how many faults are told."""
    found: list[str] = []
    faults: Counter[bool] = Counter()
    for number in kernels:
        drawn = kernel(random.Random(number))
        outcome = judge(drawn, number, STATES, runs=1)
        found += [f"number {number}: {told}\n{source_of(drawn)}" for told in outcome.contradictions]
        if outcome.truth not in ("right", "open"):
            faults[outcome.said == "refused"] += 1
    return found, faults


def test_nothing_that_is_proved_goes_wrong_and_most_faults_are_reported() -> None:
    """Half of the kernels have a fault: most of those are told, and most of the others are proved."""
    found, faults = contradictions(range(FIRST))
    assert found == []
    assert faults[True] > faults[False]


@pytest.mark.parametrize("chunk", range(0, len(TAKEN), CHUNK))
def test_nothing_that_is_proved_goes_wrong(chunk: int) -> None:
    assert contradictions(FIRST + number for number in TAKEN[chunk : chunk + CHUNK])[0] == []


def test_right_kernels_are_right() -> None:
    """What is made right the token model finds right, and no check refuses it for anything but an open question about waiting."""
    for number in numbers("right protocol kernels", 6, 30):
        drawn = right_kernel(random.Random(f"right {number}"))
        outcome = judge(drawn, number, STATES, runs=0)
        assert outcome.truth in ("right", "open"), f"{outcome}\n{source_of(drawn)}"
        assert set(outcome.codes) <= WAITING, f"{outcome}\n{source_of(drawn)}"
