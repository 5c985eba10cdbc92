"""Tensor memory of a CTA and who may access it when (PTX ISA 9.7.16.6): rules whose violation no result shows if the timing is
favourable.

mma and cp go through the tensor pipe in issue order and are complete once a later commit has been observed; tcgen05.ld and st are
complete once the warp has waited for them. Order between threads also requires tcgen05.fence::before_thread_sync and
::after_thread_sync.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from pipec.blocked_waits import Names
from pipec.record import field, mutable, replace

from ...compiled.pieces import distinct
from ...errors import SimulationError
from ...ptx.types import Addresses
from ...units.layouts import Reading
from ...units.products import Product
from ...units.tcgen05.footprint import PLACE_LANES, PLACES, Footprint
from ...units.tcgen05.memory import COLUMNS, TensorMemory
from ..races.clocks import Agent
from ..races.detector import Races
from ..races.ledger import NOBODY, Access
from ..races.missing import DEALLOCATION
from ..races.shadow import Shadow
from ..races.sums import Sums
from ..races.thread import Thread
from ..threads.divergence import Fragment

CtaGroup = Literal[1, 2]


class TensorOrder:
    """The accesses to one CTA's tensor memory, in places of `footprint`; `races` None: no checks. `whole`: whether something has been
    written to each row of an operand."""

    def __init__(self, races: Races | None, names: Names, whole: Callable[[Reading], bool]) -> None:
        self.races, self.names, self.whole = races, names, whole
        self.shadow = Shadow("tensor", PLACES, 1, _where)
        self.shadow.filled_by = lambda place: int(self.filled_by[place])
        if races is not None:
            races.shadows.add(self.shadow)
        self.filled_by = np.full(PLACES, -1, np.int32)
        self.recent: list[Addresses] = []
        self.sums = Sums(races.layouts.misread if races is not None else None)

    def pipe(self, thread: Thread, reading: Access, footprint: Footprint) -> None:
        """An mma or cp is issued, with its reads described by `reading`."""
        if self.races is None:
            return
        if footprint.reads.size:
            self._begin(thread, reading, footprint.reads)
        if footprint.writes.size:
            if footprint.product is not None and not footprint.product.accumulates:
                self._end_of_sums(footprint.writes, reading, footprint.product)
            self._begin(thread, _writing(reading), footprint.writes)
            self.recent.append(footprint.writes)

    def _end_of_sums(self, places: Addresses, access: Access | None = None, product: Product | None = None) -> None:
        """Sums at these places are given back, or an mma starts new ones there: all of the old ones, or none, should have been read."""
        writers, readers = self.shadow.cells
        if self.races is None or not self.shadow.writes.size:
            return
        found = distinct(writers[places])
        for number in found - {NOBODY}:
            (before, *_) = self.races.sets.members(number)
            if not before.what.startswith("tcgen05.mma"):
                continue
            own = places[writers[places] == number]
            unread = readers[own] == NOBODY
            if not unread.all() and unread.any():
                if _crossed(own, unread) or self.sums.of_parts(before, self.whole):
                    continue
                reader = self.races.sets.members(int(readers[own[~unread]][0]))[-1]
                self.sums.partly_read(before, reader, self.shadow.place(int(own[unread][0])))
            elif unread.all() and access is not None and product is not None and len(found) == 1:
                self.sums.lost(before, access, product)

    def added(self, access: Access, product: Product) -> None:
        """An mma or cp of the CTA or its pair is issued."""
        self.sums.added(access, product, product.d.place)

    def handed_over(self, barrier: int) -> None:
        """A commit to the full barrier of a pipeline: the pipe's writes since the last one belong to its stage."""
        name = self.names.barrier(barrier)
        if name is not None and name.side == "full":
            for places in self.recent:
                self.filled_by[places] = barrier
            self.recent.clear()

    def load(self, thread: Thread, pc: int, places: Addresses) -> None:
        self._registers(thread, pc, places, "ld", "tcgen05.ld", False)

    def store(self, thread: Thread, pc: int, places: Addresses) -> None:
        self._registers(thread, pc, places, "st", "tcgen05.st", True)
        self.sums.forget()

    def _registers(self, thread: Thread, pc: int, places: Addresses, agent: Agent, what: str, writes: bool) -> None:
        time = thread.time
        self._begin(thread, Access(what, thread, pc, time, writes, "tensor", thread.issue(agent)), places)

    def _begin(self, thread: Thread, access: Access, places: Addresses) -> None:
        if self.races is not None:
            self.races.begin(thread, access, self.shadow, places)

    def give_back(self, thread: Thread, pc: int, base: int, columns: int) -> None:
        """Columns are deallocated: all accesses to them must be complete."""
        places = _columns(base, columns)
        self._end_of_sums(places)
        self.sums.forget()
        thread.touched = True
        self._begin(thread, Access(DEALLOCATION, thread, pc, thread.time, True, "tensor"), places)
        self.filled_by[places] = -1

    def allocated(self, base: int, columns: int) -> None:
        """Earlier users of these columns have been waited for."""
        if self.races is not None:
            self.races.forget(self.shadow, _columns(base, columns))


def _writing(reading: Access) -> Access:
    return replace(reading, writes=True)


def _crossed(places: Addresses, unread: np.ndarray) -> bool:
    """Whether something is read of each lane and of each column, as where several products stand on the diagonal of one."""
    lanes, columns, read = places // COLUMNS, places % COLUMNS, ~unread
    return distinct(lanes[read]) == distinct(lanes) and distinct(columns[read]) == distinct(columns)


def _columns(base: int, columns: int) -> Addresses:
    first = base & 0xFFFF
    rows = np.arange(0, PLACES, COLUMNS)
    return (rows[:, None] + np.arange(first, min(first + columns, COLUMNS))).reshape(-1)


def _where(place: int) -> str:
    lane = place // COLUMNS * PLACE_LANES
    return f"tensor memory lanes {lane}..{lane + PLACE_LANES - 1}, column {place % COLUMNS}"


@mutable(eq=False)
class TensorState:
    """Tensor memory of a CTA and its accesses."""

    order: TensorOrder
    memory: TensorMemory
    group: CtaGroup | None = None
    collectors: dict[str, int] = field(default_factory=dict)  # buffer -> the operand that filled it
    waiting: list[Fragment] = field(default_factory=list)
    draining: list[Fragment] = field(default_factory=list)  # that give memory back once nothing is outstanding
    outstanding: int = 0
    allocators: dict[int, Callable[[SimulationError], SimulationError]] = field(
        default_factory=dict
    )  # by base, add their location

    def completed(self) -> None:
        """One more of the outstanding operations is."""
        self.outstanding -= 1
        if not self.outstanding:
            for fragment in self.draining:
                fragment.wait = None
            self.draining.clear()

    def leak(self, cta: str) -> SimulationError | None:
        """The error of a CTA that has exited with allocated tensor memory."""
        leaks = self.memory.leaks()
        if not leaks:
            return None
        blocks = ", ".join(f"{columns} columns at 0x{base:x}" for base, columns in leaks.items())
        message = f"{cta} exits without deallocating tensor memory: {blocks}"
        error = SimulationError("leaked_tmem", message, details={"blocks": leaks})
        return self.allocators[min(leaks)](error)
