"""Tensor memory of a CTA and who may touch it when (PTX ISA 9.7.16.6): the rules that no result shows when timing is kind.

mma and cp run in the tensor pipe from issue to completion; tcgen05.ld and st count as under way until the warp waits for
them. Between threads the order also needs tcgen05.fence::before_thread_sync and ::after_thread_sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pipec.blocked import Names

from ..errors import SimulationError
from ..ptx.types import Addresses
from ..units.tcgen05.footprint import PLACE_LANES, PLACES, Footprint
from ..units.tcgen05.memory import COLUMNS, TensorMemory
from .divergence import Fragment
from .machine import Machine
from .underway import Access, Underway

AccessKind = Literal["ld", "st"]
CtaGroup = Literal[1, 2]


class TensorThread:
    """A warp as tensor memory sees it: its accesses that it has not waited for, the moments of its last fences."""

    def __init__(self, identity: int, who: str) -> None:
        self.identity, self.who = identity, who
        self.accesses: dict[AccessKind, list[tuple[Underway, Access]]] = {"ld": [], "st": []}
        self.fenced_before = self.fenced_after = 0

    def wait(self, kind: AccessKind) -> None:
        """tcgen05.wait: the accesses of a kind are over."""
        for underway, access in self.accesses[kind]:
            underway.end(access)
        self.accesses[kind].clear()


class _Latest:
    """Per place the moment of the latest access and the warp that made it."""

    def __init__(self) -> None:
        self.moment = np.zeros(PLACES, np.int64)
        self.warp = np.full(PLACES, -1, np.int32)

    def note(self, places: Addresses, moment: int, warp: int) -> None:
        self.moment[places] = moment
        self.warp[places] = warp

    def forget(self, places: Addresses) -> None:
        self.moment[places] = 0


class TensorOrder:
    """The accesses to one CTA's tensor memory, in places of `footprint`. A fence that is missing is an error for kernels
    that say what they are, and a warning for anybody else's, as the chip has not been seen to need them."""

    def __init__(self, machine: Machine, names: Names) -> None:
        self.machine, self.names = machine, names
        self.threads: dict[int, TensorThread] = {}  # those that have loaded or stored, by identity
        self.pipe, self.registers = Underway(PLACES), Underway(PLACES)
        self.piped, self.fed = _Latest(), _Latest()  # last written and last read by the pipe
        self.stored, self.loaded = _Latest(), _Latest()
        self.filled_by = np.full(PLACES, -1, np.int32)
        self.recent: list[Addresses] = []

    # ---- the pipe

    def begin_piped(self, thread: TensorThread, footprint: Footprint, what: str) -> Access:
        """An mma or cp is issued; one with another in the pipe is in order."""
        access = Access(what, thread.who, footprint.reads, footprint.writes)
        self._refuse(self.registers.writer(footprint.reads), str(access), "tcgen05.wait::st")
        self._refuse(self.registers.writer(footprint.writes), str(access), "tcgen05.wait::st")
        self._refuse(self.registers.reader(footprint.writes), str(access), "tcgen05.wait::ld")
        self._fenced(thread, footprint.reads, self.stored, str(access))
        self._fenced(thread, footprint.writes, self.stored, str(access))
        self._fenced(thread, footprint.writes, self.loaded, str(access))
        if footprint.writes.size:
            self.recent.append(footprint.writes)
        return self.pipe.begin(access)

    def end_piped(self, access: Access) -> None:
        moment = self.machine.tick()
        self.pipe.end(access)
        self.piped.note(access.writes, moment, -1)
        self.fed.note(access.reads, moment, -1)

    def handed_over(self, barrier: int) -> None:
        """A commit to the full barrier of a pipeline: what the pipe wrote since belongs to its stage."""
        name = self.names.barrier(barrier)
        if name is not None and name.side == "full":
            for places in self.recent:
                self.filled_by[places] = barrier
            self.recent.clear()

    # ---- registers

    def load(self, thread: TensorThread, places: Addresses, what: str) -> None:
        self._refuse(self.pipe.writer(places), what, "tcgen05.commit")
        self._refuse(self.registers.writer(places), what, "tcgen05.wait::st")
        self._fenced(thread, places, self.piped, what)
        self._fenced(thread, places, self.stored, what)
        self.loaded.note(places, self.machine.tick(), thread.identity)
        self._begin(thread, "ld", Access(what, thread.who, reads=places))

    def store(self, thread: TensorThread, places: Addresses, what: str) -> None:
        self._refuse(self.pipe.writer(places) or self.pipe.reader(places), what, "tcgen05.commit")
        self._refuse(self.registers.reader(places), what, "tcgen05.wait::ld")
        for latest in (self.piped, self.fed, self.stored, self.loaded):
            self._fenced(thread, places, latest, what)
        self.stored.note(places, self.machine.tick(), thread.identity)
        self._begin(thread, "st", Access(what, thread.who, writes=places))

    def _begin(self, thread: TensorThread, kind: AccessKind, access: Access) -> None:
        self.threads[thread.identity] = thread
        thread.accesses[kind].append((self.registers, self.registers.begin(access)))

    # ---- allocation

    def check_unused(self, base: int, columns: int) -> None:
        """Columns are about to be given back."""
        places = _columns(base, columns)
        found = self.registers.reader(places)
        self._refuse(found, "tcgen05.dealloc", "tcgen05.wait::ld")
        self._refuse(self.registers.writer(places), "tcgen05.dealloc", "tcgen05.wait::st")
        for latest in (self.piped, self.fed, self.stored, self.loaded):
            latest.forget(places)
        self.filled_by[places] = -1

    # ---- verdicts

    def _refuse(self, found: tuple[Access, int] | None, what: str, wait: str) -> None:
        if found is None:
            return
        access, place = found
        raise SimulationError(
            "race",
            f"{what} at {_where(place)} while {access} is not finished: no {wait} stands between them",
            details={"filled_by": int(self.filled_by[place])},
        )

    def _fenced(self, thread: TensorThread, places: Addresses, latest: _Latest, what: str) -> None:
        moment, other = latest.moment[places], latest.warp[places]
        foreign = (moment > 0) & (other != thread.identity)
        if not foreign.any():
            return
        unordered = foreign & (moment > thread.fenced_after)
        if unordered.any():
            place = int(places[unordered][0])
            self._complain(
                f"{what} at {_where(place)} follows the work of another thread with no tcgen05.fence::after_thread_sync "
                "since it was done",
                place,
            )
            return
        for identity in np.unique(other[foreign & (other >= 0)]).tolist():
            author = self.threads[identity]
            mine = foreign & (other == identity) & (moment > author.fenced_before)
            if mine.any():
                place = int(places[mine][0])
                self._complain(
                    f"{what} at {_where(place)} follows an access of {author.who}, "
                    "which has not executed tcgen05.fence::before_thread_sync since",
                    place,
                )
                return

    def _complain(self, message: str, place: int) -> None:
        if self.machine.strict_fences:
            raise SimulationError("race", message, details={"filled_by": int(self.filled_by[place])})
        self.machine.warn(message)


def _columns(base: int, columns: int) -> Addresses:
    first = base & 0xFFFF
    rows = np.arange(0, PLACES, COLUMNS)
    return (rows[:, None] + np.arange(first, min(first + columns, COLUMNS))).reshape(-1)


def _where(place: int) -> str:
    lane = place // COLUMNS * PLACE_LANES
    return f"tensor memory lanes {lane}..{lane + PLACE_LANES - 1}, column {place % COLUMNS}"


@dataclass(eq=False)
class TensorState:
    """Tensor memory of a CTA and who uses it how."""

    order: TensorOrder
    memory: TensorMemory = field(default_factory=TensorMemory)
    group: CtaGroup | None = None
    collectors: dict[str, int] = field(default_factory=dict)  # buffer -> the operand that filled it
    waiting: list[Fragment] = field(default_factory=list)
    outstanding: int = 0

    def check_released(self, cta: str) -> None:
        leaks = self.memory.leaks()
        if leaks:
            blocks = ", ".join(f"{columns} columns at 0x{base:x}" for base, columns in leaks.items())
            raise SimulationError(
                "leaked_tmem", f"{cta} exits without deallocating tensor memory: {blocks}", details={"blocks": leaks}
            )
