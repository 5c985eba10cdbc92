"""Random slots that are given back with a lag: what is accepted races at no pace of its parts (`fuzz_hand_overs.py`)."""

import random

from fuzz.fuzz_hand_overs import tried
from fuzz.lag_kernels import ROLES, draw

COUNT = 2000
TURNS = (6, 2, 1)  # more than there are stages, and fewer than the lag


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), ROLES, sizes=TURNS)
