"""Who may touch tensor memory when (PTX ISA 9.7.16.6): the rules that no result shows when timing is kind.

mma and cp run in the tensor pipe from issue to completion; tcgen05.ld and st count as under way until the warp waits for
them. Between threads the order also needs tcgen05.fence::before_thread_sync and ::after_thread_sync.
"""

from __future__ import annotations

import numpy as np

from .errors import SimulationError
from .underway import Access, Underway
from .units.tcgen05.footprint import PLACE_LANES, PLACES, Footprint
from .units.tcgen05.memory import COLUMNS

_WARPS_PER_CTA = 64


class _Latest:
    """Per place the moment of the latest access and the warp that made it."""

    def __init__(self) -> None:
        self.moment = np.zeros(PLACES, np.int64)
        self.warp = np.full(PLACES, -1, np.int32)

    def note(self, places: np.ndarray, moment: int, warp: int) -> None:
        self.moment[places] = moment
        self.warp[places] = warp

    def forget(self, places: np.ndarray) -> None:
        self.moment[places] = 0


class TensorOrder:
    """The accesses to one CTA's tensor memory, in places of `footprint`. A fence that is missing is an error for kernels
    that say what they are, and a warning for anybody else's, as the chip has not been seen to need them."""

    def __init__(self, cta) -> None:
        self.cta = cta
        self.pipe, self.registers = Underway(PLACES), Underway(PLACES)
        self.piped, self.fed = _Latest(), _Latest()  # last written and last read by the pipe
        self.stored, self.loaded = _Latest(), _Latest()
        self.filled_by = np.full(PLACES, -1, np.int32)
        self.recent: list[np.ndarray] = []

    # ---- the pipe

    def begin_piped(self, warp, footprint: Footprint, what: str) -> Access:
        """An mma or cp is issued; one with another in the pipe is in order."""
        access = Access(what, warp.cta.program.names.who(warp.index), footprint.reads, footprint.writes)
        self._refuse(self.registers.writer(footprint.reads), str(access), "tcgen05.wait::st")
        self._refuse(self.registers.writer(footprint.writes), str(access), "tcgen05.wait::st")
        self._refuse(self.registers.reader(footprint.writes), str(access), "tcgen05.wait::ld")
        self._fenced(warp, footprint.reads, self.stored, str(access))
        self._fenced(warp, footprint.writes, self.stored, str(access))
        self._fenced(warp, footprint.writes, self.loaded, str(access))
        if footprint.writes.size:
            self.recent.append(footprint.writes)
        return self.pipe.begin(access)

    def end_piped(self, access: Access) -> None:
        moment = self.cta.machine.tick()
        self.pipe.end(access)
        self.piped.note(access.writes, moment, -1)
        self.fed.note(access.reads, moment, -1)

    def handed_over(self, barrier: int) -> None:
        """A commit to the full barrier of a pipeline: what the pipe wrote since belongs to its stage."""
        name = self.cta.program.names.barrier(barrier)
        if name is not None and name.side == "full":
            for places in self.recent:
                self.filled_by[places] = barrier
            self.recent.clear()

    # ---- registers

    def load(self, warp, places: np.ndarray, what: str) -> None:
        self._refuse(self.pipe.writer(places), what, "tcgen05.commit")
        self._refuse(self.registers.writer(places), what, "tcgen05.wait::st")
        self._fenced(warp, places, self.piped, what)
        self._fenced(warp, places, self.stored, what)
        self.loaded.note(places, self.cta.machine.tick(), warp.identity)
        self._begin(warp, "ld", Access(what, warp.cta.program.names.who(warp.index), reads=places))

    def store(self, warp, places: np.ndarray, what: str) -> None:
        self._refuse(self.pipe.writer(places) or self.pipe.reader(places), what, "tcgen05.commit")
        self._refuse(self.registers.reader(places), what, "tcgen05.wait::ld")
        for latest in (self.piped, self.fed, self.stored, self.loaded):
            self._fenced(warp, places, latest, what)
        self.stored.note(places, self.cta.machine.tick(), warp.identity)
        self._begin(warp, "st", Access(what, warp.cta.program.names.who(warp.index), writes=places))

    def _begin(self, warp, kind: str, access: Access) -> None:
        warp.tensor_accesses[kind].append((self, self.registers.begin(access)))

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

    def _fenced(self, warp, places: np.ndarray, latest: _Latest, what: str) -> None:
        moment, other = latest.moment[places], latest.warp[places]
        foreign = (moment > 0) & (other != warp.identity)
        if not foreign.any():
            return
        unordered = foreign & (moment > warp.tensor_after)
        if unordered.any():
            place = int(places[unordered][0])
            self._complain(
                f"{what} at {_where(place)} follows the work of another thread with no tcgen05.fence::after_thread_sync "
                "since it was done",
                place,
            )
            return
        for identity in np.unique(other[foreign & (other >= 0)]).tolist():
            author = self.cta.cluster.ctas[identity // _WARPS_PER_CTA].warps[identity % _WARPS_PER_CTA]
            mine = foreign & (other == identity) & (moment > author.tensor_before)
            if mine.any():
                place = int(places[mine][0])
                who = self.cta.program.names.who(author.index)
                self._complain(
                    f"{what} at {_where(place)} follows an access of {who}, "
                    "which has not executed tcgen05.fence::before_thread_sync since",
                    place,
                )
                return

    def _complain(self, message: str, place: int) -> None:
        machine = self.cta.machine
        if machine.strict_fences:
            raise SimulationError("race", message, details={"filled_by": int(self.filled_by[place])})
        machine.warn(message)


def _columns(base: int, columns: int) -> np.ndarray:
    first = base & 0xFFFF
    rows = np.arange(0, PLACES, COLUMNS)
    return (rows[:, None] + np.arange(first, min(first + columns, COLUMNS))).reshape(-1)


def _where(place: int) -> str:
    lane = place // COLUMNS * PLACE_LANES
    return f"tensor memory lanes {lane}..{lane + PLACE_LANES - 1}, column {place % COLUMNS}"
