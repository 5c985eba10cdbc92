"""Random kernels in which a role writes a tile several times: nothing that is accepted races, or leaves an earlier value."""

import random

from fuzz.accepted import tried
from fuzz.rewritten_kernels import SIZES, draw

COUNT = 500


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    found = tried(drawn, drawn.arch, SIZES, chance.randrange(1000))
    return found.wrong if found.said == "accepted" else f"refused: {found.said}\n{drawn.source}"
