"""Whether blocks with two stores each are shown to be apart only where they are: random kernels, counted."""

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "fuzz"))

from fuzz_store_pairs import answer, attempt
from index_kernels import Filled
from store_pairs import FIRST, SIZES, Pair, drawn

EACH = 12


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_shown_is_counted(seed: int) -> None:
    for number in range(EACH):
        assert attempt(random.Random(f"{seed}/{number}")) is None


def test_some_are_shown() -> None:
    """Otherwise nothing has been tried."""
    found = [answer(drawn(random.Random(f"{seed}/{number}")).text) for seed in range(6) for number in range(EACH)]
    assert "open" in found and len([one for one in found if one != "open"]) > 2, found


@pytest.mark.parametrize(("second", "apart"), [(("block.x * 8", "320"), True), (("block.x * 8 + 8", "0"), False)])
def test_the_count_sees_two_stores(second: tuple[str, str], apart: bool) -> None:
    grid = ("n", "1")
    pair = Pair(Filled(FIRST[0], grid, (), ("block.x * 8", "0"), ()), Filled(FIRST[0], grid, (), second, ()))
    met = [sizes for sizes in SIZES if pair.collision(sizes)]
    assert bool(met) != apart and (answer(pair.text) != "open") == apart
