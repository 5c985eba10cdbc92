"""Random persistent GEMMs, each role in words of its own: a right one is not refused as wrong, and computes what NumPy does if it is
accepted; a faulty one is not accepted."""

import random

from fuzz.accepted import tried
from fuzz.persistent_kernels import TURNS, draw

COUNT = 500


def attempt(chance: random.Random) -> str | None:
    program = draw(chance)
    found = tried(program, program.arch, TURNS, chance.getrandbits(16))
    if found.wrong is not None:
        return found.wrong
    if program.fault and found.said == "accepted":
        return f"# accepted, though faulty: {program.fault}\n{program.source}"
    if not program.fault and found.said not in ("accepted", "E0604"):
        return f"# right, and refused: {found.said}\n{program.source}"
    return None
