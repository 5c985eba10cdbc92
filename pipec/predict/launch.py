"""A launch: how many blocks share a multiprocessor, how often, and what memory and power allow; around the events of one block."""

import gc
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from math import ceil, prod
from typing import NamedTuple

from pipec.diag.catalogue.commands import prediction as messages
from pipec.diag.message import Failure
from pipec.driver import Compilation
from pipec.interface import MULTIPROCESSORS
from pipec.kir.plan.types import Plan
from pipec.kir.walk import subexpressions
from pipec.predict.bounds import Wave, bounds_of, dram_bytes, staying, together
from pipec.predict.closed import estimate
from pipec.predict.conditions import Conditions, conditions
from pipec.predict.device import BY_ARCH, DEVICES, Device
from pipec.predict.events import Event, Step, steps
from pipec.predict.run import Block, Multiprocessor, Stretch, Unpredictable
from pipec.predict.sizes import sizes_of
from pipec.predict.values import Known, Values
from pipec.predict.workload import BLOCK_BYTES, SHARED_BYTES, Workload, goes_over_tiles, operations_in, workload
from pipec.record import record, replace
from pipec.sema import tree
from pipec.source import Span

_LONGEST = 160  # iterations that are followed; longer loops are continued from their last ones
_STEADY = 48  # iterations after which a loop has its pace
_FEW_TILES = 2  # after which tiles follow each other at their pace


@record
class MainLoop:
    """The loop around the products: `period` cycles for each use of a stage of `pipeline` by `role`, which `loader` fills.

    `engines`: cycles that each engine is busy for one use; `path`: the way from one use to the next, summed by reason.
    """

    role: str
    loader: str
    pipeline: tree.Pipeline
    period: float
    instructions: float  # of TMA, by the loading role for one use
    engines: Mapping[str, float]
    path: tuple[Step, ...]


@record
class Prediction:
    """`seconds` of a launch of `blocks` blocks, `held` of them on a multiprocessor at a time; `bounds` in seconds, each alone.

    `shares`: of the longest way through the first blocks, by what it goes to: how much would be gained were that for nothing.
    `stretches`: what their roles and engines did when. `assumed`: branches whose outcome is not known here and counted as taken.
    """

    kernel: str
    device: Device
    clock: float
    sizes: Mapping[str, int]
    blocks: int
    held: int
    cycles: float  # of a multiprocessor, from its first block's start to its last one's end
    seconds: float
    bounds: Mapping[str, float]
    work: Workload
    loops: tuple[MainLoop, ...]
    shares: Mapping[str, float]
    memory_bytes: float
    within: tuple[float, float]  # seconds: between them lie nine of ten kernels on record, or what is not known leaves them
    hidden_epilogue: float | None  # the part of the threads' storing during which products run; None where there are none
    stretches: tuple[Stretch, ...]
    assumed: tuple[Span, ...]

    @property
    def bound_by(self) -> str:
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def flops(self) -> float:
        """Multiplications and additions, of whatever type."""
        return self.work.operations

    @property
    def tensor_share(self) -> float:
        """Of the arithmetic that the tensor cores of all multiprocessors could do in that time, in 16-bit operations."""
        machine = self.device.machine
        return self.work.flops / (self.seconds * machine.multiprocessors * machine.product_flops * self.clock)

    @property
    def l2_bytes(self) -> float:
        """That copies and stores move through the L2: a multicast serves several CTAs at once."""
        return self.work.l2_bytes

    @property
    def last_wave(self) -> float:
        """The part of the multiprocessors' places that the last wave of blocks, or of tiles of blocks that stay, fills."""
        if self.work.stays:
            return self.work.last_wave
        return (self.waves - 1e-9) % 1.0 if self.waves > 1 else self.waves

    @property
    def waves(self) -> float:
        return self.blocks / (self.held * self.device.machine.multiprocessors)


def _hidden(stretches: tuple[Stretch, ...], tiles: int) -> float | None:
    """Of all `tiles` of a block; the first few were followed, and the last one's epilogue finds no products to run beside."""
    products = sorted((one.start, one.end) for one in stretches if one.track == "products")
    works = [(one.start, one.end) for one in stretches if one.what in _EPILOGUE]
    if not products or not works:
        return None
    if tiles > 1:
        last = products[-1][1]
        works = [work for work in works if work[0] < last] or works
    starts = [start for start, _ in products]
    hidden = 0.0
    for start, end in works:
        for begin, stop in products[max(0, bisect_right(starts, start) - 1) :]:
            if begin >= end:
                break
            hidden += max(0.0, min(end, stop) - max(start, begin))
    found: float = hidden / sum(end - start for start, end in works)
    return min(1.0, found) * ((tiles - 1) / tiles if tiles > 1 else 1.0)


