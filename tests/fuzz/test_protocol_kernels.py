"""Random kernels, seeded: no kernel that pipec proves hangs, races or differs, and no refusal names sizes at which nothing is
wrong."""

import random
from collections import Counter
from functools import partial

import pytest
from fuzz.fuzz_protocol import kernel
from fuzz.protocol_judge import WAITING, judge
from fuzz.protocol_kernels import right_kernel
from samples import volume

from pipec.protocol import judge as searching
from pipec.protocol.effort import Effort
from pipec.protocol.prove import prove

CHUNKS, CHUNK = 10, 50
STATES = 500  # of the token model, for each set of sizes


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all that is proved at all is proved soon, and only what is proved can go wrong here; `make fuzz` searches on."""
    monkeypatch.setattr(searching, "prove", partial(prove, effort=Effort(visits=200, runs=80)))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_that_is_proved_goes_wrong(chunk: int) -> None:
    """Half of the kernels have a fault: most of those are told, and most of the others are proved."""
    contradictions: list[str] = []
    faults: Counter[bool] = Counter()
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        drawn = kernel(random.Random(number))
        outcome = judge(drawn, number, STATES, runs=1)
        contradictions += [f"number {number}: {told}\n{drawn.source()}" for told in outcome.contradictions]
        if outcome.truth not in ("right", "open"):
            faults[outcome.said == "refused"] += 1
    assert contradictions == []
    assert faults[True] > faults[False]


def test_right_kernels_are_right() -> None:
    """What is made right the token model finds right, and no check refuses it for anything but an open question about waiting."""
    for number in range(volume(12, 30)):
        drawn = right_kernel(random.Random(f"right {number}"))
        outcome = judge(drawn, number, STATES, runs=0)
        assert outcome.truth in ("right", "open"), f"{outcome}\n{drawn.source()}"
        assert set(outcome.codes) <= WAITING, f"{outcome}\n{drawn.source()}"
