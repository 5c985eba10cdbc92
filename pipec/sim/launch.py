"""Launching a kernel on the simulated machine: the simulator's front door."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

import numpy as np

from .arguments import Loose, Placement, parameter_block, strict
from .blame import blame
from .errors import SimulationError
from .machine import Cluster, Cta
from .memory import SHARED_BASE, SHARED_LIMIT, FlatMemory, GlobalMemory
from .parse import parse
from .program import Program
from .scheduler import UNIT_KINDS, Events, Scheduler
from .tree import Function, Module
from .units.errors import UnitError

TIMINGS = ("order", "late", "random")
# CUDA programming guide, technical specifications per compute capability.
MAXIMUM_GRID = (2**31 - 1, 65_535, 65_535)
_REFUSED = 0.25  # of the requests for pending clusters, with timing "random"


@dataclass(frozen=True)
class Options:
    """`timing` decides when asynchronous operations complete: soon and in order, only when every warp is blocked, or
    at seeded random times (TMA bytes then arrive in pieces). `step_limit` counts warp instructions. `check_fences`: a
    missing tcgen05.fence is an error (else a warning); None: for kernels with pipec's metadata."""

    timing: str = "order"
    seed: int = 0
    step_limit: int = 200_000_000
    progress: Callable[[int, int], None] | None = None
    numerics: str = "exact"
    trace: bool = True
    check_proxies: bool = True
    check_fences: bool | None = None


@dataclass(frozen=True)
class Statistics:
    thread_instructions: int
    warp_instructions: int
    seconds: float
    time: int


@dataclass(frozen=True)
class TraceEvent:
    """Something worth drawing: `time` in instruction slots, `cta` the block index, `kind` and its details."""

    time: int
    cta: tuple[int, int, int]
    kind: str
    details: dict


@dataclass
class Result:
    """`printed` is what the kernel's `printf` wrote, one entry per thread and call."""

    statistics: Statistics
    warnings: list[str] = field(default_factory=list)
    trace: list[TraceEvent] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)


# A kernel that is launched many times is read once: nothing changes a module afterwards.
_parsed = functools.lru_cache(maxsize=16)(parse)


class PendingClusters:
    """The clusters that have not started, in launch order: x fastest."""

    def __init__(self, count: tuple[int, int, int]) -> None:
        self.count, self.started = count, 0

    @property
    def left(self) -> int:
        return self.count[0] * self.count[1] * self.count[2] - self.started

    def __bool__(self) -> bool:
        return self.left > 0

    def popleft(self) -> tuple[int, int, int]:
        number, (x, y, _) = self.started, self.count
        self.started += 1
        return number % x, number // x % y, number // (x * y)