_EPILOGUE = ("store", "write")


def prediction(
    state: Compilation,
    name: str,
    sizes: Mapping[str, int | str],
    device: str | None = None,
    clock: float | None = None,
    *,
    alone: bool = False,
) -> Prediction:
    """Of one kernel of a compilation that has its plans; `alone` without saying what it is worth. Raises Failure."""
    assert state.trees is not None and state.plans is not None
    kernel, plan = next(pair for pair in zip(state.trees, state.plans, strict=True) if pair[0].name == name)
    known = sizes_of(plan.interface, {dimension: str(size) for dimension, size in sizes.items()})
    try:
        on = _device(name, state.arch, device)
        return Launch(kernel, plan, known, on, clock).predict() if alone else between(kernel, plan, known, on, clock)
    except Unpredictable as unknown:
        raise Failure(messages.NotPredictable(kernel=name, what=unknown.what, at=unknown.at)) from None


def between(kernel: tree.Kernel, plan: Plan, sizes: Mapping[str, int], device: Device, clock: float | None) -> Prediction:
    """A prediction with what it is worth. Raises Unpredictable."""
    found = Launch(kernel, plan, sizes, device, clock).predict()
    part = next(part for most, part in device.spread if found.seconds <= most)
    least, most = found.seconds * (1 - part), found.seconds * (1 + part)
    if found.blocks > device.alone * device.machine.multiprocessors:
        # The closed form says by how much; following the blocks again for each extreme would take longer.
        usual = estimate(found.work, device).seconds
        for extreme in device.extremes:
            machine = replace(device.machine, flops=extreme.flops)
            other = replace(device, machine=machine, loaded_rate=extreme.loaded_rate, loaded=extreme.loaded)
            seconds = found.seconds * estimate(found.work, other).seconds / usual
            least, most = min(least, seconds), max(most, seconds)
    return replace(found, within=(least, most))


def _device(kernel: str, arch: str, name: str | None) -> Device:
    device = DEVICES.get(name.lower()) if name is not None else BY_ARCH[arch]
    if device is None or device.arch != arch:
        asked, runs = (device.name, device.arch) if device is not None else (f"`{name}`", "nothing here")
        raise Failure(messages.OtherDevice(kernel=kernel, arch=arch, device=asked, runs=runs))
    return device


