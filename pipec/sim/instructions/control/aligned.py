"""`.aligned` instructions, which all threads of a warp execute together (PTX ISA 9.7.13.1 and others)."""

from __future__ import annotations

import numpy as np

from ...errors import SimulationError
from ...machine.practice import PracticeName
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import MERGED, Fragment, Outcome, Wait
from ...machine.threads.warpgroups import is_common
from ...ptx.tree import Instruction
from .collectives import mask_bits


def is_aligned(item: Instruction) -> bool:
    """`bar` is aligned, with or without the modifier."""
    _, *modifiers = item.opcode.split(".")
    return "aligned" in modifiers or (item.root == "bar" and "warp" not in modifiers)


# What lanes need not take part in that exit without another `.aligned` instruction.
_LEFT_OUT: dict[str, PracticeName] = {"setmaxnreg": "registers set without lanes that exit"}


def together(execute: Execute, item: Instruction) -> Execute:
    """Runs `execute` once all live lanes of the warp are there. The paths that they took are irrelevant: assemblers reconverge lanes
    that the control flow of the text alone would keep apart, and PTX requires only that all execute the same instruction."""
    left_out = _LEFT_OUT.get(item.root)

    def run(warp: Warp) -> Outcome:
        if warp.mask is None or (warp.active == warp.live).all():
            return execute(warp)
        return _gather(warp, item.opcode, left_out)

    return run


def counted(execute: Execute, item: Instruction) -> Execute:
    """`execute`, which also records that a warp has executed what all warps of its warpgroup do."""
    kind = item.root
    if not is_common(kind):
        return execute

    def count(warp: Warp) -> Outcome:
        pc = warp.fragment.pc
        outcome = execute(warp)
        if outcome is None:
            warp.cta.warpgroups.execute(warp.index, pc, kind)
        return outcome

    return count


def _gather(warp: Warp, what: str, left_out: PracticeName | None) -> Wait:
    fragment = warp.fragment
    if (warp.active != fragment.active).any():
        raise _apart(warp, what)  # others are here with a false guard
    there = [other for other in warp.fragments if other.pc == fragment.pc and (other is fragment or _waits(other))]
    if (np.logical_or.reduce([other.active for other in there]) == warp.live).all():
        warp.merge(there).wait = None
        return MERGED
    missing = f"0x{mask_bits(warp.live & ~warp.active):08x}"
    wait = warp.park(Wait("converge", f"lanes {missing} of its own warp at {what}, which is .aligned", retry=True, aligned=True))
    # If each of the others waits as well, or has passed the point where they all reconverge, nobody will come.
    if all(_waits(other) for other in warp.fragments):
        if left_out is None or not warp.joins or not warp.cta.machine.practised(left_out):
            raise _apart(warp, what)
        warp.force_joins()
    return wait


def _waits(fragment: Fragment) -> bool:
    return fragment.wait is not None and fragment.wait.aligned


def _apart(warp: Warp, what: str) -> SimulationError:
    image, here = warp.cta.image, warp.fragment.pc
    lines = {
        other.pc: item.line for other in warp.fragments if other.pc != here and _waits(other) and (item := image.item(other.pc))
    }
    elsewhere = "".join(f"; others wait at PTX line {line}" for line in lines.values())
    return SimulationError(
        "undefined",
        f"{what} is .aligned, but only {np.count_nonzero(warp.active)} of "
        f"{np.count_nonzero(warp.live)} live lanes of warp {warp.index} execute it together{elsewhere}",
    )
