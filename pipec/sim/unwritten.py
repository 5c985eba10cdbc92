"""Whether reading unwritten memory matters: it does not if the results are the same whatever the memory holds.

Lanes beyond the end of an array often load what no thread stored for them, and then store nothing. PTX gives such words no value, but a
kernel that does not use them is correct. The same holds for what `shfl.sync` reads from inactive lanes, and for words by which CTAs
exchange sums of rows that nobody asked for: they are no results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.machine import Machine
from .machine.memory.spaces import SHARED_BASE
from .machine.schedule.schedules import Schedule

# A machine that is ready, and the function that runs it to the end.
Started = tuple[Machine, Callable[[], None]]
# NaN in all floating-point formats, and a large number: sums and products expose the first, a maximum the second.
FILLINGS = (0xFF, 0x7B)


def run_with_unwritten(start: Callable[[Schedule], Started], schedule: Schedule) -> Machine:
    """The machine after the run. Raises the first error, except for reads of unwritten memory that change nothing in practice mode; the
    caller's memory has the results of the first run in any case."""
    machine, run = start(schedule)
    # (A kernel with tensor memory has shared memory, too: the allocating instruction writes the address there.)
    may = machine.rules == "practice" and (machine.image.shared_end > SHARED_BASE or machine.image.shuffles)
    given = [one.data.copy() for one in machine.outside] if may else []
    try:
        run()
    except SimulationError as error:
        # (A single error that stopped the run has no separate finding.)
        grave = {finding.check for finding in error.findings if finding.severity == "error"}
        if grave != {"uninitialised"} or not may:
            raise
        again = _unless_it_matters(start, schedule, [one.data for one in machine.outside], given)
        if again is None:
            raise
        return again
    return machine


def _unless_it_matters(
    start: Callable[[Schedule], Started], schedule: Schedule, outside: list[np.ndarray], given: list[np.ndarray]
) -> Machine | None:
    """A machine that ran identically with other bytes and without reports about them; None if anything differed."""
    results = [data.copy() for data in outside]
    machine = None
    for filling in FILLINGS:
        put(outside, given)
        machine, run = start(replace(schedule, filling=filling))
        machine.findings.severities["uninitialised"] = "off"
        machine.practised("unwritten memory that does not matter")
        try:
            run()
        except SimulationError:
            put(outside, results)
            return None
        if not _alike(machine, results):
            put(outside, results)
            return None
    put(outside, results)
    return machine


def _alike(machine: Machine, results: list[np.ndarray]) -> bool:
    """Whether the run had the same results. Words whose last value the kernel itself has loaded are none: what came of them is."""
    for allocation, result in zip(machine.outside, results, strict=True):
        other = np.flatnonzero(allocation.data != result)
        if other.size and (allocation.shadow is None or not allocation.shadow.read_since(other).all()):
            return False
    return True


def put(outside: list[np.ndarray], values: list[np.ndarray]) -> None:
    """Gives the caller's memory these values."""
    for data, value in zip(outside, values, strict=True):
        data[:] = value
