"""Branches, exits and hints that change nothing (PTX ISA 9.7.12)."""

from __future__ import annotations

import numpy as np

from ..decode import Decoder, instruction
from ..errors import SimulationError
from ..execution import EXIT, Diverge, Scatter, Wait, Warp
from ..types import TYPES


def end_of_kernel(warp: Warp):
    return EXIT


@instruction("exit", "ret")
def exit_(d: Decoder):
    d.flag("uni")
    return end_of_kernel


@instruction("bra")
def bra(d: Decoder):
    d.flag("uni")
    target = d.context.target(d.operand(0).name, d.item)
    guard = d.item.guard
    if guard is None:
        return lambda warp: target
    slot, negated = guard.register.index, guard.negated

    def branch(warp: Warp):
        taken = ~warp.registers[slot] if negated else warp.registers[slot]
        fragment = warp.fragment
        if not fragment.full:
            taken = taken & fragment.active
        lanes = np.count_nonzero(taken)
        if not lanes:
            return None
        return target if lanes == fragment.count else Diverge(taken, target)

    return branch


@instruction("brx.idx")
def brx(d: Decoder):
    d.flag("uni")
    index = d.source(0, TYPES["u32"])
    targets = np.array(d.context.targets(d.operand(1).name, d.item))

    def branch(warp: Warp):
        chosen = index(warp)
        if (chosen[warp.active] >= targets.size).any():
            raise SimulationError("undefined", f"brx.idx index {int(chosen[warp.active].max())} of a table of {targets.size}")
        lanes = targets[np.minimum(chosen, targets.size - 1)]
        first = int(lanes[warp.active][0])
        if (lanes[warp.active] == first).all() and warp.fragment.count == np.count_nonzero(warp.active):
            return first
        return Scatter(np.where(warp.active, lanes, warp.fragment.pc + 1))

    return branch


@instruction("trap", "brkpt")
def trap(d: Decoder):
    def execute(warp: Warp):
        raise SimulationError("trap", f"{warp.cta.name} warp {warp.index} executed trap")

    return execute


def nothing(warp: Warp) -> None:
    return None


@instruction("griddepcontrol")
def griddepcontrol(d: Decoder):
    d.require("wait", "launch_dependents")
    return nothing


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def prefetch(d: Decoder):
    d.modifiers.clear()
    return nothing


@instruction("pmevent")
def performance_event(d: Decoder):
    """Counted by a profiler, seen by nobody else."""
    d.flag("mask")
    d.integer(0)
    return nothing


@instruction("nanosleep")
def nanosleep(d: Decoder):
    d.type()
    duration = d.source(0, TYPES["u32"])

    def execute(warp: Warp):
        fragment, machine = warp.fragment, warp.cta.machine
        ticks = max(1, int(duration(warp)[warp.active].max()))
        wait = Wait("sleep", "nanosleep", retry=False)
        fragment.wait = wait

        def wake() -> None:
            if fragment.wait is wait:
                fragment.wait = None

        machine.events.schedule_soon(warp.cta.cluster.now, ticks, wake)
        return wait

    return execute


@instruction("setmaxnreg")
def setmaxnreg(d: Decoder):
    d.require("inc", "dec")
    d.flag("sync")
    d.flag("aligned")
    d.type()
    count = d.integer(0)
    if not 24 <= count <= 256 or count % 8:
        d.fail(f"register count {count} is not a multiple of 8 in 24..256", "malformed")

    def execute(warp: Warp) -> Wait | None:
        require_converged(warp, "setmaxnreg")
        wait = warp.cta.set_registers(warp, count)
        if wait is not None:
            warp.fragment.wait = wait
        return wait

    return execute


def require_converged(warp: Warp, what: str) -> None:
    """`.aligned` instructions need every live lane of the warp."""
    if (warp.active != warp.live).any():
        raise SimulationError(
            "undefined",
            f"{what} is .aligned, but only {np.count_nonzero(warp.active)} of "
            f"{np.count_nonzero(warp.live)} live lanes of warp {warp.index} execute it together",
        )
