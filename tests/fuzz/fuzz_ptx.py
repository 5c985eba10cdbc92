"""Random PTX kernels that are no compiler's, most of them changed at a place or two: what is proved of a text happens in the
simulator, and where the proof names sizes at which it hangs, it does."""

import random
from unittest.mock import patch

from fuzz.ptx_changes import changed
from fuzz.ptx_judge import judged, kind_of, shrunk
from fuzz.ptx_kernels import ptx

from pipec.verify.reader.processes import walk

COUNT = 10_000  # of `make fuzz`
CHANGED = 0.6


def text(draw: random.Random) -> str:
    made = ptx(draw)
    return changed(made, draw) if draw.random() < CHANGED else made


def attempt(draw: random.Random) -> str | None:
    made = text(draw)
    seed = draw.getrandbits(16)
    # Few texts have so many states that the reader remembers how branches came out; in half of the attempts it does so in all.
    with patch.object(walk, "MANY_STATES", draw.choice((0, walk.MANY_STATES))):
        outcome = judged(made, seed)
        if not outcome.contradiction:
            return None
        kind = kind_of(outcome.contradiction)
        smaller = shrunk(made, lambda one: kind_of(judged(one, seed).contradiction) == kind)
        return f"{outcome.contradiction}\n{smaller}"
