"""Random kernels whose two roles store tiles at places of their own (`fuzz.role_ranges`), and nothing orders them: those that store the
same rows at several sizes, counted, are refused."""

import random

from fuzz.role_ranges import SIZES, drawn

from pipec.driver import compile_source
from pipec.source import Source

COUNT = 3000
_MANY = 0.1  # of the sizes


def attempt(draw: random.Random) -> str | None:
    kernel = drawn(draw)
    if compile_source(Source("k.pipe", kernel.text), until="limits").failed:
        return None
    met = [sizes for sizes in SIZES if kernel.meet(sizes)]
    if len(met) < _MANY * len(SIZES):
        return None
    return f"accepted, but the roles meet at {len(met)} of {len(SIZES)} sizes, as at {met[0]}\n{kernel.text}"
