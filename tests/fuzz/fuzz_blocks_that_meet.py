"""Random kernels with a store at an index of blocks and loops (`checks.index_kernels`): those whose blocks store the same elements at
many sizes, counted, are refused."""

import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "checks"))

from index_kernels import SIZES, TEMPLATES, collision, filled

from pipec.driver import compile_source
from pipec.source import Source

COUNT = 2000
RIGHT = 0.6  # of the holes of a template
_MANY = 0.25  # of the sizes: two parameters that must have a common divisor, say, are seen at fewer


def attempt(draw: random.Random) -> str | None:
    kernel = filled(draw.choice(TEMPLATES), draw, RIGHT)
    state = compile_source(Source("k.pipe", kernel.text), until="limits")
    if state.failed:
        return None
    met = [sizes for sizes in SIZES if collision(kernel, sizes, in_blocks=True) is not None]
    if len(met) < _MANY * len(SIZES):
        return None
    return f"accepted, but two blocks meet at {len(met)} of {len(SIZES)} sizes, as at {met[0]}\n{kernel.text}"
