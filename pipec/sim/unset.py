"""Whether registers matter that a kernel reads before it has written them: the launch again, with other values there.

PTX leaves such registers undefined, and here they are zero, which is what a forgotten initialisation of a sum would have made them.
Compilers leave registers undefined that lanes read and do not use, so only other results are an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .machine.image import Image
from .machine.machine import Machine
from .machine.schedule.schedules import Schedule
from .unwritten import FILLINGS, Started, put

# No further launch begins after so many seconds of processor time: one may take minutes.
_PATIENCE = 20.0
# Of the registers that are left then, so many are named.
_NAMED = 4


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
        left = _those_that_may_matter(registers, lambda some: matter(some, filling), ends)
        machine.findings.add("uninitialised", ("register", left[0]), _told(image, left, first_reads))
    put(outside, results)


def _told(image: Image, registers: Sequence[int], first_reads: Mapping[int, int]) -> SimulationError:
    """The error at the first read of the first register."""
    items = [image.item(first_reads[register]) for register in registers]
    first, lines = items[0], [item.line if item else 0 for item in items]
    names = [f"`{image.function.registers[register].name}`" for register in registers]
    if len(registers) == 1:
        where = f"nothing has written where {first.opcode if first else 'it'} reads it"
        message = f"the results depend on register {names[0]}, which {where}"
    else:
        some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} others" if len(names) > _NAMED else "")
        message = (
            f"the results depend on one or more of the registers {some}, which nothing has written where they are read; "
            f"after {_PATIENCE:g} seconds no further launch was made to find out which"
        )
    others = [(line,) for line in dict.fromkeys(lines) if line != lines[0]]
    details = {"others": others} if others else {}
    return SimulationError("uninitialised", message, lines[0], image.source(first), details)


def _those_that_may_matter(registers: Sequence[int], matter: Callable[[Sequence[int]], bool], ends: float) -> Sequence[int]:
    """The first register that matters, given that some do, by halves: each try is a launch. When time `ends`, those of which one is it."""
    low, high = 0, len(registers)  # the ones before `low` do not matter, those before `high` do
    while high - low > 1 and time.process_time() < ends:
        middle = (low + high) // 2
        low, high = (low, middle) if matter(registers[:middle]) else (middle, high)
    return registers[low:high]


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
