"""A launch: how many blocks share a multiprocessor, the number of waves, and the limits of memory and power; around the events of one
block."""

from bisect import bisect_right
from collections.abc import Mapping
from math import ceil, prod

from pipec.diag.catalogue.commands import prediction as messages
from pipec.diag.message import Failure
from pipec.driver import Compilation
from pipec.garbage import uncollected
from pipec.interface import MULTIPROCESSORS
from pipec.kir.plan.types import Plan
from pipec.predict.bounds import Wave, apart, bounds_of, dram_bytes, in_turn, kept, largest, staying, together, unlike
from pipec.predict.closed import beginning, block_cycles, estimate, idle, sustained_clock
from pipec.predict.conditions import conditions
from pipec.predict.counting import workload
from pipec.predict.device import BY_ARCH, DEVICES, Device
from pipec.predict.following.events import Engine
from pipec.predict.following.followed import Followed, Launched
from pipec.predict.following.main_loops import MainLoop
from pipec.predict.following.uses import Stretch, Unpredictable
from pipec.predict.following.values import Values
from pipec.predict.occupancy import resident_blocks, shared_bytes
from pipec.predict.sizes import sizes_of
from pipec.predict.workload import Workload
from pipec.record import record, replace
from pipec.sema import tree
from pipec.source import Span


@record
class Prediction:
    """`seconds` of a launch of `blocks` blocks, `held` of them on a multiprocessor at a time; `bounds` in seconds, each alone.

    `shares`: the critical path through the first blocks by category: an upper bound on the gain if that were free. `stretches`: what
    their roles and engines did when. `assumed`: branches with unknown outcome that are assumed to be taken.
    """

    kernel: str
    device: Device
    clock: float
    stated: float | None  # the requested clock; otherwise the one that the launch can sustain
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
    within: tuple[float, float]  # seconds: the interval of nine of ten recorded kernels, extended by unknown figures
    hidden_epilogue: float | None  # the part of the threads' storing time in which products run; None if there is none
    stretches: tuple[Stretch, ...]
    assumed: tuple[Span, ...]

    @property
    def bound_by(self) -> str:
        return largest(self.bounds, self.seconds, self.device)

    @property
    def flops(self) -> float:
        """Multiplications and additions, of any type."""
        return self.work.operations

    @property
    def tensor_share(self) -> float:
        """The utilisation of the tensor cores of all multiprocessors, in 16-bit operations."""
        machine = self.device.machine
        return self.work.flops / (self.seconds * machine.multiprocessors * machine.product_flops * self.clock)

    @property
    def l2_bytes(self) -> float:
        """Bytes that copies and stores move through the L2: a multicast serves several CTAs at once."""
        return self.work.l2_bytes

    @property
    def last_wave(self) -> float:
        """The part of the multiprocessors' block slots that the last wave of blocks (or of tiles of persistent blocks) fills."""
        if self._persistent:
            return self.work.last_wave
        return (self.waves - 1e-9) % 1.0 if self.waves > 1 else self.waves

    @property
    def tiles_each(self) -> float | None:
        """The average number of tiles of a persistent block; None for others, and for those that get tiles from the hardware."""
        return self.work.tiles - 1 + self.work.last_wave if self._persistent else None

    @property
    def _persistent(self) -> bool:
        return self.work.stays and self.blocks <= self.held * self.device.machine.multiprocessors

    @property
    def unknown(self) -> tuple[str, ...]:
        """Figures that no table provides."""
        scaled = any(one.instructions.scale_bytes for role in self.work.roles for one in role.products)
        return (*self.device.unknown, *((_SCALES,) if scaled else ()))

    @property
    def waves(self) -> float:
        return self.blocks / (self.held * self.device.machine.multiprocessors)


_SCALES = "what copies of scale factors into tensor memory take: as much as shared memory needs to give the bytes is assumed"


def _hidden(stretches: tuple[Stretch, ...], tiles: int) -> float | None:
    """Over all `tiles` of a block; only the first few were followed, and the last one's epilogue overlaps no products."""
    products = sorted((one.start, one.end) for one in stretches if one.track == Engine.PRODUCTS)
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


@uncollected()  # thousands of events, none of which refer to each other in a circle
def prediction(
    state: Compilation,
    name: str,
    sizes: Mapping[str, int | str],
    device: str | None = None,
    clock: float | None = None,
    *,
    alone: bool = False,
) -> Prediction:
    """The prediction for one kernel of a planned compilation; `alone` omits the error interval and the timeline. Raises Failure."""
    assert state.trees is not None and state.plans is not None
    kernel, plan = next(pair for pair in zip(state.trees, state.plans, strict=True) if pair[0].name == name)
    known = sizes_of(plan.interface, {dimension: str(size) for dimension, size in sizes.items()})
    try:
        on = _device(name, state.arch, device)
        return Launch(kernel, plan, known, on, clock).predict(drawn=False) if alone else between(kernel, plan, known, on, clock)
    except Unpredictable as unknown:
        raise Failure(messages.NotPredictable(kernel=name, what=unknown.what, at=unknown.at)) from None


