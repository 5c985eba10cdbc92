"""Branches, exits and hints that change nothing (PTX ISA 9.7.12)."""

from __future__ import annotations

import numpy as np

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import EXIT, Diverge, Exit, Outcome, Scatter, Wait
from ...ptx.types import TYPES
from ...units.limits import FEWEST_REGISTERS, MOST_REGISTERS, REGISTER_STEP
from ..decode import Decoder, instruction


def end_of_kernel(warp: Warp) -> Exit:
    return EXIT


@instruction("exit", "ret")
def exit_(d: Decoder) -> Execute:
    d.flag("uni")
    return end_of_kernel


@instruction("bra")
def bra(d: Decoder) -> Execute:
    d.flag("uni")
    target = d.image.target(d.name(0), d.item)
    guard = d.item.guard
    if guard is None:
        return lambda warp: target
    slot, negated = guard.register.index, guard.negated

    def branch(warp: Warp) -> Outcome:
        taken = ~warp.registers[slot] if negated else warp.registers[slot].copy()
        fragment = warp.fragment
        pc = fragment.pc
        # The predicates of absent lanes are irrelevant to this branch.
        if not fragment.full:
            taken = taken & fragment.active
        lanes = np.count_nonzero(taken)
        if not lanes:
            warp.took(pc, pc + 1)
            return None
        whole = lanes == fragment.count
        warp.took(pc, target if whole else None)
        return target if whole else Diverge(taken, target)

    return branch


@instruction("brx.idx")
def brx(d: Decoder) -> Execute:
    d.flag("uni")
    index = d.source(0, TYPES["u32"])
    targets = np.array(d.image.targets(d.name(1), d.item))

    def branch(warp: Warp) -> Outcome:
        chosen = index(warp)
        if (chosen[warp.active] >= targets.size).any():
            raise SimulationError("undefined", f"brx.idx index {int(chosen[warp.active].max())} of a table of {targets.size}")
        lanes = targets[np.minimum(chosen, targets.size - 1)]
        first = int(lanes[warp.active][0])
        if (lanes[warp.active] == first).all() and warp.fragment.count == np.count_nonzero(warp.active):
            warp.took(warp.fragment.pc, first)
            return first
        return Scatter(np.where(warp.active, lanes, warp.fragment.pc + 1))

    return branch


@instruction("trap", "brkpt")
def trap(d: Decoder) -> Execute:
    def execute(warp: Warp) -> Outcome:
        raise SimulationError("trap", f"{warp.cta.name} warp {warp.index} executed trap")

    return execute


def nothing(warp: Warp) -> None:
    return None


@instruction("griddepcontrol")
def griddepcontrol(d: Decoder) -> Execute:
    if d.require("wait", "launch_dependents") == "launch_dependents":
        return nothing

    def wait(warp: Warp) -> None:
        machine = warp.cta.machine
        if machine.watching:
            # The preceding grid is complete and visible to this warp and everything ordered after it.
            warp.thread.learn(machine.races.preceding, 1)

    return wait


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def prefetch(d: Decoder) -> Execute:
    d.modifiers.clear()
    return nothing


@instruction("pmevent")
def performance_event(d: Decoder) -> Execute:
    """Counted by a profiler only."""
    d.flag("mask")
    d.integer(0)
    return nothing


@instruction("nanosleep")
def nanosleep(d: Decoder) -> Execute:
    d.type()
    duration = d.source(0, TYPES["u32"])

    def execute(warp: Warp) -> Outcome:
        fragment, machine = warp.fragment, warp.cta.machine
        # A nanosecond counts as an instruction slot; PTX allows up to twice the requested time.
        ticks = max(1, int(duration(warp)[warp.active].max()))
        wait = Wait("sleep", "nanosleep", retry=False)
        warp.park(wait)

        def wake() -> None:
            if fragment.wait is wait:
                fragment.wait = None

        machine.events.schedule_soon(warp.cta.cluster.now, ticks, wake)
        return wait

    return execute


@instruction("setmaxnreg")
def setmaxnreg(d: Decoder) -> Execute:
    grows = d.require("inc", "dec") == "inc"
    d.flag("sync")
    d.flag("aligned")
    d.type()
    count = d.integer(0)
    if not FEWEST_REGISTERS <= count <= MOST_REGISTERS or count % REGISTER_STEP:
        allowed = f"a multiple of {REGISTER_STEP} in {FEWEST_REGISTERS}..{MOST_REGISTERS}"
        d.fail(f"register count {count} is not {allowed}", "malformed")

    def execute(warp: Warp) -> Wait | None:
        wait = warp.cta.set_registers(warp, count, grows)
        return wait if wait is None else warp.park(wait)

    return execute
