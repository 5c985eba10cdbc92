"""Two arrivals of a warp at an mbarrier that count in two phases in this run, and may count in one in another.

If nothing has shown the warp that the phase of its last arrival is complete, then both may come before the last arrival of others, in
whose place the second one completes that phase. Nobody minds if nobody waits for it, or for a later one.
"""

from __future__ import annotations

from ...errors import SimulationError
from ...machine.threads.barriers import TrackedBarrier
from ...machine.threads.cta import Warp


def knows(warp: Warp, barrier: TrackedBarrier, phases: int) -> bool:
    """Whether something has shown the warp that so many phases are complete."""
    thread = warp.thread
    reached = thread.actors.reached(thread.knowledge.order, barrier.actor, phases)
    return reached or barrier.counts.shown(thread, phases)


def check_arrival(warp: Warp, barrier: TrackedBarrier, phase: int) -> None:
    """`warp` has just arrived in this phase."""
    thread, last = warp.thread, barrier.latest.get(warp.thread, phase)
    barrier.latest[thread] = phase
    if last == phase or warp.watched is None or knows(warp, barrier, last + 1):
        return
    # What was complete when the copies began for whose bytes it has waited.
    if any(thread.actors.reached(clock, barrier.actor, last + 1) for clock in (thread.came, thread.began)):
        return
    message = (
        f"warp {thread.index} arrives in phase {phase} of the mbarrier at shared 0x{barrier.offset:x}, and nothing has shown it that phase "
        f"{last}, in which it arrived before, is complete: both arrivals may count in that phase, and complete it without others"
    )
    error = SimulationError("undefined", message, details={"address": barrier.offset})
    barrier.doubtful.append((last, warp.fragment.pc, warp.here(error)))
    tell(warp, barrier)


def check_wait(warp: Warp, barrier: TrackedBarrier) -> None:
    """A test has just found the phase before the current one complete."""
    barrier.waited = max(barrier.waited, barrier.state.phase - 1)
    if barrier.doubtful:
        tell(warp, barrier)


def tell(warp: Warp, barrier: TrackedBarrier) -> None:
    """Reports the arrivals that somebody minds."""
    findings = warp.cta.machine.findings
    for phase, pc, error in barrier.doubtful:
        key = "arrivals", pc, barrier.offset
        if phase <= barrier.waited and not findings.again("phase", key):
            findings.add("phase", key, error)
    barrier.doubtful = [one for one in barrier.doubtful if one[0] > barrier.waited]
