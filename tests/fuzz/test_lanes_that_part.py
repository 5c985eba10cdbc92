"""A few of the random texts in which lanes part."""

import random

from fuzz.fuzz_meetings import attempt


def test_lanes_that_part() -> None:
    for seed in range(120):
        assert not (found := attempt(random.Random(seed))), found
