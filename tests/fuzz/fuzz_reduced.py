"""Random kernels in which a role reduces tiles of several types: nothing that is accepted races, or computes something else."""

import random

from fuzz.accepted import tried
from fuzz.reduced_kernels import SIZES, draw

COUNT = 500


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    found = tried(drawn, chance.choice(("sm_90a", "sm_100a")), SIZES, chance.randrange(1000))
    return found.wrong if found.said == "accepted" else f"refused: {found.said}\n{drawn.source}"
