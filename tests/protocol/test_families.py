"""How much of what is right is proved of the PTX that is emitted for it: random kernels of the families that kernels are made of."""

from collections import Counter

import pytest
from samples import volume

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.families import FAMILIES, right

_EACH = volume(3, 6)


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("family", range(len(FAMILIES)), ids=[family.__name__ for family in FAMILIES])
def test_right_kernels_are_proved(family: int) -> None:
    said: Counter[str] = Counter()
    for seed in range(family, family + _EACH * len(FAMILIES), len(FAMILIES)):
        _, text = right(seed)
        state = compile_source(Source("right.pipe", text), Options("sm_100a", allow_undecided=True))
        assert not state.failed, f"{text}\n{state.diagnostics}"
        said[state.protocol["k"].outcome] += 1
    assert said["proved"] >= _EACH - 1, said


def test_what_is_left_to_read_back_is_the_smaller_of_two_numbers() -> None:
    """A role reads `min(n, 3)` answers after its loop: at the end it is known which of the two that is, as the loop had more turns than
    three, or fewer."""
    state = compile_source(Source("right.pipe", right(183)[1]), Options("sm_100a"))
    assert not state.failed, state.diagnostics
