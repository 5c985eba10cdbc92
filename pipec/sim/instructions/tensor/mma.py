"""mma.sync and mma.sp (PTX ISA 9.7.14.5-6): a warp multiplies matrices held in its lanes' registers."""

from __future__ import annotations

import re

import numpy as np

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import TYPES
from ...units.errors import UnitError
from ...units.matrix.mma import BITS, BitOperation, Instruction, mma
from ..decode import Decoder, instruction
from .mma_doubles import multiply_doubles
from .mma_quads import multiply_in_quads

_SHAPE = re.compile(r"m(8|16)n8k(\d+)")


@instruction("mma.sync", "mma.sp", "mma.sp::ordered_metadata")
def multiply(d: Decoder) -> Execute:
    if d.item.opcode.startswith("mma.sync") and "f64" in d.modifiers:
        return multiply_doubles(d)
    if "m8n8k4" in d.modifiers:
        return multiply_in_quads(d)
    what = _decode(d)
    metadata = d.source(4, TYPES["b32"]) if what.sparse else None
    selector = d.integer(5) if what.sparse else 0
    a, b, c = ([d.source(item, TYPES["b32"]) for item in d.vector(index)] for index in (1, 2, 3))
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    if (len(a), len(b), len(c)) != what.registers or len(writers) != len(c):
        d.fail(f"needs {', '.join(map(str, what.registers))} registers for A, B and C", "malformed")

    def execute(warp: Warp) -> None:
        left, right, old = (np.stack([read(warp) for read in readers], axis=1) for readers in (a, b, c))
        words = metadata(warp) if metadata else None
        result = mma(what, left, right, old, warp.cta.machine.options.numerics, words, selector)
        for register, write in enumerate(writers):
            write(warp, np.ascontiguousarray(result[:, register]))

    return execute


def bit_operation(d: Decoder, format_name: str) -> BitOperation:
    """The bit operation of a single-bit MMA; arbitrary for other types."""
    if format_name != BITS:
        return "xor"
    d.require("popc")
    return d.require("xor", "and")


def _decode(d: Decoder) -> Instruction:
    for name in ("sync", "aligned", "row", "col"):
        d.flag(name)
    saturate = d.flag("satfinite")
    shape = next((found for found in map(_SHAPE.fullmatch, d.modifiers) if found), None)
    if shape is None:
        d.fail("has a shape that is not simulated", "unsupported")
    d.flag(shape[0])
    rows, k = int(shape[1]), int(shape[2])
    formats = d.formats()
    if len(formats) != 4 or formats[0] != formats[3]:
        d.fail("needs four types, those of C and D alike", "unsupported")
    bits, sparse = bit_operation(d, formats[1]), d.item.opcode.startswith("mma.sp")
    try:
        return Instruction(k, formats[0], formats[1], formats[2], saturate, sparse, rows, bits).validate()
    except UnitError as error:
        d.fail(error.message)
