"""All silicon programs, by family."""

from functools import cache

from silicon import barriers, clusters, extras, im2col, matrices, memory, multiply, reductions, tma, warps
from silicon.program import Program, unique

# What the simulator does not know yet: beginnings of program names, and why. The GPU's results are recorded all the same.
NOT_SIMULATED = {
    "tma_interleaved_": "interleaved tensor maps",
    "tensormap_replace_": "tensormap.replace",
    "wgmma_b1": "wgmma of single bits",
    "wgmma_sparse_": "sparse wgmma",
    "atom_b128_": "128-bit atomics",
}

_FAMILIES = (barriers, tma, reductions, multiply, matrices, clusters, warps, memory, im2col, extras)


@cache
def programs() -> list[Program]:
    return unique(program for family in _FAMILIES for program in family.programs())