class Machine:
    """What all clusters of a launch share. `progress` counts effects, so that spinning can be told from working;
    `clock_reads` counts looks at a clock, so that waiting for a time can be told from waiting for ever."""

    def __init__(self, block: tuple, grid: tuple, options: Options, memory: GlobalMemory) -> None:
        self.block, self.grid, self.options, self.memory = block, grid, options, memory
        self.events = Events(options.timing, options.seed)
        self.progress = 0
        self.clock_reads = 0
        self.sequence = 0
        self.now = 0
        self.warp_instructions = 0
        self.thread_instructions = 0
        self.warnings: list[str] = []
        self.trace: list[TraceEvent] = []
        self.printed: list[str] = []
        self.pending_clusters = PendingClusters((0, 0, 0))
        self._refusals = Random(options.seed)
        self.strict_fences = bool(options.check_fences)
        self.parameters = self.constants = FlatMemory("param", np.zeros(0, np.uint8))

    def refuses(self) -> bool:
        """Whether a request for a pending cluster fails all the same, as where the GPU wants the place for other work.

        With timing "random" one in four does; what was refused starts as a cluster of its own later.
        """
        return self.options.timing == "random" and self._refusals.random() < _REFUSED

    def tick(self) -> int:
        """A number that grows with every memory effect."""
        self.sequence += 1
        return self.sequence

    def record(self, now: int, kind: str, cta: Cta, details: dict) -> None:
        if self.options.trace:
            self.trace.append(TraceEvent(now, cta.index, kind, details))

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def check_limit(self) -> None:
        if self.warp_instructions > self.options.step_limit:
            raise SimulationError(
                "step_limit",
                f"{self.warp_instructions} warp instructions executed; a loop that waits "
                "for something that never happens, or raise step_limit",
            )

    def later(
        self, warp, latency: int, action: Callable[[], None], channel: object = None, busy: int = 1, storing: bool = False
    ) -> None:
        """Schedules an asynchronous operation of the instruction that `warp` executes; errors point at it."""
        program, item = warp.cta.program, warp.cta.program.code[warp.fragment.pc].item
        self.progress += 1

        def guarded() -> None:
            self.progress += 1
            try:
                action()
            except UnitError as error:
                failure = SimulationError(UNIT_KINDS.get(error.kind, error.kind), error.message)
                raise failure.located(item.line, program.source(item), **blame(program, warp, {})) from error
            except SimulationError as error:
                who = blame(program, warp, error.details)
                raise error.located(item.line, program.source(item), **who) from error.__cause__

        self.events.schedule(warp.cta.cluster.now, latency, guarded, channel, busy, storing)

    def after_exit(self, warp) -> None:
        warp.cta.cluster.after_exit(warp.cta)


def launch(
    ptx: str,
    kernel: str | None = None,
    *,
    grid=(1, 1, 1),
    block=None,
    cluster=None,
    dynamic_smem: int = 0,
    arguments: Sequence[Loose] = (),
    options: Options | None = None,
) -> Result:
    """Runs one kernel of the PTX text over the whole grid.

    `kernel` None takes the only one. `grid` in CTAs, `block` in threads (None: `.reqntid`), `cluster` in CTAs
    (None: `.reqnctapercluster`), `dynamic_smem` in bytes. Arrays are changed in place. Raises SimulationError.
    """
    options = options or Options()
    _check_options(options, dynamic_smem)
    try:
        return _launch(ptx, kernel, grid, block, cluster, dynamic_smem, arguments, options)
    except MemoryError:
        raise SimulationError("argument", "the kernel's memory does not fit this machine's") from None


def _check_options(options: Options, dynamic_smem: int) -> None:
    if options.timing not in TIMINGS:
        raise SimulationError("argument", f"timing {options.timing!r} is none of {', '.join(TIMINGS)}")
    if options.step_limit < 1:
        raise SimulationError("argument", f"a limit of {options.step_limit} steps lets nothing run")
    if not 0 <= dynamic_smem <= SHARED_LIMIT:
        raise SimulationError("argument", f"{dynamic_smem} bytes of dynamic shared memory, at most {SHARED_LIMIT}")


def _launch(
    ptx: str, kernel: str | None, grid, block, cluster, dynamic_smem: int, loose: Sequence[Loose], options: Options
) -> Result:
    started = time.perf_counter()
    module = _parsed(ptx)
    function = _kernel(module, kernel)
    block, grid = _block(function, block), _grid(grid)
    shape, explicit = _cluster(function, cluster, grid)
    arguments = strict(function, loose)
    memory = GlobalMemory()
    placement = Placement(memory, arguments)
    machine = Machine(block, grid, options, memory)
    program = Program(module, function, memory, dynamic_smem)
    if options.check_fences is None:
        machine.strict_fences = bool(program.metadata)
    if program.shared_end - SHARED_BASE > SHARED_LIMIT:
        raise SimulationError("argument", f"{program.shared_end - SHARED_BASE} bytes of shared memory, at most {SHARED_LIMIT}")
    machine.parameters = FlatMemory("param", parameter_block(function, placement, arguments), writable=False)
    machine.constants = FlatMemory("const", program.constant_data, writable=False)
    with np.errstate(all="ignore"):
        _run_grid(machine, program, shape, explicit)
    seconds = time.perf_counter() - started
    statistics = Statistics(machine.thread_instructions, machine.warp_instructions, seconds, machine.now)
    return Result(statistics, machine.warnings, machine.trace, machine.printed)


