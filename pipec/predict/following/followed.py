"""The blocks followed on one multiprocessor: long loops and many tiles are truncated and extrapolated at their pace."""

from collections.abc import Callable, Iterator, Mapping
from math import ceil, lcm
from typing import NamedTuple

from pipec.garbage import uncollected
from pipec.interface import MULTIPROCESSORS
from pipec.kir.plan.types import Plan
from pipec.kir.walk import subexpressions
from pipec.predict.conditions import Conditions
from pipec.predict.counting import most_loads
from pipec.predict.device import Device
from pipec.predict.following.events import Event, steps
from pipec.predict.following.main_loops import main_loops
from pipec.predict.following.run import Multiprocessor
from pipec.predict.following.uses import Stretch
from pipec.predict.following.values import Known, Values
from pipec.predict.tile_loops import goes_over_tiles, operations_in
from pipec.predict.workload import Workload
from pipec.record import record
from pipec.sema import tree

_LONGEST = 24  # iterations that are followed; longer loops are extrapolated from their last ones
_STEADY = 8  # iterations after which a loop is steady, if its rings have completed as many laps by then
_LAPS = 2
_MORE = (
    12  # iterations over which the pace is measured, in whole laps; twelve, since some loops have a period of two, three or four
)
_FEW_TILES = 2  # tiles after which the pace between tiles is steady


@record
class Launched:
    """`grid` in blocks, `blocks` their number, `held` those on a multiprocessor at a time."""

    kernel: tree.Kernel
    plan: Plan
    sizes: Mapping[str, int]
    device: Device
    work: Workload
    grid: tuple[int, int, int]
    blocks: int
    held: int
    stages: Mapping[str, int]  # numbers of stages that differ from the declaration


