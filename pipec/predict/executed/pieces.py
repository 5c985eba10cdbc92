"""Recordings as pieces: straight code between two places where a warp may have waited, what happens on the way, and what ends it."""

from collections.abc import Mapping, Sequence

from pipec.predict.device import Device
from pipec.predict.executed.happenings import Happening, Passes, Stream
from pipec.predict.executed.regions import Region, region
from pipec.sim.ptx.tree import Instruction

# Happenings after which a warp may have waited: a region of code ends there.
_ENDING = frozenset(("step", "use", "await", "wait", "meet", "exchange", "sleep"))


class Program:
    """The instructions of a kernel: those that were `watched`, or `skipped` where their guard is false; `back`: branches to an earlier
    one, with their targets; `passes`: of accesses to shared memory."""

    def __init__(
        self,
        items: Sequence[Instruction],
        watched: Sequence[int],
        skipped: frozenset[int],
        back: Mapping[int, int],
        passes: Mapping[int, Passes],
        device: Device,
    ) -> None:
        self.back = back
        self.items, self._device, self._skipped, self._passes = items, device, skipped, passes
        self._watched = sorted(watched)
        self._following = dict(zip(self._watched, self._watched[1:], strict=False))
        self._regions: dict[tuple[int, ...], Region] = {}
        self._pieces: dict[int, tuple[Stream, list[Piece]]] = {}

    def straight(self, before: int, here: int) -> bool:
        """Whether a warp went from one watched place to the other without passing a third: those in between may have been skipped only
        if their guard was false."""
        at = self._following.get(before, here) if before in self._following else before + 1
        if before == here:
            return False
        while at < here:
            if at in self._following and at not in self._skipped:
                return False
            at = self._following.get(at, here)
        return before < here

    def pieces_of(self, stream: Stream) -> list["Piece"]:
        found = self._pieces.get(id(stream))
        if found is None:
            found = self._pieces[id(stream)] = stream, _pieces(stream, self)
        return found[1]

    def region(self, ranges: Sequence[tuple[int, int]]) -> Region:
        key = tuple(edge for one in ranges for edge in one)
        found = self._regions.get(key)
        if found is None:
            pcs = [pc for first, last in ranges for pc in range(first, last + 1)]
            found = self._regions[key] = region(self.items, pcs, self._passes, self._device)
        return found


class Piece:
    """A region of code with what happens on the way, and what ends it; `returns`: by a branch back that is taken."""

    __slots__ = ("ending", "on_the_way", "region", "returns")

    def __init__(self, region: Region, on_the_way: list[Happening], ending: Happening | None, returns: bool = False) -> None:
        self.region, self.on_the_way, self.ending, self.returns = region, on_the_way, ending, returns


def _pieces(stream: Stream, program: "Program") -> list[Piece]:
    found: list[Piece] = []
    ranges: list[tuple[int, int]] = []
    on_the_way: list[Happening] = []
    before: int | None = None
    for one, after in zip(stream.happenings, [*stream.happenings[1:], None], strict=True):
        here = one.pc
        first = 0 if before is None else before + 1
        straight = before is None or program.straight(before, here)
        if here != before:
            ranges.append((first, here) if straight else (here, here))
        before = here
        if one.kind not in _ENDING:
            on_the_way.append(one)
            continue
        target = program.back.get(here)
        returns = target is not None and after is not None and after.pc in (target, target - 1)
        found.append(Piece(program.region(ranges), on_the_way, one, returns))
        ranges, on_the_way = [], []
    if on_the_way:
        found.append(Piece(program.region(ranges), on_the_way, None))
    return found
