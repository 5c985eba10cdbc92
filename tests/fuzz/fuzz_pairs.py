"""Random kernels over pairs of CTAs: nothing that is accepted hangs, races, or differs."""

import random

from fuzz.accepted import tried
from fuzz.pair_kernels import SIZES, draw


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), "sm_100a", SIZES[:2], chance.randrange(1000)).wrong
