"""Random kernels with two stores (`checks.store_pairs`): blocks that are shown to store different elements do, counted."""

import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "checks"))

from store_pairs import SIZES, drawn
from test_blocks import planned

from pipec.kir.global_memory import accesses
from pipec.kir.global_memory.overlaps import answers_of_blocks

COUNT = 5000
_COUNTED = 150  # sizes of each kernel


def answer(text: str) -> str:
    """What is shown of two blocks: "open" too if the kernel is refused before."""
    kernel = planned(text)
    return "open" if kernel is None else answers_of_blocks(kernel, accesses.collect(kernel))["y"]


def attempt(draw: random.Random) -> str | None:
    pair = drawn(draw)
    if answer(pair.text) == "open":
        return None
    for sizes in draw.sample(SIZES, _COUNTED):
        met = pair.collision(sizes)
        if met is not None:
            return f"shown, but {met[0]} and {met[1]} meet at {sizes}\n{pair.text}"
    return None
