"""Whether what the checker accepts of random networks goes right in every order, with barriers that have nothing but a phase bit."""

import random
from collections import Counter

import pytest
from verify.random_networks import Drawn, Step, accepted, all_orders, drawn, goes_wrong

from pipec.verify.network import Ring

EACH = 80


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_accepted_goes_right_in_every_order(seed: int) -> None:
    found: Counter[str] = Counter()
    for number in range(EACH):
        made = drawn(random.Random(f"{seed}/{number}"))
        if accepted(made):
            wrong = goes_wrong(made)
            assert not wrong, (wrong, made)
            found["accepted"] += 1
        elif goes_wrong(made):
            found["wrong"] += 1
    # (Otherwise nothing has been tried.)
    assert found["accepted"] > EACH // 10 and found["wrong"] > EACH // 4


def handed_over(*steps: Step, threads: int = 1, stages: int = 1) -> Drawn:
    """Process 0 fills ring 0 and process 1 gives back by ring 1."""
    rings = [Ring("mbarrier", tuple(range(base, base + stages)), 1, (0,)) for base in (0, 100)]
    return Drawn(rings, [1, threads], (0,), [1, 1], [(0,), (2,)], None, [*steps])


FILL = (Step(0, 1, -1), Step(0, 0, 0, True, 1))
GIVE = Step(1, 1, 0, True, 1, part=True)


def test_the_judge_tells_a_right_order_from_a_wrong_one() -> None:
    right = handed_over(*FILL, Step(1, 0, 0), GIVE)
    assert accepted(right) and not goes_wrong(right) and all_orders(right, 3)
    early = handed_over(*FILL, GIVE, Step(1, 0, 0))
    assert not accepted(early) and goes_wrong(early)
    # One of two threads gives back while the other may not have seen the stage.
    apart = handed_over(*FILL, Step(1, 0, 0), GIVE, threads=2)
    assert not accepted(apart) and goes_wrong(apart) == "threads wait for ever"


def test_a_look_relies_on_the_phase_before() -> None:
    look = Step(1, 0, 0, peeks=True)
    late = handed_over(*FILL, look, Step(1, 0, 0), GIVE)
    assert accepted(late) and not goes_wrong(late)
    # (In each round two phases: the second is looked at while the first may be open.)
    twice = [*FILL, Step(1, 0, 0), GIVE, Step(0, 1, 0), Step(0, 0, 1, True, 1), Step(1, 0, 1), Step(1, 1, 1, True, 1, part=True)]
    for at, right in ((3, True), (2, False)):
        made = handed_over(*twice[:at], Step(1, 0, 1, peeks=True), *twice[at:])
        made.uses[:] = [2, 2]
        assert accepted(made) is right and bool(goes_wrong(made)) is not right
