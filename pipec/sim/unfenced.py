"""Whether strong loads matter that may find nothing of a store before the signal behind it (`machine.races.unseen`): they do if the
results are others, or the kernel fails, where these loads find what was there before.

A thread that polls a place until it has what it waits for, as in a scan by look-back, loads it again. One that adds what it finds does
not, and gets a wrong sum on a chip that has reordered the stores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipec.record import replace

from .compiled.blocks import NORMAL, ROUNDED
from .errors import SimulationError
from .machine.machine import Machine
from .machine.races.report import Reporter
from .machine.schedule.schedules import Schedule
from .unset import complain_of_unset
from .unwritten import Started, put, run_with_unwritten


def run_with_unfenced(start: Callable[[Schedule], Started], schedule: Schedule) -> Machine:
    """`run_with_unwritten`; raises also if loads that no fence orders change the results, or registers that nothing has written. The
    caller's memory has those of the first run in any case."""
    given: list[np.ndarray] = []

    def started(one: Schedule) -> Started:
        machine, run = start(one)
        image = machine.image
        if (image.strong_loads or image.unset or image.unset_sums) and not given:
            given.extend(allocation.data.copy() for allocation in machine.outside)
        return machine, run

    machine = run_with_unwritten(started, schedule)
    races = machine.races.unfenced if machine.watching else []
    if races and machine.findings.wanted("race") and not _harmless(start, schedule, machine, given):
        reporter = Reporter(machine, machine.image)
        for race in races:
            reporter.complain(race)
    if (machine.image.unset or machine.unset_sums) and machine.findings.wanted("uninitialised"):
        complain_of_unset(start, schedule, machine, given)
    verdict = machine.findings.verdict(None)
    if verdict is not None:
        verdict.printed = machine.printed
        raise verdict
    return machine


def _harmless(start: Callable[[Schedule], Started], schedule: Schedule, machine: Machine, given: list[np.ndarray]) -> bool:
    outside = [allocation.data for allocation in machine.outside]
    results = [data.copy() for data in outside]
    put(outside, given)
    other, run = start(replace(schedule, unseen=True))
    other.findings.severities["uninitialised"] = "off"
    try:
        run()
    except SimulationError:
        return False
    else:
        return all(_alike(data, result) for data, result in zip(outside, results, strict=True))
    finally:
        put(outside, results)


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether all words are equal, or as close as sums that were added in another order."""
    whole = first.size // 4 * 4
    if (first[whole:] != second[whole:]).any():
        return False
    one, two = (data[:whole].view(np.int32).astype(np.int64) for data in (first, second))
    near = (np.abs(one - two) <= ROUNDED) & ((two & 0x7FFF_FFFF) >= NORMAL)
    # The lower half of a number of 64 bits may be any.
    near[:-1] |= near[1:] & (one[1:] != two[1:])
    return bool((near | (one == two)).all())
