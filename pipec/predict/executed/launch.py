"""The time of a launch of a PTX kernel: some of its blocks are executed and replayed, the others are taken to be like them."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapreplace
from math import ceil, prod
from typing import Any

import numpy as np

from pipec.isa.targets import MOST_REGISTERS, RESERVED_SHARED_BYTES
from pipec.predict.bounds import joined, largest, powered
from pipec.predict.device import Device
from pipec.predict.executed.costs import BLOCK, CACHE_BYTES, FROM_MEMORY, MEASURED, TURN_OVER, cost_of
from pipec.predict.executed.happenings import Recording
from pipec.predict.executed.log import Unrecorded
from pipec.predict.executed.loops import Loop, Place, Text, paces, waits_at
from pipec.predict.executed.pieces import Program
from pipec.predict.executed.recorder import Recorder
from pipec.predict.executed.replay import Conditions, Replay, Stuck
from pipec.predict.following.uses import Stretch
from pipec.predict.occupancy import resident_blocks
from pipec.predict.ptx.timing import all_over
from pipec.record import record
from pipec.sim import Argument, Options, SimulationError, launch
from pipec.sim.findings import CHECKS
from pipec.sim.machine.machine import Machine
from pipec.sim.machine.memory.spaces import SHARED_BASE
from pipec.sim.machine.program import Program as Loaded
from pipec.sim.ptx.tree import Instruction

_LEAST_REGISTERS = 16  # of a thread
_ROUNDS = 3  # of blocks beside each other that are followed
_IDLE = 0.5  # of an average block's time
_STEPS = 40_000_000  # warp instructions of the blocks that are executed


@record
class Launched:
    """How the kernel is called. `registers`: of a thread; None: not known."""

    ptx: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    shared: int
    arguments: tuple[Argument, ...]
    allocations: tuple[np.ndarray[Any, Any], ...]
    registers: int | None


class NotTimed(Exception):
    """Why no time follows from executing it; in which line, 0 for none."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class RegistersNeeded(Exception):
    """Registers per thread decide how many blocks a multiprocessor holds: between `least` and `most`."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)
        self.least, self.most = least, most


@record
class Timed:
    """`seconds` of the launch; `bounds` in seconds, each alone; `busy`: cycles of units for one block; `waits`: where warps
    wait, by the part of their time, the most first. `memory_bytes` at least, `l2_bytes`: of the launch."""

    kernel: str
    device: Device
    clock: float
    blocks: int
    held: int
    waves: float
    cycles: float
    seconds: float
    bounds: Mapping[str, float]
    busy: Mapping[str, float]
    flops: float
    memory_bytes: float
    l2_bytes: float
    waits: tuple[Place, ...]
    loops: tuple[Loop, ...]
    stretches: tuple[Stretch, ...]
    executed: int  # clusters
    unknown: tuple[str, ...]

    @property
    def bound_by(self) -> str:
        return largest(self.bounds, self.seconds, self.device)

    @property
    def waits_for(self) -> str:
        """The busiest unit, if it is busy most of the time, else latency."""
        unit, cycles = max(self.busy.items(), key=lambda item: item[1], default=("", 0.0))
        return unit if cycles >= _BUSY * self.cycles / max(1.0, self.waves) else "latency"


_BUSY = 0.85


class Executed:
    """What the simulator says of a kernel and of those of its clusters that have been asked for."""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self.items: Sequence[Instruction] = ()
        self.watched: list[int] = []
        self.skipped: frozenset[int] = frozenset()
        self.back: dict[int, int] = {}
        self.labels: dict[int, str] = {}
        self.shared = self.threads = 0
        self.shape = (1, 1, 1)
        self.location: dict[int, str] = {}
        self._recordings: dict[int, Recording] = {}
        self._program: Program | None = None

    @property
    def count(self) -> int:
        return len(self._recordings)

    def program(self, device: Device) -> Program:
        if self._program is None:
            passes = next(iter(self._recordings.values())).passes
            self._program = Program(self.items, self.watched, self.skipped, self.back, passes, device)
        return self._program

    @property
    def text(self) -> Text:
        return Text(self.items, self.back, self.labels, self.location)

    def cluster_of(self, numbers: tuple[int, ...]) -> Recording:
        """The cluster with the first number, which may take over the work of the others."""
        found = self._recordings.get(numbers[0])
        if found is None:
            found = self._recordings[numbers[0]] = self._run(numbers)
        return found

    def _run(self, numbers: tuple[int, ...]) -> Recording:
        recorder, launched = Recorder(), self.launched

        def prepare(machine: Machine, program: Loaded) -> None:
            recorder.prepare(machine, program)
            self._look(program, machine, recorder.silent)

        options = Options(
            checks=dict.fromkeys(CHECKS, "off"), clusters=numbers, prepare=prepare, step_limit=_STEPS, rules="practice"
        )
        try:
            launch(
                launched.ptx,
                launched.kernel,
                grid=launched.grid,
                block=launched.block,
                cluster=launched.cluster,
                dynamic_smem=launched.shared,
                arguments=launched.arguments,
                allocations=launched.allocations,
                options=options,
            )
        except Unrecorded as one:
            raise NotTimed(one.line, one.what) from None
        except SimulationError as error:
            if error.kind == "step_limit":
                raise NotTimed(0, "one of its blocks executes too many instructions to be followed") from None
            raise
        return recorder.take()

    def _look(self, program: Loaded, machine: Machine, silent: AbstractSet[int]) -> None:
        image = program.image
        self.items = image.function.instructions
        self.watched = [pc for pc, step in enumerate(program.code) if step.watched and pc not in silent]
        self.skipped = frozenset(pc for pc in self.watched if program.code[pc].guard >= 0)
        x, y, z = (*(self.launched.cluster or image.function.directives.get("reqnctapercluster") or ()), 1, 1, 1)[:3]
        self.shape = x, y, z
        self.shared, self.threads = max(0, image.shared_end - SHARED_BASE), prod(machine.block)
        self.labels = {index: name for (_, name), index in image.function.labels.items()}
        for pc, item in enumerate(self.items):
            source = image.source(item)
            if source is not None:
                self.location[item.line] = str(source)
            if item.root == "bra" and min(image.successors[pc]) <= pc:
                self.back[pc] = min(image.successors[pc])


def timed(executed: Executed, device: Device, clock: float | None) -> Timed:
    """At the clock that launches can sustain, unless one is given. Raises NotTimed, RegistersNeeded, SimulationError."""
    first = executed.cluster_of((0,))
    _check_costs(executed, device)
    _check_alone(executed, first)
    if clock is not None:
        return _at_clock(executed, first, device, clock)
    nominal = _at_clock(executed, first, device, device.clock)
    sustained = device.machine.sustained
    part = sustained.clock(nominal.bounds["power"] / nominal.seconds) if sustained is not None else 1.0
    return nominal if part == 1.0 else _at_clock(executed, first, device, device.clock * part)


def _check_costs(executed: Executed, device: Device) -> None:
    for item in executed.items:
        if cost_of(item.opcode, device) is None:
            raise NotTimed(item.line, f"what `{item.opcode}` takes is not on record")
        if item.root == "clusterlaunchcontrol":
            raise NotTimed(
                item.line, "its blocks take over the work of others (cluster launch control), which are not executed here"
            )


def _check_alone(executed: Executed, recording: Recording) -> None:
    """A block that asks a counter in memory for its next tile would get all of them here."""
    pc = next((one.pc for stream in recording.streams for one in stream.happenings if one.kind == "exchange"), None)
    if pc is not None:
        item = executed.items[pc]
        raise NotTimed(item.line, f"what a block does follows from memory that other blocks change, by this `{item.opcode}`")


def _at_clock(executed: Executed, first: Recording, device: Device, clock: float) -> Timed:
    launched, machine, at = executed.launched, device.machine, device.at(clock)
    size = prod(executed.shape)
    blocks = prod(launched.grid)
    held = _held(executed, first)
    count, places = machine.multiprocessors, machine.at_a_time(size)
    clusters = blocks // size
    sample = _sample(executed, first, clusters, beside=blocks <= held * places)
    recordings = [executed.cluster_of((number,)) for number in sample.numbers]
    program = executed.program(device)
    in_registers = any(item.root == "wgmma" for item in executed.items)

    each = min(held, ceil(blocks / places))
    busy = min(1.0, blocks / count)
    cache = max(0.0, CACHE_BYTES / each - executed.shared - RESERVED_SHARED_BYTES)
    conditions = Conditions(
        at.memory + at.loaded * busy,
        FROM_MEMORY * clock / device.clock,
        at.loaded_rate / busy,
        cache,
        BLOCK * places,
        in_registers,
    )

    def run(following: Sequence[Recording]) -> Replay:
        replay = Replay(following, each, program, at, conditions)
        try:
            replay.cycles = replay.run()
        except Stuck as stuck:
            line = executed.items[stuck.pc].line if stuck.pc < len(executed.items) else 0
            raise NotTimed(line, "a warp of it waits there for another block, or for what is not followed") from None
        return replay

    series = ceil(blocks / places)  # on a multiprocessor
    followed = each if sample.differ else min(series, each * _ROUNDS)
    runs = [run([one] * followed) for one in recordings]
    slots = places * each
    waves = blocks / slots
    if sample.differ:
        cycles = _of_different(sample, [one.cycles for one in runs], waves, clusters, slots // size)
    else:
        cycles = runs[0].cycles
        if series > followed:
            ends = sorted(runs[0].ends)
            cycles += (series - followed) * (ends[-1] - ends[-1 - each]) / each
    done = followed * len(runs) * size
    flops = sum(one.flops for one in runs) / done * blocks
    l2 = sum(one.moved for one in runs) / done * blocks
    memory = _memory_bytes(recordings, clusters)
    rate = machine.dram * min(1.0, blocks / count) ** machine.few
    apart = device.launch - (device.overlap if any("griddepcontrol.wait" in item.opcode for item in executed.items) else 0.0)
    bounds = {
        "multiprocessors": cycles / clock,
        "memory": memory / rate,
        "power": powered(device, flops, memory),
        "launch": apart,
    }
    seconds = joined(bounds["multiprocessors"], bounds["memory"])
    if machine.sustained is None:
        seconds = joined(seconds, bounds["power"])
    longest = max(runs, key=lambda one: one.cycles)
    per_block = {name: found / followed / size for name, found in longest.busy.items()}
    return Timed(
        launched.kernel, device, clock, blocks, held, waves, cycles, apart + seconds, bounds, per_block, flops, memory, l2,
        waits_at(longest, executed.text), paces(longest, executed.text, each), tuple(longest.stretches),
        executed.count, _unknown(executed, device),
    )  # fmt: skip


@record
class Line:
    """Clusters whose work follows from their place on one axis alone: `stride` from one to the next, `extent` of them; `sample`: numbers
    of some, from end to end."""

    stride: int
    extent: int

    @property
    def sample(self) -> list[int]:
        last = self.extent - 1
        return [self.stride * place for place in sorted({0, last, *(last * (2 * part + 1) // 8 for part in range(4))})]


@record
class _Sample:
    """The clusters that are followed. `differ`: they do not all do the same; `line`: what each does follows from its place on this axis."""

    numbers: Sequence[int]
    differ: bool
    line: Line | None


def _sample(executed: Executed, first: Recording, clusters: int, *, beside: bool) -> _Sample:
    """`beside`: all of them run at the same time."""
    last = executed.cluster_of((clusters - 1,)) if clusters > 1 else first
    if _length(last) == _length(first):
        return _Sample([0], False, None)
    line = _line(executed, first)
    if beside:
        return _Sample([0, clusters - 1], True, line)
    return _Sample(all_over(executed.launched.grid, executed.shape) if line is None else line.sample, True, line)


def _of_different(sample: _Sample, ends: Sequence[float], waves: float, clusters: int, at_once: int) -> float:
    """Cycles of a grid of clusters that end at different times; those of the sample do at `ends`."""
    if waves <= 1:
        return max(ends)
    if sample.line is None:
        return max(max(ends), sum(ends) / len(ends) * (waves + _IDLE))
    return _in_order(sample.line, dict(zip(sample.numbers, ends, strict=True)), clusters, at_once)


def _line(executed: Executed, first: Recording) -> Line | None:
    extents = [blocks // size for blocks, size in zip(executed.launched.grid, executed.shape, strict=True)]
    lines = [Line(prod(extents[:axis]), extent) for axis, extent in enumerate(extents) if extent > 1]
    those = [one for one in lines if _length(executed.cluster_of((one.stride * (one.extent - 1),))) != _length(first)]
    return those[0] if len(those) == 1 else None


def _in_order(line: Line, ends: Mapping[int, float], clusters: int, slots: int) -> float:
    """When all have ended, if each starts where one in front of it ends first; how long it takes lies between what was followed."""
    places = [number // line.stride for number in ends]
    takes = np.interp(np.arange(line.extent), places, [*ends.values()]) + TURN_OVER
    free = [0.0] * slots
    for number in range(clusters):
        heapreplace(free, free[0] + takes[number // line.stride % line.extent])
    return max(free) - TURN_OVER


def _length(recording: Recording) -> int:
    return sum(len(stream.happenings) for stream in recording.streams)


def _held(executed: Executed, first: Recording) -> int:
    """Blocks on a multiprocessor at a time. Raises RegistersNeeded."""

    def held(registers: int) -> int:
        return resident_blocks(executed.shared, executed.threads, max(registers, _LEAST_REGISTERS), first.columns)

    registers = executed.launched.registers
    if registers is not None:
        return held(registers)
    least, most = held(MOST_REGISTERS), held(_LEAST_REGISTERS)
    if least < most:
        raise RegistersNeeded(least, most)
    return most


def _memory_bytes(recordings: Sequence[Recording], clusters: int) -> float:
    """Of each allocation what is read at least, and what is written: no more than it has, and once."""
    total = 0.0
    for name in dict.fromkeys(name for one in recordings for name in one.touched):
        rows = [one.touched[name] for one in recordings if name in one.touched]
        size = rows[0][0]
        for which in (1, 2):
            total += min(float(size), sum(row[which] for row in rows) / len(recordings) * clusters)
    return total


_ONCE = "how much of what does not stay in the L2 is read again: from memory, each tensor comes once"
_OTHERS = "what its single instructions take: an H200's stand in for them"
_SCHEDULE = "how the assembler orders instructions: results that do not need each other are taken to overlap"


def _unknown(executed: Executed, device: Device) -> tuple[str, ...]:
    others = (_OTHERS,) if device.arch != MEASURED else ()
    return (_SCHEDULE, _ONCE, *others, *device.unknown)
