"""`--timing explore`: one launch under many schedules, and which waits, fences and barriers none of them needed.

A race shows in any schedule. Some problems show only in some schedules: a wait behind a test that always succeeds at once, a result that
depends on the order, a deadlock, a CTA that relies on its peer. A wait, fence or barrier whose removal changes no schedule is either
unneeded, or not exercised by the kernel's inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .errors import SimulationError, SourceLocation
from .findings import Finding
from .instructions.control.branches import nothing
from .machine.image import Image
from .machine.machine import Machine
from .machine.program import Execute, Program
from .machine.schedule.schedules import PLAIN, Schedule, always
from .machine.threads.cta import Warp
from .machine.threads.divergence import Outcome
from .ptx.tree import Instruction, Register

# Budget of one launch: runs, and seconds of processor time.
RUNS, SECONDS = 200, 120.0

_TESTS = ("mbarrier.try_wait", "mbarrier.test_wait")
_WAITS = ("cp.async.wait", "cp.async.bulk.wait_group", "wgmma.wait_group", "tcgen05.wait")
_FENCES = ("fence", "membar", "tcgen05.fence")
_BARRIERS = ("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.warp.sync", "barrier.cluster.wait")
# Instructions that have no effect but ordering, apart from a test's result.
ORDERING = (*_TESTS, *_WAITS, *_FENCES, *_BARRIERS)

Prepare = Callable[[Machine, Program], None]
Run = Callable[[Schedule, Prepare], Machine]


@dataclass(frozen=True)
class Unneeded:
    """A wait, fence or barrier that no schedule executed, or whose removal changed nothing."""

    ptx_line: int
    source: SourceLocation | None
    opcode: str
    why: str

    def __str__(self) -> str:
        where = f"PTX line {self.ptx_line}" + (f", {self.source}" if self.source else "")
        return f"{self.opcode} {self.why} ({where})"


@dataclass
class Exploration:
    """The result of `explore`. `schedules`: the names of those that ran; `left_out`: how many runs did not fit the budget; `ordering`:
    how many waits, fences and barriers the kernel has."""

    schedules: list[str] = field(default_factory=list)
    left_out: int = 0
    ordering: int = 0
    unneeded: list[Unneeded] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The lines of a report."""
        rest = f"; the budget ended before {self.left_out} more runs" if self.left_out else ""
        first = f"explored {len(self.schedules)} schedules{rest}: {len(self.unneeded)} of {self.ordering} waits, fences and barriers were "
        return [first + "not needed by any of them", *(f"  {one}" for one in self.unneeded)]


class _Budget:
    def __init__(self) -> None:
        self.runs, self.ends = 0, time.process_time() + SECONDS

    def spend(self) -> bool:
        """Whether the budget allows one more run."""
        self.runs += 1
        return self.runs <= RUNS and time.process_time() < self.ends


def explore(run: Run, clusters: int, ranks: int, seed: int) -> tuple[Machine, Exploration]:
    """The machine after the plain schedule, whose results are in memory; its findings are those of all schedules. Raises the first
    SimulationError of any schedule, which names it."""
    found, budget = Exploration(), _Budget()
    counts: dict[int, int] = {}
    kept = _Kept(run)
    machine = kept.run("in order", PLAIN, counts)
    found.schedules.append("in order")
    merged = machine.findings
    further = [*always(clusters, ranks, seed)[1:], *_holding(machine)]
    for number, (name, schedule) in enumerate(further):
        if not budget.spend():
            found.left_out += len(further) - number
            break
        other = kept.run(name, schedule, counts)
        found.schedules.append(name)
        # The same finding in another schedule is reported once, with the timing that first showed it.
        for key, finding in other.findings.found.items():
            merged.found.setdefault(key, finding)
    _look_for_unneeded(found, kept, machine, counts, budget)
    kept.restore_results()
    return machine, found