def _run_grid(machine: Machine, program: Program, shape: tuple, explicit: bool) -> None:
    from .endstate import check_end

    count = tuple(machine.grid[axis] // shape[axis] for axis in range(3))
    machine.pending_clusters = PendingClusters(count)
    total, done = machine.pending_clusters.left, 0
    while machine.pending_clusters:
        cluster = Cluster(machine, machine.pending_clusters.popleft(), shape, count, explicit, program)
        Scheduler(machine, program, cluster).run()
        check_end(program, cluster)
        machine.now = cluster.now
        done += 1
        if machine.options.progress is not None:
            machine.options.progress(done, total)


def _kernel(module: Module, name: str | None) -> Function:
    kernels = module.kernels
    if name is None:
        if len(kernels) != 1:
            names = ", ".join(function.name for function in kernels) or "none"
            raise SimulationError("argument", f"name a kernel; the module has: {names}")
        return kernels[0]
    function = module.functions.get(name)
    if function is None or not function.is_kernel:
        raise SimulationError("argument", f"no kernel `{name}`; the module has: {', '.join(k.name for k in kernels) or 'none'}")
    return function


def _triple(value, what: str) -> tuple[int, int, int]:
    try:
        values = (value,) if isinstance(value, int) else tuple(operator.index(item) for item in value)
    except TypeError:
        values = (0,)
    values = (*values, 1, 1, 1)[:3] if len(values) < 3 else values
    if len(values) != 3 or min(values) < 1:
        raise SimulationError("argument", f"{what} {value} must be up to three positive integers")
    return values


def _grid(grid) -> tuple[int, int, int]:
    chosen = _triple(grid, "grid")
    if any(extent > limit for extent, limit in zip(chosen, MAXIMUM_GRID, strict=True)):
        raise SimulationError("argument", f"grid {chosen} is larger than {MAXIMUM_GRID}")
    return chosen


def _block(function: Function, block) -> tuple[int, int, int]:
    required = function.directives.get("reqntid")
    if block is None and not required:
        raise SimulationError("argument", f"kernel `{function.name}` has no .reqntid, so block must be given")
    chosen = _triple(block if block is not None else required, "block")
    if required and chosen != _triple(required, "block"):
        raise SimulationError("argument", f"block {chosen} contradicts .reqntid {required}")
    most = function.directives.get("maxntid")
    if most and prod(chosen) > prod(_triple(most, "block")):
        raise SimulationError("argument", f"block {chosen} has more threads than .maxntid {most}")
    if prod(chosen) > 1024:
        raise SimulationError("argument", f"block {chosen} has more than 1024 threads")
    return chosen


def _cluster(function: Function, cluster, grid: tuple) -> tuple[tuple[int, int, int], bool]:
    if "blocksareclusters" in function.directives:
        raise SimulationError("unsupported", ".blocksareclusters is not simulated", function.line)
    required = function.directives.get("reqnctapercluster")
    shape = _triple(cluster if cluster is not None else required or (1, 1, 1), "cluster")
    if required and cluster is not None and shape != _triple(required, "cluster"):
        raise SimulationError("argument", f"cluster {shape} contradicts .reqnctapercluster {required}")
    if any(extent % part for extent, part in zip(grid, shape, strict=True)):
        raise SimulationError("argument", f"grid {grid} is not a multiple of the cluster {shape}")
    if shape[0] * shape[1] * shape[2] > 16:
        raise SimulationError("argument", f"cluster {shape} has more than 16 CTAs")
    return shape, bool(required or cluster is not None)
