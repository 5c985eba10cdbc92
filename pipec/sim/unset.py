"""Whether registers matter that a kernel reads before it has written them: the launch again, with other values there.

PTX leaves such registers undefined, and here they are zero, which is what a forgotten initialisation of a sum would have made them.
Compilers leave registers undefined that lanes read and do not use, so only other results are an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.machine import Machine
from .machine.schedule.schedules import Schedule
from .unwritten import FILLINGS, Started, put

# Of so many registers each is tried alone, to name those that matter.
_ALONE = 8


def complain_of_unset(
    start: Callable[[Schedule], Started], schedule: Schedule, machine: Machine, given: list[np.ndarray]
) -> None:
    """Adds a finding to those of `machine`, which has run from the values `given`, for registers that its results depend on."""
    image = machine.image
    outside = [allocation.data for allocation in machine.outside]
    results = [data.copy() for data in outside]

    def matter(registers: frozenset[int]) -> bool:
        return any(_differ(start, replace(schedule, unset=(registers, filling)), outside, given, results) for filling in FILLINGS)

    every = frozenset(image.unset)
    if matter(every):
        alone = [one for one in image.unset if len(every) <= _ALONE and matter(frozenset([one]))]
        register = min(alone or every, key=lambda one: image.unset[one])
        item = image.item(image.unset[register])
        name = image.function.registers[register].name
        message = (
            f"the results depend on register `{name}`, which nothing has written where {item.opcode if item else 'it'} reads it"
        )
        error = SimulationError("uninitialised", message, item.line if item else 0, image.source(item))
        machine.findings.add("uninitialised", ("register", register), error)
    put(outside, results)


def _differ(
    start: Callable[[Schedule], Started],
    schedule: Schedule,
    outside: list[np.ndarray],
    given: list[np.ndarray],
    results: list[np.ndarray],
) -> bool:
    put(outside, given)
    machine, run = start(schedule)
    machine.findings.severities["uninitialised"] = "off"
    try:
        run()
    except SimulationError:
        return True
    return any((data != result).any() for data, result in zip(outside, results, strict=True))
