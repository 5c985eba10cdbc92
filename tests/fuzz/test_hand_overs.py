"""Random accesses between random hand-overs, seeded (`fuzz_hand_overs.py`, `fuzz_relays.py`)."""

import random
from functools import cache
from itertools import islice

import pytest
from effort import reached
from fuzz import fuzz_relays, relay_kernels
from fuzz.fuzz_hand_overs import attempt, tried
from fuzz.hand_over_kernels import draw
from samples import numbers

from pipec.driver import compile_source
from pipec.source import Source


@pytest.mark.parametrize("number", numbers("hand_overs", 30, 500))
def test_accepted_kernels_do_not_race(number: int) -> None:
    assert attempt(random.Random(f"hand_overs/0/{number}")) is None


@pytest.mark.parametrize("number", numbers("relays", 30, 500))
def test_accepted_chains_do_not_race(number: int) -> None:
    assert fuzz_relays.attempt(random.Random(f"relays/{number}")) is None


def test_chains_are_accepted_and_most_others_go_wrong() -> None:
    """Of those that are refused as unordered alone."""
    drawn = [relay_kernels.draw(random.Random(f"relays/{number}")) for number in range(60)]
    codes = cache(lambda text: {one.code for one in compile_source(Source("k.pipe", text)).diagnostics})
    assert reached(5, (not codes(text) for text in drawn))
    refused = islice((text for text in drawn if codes(text) == {"E0614"}), 12)
    assert reached(10, (tried(text, 3, unchecked=True, sizes=fuzz_relays.TURNS) is not None for text in refused))


def test_most_of_them_go_wrong_where_nothing_is_refused() -> None:
    drawn = [draw(random.Random(f"hand_overs/0/{number}")) for number in range(8, 16)]
    assert reached(5, (tried(text, roles, unchecked=True) is not None for text, roles in drawn))
