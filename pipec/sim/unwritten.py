"""Whether reading unwritten memory matters: it does not if the results are the same whatever the memory holds.

Lanes beyond the end of an array often load what no thread stored for them, and then store nothing. PTX gives such words no value, but a
kernel that does not use them is correct. The same holds for what `shfl.sync` reads from inactive lanes, and for words by which CTAs
exchange sums of rows that nobody asked for: they are no results. Of a workspace for such an exchange, whose other words the kernel itself
reads, they may also be left unread; since it could be an array of results as well, that is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pipec.record import replace

from .errors import SimulationError
from .findings import Finding
from .machine.machine import Machine
from .machine.memory.global_memory import Allocation
from .machine.memory.spaces import SHARED_BASE
from .machine.races.shadow import Shadow
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
        again = _unless_it_matters(start, schedule, [one.data for one in machine.outside], given, error.findings)
        if again is None:
            raise
        return again
    return machine


def _unless_it_matters(
    start: Callable[[Schedule], Started],
    schedule: Schedule,
    outside: list[np.ndarray],
    given: list[np.ndarray],
    found: Sequence[Finding],
) -> Machine | None:
    """A machine that ran identically with other bytes and without reports about them, or with those `found` as warnings where only a
    workspace differed; None if anything else did."""
    results = [data.copy() for data in outside]
    machine, exchanged = None, set[str]()
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
        differing = _differing(machine, results)
        if not all(map(_exchanges, differing)) or (differing and not _has_results(machine, differing)):
            put(outside, results)
            return None
        exchanged |= {one.name for one in differing}
    put(outside, results)
    if machine is not None and exchanged:
        _warn(machine, found, exchanged)
    return machine


def _differing(machine: Machine, results: list[np.ndarray]) -> list[Allocation]:
    """The memory in which the run left something else. Words whose last value the kernel itself has loaded are no results: what came of
    them is."""
    differing = []
    for allocation, result in zip(machine.outside, results, strict=True):
        other = np.flatnonzero(allocation.data != result)
        if other.size and (allocation.shadow is None or not allocation.shadow.read_since(other).all()):
            differing.append(allocation)
    return differing


def _exchanges(allocation: Allocation) -> bool:
    """Whether the kernel itself has loaded some of what it stored there."""
    shadow = allocation.shadow
    return shadow is not None and bool(shadow.read_since(_stored(shadow)).any())


def _has_results(machine: Machine, differing: list[Allocation]) -> bool:
    """Whether the kernel has stored anything elsewhere."""
    return any(one.shadow is not None and _stored(one.shadow).size for one in machine.outside if one not in differing)


def _stored(shadow: Shadow) -> np.ndarray:
    """The offsets of places that have been written."""
    places: np.ndarray = shadow.writes.nonzero()[0] * shadow.granule
    return places


def _warn(machine: Machine, found: Sequence[Finding], exchanged: set[str]) -> None:
    findings, names = machine.findings, " and ".join(sorted(exchanged))
    findings.severities["uninitialised"] = "warn"
    for finding in found:
        if finding.check == "uninitialised":
            error = finding.error
            message = f"{error.message}: of the results only {names} shows it, where the kernel loads some of what it stores"
            told = SimulationError(error.kind, message, error.ptx_line, error.source, error.details)
            findings.add("uninitialised", (finding.ptx_line, message), told)


def put(outside: list[np.ndarray], values: list[np.ndarray]) -> None:
    """Gives the caller's memory these values."""
    for data, value in zip(outside, values, strict=True):
        data[:] = value
