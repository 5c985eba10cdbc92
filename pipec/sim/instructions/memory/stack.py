"""alloca, stacksave and stackrestore (PTX ISA 9.7.17): memory that a thread allocates and frees at run time.

The stack lies behind a thread's local variables and grows upwards; PTX leaves both open. A function's allocations are freed when it
returns: inlined calls save and restore the stack (`ptx.inline`).
"""

from __future__ import annotations

import numpy as np

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, LaneValues
from ..decode import Decoder, instruction

_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 8, 1 << 23


def _pointers(warp: Warp) -> LaneValues:
    """The end of each thread's stack."""
    return np.full(LANES, warp.cta.image.stack, np.int64) if warp.stack is None else warp.stack


def _check_type(d: Decoder) -> None:
    if d.item.opcode.rpartition(".")[2] not in ("u32", "u64"):
        d.fail("is of type .u32 or .u64", "malformed")


@instruction("alloca")
def allocate(d: Decoder) -> Execute:
    _check_type(d)
    type_ = d.type()
    write, size = d.destination(0, type_), d.source(1, type_)
    asked = d.count(2) if len(d.operands) > 2 else _LEAST_ALIGNMENT
    if asked & (asked - 1) or not 0 < asked <= _MOST_ALIGNMENT:
        d.fail(f"an alignment of {asked} is no power of 2 up to {_MOST_ALIGNMENT}", "malformed")
    alignment = max(asked, _LEAST_ALIGNMENT)

    def execute(warp: Warp) -> None:
        first = -(-_pointers(warp) // alignment) * alignment
        # (A size that exceeds any stack must not wrap around.)
        after = first + np.minimum(size(warp), type_.dtype.type(_MOST_ALIGNMENT)).astype(np.int64)
        if (after[warp.active] > warp.cta.image.local_bytes).any():
            room = warp.cta.image.local_bytes - warp.cta.image.stack
            raise SimulationError("out_of_bounds", f"alloca asks for more than is left of the {room} bytes of a thread's stack")
        warp.stack = np.where(warp.active, after, _pointers(warp))
        write(warp, first.astype(type_.dtype))

    return execute


@instruction("stacksave")
def save(d: Decoder) -> Execute:
    _check_type(d)
    type_ = d.type()
    write = d.destination(0, type_)
    return lambda warp: write(warp, _pointers(warp).astype(type_.dtype))


@instruction("stackrestore")
def restore(d: Decoder) -> Execute:
    _check_type(d)
    read = d.source(0, d.type())

    def execute(warp: Warp) -> None:
        saved, stack = read(warp).astype(np.int64), _pointers(warp)
        # Any other value corrupts the stack pointer; a stack may only be cut back.
        if ((saved < warp.cta.image.stack) | (saved > stack))[warp.active].any():
            raise SimulationError(
                "undefined", "stackrestore of a value that no stacksave gave, or that is no longer on the stack"
            )
        warp.stack = np.where(warp.active, saved, stack)

    return execute