def _holding(machine: Machine) -> Iterator[tuple[str, Schedule]]:
    for pc in sorted(machine.set_going):
        item = machine.image.item(pc)
        yield f"{item.opcode if item else 'exit'} of PTX line {item.line if item else 0} held back", Schedule(held=pc)


def _look_for_unneeded(found: Exploration, kept: _Kept, machine: Machine, counts: dict[int, int], budget: _Budget) -> None:
    image = machine.image
    for pc, item in enumerate(image.function.instructions):
        if not item.opcode.startswith(ORDERING):
            continue
        found.ordering += 1
        if not counts.get(pc):
            found.unneeded.append(_unneeded(image, item, "was never executed"))
        elif not budget.spend():
            found.left_out += 1
        elif kept.same_without(pc, machine):
            found.unneeded.append(
                _unneeded(image, item, "changes nothing: without it nothing else is found, and the results are the same")
            )


def _unneeded(image: Image, item: Instruction, why: str) -> Unneeded:
    return Unneeded(item.line, image.source(item), item.opcode, why)


class _Kept:
    """Repeated runs on the same memory: the launch's inputs are restored before each."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.given: list[np.ndarray] | None = None
        self.memories: list[np.ndarray] = []
        self.results: list[np.ndarray] = []

    def run(self, name: str, schedule: Schedule, counts: dict[int, int]) -> Machine:
        """Raises SimulationError, which names the schedule."""

        def prepare(machine: Machine, program: Program) -> None:
            self._put_back(machine)
            for pc, step in enumerate(program.code):
                if step.item is not None and step.item.opcode.startswith(ORDERING):
                    step.execute = _counted(step.execute, pc, counts)

        try:
            machine = self._run(schedule, prepare)
        except SimulationError as error:
            raise _under(error, name) from error.__cause__
        if not self.results:
            self.results = [data.copy() for data in self.memories]
        return machine

    def same_without(self, pc: int, plain: Machine) -> bool:
        """Whether everything is as in the plain schedule when the instruction at `pc` does nothing."""

        def prepare(machine: Machine, program: Program) -> None:
            self._put_back(machine)
            step = program.code[pc]
            assert step.item is not None
            step.execute = _instead(step.item)

        # In order, and with everything late and every test failing once: if a wait hides anything, one of these shows it.
        for schedule in (Schedule(without=pc), Schedule("late", fails=True, without=pc)):
            try:
                machine = self._run(schedule, prepare)
            except SimulationError:
                return False
            if not machine.findings.found.keys() <= plain.findings.found.keys():
                return False
            if any((data != result).any() for data, result in zip(self.memories, self.results, strict=True)):
                return False
        return True

    def _put_back(self, machine: Machine) -> None:
        self.memories = [one.data for one in machine.outside]
        if self.given is None:
            self.given = [data.copy() for data in self.memories]
        for data, before in zip(self.memories, self.given, strict=True):
            data[:] = before

    def restore_results(self) -> None:
        for data, result in zip(self.memories, self.results, strict=True):
            data[:] = result


def _counted(execute: Execute, pc: int, counts: dict[int, int]) -> Execute:
    def counted(warp: Warp) -> Outcome:
        counts[pc] = counts.get(pc, 0) + 1
        return execute(warp)

    return counted


def _instead(item: Instruction) -> Execute:
    """Replacement of a removed wait, fence or barrier: a test returns true, everything else does nothing."""
    answer = item.operands[0] if item.operands else None
    if not item.opcode.startswith(_TESTS) or not isinstance(answer, Register):
        return nothing
    slot = answer.index

    def says_yes(warp: Warp) -> None:
        # A failing test would keep the warp in its loop forever.
        warp.registers[slot][...] |= warp.active

    return says_yes


def _under(error: SimulationError, name: str) -> SimulationError:
    """`error` with the schedule's name in its message."""
    first, line, rest = error.message.partition("\n")
    findings = list[Finding](error.findings)
    text = f"{first} (schedule: {name}){line}{rest}"
    return SimulationError(
        error.kind, text, error.ptx_line, error.source, {**error.details, "schedule": name}, findings, error.printed
    )
