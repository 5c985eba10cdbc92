"""mma.sync.m8n8k4 of halves: a warp multiplies four pairs of small matrices (PTX ISA 9.7.14.5.1)."""

from __future__ import annotations

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import TYPES
from ...units.matrix.quads import Major, QuadInstruction, multiply_quads
from ..decode import Decoder

_MAJORS: tuple[Major, ...] = ("row", "col")


def multiply_in_quads(d: Decoder) -> Execute:
    for name in ("sync", "aligned", "m8n8k4"):
        d.flag(name)
    majors: list[Major] = [major for name in d.modifiers for major in _MAJORS if name == major]
    d.modifiers[:] = [name for name in d.modifiers if name not in _MAJORS]
    types = [type_.name for type_ in d.types()]
    if len(majors) != 2 or len(types) != 4 or types[1:3] != ["f16", "f16"] or (types[0], types[3]) not in _RESULTS:
        d.fail("needs the majors of A and B, and types that m8n8k4 has", "unsupported")
    what = QuadInstruction(majors[0], majors[1], types[0], types[3])
    a, b, c = ([d.source(item, TYPES["b32"]) for item in d.vector(index)] for index in (1, 2, 3))
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    wanted = [2, 2, _REGISTERS[what.c_format], _REGISTERS[what.d_format]]
    if [len(one) for one in (a, b, c, writers)] != wanted:
        d.fail(f"needs {', '.join(map(str, wanted))} registers for A, B, C and D", "malformed")

    def execute(warp: Warp) -> None:
        left, right, old = (np.stack([read(warp) for read in readers], axis=1) for readers in (a, b, c))
        result = multiply_quads(what, left, right, old, warp.cta.machine.options.numerics)
        for number, write in enumerate(writers):
            write(warp, np.ascontiguousarray(result[:, number]))

    return execute


# Types of D and C (ptxas refuses f16 from f32), and the registers that each takes.
_RESULTS = frozenset({("f32", "f32"), ("f16", "f16"), ("f32", "f16")})
_REGISTERS = {"f16": 4, "f32": 8}
