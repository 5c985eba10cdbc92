"""Launching a kernel on the simulated machine: the simulator's entry point."""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import get_args

import numpy as np

from pipec.diag.shown import shown
from pipec.garbage import seldom_collected

from .arguments import Loose, Placement, parameter_block, strict
from .errors import SimulationError
from .explore import Exploration, Prepare, explore
from .findings import CHECKS, Finding, Severity
from .load import load
from .machine.device import resident_clusters
from .machine.machine import Machine, Options, PendingClusters, TraceEvent, Triple
from .machine.memory.global_memory import GlobalMemory
from .machine.memory.spaces import SHARED_BASE, FlatMemory
from .machine.practice import PracticeName, Rules
from .machine.program import Program
from .machine.races.afterwards import read_as_constant
from .machine.races.leftovers import judge_all
from .machine.races.preceding import Preceding, Touched
from .machine.races.report import Reporter
from .machine.schedule.events import Choice
from .machine.schedule.scheduler import Scheduler
from .machine.schedule.schedules import Schedule
from .machine.threads.cta import Cluster
from .machine.threads.specials import fill_registers
from .ptx.parse import parse
from .ptx.tree import Function, Module
from .unfenced import run_with_unfenced
from .units import limits
from .units.numbers.numerics import Numerics
from .unwritten import Started

TIMINGS = get_args(Choice)
NUMERICS = get_args(Numerics)
# CUDA programming guide, technical specifications per compute capability.
MAXIMUM_GRID = (2**31 - 1, 65_535, 65_535)

_WORKSPACE_BYTES = 16

# Extents along x, y and z; missing ones are 1.
Extents = int | Sequence[int]


@dataclass(frozen=True)
class Statistics:
    thread_instructions: int
    warp_instructions: int
    seconds: float
    time: int


@dataclass
class Result:
    """`printed` is what the kernel's `printf` wrote, one entry per thread and call; `relied_on` lists what it did that PTX does not
    guarantee (`machine.practice.PRACTICES`); `findings` are those of severity warning, with their text in `warnings`; `explored` is the
    result of timing "explore"; `touched` the memory of the caller that the kernel wrote and read."""

    statistics: Statistics
    warnings: list[str] = field(default_factory=list)
    trace: list[TraceEvent] = field(default_factory=list, repr=False)
    printed: list[str] = field(default_factory=list)
    relied_on: list[PracticeName] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    explored: Exploration | None = None
    touched: Touched | None = None


# All launches of a process share instruction forms and their machine code, which grow while a kernel runs.
_ONE_AT_A_TIME = threading.RLock()
# A kernel that is launched many times is parsed once: nothing changes a module afterwards.
_parsed = functools.lru_cache(maxsize=16)(parse)


