"""Random PTX kernels that are no compiler's, most of them changed at a place or two: what is proved of a text happens in the
simulator, and where the proof names sizes at which it hangs, it does."""

import random

from fuzz.ptx_changes import changed
from fuzz.ptx_judge import judged, kind_of, shrunk
from fuzz.ptx_kernels import ptx

COUNT = 10_000  # of `make fuzz`
CHANGED = 0.6


def text(draw: random.Random) -> str:
    made = ptx(draw)
    return changed(made, draw) if draw.random() < CHANGED else made


def attempt(draw: random.Random) -> str | None:
    made = text(draw)
    seed = draw.getrandbits(16)
    outcome = judged(made, seed)
    if not outcome.contradiction:
        return None
    kind = kind_of(outcome.contradiction)
    smaller = shrunk(made, lambda one: kind_of(judged(one, seed).contradiction) == kind)
    return f"{outcome.contradiction}\n{smaller}"
