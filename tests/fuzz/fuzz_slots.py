"""Random slots chosen by the numbers of stages: what is accepted races at no pace of its parts (`fuzz_hand_overs.py`)."""

import random

from fuzz.fuzz_hand_overs import tried
from fuzz.relay_kernels import NAMES
from fuzz.slot_kernels import draw

COUNT = 2000
TURNS = (6, 2)  # more than there are stages


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), len(NAMES), sizes=TURNS)
