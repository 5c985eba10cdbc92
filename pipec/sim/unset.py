"""Whether registers matter that a kernel reads before it has written them: the launch again, with other values there.

PTX leaves such registers undefined, and here they are zero, which is what a forgotten initialisation of a sum would have made them.
Compilers leave registers undefined that lanes read and do not use, so only other results are an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.machine import Machine
from .machine.schedule.schedules import Schedule
from .unwritten import FILLINGS, Started, put

# No further launch begins after so many seconds of processor time: one may take minutes.
_PATIENCE = 20.0


def complain_of_unset(
    start: Callable[[Schedule], Started], schedule: Schedule, machine: Machine, given: list[np.ndarray]
) -> None:
    """Adds a finding to those of `machine`, which has run from the values `given`, for registers that its results depend on."""
    image = machine.image
    outside = [allocation.data for allocation in machine.outside]
    results = [data.copy() for data in outside]
    first_reads = machine.unset_sums | image.unset
    registers = sorted(first_reads, key=lambda one: (first_reads[one], one))

    def matter(registers: Sequence[int], filling: int) -> bool:
        return _differ(start, replace(schedule, unset=(frozenset(registers), filling)), outside, given, results)

    ends = time.process_time() + _PATIENCE
    filling = next((filling for filling in FILLINGS if time.process_time() < ends and matter(registers, filling)), None)
    if filling is not None:
        register = _first_that_matters(registers, lambda some: matter(some, filling), ends)
        item = image.item(first_reads[register])
        name = image.function.registers[register].name
        message = (
            f"the results depend on register `{name}`, which nothing has written where {item.opcode if item else 'it'} reads it"
        )
        error = SimulationError("uninitialised", message, item.line if item else 0, image.source(item))
        machine.findings.add("uninitialised", ("register", register), error)
    put(outside, results)


def _first_that_matters(registers: Sequence[int], matter: Callable[[Sequence[int]], bool], ends: float) -> int:
    """The first register that matters, given that some do, by halves: each try is a launch. When time `ends`, the first one that may."""
    low, high = 0, len(registers)  # the ones before `low` do not matter, those before `high` do
    while high - low > 1 and time.process_time() < ends:
        middle = (low + high) // 2
        low, high = (low, middle) if matter(registers[:middle]) else (middle, high)
    return registers[low]


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
