"""What has been recorded of a cluster so far, and the wrapping of instructions that record."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from pipec.predict.executed.happenings import Happening, Kind, Passes, Signal
from pipec.predict.executed.traffic import Traffic
from pipec.predict.workload import SECTOR_BYTES
from pipec.sim.machine.machine import Machine
from pipec.sim.machine.program import Execute
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Outcome, Wait


class Unrecorded(Exception):
    """The time of this instruction is not known; in which line, and what."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class Log:
    def __init__(self) -> None:
        self.streams: dict[tuple[int, int], list[Happening]] = {}
        self.expected: dict[Signal, int] = defaultdict(int)
        self.met: dict[tuple[int, int], int] = defaultdict(int)  # (rank, barrier) -> threads that have arrived so far
        self.products: dict[tuple[int, int], int] = defaultdict(int)  # (rank, warp) -> its wgmma so far
        self.traffic = Traffic()
        self.columns = 0
        self.loaded: dict[int, dict[int, float]] = defaultdict(dict)  # by rank, sector -> bytes that the block had loaded then
        self.amount: dict[int, float] = defaultdict(float)  # by rank, bytes loaded so far
        self.passes: dict[int, list[Passes]] = defaultdict(list)  # by program counter
        self.machine: Machine | None = None

    def add(self, warp: Warp, pc: int, kind: Kind, **more: Any) -> None:
        key = warp.cta.rank, warp.index
        found = self.streams.get(key)
        if found is None:
            found = self.streams[key] = []
        found.append(Happening(pc, kind, **more))

    def loads(self, rank: int, sectors: list[int]) -> tuple[float, float]:
        """How many bytes of these a block has loaded before, and how many bytes ago at most."""
        loaded, now = self.loaded[rank], self.amount[rank]
        before = [loaded[one] for one in sectors if one in loaded]
        loaded.update(dict.fromkeys(sectors, now))
        self.amount[rank] = now + len(sectors) * SECTOR_BYTES
        return float(len(before) * SECTOR_BYTES), now - min(before, default=now)

    def expect(self, signals: Iterable[Signal]) -> tuple[Signal, ...]:
        found = tuple(signals)
        for signal in found:
            self.expected[signal] += 1
        return found


def plain(tell: Callable[[Warp], None], after: bool = False) -> Callable[[Execute], Execute]:
    """`tell` records, before the instruction or after it; of one that blocks and is executed again, once."""

    def make(execute: Execute) -> Execute:
        def watched(warp: Warp) -> Outcome:
            if not after:
                tell(warp)
                return execute(warp)
            outcome = execute(warp)
            if not (isinstance(outcome, Wait) and outcome.retry):
                tell(warp)
            return outcome

        return watched

    return make