class Followed:
    """Blocks that share a multiprocessor. Long loops and many tiles are truncated and extrapolated at their pace: a block's time is
    linear in both once the rings are full."""

    def __init__(self, launch: Launched, blocks: int, around: Conditions, *, drawn: bool) -> None:
        self._launch, self._blocks, self._conditions, self._drawn = launch, blocks, around, drawn
        self._runs: list[_Run] = []
        self._lengths: tuple[_Run, _Run] | None = None  # two that differ only in the length of their loops
        self.tiles = tiles = _tiles(launch)
        most = _FEW_TILES if tiles > _FEW_TILES + 1 else None
        shorter = _shortened(launch, tiles, most)
        whole = self._along(shorter) if most is None else self._of_tiles(shorter, tiles, most)
        self.cycles = whole(lambda run: run.cycles)

        def share(part: str) -> float:
            return max(0.0, whole(lambda run: run.parts.get(part, 0.0))) / (self.cycles or 1.0)

        shares = {part: share(part) for part in dict.fromkeys(part for run in self._runs for part in run.parts)}
        self.shares = dict(sorted(shares.items(), key=lambda item: -item[1]))
        self.assumed = [span for block in self.around.blocks for span in block.assumed]
        self.loops = tuple(main_loops(self.around.blocks[0], self._paces()))
        self.around.blocks.clear()  # they refer back to it

    def _along(self, shorter: "_Shorter | None") -> "_Whole":
        """Extrapolates a quantity of the runs to the launch, for any length of the loops."""
        sizes = self._launch.sizes
        if shorter is None:
            run = self._last(sizes, None)
            return lambda of: of(run)
        before = self._follow({**sizes, shorter.dimension: shorter.few}, None)
        after = self._last({**sizes, shorter.dimension: shorter.more}, None)
        self._lengths = before, after
        if shorter.trips is not None:
            more = (shorter.trips - after.trips) / max(1, after.trips - before.trips)
        else:
            more = (sizes[shorter.dimension] - shorter.more) / (shorter.more - shorter.few)
        return lambda of: of(after) + (of(after) - of(before)) * more

    def _of_tiles(self, shorter: "_Shorter | None", tiles: int, most: int) -> "_Whole":
        """Tiles have a pace of their own, which is as linear in the length of their loops as the time of the first ones."""
        sizes = self._launch.sizes
        if shorter is None:
            few, more = self._follow(sizes, most), self._last(sizes, most + 1)
            return lambda of: of(more) + (of(more) - of(few)) * (tiles - most - 1)
        short = {**sizes, shorter.dimension: shorter.few}
        before, after = self._follow(short, most), self._follow(short, most + 1)
        longer = self._last({**sizes, shorter.dimension: shorter.more}, most)
        self._lengths = before, longer
        if shorter.trips is not None:
            trips, each = shorter.trips - before.trips, max(1, longer.trips - before.trips)
            # The trips of each further tile must not count twice.
            trips -= (after.trips - before.trips) * (tiles - most)
            return lambda of: of(before) + (of(after) - of(before)) * (tiles - most) + (of(longer) - of(before)) / each * trips
        longer_by = (sizes[shorter.dimension] - shorter.few) / (shorter.more - shorter.few) * tiles / most
        return lambda of: of(after) + (of(longer) - of(before)) * longer_by + (of(after) - of(before)) * (tiles - most - 1)

    def _paces(self) -> dict[tuple[str, tree.Pipeline], float]:
        """Cycles per use of each ring, from the difference between longer and shorter loops; none if nothing was truncated, or if blocks
        that share the multiprocessor have not settled yet."""
        if self._lengths is None or self._blocks > 1:
            return {}
        before, after = self._lengths
        more = {ring: count - before.uses.get(ring, 0) for ring, count in after.uses.items()}
        return {ring: (after.cycles - before.cycles) / count for ring, count in more.items() if count > 0}

    def _last(self, sizes: Mapping[str, int], tiles: int | None) -> "_Run":
        """Of all runs, the one whose loops are inspected, and which is drawn."""
        return self._follow(sizes, tiles, drawn=self._drawn)

    def _follow(self, sizes: Mapping[str, int], tiles: int | None, *, drawn: bool = False) -> "_Run":
        launch = self._launch
        if self._runs:
            self.around.blocks.clear()
        self.around: Multiprocessor = Multiprocessor(launch.device, self._conditions, launch.stages, drawn=drawn)
        for number in range(self._blocks):
            values = Values(sizes, _specials(launch, number))
            self.around.add(launch.kernel, launch.plan, values, _granted(launch, number), tiles)
        # There are many long-lived events without reference cycles: garbage collection takes longer than they do.
        with uncollected():
            self._end = self.around.run()
        uses = {ring: len(marks) for ring, marks in self.around.blocks[0].marks.items()}
        run = _Run(self._end.time, max(self.around.loaded.values(), default=0), uses, _parts(self._end))
        self._runs.append(run)
        return run

    def stretches(self) -> tuple[Stretch, ...]:
        """Marks those on the critical path; roles in declaration order, before the engines."""
        ends = {round(event.time, 3) for event in self._end.path() if event.cycles}
        critical = [
            one._replace(critical=True) for one in self.around.stretches if round(one.end, 3) in ends and "wait" not in one.what
        ]
        others = [one for one in self.around.stretches if round(one.end, 3) not in ends or "wait" in one.what]
        order = {role.name: place for place, role in enumerate(self._launch.kernel.roles)}
        return tuple(sorted((*others, *critical), key=lambda one: (one.block, order.get(one.track, len(order)))))


def _parts(end: Event) -> dict[str, float]:
    """Cycles of the critical path by category."""
    found: dict[str, float] = {}
    for step in steps(end, 0.0):
        name = f"{step.reason.kind} ({step.reason.where})"
        found[name] = found.get(name, 0.0) + step.cycles
    return found


