"""All silicon programs, by family."""

from functools import cache

from silicon import barriers, clusters, extras, im2col, matrices, memory, multiply, reductions, tma, warps
from silicon.program import Program, unique

# These announce more bytes than the copy brings: the GPU's thread gives up waiting, the simulator reports that nothing can go on.
NEVER_END = ("tma_interleaved_two", "tma_interleaved_part", "tma_interleaved_past_channels", "tma_interleaved_wide_two")

_FAMILIES = (barriers, tma, reductions, multiply, matrices, clusters, warps, memory, im2col, extras)


@cache
def programs() -> list[Program]:
    return unique(program for family in _FAMILIES for program in family.programs())
