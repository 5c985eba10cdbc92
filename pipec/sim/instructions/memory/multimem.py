"""multimem.* (PTX ISA 9.7.9.14 to 9.7.9.16): accesses to all members of a multicast object.

One device is simulated, so an object has one member, the array that its address names: a reduction reads one element, and a store or
addition goes to one place.
"""

from __future__ import annotations

from pipec.record import replace

from ...machine.program import Execute
from ..asynchronous.bulk import bulk_copy
from ..decode import Decoder, instruction
from .atomics import atomic
from .loadstore import load, store

# The element types as a load or store sees them: plain bits.
_AS_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "e4m3x4": "b32", "e5m2x4": "b32"}
_OPERATIONS = ("add", "min", "max", "and", "or", "xor")


@instruction("multimem.ld_reduce")
def load_and_reduce(d: Decoder) -> Execute:
    d.require(*_OPERATIONS)
    d.choose("acc::f32", "acc::f16")
    _as_bits(d)
    return load(d)


@instruction("multimem.st")
def store_everywhere(d: Decoder) -> Execute:
    _as_bits(d)
    return store(d)


@instruction("multimem.red")
def reduce_everywhere(d: Decoder) -> Execute:
    d.item = replace(d.item, opcode=d.item.opcode.removeprefix("multimem."))
    return atomic(d)


@instruction("multimem.cp.async.bulk", "multimem.cp.reduce.async.bulk")
def copy_everywhere(d: Decoder) -> Execute:
    d.item = replace(d.item, opcode=d.item.opcode.removeprefix("multimem."))
    return bulk_copy(d)


def _as_bits(d: Decoder) -> None:
    d.modifiers[:] = [_AS_BITS.get(name, name) for name in d.modifiers]
