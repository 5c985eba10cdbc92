"""Whether it matters that a kernel reads memory that nothing has written: not where its results are the same whatever stands there.

Lanes beyond the end of an array often load what nobody stored for them, and then store nothing. PTX gives such words no value, but a
kernel that makes nothing of them is right. So it is with what `shfl.sync` reads from lanes that do not take part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.machine import Machine
from .machine.memory.spaces import SHARED_BASE
from .machine.schedule.schedules import Schedule

# A machine that is ready, and what runs it to the end.
Started = tuple[Machine, Callable[[], None]]
# Not-a-number in all formats of floats, and a large number: what a sum or product makes visible, and what a maximum does.
FILLINGS = (0xFF, 0x7B)


def run_with_unwritten(start: Callable[[Schedule], Started], schedule: Schedule) -> Machine:
    """The machine after the run. Raises the first error, but not for reads of unwritten memory that change nothing where practice
    holds; the caller's memory has the results of the first run in any case."""
    machine, run = start(schedule)
    # (Who has tensor memory has shared memory, too: the instruction that allocates writes the address there.)
    may = machine.rules == "practice" and (machine.image.shared_end > SHARED_BASE or machine.image.shuffles)
    given = [data.copy() for data in machine.outside] if may else []
    try:
        run()
    except SimulationError as error:
        # (A single error that stopped the run has no finding of its own.)
        grave = {finding.check for finding in error.findings if finding.severity == "error"}
        if grave != {"uninitialised"} or not may:
            raise
        again = _unless_it_matters(start, schedule, machine.outside, given)
        if again is None:
            raise
        return again
    return machine


def _unless_it_matters(
    start: Callable[[Schedule], Started], schedule: Schedule, outside: list[np.ndarray], given: list[np.ndarray]
) -> Machine | None:
    """A machine that ran in the same way with other bytes, without complaint of them; None where something else came of it."""
    results = [data.copy() for data in outside]
    machine = None
    for filling in FILLINGS:
        _put(outside, given)
        machine, run = start(replace(schedule, filling=filling))
        machine.findings.severities["uninitialised"] = "off"
        machine.practised("unwritten memory that does not matter")
        try:
            run()
        except SimulationError:
            _put(outside, results)
            return None
        if any((data != result).any() for data, result in zip(outside, results, strict=True)):
            _put(outside, results)
            return None
    return machine


def _put(outside: list[np.ndarray], values: list[np.ndarray]) -> None:
    for data, value in zip(outside, values, strict=True):
        data[:] = value
