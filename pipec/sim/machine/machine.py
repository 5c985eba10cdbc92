"""What all clusters of a launch share: options, clocks, counters, memory, and the clusters that have not started."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Literal

import numpy as np

from pipec.record import record

from ..compiled import blocks as native
from ..errors import Details, SimulationError
from ..findings import Findings, Severity
from ..ptx.types import Bytes
from ..units.numbers.numerics import Numerics
from .image import Image
from .memory.global_memory import Allocation, GlobalMemory
from .memory.spaces import FlatMemory, SharedMemory
from .practice import PracticeName, Rules
from .races.clocks import Actors
from .races.detector import Early, Race, Races
from .races.layouts import Misreading
from .races.preceding import Preceding
from .races.thread import Thread, WarpRows
from .schedule.events import Choice, Events
from .schedule.schedules import Schedule

Triple = tuple[int, int, int]
_START = 100  # cost of starting a cluster, in warp instructions

TraceKind = Literal[
    "tma_issued",
    "tma_completed",
    "mma_issued",
    "mma_completed",
    "mma_committed",
    "commit_issued",
    "store_issued",
    "store_completed",
    "wgmma_issued",
    "wgmma_completed",
    "tmem_alloc",
    "phase",
]

_REFUSED = 0.25  # of the requests for pending clusters, with timing "random"
# So many requests of a cluster succeed before one for the last cluster is refused.
_GRANTED_AT_LEAST = 2


@dataclass(frozen=True)
class Options:
    """`timing` decides when asynchronous operations complete: soon and in order, only when every warp is blocked, or at seeded random
    times (TMA bytes then arrive in pieces); "explore" runs many schedules (`explore`). `step_limit` counts warp instructions. `checks`:
    the severity of findings by name (`findings.CHECKS`). `rules`: what a kernel may rely on (`machine.practice`); None: the documents
    for kernels with pipec's metadata, practice for all others. `clusters`: the numbers of those that run, in place of the whole grid;
    `prepare`: called before, on a program that it may modify."""

    timing: Choice = "order"
    seed: int = 0
    step_limit: int = 200_000_000
    progress: Callable[[int, int], None] | None = None
    numerics: Numerics = "exact"
    trace: bool = True
    checks: Mapping[str, Severity] = field(default_factory=dict)
    rules: Rules | None = None
    clusters: tuple[int, ...] | None = None
    prepare: Callable[..., None] | None = None  # of a machine and a program


@dataclass(frozen=True)
class TraceEvent:
    """An event for the timeline: `time` in instruction slots, `cta` the block index, `kind` and its details."""

    time: int
    cta: Triple
    kind: TraceKind
    details: Details


class PendingClusters:
    """The clusters that have not started, in launch order: x fastest; all of the grid, or those `chosen`."""

    def __init__(self, count: Triple, backwards: bool = False, chosen: tuple[int, ...] | None = None) -> None:
        self.count, self.started, self.backwards, self._chosen = count, 0, backwards, chosen

    @property
    def left(self) -> int:
        return (prod(self.count) if self._chosen is None else len(self._chosen)) - self.started

    def __bool__(self) -> bool:
        return self.left > 0

    def popleft(self) -> Triple:
        number, (x, y, z) = self.started, self.count
        self.started += 1
        if self._chosen is not None:
            number = self._chosen[number]
        elif self.backwards:
            number = x * y * z - 1 - number
        return number % x, number // x % y, number // (x * y)


@record
class LateTest:
    """A test of an mbarrier that nothing orders before the completion of the next phase; `time` is that of its warp."""

    error: SimulationError
    time: int


class Machine:
    """`progress` counts effects, so that spinning can be distinguished from progress, and `meetings` those that are only arrivals at
    barriers; `clock_reads` counts reads of a clock, so that a timed wait can be distinguished from an endless one."""

    image: Image  # of the kernel, after loading

    def __init__(self, block: Triple, grid: Triple, options: Options, memory: GlobalMemory, schedule: Schedule) -> None:
        self.block, self.grid, self.options, self.memory, self.schedule = block, grid, options, memory, schedule
        self.events = Events(schedule.timing, schedule.seed)
        self.thread: Thread | None = None  # the executing warp
        self.set_going: set[int] = set()  # the instructions that start asynchronous operations
        self.unset_sums: dict[int, int] = {}  # registers that wgmma may have added to unset, with the first that may
        self.late_tests: dict[tuple[int, int, int], LateTest] = {}  # by their place in the text, the mbarrier and the warp
        self.failed_once: set[tuple[int, int]] = (
            set()
        )  # the same of tests that the kernel does not repeat, by warp and instruction
        self.failed: set[tuple[int, int, int, int]] = set()  # mbarrier tests that the schedule made fail
        self.outside: list[Allocation] = []  # the caller's writable memory
        self.progress = self.meetings = 0
        self.clock_reads = self.last_clock = 0
        self.now = 0
        self.warp_instructions = 0
        self.thread_instructions = 0
        self.warnings: list[str] = []
        self.actors = Actors()
        self.acting: Callable[[SimulationError], SimulationError] = lambda error: error  # adds the location to an error
        self.hold_to(options.rules or "practice")
        self.trace: list[TraceEvent] = []
        self.printed: list[str] = []
        self.pending_clusters = PendingClusters((0, 0, 0))
        self.relied_on: list[PracticeName] = []
        # The initial registers of warps, by the CTA's rank and the warp's index there.
        self.starts: dict[tuple[int, int], Bytes] = {}
        self.spare_rows: list[WarpRows] = []  # of CTAs that have exited
        self.no_shared: dict[int, SharedMemory] = {}  # of CTAs whose kernel uses none, by rank
        self.preceding = Preceding(0)
        self.grid_workspace = 0  # address of the barrier of a cooperative launch
        self.parameters = self.constants = FlatMemory("param", np.zeros(0, np.uint8))

    def clock(self) -> int:
        """The time, but later than at every earlier reading: a warp's instructions of one turn share their time."""
        self.last_clock = max(self.now, self.last_clock + 1)
        return self.last_clock

    def hold_to(self, rules: Rules) -> None:
        self.rules: Rules = rules
        self.findings = Findings(self.options.checks, rules == "documents")

    def watch(self, complain: Callable[[Race], None], misread: Callable[[Misreading], None], early: Early) -> None:
        """From now on accesses are checked against each other; `complain` receives races, `misread` layouts that differ, `early` accesses
        that the preceding grid may conflict with."""
        layouts = self.findings.wanted("layout") or self.findings.wanted("linear")
        by_fence = self.rules == "practice"
        self.races = Races(complain, misread if layouts else None, self.unwritten, self.practised, by_fence, self.schedule.unseen)
        self.races.preceding = self.actors.new()
        self.races.lanes = self.findings.wanted("lanes")
        early_watched = self.preceding.watched if self.findings.wanted("grid") else 0
        self.watching = (
            layouts or early_watched > 0 or any(self.findings.wanted(name) for name in ("race", "proxy", "fence", "lanes"))
        )
        if early_watched:
            self.races.watch_early(early, early_watched)
        if self.watching:
            self.memory.watch(self.races)

    @functools.cached_property
    def common_words(self) -> np.ndarray:
        """The state through which machine code finds any warp of the launch (`races.clocks.WarpRows`)."""
        found = np.zeros(native.STATE_WORDS, np.int64)
        words = {
            native.TIME: 1,
            native.STAMP: 1,
            native.PRACTICE: self.rules == "practice",
            native.WATCHED: self.watching,
            native.ALLOCATIONS: self.memory.table.ctypes.data,
            native.LEDGER: self.races.sets.block.ctypes.data,
            native.PARAMETERS: self.parameters.data.ctypes.data,
            native.PARAMETER_BYTES: self.parameters.data.size,
            native.LOADS: self.image.load_count,
        }
        for place, value in words.items():
            found[place // 8] = value
        return found

    def rows_of_warps(self, warps: int) -> WarpRows:
        """For a new CTA."""
        if not self.spare_rows:
            return WarpRows(warps, len(self.image.branches), self.common_words)
        found = self.spare_rows.pop()
        found.renew()
        return found

    def unwritten(self, error: SimulationError) -> None:
        """Memory is read that has not been written."""
        located = self.acting(error)
        self.findings.add("uninitialised", (located.ptx_line, error.message.partition(" at ")[0]), located)

    def refuses(self, granted: int) -> bool:
        """Whether a request for a pending cluster fails although there is one, as when the GPU needs the place for other work; the refused
        cluster starts on its own later. `granted`: how many clusters the one that requests has got.

        With timing "random" one in four does, and otherwise the one for the last cluster, where some have been granted: what CTAs hand to
        each other then comes from another one at least once.
        """
        if self.events.timing == "random":
            return self._refusals.random() < _REFUSED
        return granted >= _GRANTED_AT_LEAST and self.pending_clusters.left == 1

    @functools.cached_property
    def _refusals(self) -> Random:
        return Random(self.schedule.seed)

    def record(self, now: int, kind: TraceKind, cta: Triple, details: Details) -> None:
        if self.options.trace:
            self.trace.append(TraceEvent(now, cta, kind, details))

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def practised(self, name: PracticeName) -> bool:
        """Whether the kernel may do what PTX does not guarantee; records that it did."""
        if self.rules == "documents":
            return False
        if name not in self.relied_on:
            self.relied_on.append(name)
        return True

    def check_limit(self) -> None:
        if self.warp_instructions + _START * self.pending_clusters.started > self.options.step_limit:
            raise SimulationError(
                "step_limit",
                f"{self.warp_instructions} warp instructions executed; a loop that waits "
                "for something that never happens, or raise step_limit",
            )
