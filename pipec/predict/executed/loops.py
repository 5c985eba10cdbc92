"""What a replay shows, in the words of the PTX: where warps wait, and the pace of loops."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pipec.predict.executed.replay import Replay
from pipec.record import record
from pipec.sim.ptx.tree import Instruction


@record
class Text:
    """The instructions of a kernel; `back`: branches to an earlier one, with their targets; `labels` by program counter; `location` in
    the source of what it was compiled from, by line of the PTX."""

    items: Sequence[Instruction]
    back: Mapping[int, int]
    labels: Mapping[int, str]
    location: Mapping[int, str]

    def place(self, pc: int, part: float) -> "Place":
        item = self.items[pc]
        return Place(item.line, self.location.get(item.line, ""), item.opcode, part)


@record
class Place:
    """The `part` of some time that passes at the instruction in this line of the PTX."""

    line: int
    location: str
    opcode: str
    part: float


@record
class Loop:
    """One warp's way through a loop: `trips` of `period` cycles each, of which units of the multiprocessor are busy for some for this
    block (`parts`) and the warp waits at some places (parts of the period)."""

    label: str
    line: int
    location: str
    trips: int
    period: float
    parts: Mapping[str, float]
    waits: tuple[Place, ...]


_LEAST = 3  # trips from which there is a pace
_MOST = 3  # loops that are told


def waits_at(replay: Replay, text: Text) -> tuple[Place, ...]:
    cycles: dict[int, float] = defaultdict(float)
    for one in replay.waits:
        cycles[one.pc] += one.end - one.start
    whole = sum(cycles.values()) + replay.worked
    rows = sorted(cycles.items(), key=lambda row: -row[1])
    return tuple(text.place(pc, waited / whole) for pc, waited in rows if whole and 0 <= pc < len(text.items))


def paces(replay: Replay, text: Text, held: int) -> tuple[Loop, ...]:
    """The longest first, each as the warp that spends most time in it sees it."""
    longest: dict[int, tuple[float, tuple[int, int, int]]] = {}
    for key, times in replay.trips.items():
        if len(times) > _LEAST:
            longest[key[2]] = max(longest.get(key[2], (0.0, key)), (times[-1] - times[0], key))
    chosen = sorted(longest.values(), reverse=True)[:_MOST]
    return tuple(_loop(replay, text, held, *key) for _, key in chosen)


def _loop(replay: Replay, text: Text, held: int, rank: int, index: int, pc: int) -> Loop:
    times = replay.trips[rank, index, pc]
    first, last, trips = times[0], times[-1], len(times) - 1
    parts: dict[str, float] = defaultdict(float)
    for stretch in replay.stretches:
        if stretch.track in ("products", "copies") and stretch.end > first and stretch.start < last:
            parts[stretch.track] += (min(stretch.end, last) - max(stretch.start, first)) / trips / held
    waited: dict[int, float] = defaultdict(float)
    for one in replay.waits:
        if not one.block and (one.rank, one.warp) == (rank, index) and one.end > first and one.start < last:
            waited[one.pc] += one.end - one.start
    target = text.back[pc]
    item = text.items[target]
    rows = sorted(waited.items(), key=lambda row: -row[1])
    return Loop(
        text.labels.get(target, ""),
        item.line,
        text.location.get(item.line, ""),
        trips,
        (last - first) / trips,
        dict(parts),
        tuple(text.place(at, cycles / (last - first)) for at, cycles in rows),
    )