def _specials(launch: Launched, number: int) -> dict[str, int]:
    """For the leading block, and for its neighbours."""
    x, y, _ = (max(1, extent) for extent in launch.grid)
    lead, step = launch.work.lead, launch.kernel.cluster.shape[0]
    at = [lead % x, lead // x % y, lead // x // y]
    at[0] = next((place for place in (at[0] + number * step, at[0] - number * step) if 0 <= place < x), at[0])
    found = {MULTIPROCESSORS: launch.device.machine.multiprocessors, "cta.rank": 0}
    for axis, place, extent, size in zip("xyz", at, launch.grid, launch.kernel.cluster.shape, strict=True):
        found |= {f"block.{axis}": place, f"grid.{axis}": extent, f"cta.{axis}": 0}
        found |= {f"cluster.{axis}": place // size, f"clusters.{axis}": extent // size}
    return found


def _is_granted(launch: Launched) -> bool:
    schedule = launch.kernel.schedule
    return schedule is not None and schedule.mode == "clc"


def _granted(launch: Launched, number: int) -> list[int]:
    """The tiles that a tile scheduler grants to a worker if all are equally fast."""
    if not _is_granted(launch):
        return []
    size = launch.kernel.cluster.size
    workers = max(1, launch.device.machine.multiprocessors * launch.held // size)
    return list(range(number + workers, launch.blocks // size, workers))


def _tiles(launch: Launched) -> int:
    """The number of tiles of the first block."""
    values = Values(launch.sizes, _specials(launch, 0))
    found = 1 + len(_granted(launch, 0))
    for role in launch.kernel.roles:
        known: Known = {}
        for statement in role.body:
            match statement:
                case tree.Assign():
                    known[statement.variable] = values.of(statement.value)(known)
                case tree.For() if goes_over_tiles(statement):
                    start, stop = values.of(statement.start)(known), values.of(statement.stop)(known)
                    if start is not None and stop is not None:
                        found = max(found, len(range(int(start), int(stop), statement.step)))
                case _:
                    pass
    return found


class _Run(NamedTuple):
    """`trips`: how often the first block executed its most frequent load; `uses`: how often each of its roles used a ring; `parts`: the
    cycles by category."""

    cycles: float
    trips: int
    uses: Mapping[tuple[str, tree.Pipeline], int]
    parts: Mapping[str, float]


# Extrapolates a quantity of the runs to the whole launch.
_Whole = Callable[[Callable[[_Run], float]], float]


class _Shorter(NamedTuple):
    """Two reduced sizes of a dimension that leave loops along it their pace. If a mask shortens loops, so that they are not linear in
    it: `trips` of the most frequent load at the full size."""

    dimension: str
    few: int
    more: int
    trips: float | None


def _shortened(launch: Launched, tiles: int, most: int | None) -> _Shorter | None:
    """None if all loops can be followed to their end."""
    of_one = 1 if _is_granted(launch) else tiles  # whose loops are in the workload
    trips = max((load.times for load in (*launch.work.loads, *launch.work.reads)), default=0.0) / of_one
    if trips * (1 if most is None else most) <= _LONGEST:
        return None
    names = {name for role in launch.kernel.roles for name in _bounding(role) if launch.sizes.get(name, 0) > 1}
    if not names:
        return None
    dimension = max(sorted(names), key=lambda name: launch.sizes[name])  # sorted: of equal ones the same in every process
    size = launch.sizes[dimension]
    unit = 1
    while unit * trips < _NEARLY * size:
        unit *= 2
    lap = _lap(launch)
    few = size % (unit * lap) + unit * lap * max(_LAPS, ceil(_STEADY / lap))
    unit *= lap * ceil(_MORE / lap)
    # The number of tiles followed, as in _along and _of_tiles.
    whole, short, long = (1, 1, 1) if most is None else (2 * most + 1, 2 * most + 1, most)
    if short * few + long * (few + unit) >= whole * size:
        return None
    multiprocessors, lead = launch.device.machine.multiprocessors, launch.work.lead
    fewest, fewer, trips = (
        most_loads(launch.kernel, {**launch.sizes, dimension: extent}, multiprocessors, launch.grid, lead)
        for extent in (few, few + unit, size)
    )
    if fewer <= fewest:
        return None
    linear = fewer + (fewer - fewest) / unit * (size - few - unit)
    return _Shorter(dimension, few, few + unit, None if abs(linear - trips) < _LINEAR * trips else trips * tiles / of_one)


def _lap(launch: Launched) -> int:
    """Iterations after which all loaded rings are at the same position: stages differ by when they were first filled, so the pace is
    that of whole laps."""
    stages = launch.work.stages.values()
    together = lcm(*stages)
    return together if together <= _LONG_LAP else max(stages)


_LONG_LAP = 32
_NEARLY = 0.9  # one of a few trips may be before or after its loop
_LINEAR = 0.05


def _bounding(role: tree.Role) -> set[str]:
    """Dimensions that bound the role's loops, except those over tiles; also through variables."""
    assigned = {one.variable: one.value for one in operations_in(role.body) if isinstance(one, tree.Assign)}
    loops = (loop for loop in _loops(role.body) if not goes_over_tiles(loop))
    nodes = (node for loop in loops for node in subexpressions(loop.stop, assigned))
    return {node.name for node in nodes if isinstance(node, tree.ReadDimension)}


def _loops(body: tuple[tree.Statement, ...]) -> Iterator[tree.For]:
    for statement in body:
        match statement:
            case tree.For():
                yield statement
                yield from _loops(statement.body)
            case tree.While() | tree.Elect():
                yield from _loops(statement.body)
            case tree.If():
                yield from _loops(statement.then)
                yield from _loops(statement.otherwise)
            case _:
                pass