def launch(
    ptx: str,
    kernel: str | None = None,
    *,
    grid: Extents = (1, 1, 1),
    block: Extents | None = None,
    cluster: Extents | None = None,
    cooperative: bool = False,
    programmatic: bool | Sequence[Touched] | None = None,
    dynamic_smem: int = 0,
    arguments: Sequence[Loose] = (),
    allocations: Sequence[np.ndarray] = (),
    options: Options | None = None,
) -> Result:
    """Runs one kernel of the PTX text over the whole grid.

    With `kernel` None it must be the only one. `grid` in CTAs, `block` in threads (None: `.reqntid`), `cluster` in CTAs (None:
    `.reqnctapercluster`), `dynamic_smem` in bytes. `cooperative`: the whole grid is co-resident and may synchronise (`grid.sync()`).
    `programmatic`: whether the grid may begin before the preceding ones have ended (programmatic dependent launch); `Result.touched` of
    those tells what they touch, True alone that it may be any memory. None: not known. Arrays are changed in place. They are also
    mapped at their host addresses (`array.ctypes.data`), which a kernel may find in memory; `allocations` are arrays that it reaches
    only this way. Launches of several threads run one after the other. Raises SimulationError.
    """
    options = Options() if options is None else options
    _check_options(options)
    _check_call(ptx, kernel, cooperative, programmatic, dynamic_smem, arguments, allocations)
    with _ONE_AT_A_TIME:
        try:
            started = time.perf_counter()
            module = _parsed(ptx)
            function = _kernel(module, kernel)
            extents, whole = _block(function, block), _grid(function, grid)
            shape = _cluster(function, cluster, whole)
            explicit = cluster is not None or bool(function.directives.get("reqnctapercluster"))

            def once(schedule: Schedule, prepare: Prepare | None) -> Started:
                machine = Machine(extents, whole, options, GlobalMemory(), schedule)
                program = _prepared(machine, module, function, dynamic_smem, arguments, allocations, programmatic)
                if prepare is not None:
                    program = program.copy()
                    prepare(machine, program)
                    program.begin()
                return machine, lambda: _run_to_the_end(machine, program, shape, explicit, cooperative)

            def run(schedule: Schedule, prepare: Prepare | None = None) -> Machine:
                if options.prepare is not None:
                    machine, to_the_end = once(schedule, options.prepare)
                    to_the_end()
                    return machine
                return run_with_unfenced(lambda one: once(one, prepare), schedule)

            explored = None
            if options.timing == "explore":
                machine, explored = explore(run, prod(whole) // prod(shape), prod(shape), options.seed)
            else:
                machine = run(Schedule(options.timing, options.seed))
            seconds = time.perf_counter() - started
            statistics = Statistics(machine.thread_instructions, machine.warp_instructions, seconds, machine.now)
            found = machine.findings.all
            warnings = machine.warnings + [str(finding) for finding in found] + (explored.lines if explored else [])
            touched = Touched.of(function.name, (one.shadow for one in machine.memory.allocations if one.shadow is not None))
            return Result(statistics, warnings, machine.trace, machine.printed, machine.relied_on, found, explored, touched)
        except MemoryError:
            raise SimulationError("argument", "the kernel's memory does not fit this machine's") from None
        except RecursionError:
            raise SimulationError("unsupported", "the kernel's calls nest too deeply to be inlined") from None


def _check_options(options: Options) -> None:
    if not isinstance(options, Options):
        raise SimulationError("argument", f"options are a pipec.sim.Options, not {shown(options)}")
    if not isinstance(options.timing, str) or options.timing not in TIMINGS:
        raise SimulationError("argument", f"timing {shown(options.timing)} is none of {', '.join(TIMINGS)}")
    if options.rules is not None and shown(options.rules) not in map(repr, get_args(Rules)):
        raise SimulationError("argument", f"rules {shown(options.rules)} are none of {', '.join(get_args(Rules))}")
    if not isinstance(options.checks, Mapping):
        raise SimulationError("argument", f"checks {shown(options.checks)} are no table of names and severities")
    for name, severity in options.checks.items():
        if name not in CHECKS or severity not in get_args(Severity):
            known = f"{', '.join(CHECKS)}; {', '.join(get_args(Severity))}"
            raise SimulationError("argument", f"check {shown(name)} cannot be {shown(severity)}; there are {known}")
    if not isinstance(options.step_limit, int) or options.step_limit < 1:
        raise SimulationError("argument", f"a limit of {shown(options.step_limit)} steps lets nothing run")
    if not isinstance(options.seed, int):
        raise SimulationError("argument", f"the seed {shown(options.seed)} is no whole number")
    if not isinstance(options.numerics, str) or options.numerics not in NUMERICS:
        raise SimulationError("argument", f"numerics {shown(options.numerics)} is none of {', '.join(NUMERICS)}")
    if options.progress is not None and not callable(options.progress):
        raise SimulationError("argument", f"progress is called with two numbers, and {shown(options.progress)} cannot be")


def _check_call(
    ptx: object,
    kernel: object,
    cooperative: object,
    programmatic: object,
    dynamic_smem: object,
    arguments: object,
    allocations: object,
) -> None:
    if not isinstance(ptx, str):
        raise SimulationError("argument", f"PTX is text, not {shown(ptx)}")
    if kernel is not None and not isinstance(kernel, str):
        raise SimulationError("argument", f"a kernel has a name, and {shown(kernel)} is none")
    if not isinstance(dynamic_smem, int) or not 0 <= dynamic_smem <= limits.CTA_SHARED_BYTES:
        raise SimulationError(
            "argument", f"{shown(dynamic_smem)} bytes of dynamic shared memory, at most {limits.CTA_SHARED_BYTES}"
        )
    if not isinstance(cooperative, bool):
        raise SimulationError("argument", f"a launch is cooperative or not, and {shown(cooperative)} says neither")
    if not isinstance(programmatic, bool | None) and not (
        isinstance(programmatic, Sequence) and all(isinstance(one, Touched) for one in programmatic)
    ):
        told = "None, True, False or what preceding grids touched (`Result.touched`)"
        raise SimulationError("argument", f"a launch is programmatic or not: {told}, not {shown(programmatic)}")
    if not isinstance(arguments, Sequence) or isinstance(arguments, str | bytes):
        raise SimulationError("argument", f"arguments are a list, not {shown(arguments)}")
    if not isinstance(allocations, Sequence) or not all(isinstance(one, np.ndarray) for one in allocations):
        raise SimulationError("argument", f"allocations are a list of arrays, not {shown(allocations)}")


def _prepared(
    machine: Machine,
    module: Module,
    function: Function,
    dynamic_smem: int,
    loose: Sequence[Loose],
    allocations: Sequence[np.ndarray],
    programmatic: bool | Sequence[Touched] | None,
) -> Program:
    """The program, with arguments and constants in the machine's memory."""
    arguments = strict(function, loose)
    placement = Placement(machine.memory, arguments, allocations)
    machine.outside = [one for one in machine.memory.allocations if one.writable]
    program = load(module, function, machine.memory, dynamic_smem)
    image = machine.image = program.image
    if machine.options.rules is None:
        machine.hold_to("documents" if image.metadata else "practice")
    reporter = Reporter(machine, image)
    machine.preceding = Preceding.of(programmatic, [item.opcode for item in image.function.instructions])
    machine.watch(reporter.complain, reporter.misread, reporter.early)
    machine.races.guesses = lambda: image.guesses
    if image.shared_end - SHARED_BASE > limits.CTA_SHARED_BYTES:
        raise SimulationError(
            "argument", f"{image.shared_end - SHARED_BASE} bytes of shared memory, at most {limits.CTA_SHARED_BYTES}"
        )
    machine.parameters = FlatMemory("param", parameter_block(function, placement, arguments), writable=False)
    machine.constants = FlatMemory("const", image.constant_data, writable=False)
    return program


def _run_to_the_end(machine: Machine, program: Program, shape: Triple, explicit: bool, cooperative: bool) -> None:
    """Raises the run's first error, with all findings."""
    stopped: SimulationError | None = None
    try:
        with np.errstate(all="ignore"), seldom_collected():
            _run_grid(machine, program, shape, explicit, cooperative)
            _look_for_stale(machine)
            judge_all(machine.races.layouts)
            for (pc, offset, _), late in machine.late_tests.items():
                machine.findings.add("phase", (pc, offset), late.error)
            machine.races.end()
    except SimulationError as error:
        stopped = error
    verdict = machine.findings.verdict(stopped)
    if verdict is not None:
        verdict.printed = machine.printed
        raise verdict from (stopped.__cause__ if stopped is not None else None)


def _look_for_stale(machine: Machine) -> None:
    image = machine.image
    if machine.watching and image.constant_loads and machine.findings.wanted("stale"):
        reporter = Reporter(machine, image)
        for race in read_as_constant(machine.races, image.constant_loads):
            reporter.complain(race)


def _run_grid(machine: Machine, program: Program, shape: Triple, explicit: bool, cooperative: bool) -> None:
    x, y, z = (extent // part for extent, part in zip(machine.grid, shape, strict=True))
    machine.pending_clusters = PendingClusters((x, y, z), machine.schedule.reversed, machine.options.clusters)
    most = resident_clusters(program.image, machine.block, shape)
    if cooperative:
        _make_workspace(machine, most)

    def start() -> Cluster:
        cluster = Cluster(machine, program.image, machine.pending_clusters.popleft(), shape, (x, y, z), explicit)
        for warp in cluster.warps:
            fill_registers(warp)
        return cluster

    Scheduler(program, machine, start, most, cooperative or machine.schedule.together).run()


def _make_workspace(machine: Machine, most: int) -> None:
    """The workspace of a cooperative launch: its size in bytes and the word of a barrier (measured: %envreg1, %envreg2)."""
    if machine.pending_clusters.left > most:
        raise SimulationError(
            "argument", f"a cooperative launch of {machine.pending_clusters.left} clusters: the device holds {most} at a time"
        )
    data = np.array([_WORKSPACE_BYTES, 0, 0, 0], np.uint32).view(np.uint8)
    machine.grid_workspace = machine.memory.add(data, True, "the workspace of the grid").base


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


def _triple(value: Extents, what: str) -> Triple:
    try:
        given = (value,) if isinstance(value, int) else tuple(operator.index(item) for item in value)
    except Exception:  # noqa: BLE001 - whatever an object of the caller's answers when it is asked for a number
        given = (0,)
    if len(given) > 3 or min(given, default=1) < 1:
        raise SimulationError("argument", f"{what} {shown(value)} must be up to three positive integers")
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def _clusters_of_blocks(function: Function) -> Triple | None:
    """CTAs of a cluster where the launch counts clusters, and leaves the size of a CTA to the kernel."""
    if "blocksareclusters" not in function.directives:
        return None
    required = function.directives.get("reqnctapercluster")
    if not required or not function.directives.get("reqntid"):
        raise SimulationError("malformed", ".blocksareclusters needs .reqntid and .reqnctapercluster", function.line)
    return _triple(required, "cluster")


def _grid(function: Function, grid: Extents) -> Triple:
    """In CTAs."""
    x, y, z = _triple(grid, "grid")
    of_x, of_y, of_z = _clusters_of_blocks(function) or (1, 1, 1)
    chosen = (x * of_x, y * of_y, z * of_z)
    if any(extent > limit for extent, limit in zip(chosen, MAXIMUM_GRID, strict=True)):
        raise SimulationError("argument", f"grid {shown(chosen)} is larger than {MAXIMUM_GRID}")
    return chosen


def _block(function: Function, block: Extents | None) -> Triple:
    required = function.directives.get("reqntid")
    wanted = block if block is not None else required or None
    if wanted is None:
        raise SimulationError("argument", f"kernel `{function.name}` has no .reqntid, so block must be given")
    chosen = _triple(wanted, "block")
    cluster = _clusters_of_blocks(function)
    if required and cluster is not None and chosen in ((1, 1, 1), cluster):
        return _triple(required, "block")  # the "threads" of its launch are CTAs of a cluster, or nothing
    if required and chosen != _triple(required, "block"):
        raise SimulationError("argument", f"block {shown(chosen)} contradicts .reqntid {required}")
    most = function.directives.get("maxntid")
    if most and prod(chosen) > prod(_triple(most, "block")):
        raise SimulationError("argument", f"block {chosen} has more threads than .maxntid {most}")
    if prod(chosen) > limits.CTA_THREADS:
        raise SimulationError("argument", f"block {shown(chosen)} has more than {limits.CTA_THREADS} threads")
    return chosen


def _cluster(function: Function, cluster: Extents | None, grid: Triple) -> Triple:
    required = function.directives.get("reqnctapercluster")
    shape = _triple(cluster if cluster is not None else required or (1, 1, 1), "cluster")
    if required and cluster is not None and shape != _triple(required, "cluster"):
        raise SimulationError("argument", f"cluster {shown(shape)} contradicts .reqnctapercluster {required}")
    if any(extent % part for extent, part in zip(grid, shape, strict=True)):
        raise SimulationError("argument", f"grid {grid} is not a multiple of the cluster {shown(shape)}")
    if prod(shape) > limits.CLUSTER_CTAS:
        raise SimulationError("argument", f"cluster {shape} has more than {limits.CLUSTER_CTAS} CTAs")
    return shape
