"""Random chains of MMAs through tensor memory: what is accepted computes what NumPy does, and does not race or hang."""

import random

from fuzz.accepted import tried
from fuzz.chain_kernels import TURNS, draw

COUNT = 1000


def attempt(chance: random.Random) -> str | None:
    program = draw(chance)
    return tried(program, "sm_100a", TURNS, chance.getrandbits(16)).wrong
