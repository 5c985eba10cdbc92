"""Random kernels of roles that hand stages to each other, half of them with a fault: nothing that pipec proves hangs, races or
differs."""

import random

from fuzz.protocol_faults import faulty_kernel
from fuzz.protocol_judge import judge
from fuzz.protocol_kernels import Kernel
from fuzz.protocol_orders import right_kernel
from fuzz.protocol_text import source_of

COUNT = 20_000  # of `make fuzz`


def kernel(draw: random.Random) -> Kernel:
    right = right_kernel(draw)
    if draw.random() < 0.5:
        return right
    faulty = None
    while faulty is None:
        faulty = faulty_kernel(right, draw)
    return faulty


def attempt(draw: random.Random) -> str | None:
    drawn = kernel(draw)
    outcome = judge(drawn, draw.getrandbits(16))
    if not outcome.contradictions:
        return None
    told = "\n".join(outcome.contradictions)
    return f"{told}\n# {drawn.arch}, {drawn.fault or 'no fault planted'}\n{source_of(drawn)}"
