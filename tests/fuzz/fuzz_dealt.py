"""Random GEMMs whose tiles are dealt out: what is accepted computes what NumPy does, and does not race or hang."""

import random

from fuzz.accepted import tried
from fuzz.dealt_kernels import TURNS, draw

COUNT = 1000


def attempt(chance: random.Random) -> str | None:
    program = draw(chance)
    return tried(program, program.arch, TURNS, chance.getrandbits(16)).wrong
