"""Random kernels of accumulators in tensor memory: nothing that is accepted hangs, races, or differs."""

import random

from fuzz.accepted import tried
from fuzz.accumulator_kernels import SIZES, draw


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), "sm_100a", SIZES, chance.randrange(1000)).wrong