class Launch:
    """One kernel with one set of sizes on one device. Raises Unpredictable."""

    def __init__(self, kernel: tree.Kernel, plan: Plan, sizes: Mapping[str, int], device: Device, clock: float | None) -> None:
        self.kernel, self.plan, self.sizes, self.device = kernel, plan, sizes, device
        self.clock = clock or device.clock
        machine = device.machine
        self.work = workload(kernel, sizes, machine.multiprocessors)
        self.grid = self._grid()
        self.blocks = prod(self.grid)
        # The plan knows what epilogues stage beside the pipelines' buffers.
        self.held = max(1, min(self.work.held, SHARED_BYTES // (plan.interface.shared_bytes + BLOCK_BYTES)))
        if plan.allocated_columns:
            self.held = max(1, min(self.held, plan.target.tensor_columns // plan.allocated_columns))
        schedule = kernel.schedule
        places = machine.multiprocessors * self.held
        # With cluster launch control a block takes over the tiles of those that then never start.
        self.running = min(self.blocks, places) if schedule is not None and schedule.mode == "clc" else self.blocks

    def predict(self) -> Prediction:
        first, waves = self._waves()
        cycles = sum(wave.cycles for wave in waves)
        bounds = bounds_of(self.work, self.device, waves, self.clock)
        seconds = self.device.launch + together(bounds, waves, self.clock)
        traffic = dram_bytes(self.work, self.device)
        return Prediction(
            self.kernel.name, self.device, self.clock, self.sizes, self.blocks, self.held, cycles, seconds, bounds, self.work, first.loops,
            first.shares, traffic, (0.0, 0.0), _hidden(first.stretches(), first.tiles), first.stretches(), tuple(first.assumed),
        )  # fmt: skip

    def _waves(self) -> tuple["_Run", list[Wave]]:
        """The first blocks followed, and what the launch consists of."""
        count, places = self.device.machine.multiprocessors, self.device.machine.at_a_time(self.work.cluster)
        if self._stays or self.running <= places:
            run = self._run(ceil(self.running / count), min(1.0, self.running / count))
            return run, staying(self.work, self.device, run.cycles) if self._stays else [Wave(run.cycles, 1.0)]
        run = self._run(self.held, 1.0)
        if self.work.evenness < _EVEN:
            # Blocks of unlike length follow each other without waiting for the longest; at the end some idle.
            cycles = run.cycles * self.work.evenness * (self.running / (places * self.held) + _IDLE)
            return run, [Wave(max(run.cycles, cycles), 1.0)]
        full, rest = divmod(self.running, places * self.held)
        waves = [Wave(run.cycles * full, 1 - rest / self.running)] if full else []
        if rest:
            waves.append(Wave(self._run(ceil(rest / places), min(1.0, rest / count)).cycles, rest / self.running))
        return run, waves

    @property
    def _stays(self) -> bool:
        return self.work.stays

    def _grid(self) -> tuple[int, int, int]:
        values = Values(self.sizes, {MULTIPROCESSORS: self.device.machine.multiprocessors})
        x, y, z = (values.of(extent)({}) for extent in self.kernel.grid)
        return int(x or 0), int(y or 0), int(z or 0)

    def _run(self, blocks: int, busy: float) -> "_Run":
        at_once = min(1.0, self.device.machine.multiprocessors * self.held / max(1, self.blocks))
        return _Run(self, blocks, conditions(self.work, self.device, busy, at_once))


_EVEN = 0.99
_IDLE = 0.5  # of an average block's time


class _Run:
    """Blocks on a multiprocessor together. Long loops and many tiles are cut short and continued at the pace that they have reached:
    a block's time is linear in both once the rings have filled."""

    def __init__(self, launch: Launch, blocks: int, around: Conditions) -> None:
        self._launch, self._blocks, self._conditions = launch, blocks, around
        self.tiles = tiles = _tiles(launch)
        most = _FEW_TILES if tiles > _FEW_TILES + 1 else None
        shorter = _shortened(launch, tiles, most)
        if most is None:
            self.cycles = self._along(shorter, None)
        else:
            self.cycles = self._of_tiles(shorter, tiles, most)
        self.shares = _shares(self._end)
        self.assumed = [span for block in self.around.blocks for span in block.assumed]
        self.loops = tuple(_main_loops(self.around.blocks[0]))

    def _along(self, shorter: "_Shorter | None", tiles: int | None) -> float:
        """Cycles with so many tiles, whatever the length of the loops."""
        sizes = self._launch.sizes
        if shorter is None:
            return self._follow(sizes, tiles)
        before = self._follow({**sizes, shorter.dimension: shorter.few}, tiles)
        after = self._follow({**sizes, shorter.dimension: shorter.more}, tiles)
        pace = (after - before) / (shorter.more - shorter.few)
        return after + pace * (sizes[shorter.dimension] - shorter.more)

    def _of_tiles(self, shorter: "_Shorter | None", tiles: int, most: int) -> float:
        """Tiles follow each other at a pace of their own, which is as linear in the length of their loops as the first ones' time is."""
        sizes = self._launch.sizes
        if shorter is None:
            before, after = self._follow(sizes, most), self._follow(sizes, most + 1)
            return after + (after - before) * (tiles - most - 1)
        few = {**sizes, shorter.dimension: shorter.few}
        before, longer = self._follow(few, most), self._follow({**sizes, shorter.dimension: shorter.more}, most)
        pace = (longer - before) / (shorter.more - shorter.few) * (sizes[shorter.dimension] - shorter.few) / most
        after = self._follow(few, most + 1)
        return after + pace * tiles + (after - before) * (tiles - most - 1)

    def _follow(self, sizes: Mapping[str, int], tiles: int | None) -> float:
        launch = self._launch
        self.around = Multiprocessor(launch.device, self._conditions)
        for number in range(self._blocks):
            values = Values(sizes, _specials(launch, number))
            Block(launch.kernel, launch.plan, values, _granted(launch, number), tiles, self.around)
        # Events are many, live long and form no cycles: looking for garbage among them takes longer than they do.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._end = self.around.run()
        finally:
            if collects:
                gc.enable()
        return self._end.time

    def stretches(self) -> tuple[Stretch, ...]:
        """With those marked that the longest way goes through."""
        ends = {round(event.time, 3) for event in self._end.path() if event.cycles}
        critical = [
            one._replace(critical=True) for one in self.around.stretches if round(one.end, 3) in ends and "wait" not in one.what
        ]
        others = [one for one in self.around.stretches if round(one.end, 3) not in ends or "wait" in one.what]
        return (*others, *critical)


def _shares(end: Event) -> dict[str, float]:
    """Parts of the whole time; what was cut short counts like what was followed."""
    followed = end.time or 1.0
    found: dict[str, float] = {}
    for step in steps(end, 0.0):
        name = f"{step.reason.kind} ({step.reason.where})"
        found[name] = found.get(name, 0.0) + step.cycles / followed
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _specials(launch: Launch, number: int) -> dict[str, int]:
    x, y, z = launch.grid
    place = number * launch.kernel.cluster.shape[0] if number * launch.kernel.cluster.shape[0] < max(1, x) else 0
    found = {MULTIPROCESSORS: launch.device.machine.multiprocessors, "cta.rank": 0}
    for axis, at, extent, size in zip("xyz", (place, 0, 0), (x, y, z), launch.kernel.cluster.shape, strict=True):
        found |= {f"block.{axis}": at, f"grid.{axis}": extent, f"cta.{axis}": 0}
        found |= {f"cluster.{axis}": at // size, f"clusters.{axis}": extent // size}
    return found


def _granted(launch: Launch, number: int) -> list[int]:
    """The tiles that a tile scheduler grants to a worker, when all are equally fast."""
    schedule = launch.kernel.schedule
    if schedule is None or schedule.mode != "clc":
        return []
    size = launch.kernel.cluster.size
    workers = max(1, launch.device.machine.multiprocessors * launch.held // size)
    return list(range(number + workers, launch.blocks // size, workers))


def _tiles(launch: Launch) -> int:
    """How many the first block goes over, one after the other."""
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


class _Shorter(NamedTuple):
    """Two sizes of a dimension, smaller than it is, that leave loops along it their pace."""

    dimension: str
    few: int
    more: int


def _shortened(launch: Launch, tiles: int, most: int | None) -> _Shorter | None:
    """None where all loops can be followed to their end."""
    trips = max((load.times for load in launch.work.loads), default=0.0) / tiles
    if trips * (1 if most is None else most) <= _LONGEST:
        return None
    names = {
        node.name
        for role in launch.kernel.roles
        for loop in _loops(role.body)
        if not goes_over_tiles(loop)
        for node in subexpressions(loop.stop)
        if isinstance(node, tree.ReadDimension) and launch.sizes.get(node.name, 0) > 1
    }
    if not names:
        return None
    dimension = max(names, key=lambda name: launch.sizes[name])
    size = launch.sizes[dimension]
    unit = 1
    while unit * trips < (_STEADY if most is None else _STEADY // 2) * size:
        unit *= 2
    few = size % unit + unit
    return _Shorter(dimension, few, few + unit) if few + unit < size else None


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


# ------------------------------------------------------------------------------------------------------------ main loops


def _main_loops(block: Block) -> Iterator[MainLoop]:
    """Of every ring whose stages are loaded and multiplied: its pace where the loop is in full swing."""
    loaded = {
        operation.destination.handle.pipeline: role.name
        for role in block.roles
        for operation in operations_in(role.body)
        if isinstance(operation, tree.TmaLoad | tree.CopyAsync)
    }
    multiplied = {
        (role.name, tile.handle.pipeline)
        for role in block.roles
        for operation in operations_in(role.body)
        if isinstance(operation, tree.Mma | tree.RegisterMma)
        for tile in ((operation.a, operation.b) if isinstance(operation.a, tree.BufferRef) else (operation.b,))
        if tile.handle.side == "consumer"
    }
    for (role, pipeline), marks in block.marks.items():
        stages = pipeline.stages
        if (role, pipeline) not in multiplied or pipeline not in loaded or len(marks) < 2 * stages + 2:
            continue
        end = marks[-1 - stages] if len(marks) > 3 * stages + 2 else marks[-1]
        laps = max(1, (len(marks) // 2) // stages)
        count = min(laps * stages, marks.index(end))
        since = marks[marks.index(end) - count]
        yield _main_loop(block, role, loaded[pipeline], pipeline, end, since, count)


def _main_loop(block: Block, role: str, loader: str, pipeline: tree.Pipeline, end: Event, since: Event, count: int) -> MainLoop:
    path = tuple(Step(step.reason, step.cycles / count) for step in steps(end, since.time))
    uses = len(block.marks[role, pipeline])  # by each block, while the engines work for all of them
    engines = {name: cycles / uses for name, cycles in block.around.busy.items()}
    instructions = block.around.instructions[loader] / uses
    return MainLoop(role, loader, pipeline, (end.time - since.time) / count, instructions, engines, path)
