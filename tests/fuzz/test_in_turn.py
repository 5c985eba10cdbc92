"""Random kernels whose consumers share the stages of a ring, seeded; and which of them are proved."""

import random

import pytest
from fuzz.fuzz_in_turn import FAULTS, Drawn, attempt
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.source import Source


@pytest.mark.parametrize("number", numbers("in turn", 6, 300))
def test_what_is_proved_is_right_in_every_order(number: int) -> None:
    assert attempt(random.Random(f"in_turn/0/{number}")) is None


@pytest.mark.parametrize("takes", [("m", "m"), ("3", "1"), ("1", "3", "2")])
def test_consumers_that_take_turns_are_proved(takes: tuple[str, ...]) -> None:
    drawn = Drawn("sm_90a", 2, takes, written_out=False)
    state = compile_source(Source("k.pipe", drawn.source()), Options(drawn.arch))
    assert not state.failed and state.protocol["k"].outcome == "proved" and drawn.truth() == "right"


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_one(fault: str) -> None:
    """What is planted goes wrong in some order of events, and is refused."""
    drawn = Drawn("sm_90a", 2, ("3", "3"), written_out=True, fault=fault)
    assert drawn.truth().split()[0] in ("confusion", "deadlock", "rest", "race")
    assert compile_source(Source("k.pipe", drawn.source()), Options(drawn.arch)).failed