def between(kernel: tree.Kernel, plan: Plan, sizes: Mapping[str, int], device: Device, clock: float | None) -> Prediction:
    """A prediction with its error interval. Raises Unpredictable."""
    found = Launch(kernel, plan, sizes, device, clock).predict()
    part = next(part for most, part in device.spread if found.seconds <= most)
    least, most = found.seconds * (1 - part), found.seconds * (1 + part)
    if found.blocks > device.alone * device.machine.multiprocessors:
        # The closed form gives the difference; following the blocks again for each extreme would take longer.
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
    """One kernel with one set of sizes on one device; with other numbers of `stages` for the named rings, on which its code does not
    depend, and the corresponding `work`. Raises Unpredictable."""

    def __init__(
        self,
        kernel: tree.Kernel,
        plan: Plan,
        sizes: Mapping[str, int],
        device: Device,
        clock: float | None,
        stages: Mapping[str, int] | None = None,
        work: Workload | None = None,
    ) -> None:
        self.kernel, self.plan, self.sizes, self.device, self.stages = kernel, plan, sizes, device, stages or {}
        machine = device.machine
        self.work = work or workload(kernel, sizes, machine.multiprocessors)
        self.stated, self.clock = clock, clock or sustained_clock(self.work, device)
        self._costs = device.at(self.clock)
        self.grid = self._grid()
        self.blocks = prod(self.grid)
        # The plan includes the staging buffers of epilogues.
        shared = plan.interface.shared_bytes + (shared_bytes(kernel, stages) - shared_bytes(kernel) if stages else 0)
        self.held = resident_blocks(shared, self.work.threads, self.work.registers, plan.allocated_columns)
        schedule = kernel.schedule
        places = machine.multiprocessors * self.held
        # With cluster launch control, a block takes over the tiles of those that then never start.
        self.running = min(self.blocks, places) if schedule is not None and schedule.mode == "clc" else self.blocks

    def predict(self, *, drawn: bool = True) -> Prediction:
        """`drawn`: includes the timeline and what it shows about the epilogue."""
        first, waves = self._waves(drawn)
        stretches = first.stretches() if drawn else ()
        cycles = sum(wave.cycles for wave in waves)
        if self.stated is None:  # the followed time may exceed that of the closed form, and then takes less power
            self.clock = kept(self.work, self.device, waves)
        bounds = bounds_of(self.work, self.device, waves, self.clock)
        seconds = apart(self.work, self.device) + together(bounds, waves, self.clock, self.device)
        traffic = dram_bytes(self.work, self.device)
        return Prediction(
            self.kernel.name, self.device, self.clock, self.stated, self.sizes, self.blocks, self.held, cycles, seconds, bounds, self.work,
            first.loops, first.shares, traffic, (0.0, 0.0), _hidden(stretches, first.tiles), stretches, tuple(first.assumed),
        )  # fmt: skip

    def _waves(self, drawn: bool) -> tuple[Followed, list[Wave]]:
        """The first blocks, followed, and the waves of the launch."""
        count, places = self.device.machine.multiprocessors, self.device.machine.at_a_time(self.work.cluster)
        begun = beginning(self.work, self.device)
        if self._stays or self.running <= places:
            busy = min(1.0, self.running / count)
            run = self._run(ceil(self.running / count), busy, drawn=drawn)
            waiting = idle(self.work, self._costs, busy)
            cycles = run.cycles + begun
            return run, staying(self.work, self.device, cycles, None, waiting) if self._stays else [Wave(cycles, 1.0, waiting)]
        run = self._run(self.held, 1.0, drawn=drawn)
        if unlike(self.work, places * self.held):
            return run, [in_turn(self.work, run.cycles + begun, places * self.held)]
        full, rest = divmod(self.running, places * self.held)
        waiting = idle(self.work, self._costs, 1.0, full, self.held)
        waves = [Wave((run.cycles + begun) * full, 1 - rest / self.running, waiting)] if full else []
        if rest:
            busy = min(1.0, rest / count)
            waiting = idle(self.work, self._costs, busy) / (self.held if full else 1)
            waves.append(Wave(self._last_wave(run, ceil(rest / places), busy) + begun, rest / self.running, waiting))
        return run, waves

    def _last_wave(self, full: Followed, blocks: int, busy: float) -> float:
        """Cycles of a wave with this many blocks per multiprocessor. If they are as many as in a full wave, only the share of the L2
        differs, and the closed form gives the ratio; following them again would take as long as the first time."""
        if blocks != self.held:
            return self._run(blocks, busy).cycles
        return (
            full.cycles * block_cycles(self.work, self._costs, busy, blocks) / block_cycles(self.work, self._costs, 1.0, blocks)
        )

    @property
    def _stays(self) -> bool:
        return self.work.stays

    def _grid(self) -> tuple[int, int, int]:
        values = Values(self.sizes, {MULTIPROCESSORS: self.device.machine.multiprocessors})
        x, y, z = (values.of(extent)({}) for extent in self.kernel.grid)
        return int(x or 0), int(y or 0), int(z or 0)

    def _run(self, blocks: int, busy: float, *, drawn: bool = False) -> Followed:
        at_once = min(1.0, self.device.machine.multiprocessors * self.held / max(1, self.blocks))
        launched = Launched(
            self.kernel, self.plan, self.sizes, self._costs, self.work, self.grid, self.blocks, self.held, self.stages
        )
        return Followed(launched, blocks, conditions(self.work, self._costs, busy, at_once), drawn=drawn)
