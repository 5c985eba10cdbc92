"""Warps, CTAs and clusters: the memory that a thread can access, and what it can wait for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from ...compiled import blocks as native
from ...compiled.runner import TAKEN
from ...errors import SimulationError
from ...ptx.types import LANE, LANES, LaneMask, LaneValues
from ...units.errors import UnitError
from ..image import Image
from ..machine import LateTest, Machine, TraceKind, Triple
from ..memory.spaces import RANK_SHIFT, SHARED_BASE, WRITTEN, SharedMemory
from ..memory.tensor import TensorState
from ..races.afterwards import not_past
from ..races.clocks import UNKNOWING, Clock, Knowledge, merged
from ..races.ledger import Access
from ..races.missing import Missing
from ..races.thread import Thread
from ..registers import RegisterFile
from .addresses import AddressSpaces
from .barriers import NamedBarrier, NamedBarriers, TrackedBarrier, reclaim
from .divergence import ALL_LANES, Fragment, Wait
from .groups import Operation
from .leaving import complain_of_a_late_arrival, complain_of_what_is_left, is_shown, unseen_arrivals
from .roles import role_of, who
from .state import WarpState
from .warpgroups import Warpgroups

# `Warp.identity` numbers warps through the cluster.
WARPS_PER_CTA = 64


class Warp(WarpState):
    """32 lanes that share registers: a flat list of rows, which are changed in place (`machine.registers`).

    While an instruction executes, `mask` is None if all 32 lanes are active and otherwise a boolean array; `active` is always an array.
    """

    file: RegisterFile
    registers: list[LaneValues]

    def __init__(self, cta: Cta, index: int, live: LaneMask) -> None:
        super().__init__(live)
        self.cta = cta
        self.index = index
        self.identity = cta.rank * WARPS_PER_CTA + index
        self.who = cta.image.who(index)
        self.fragment = self.fragments[0]
        self.active = live
        machine, cluster = cta.machine, cta.cluster
        self.thread = Thread(machine.actors, index, self.who, cta.name, cluster.number, self._here, cta.warp_rows)
        self.thread.active = self._executing
        # No accesses are recorded without race checks.
        self.watched = self.thread if machine.watching else None
        # Its first release: that it has started.
        if machine.watching and cluster.several:
            self.thread.touched = True

    def _here(self) -> int:
        return self.fragment.pc

    def _executing(self) -> LaneMask | None:
        return self.mask

    def lanes(self) -> list[int]:
        """Active lane numbers of the executing instruction."""
        if self.active is ALL_LANES:
            return list(range(LANES))
        lanes: list[int] = self.active.nonzero()[0].tolist()
        return lanes

    def everybody(self, lanes: LaneMask) -> bool:
        """Whether a condition holds for all lanes."""
        return bool(lanes.all())

    def meets(self, ordering: bool) -> None:
        """Its lanes converge at a collective instruction, which orders their memory accesses, officially or in practice."""
        if ordering or self.cta.machine.rules == "practice":
            self.thread.lanes_met()

    def took(self, pc: int, target: int | None) -> None:
        """It took the branch at `pc` to `target` as a whole, or (None) in part."""
        number = self.cta.image.branches.get(pc)
        if number is not None:
            self.thread.routes[number] = -1 if target is None else target + TAKEN

    def park(self, wait: Wait) -> Wait:
        """Blocks the executing fragment; returns `wait` as the instruction's outcome."""
        self.fragment.wait = wait
        return wait

    def blame(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Who was executing when an error occurred: role, pipeline and stage, as far as metadata and barriers identify them.

        `filled_by` of the details is the barrier of the memory concerned; without it, the last one that the warp used.
        """
        names = self.cta.image.names
        pc = self.fragment.pc
        found = {
            "who": who(self.cta.image, self.thread, pc),
            "warp": self.index,
            "role": role_of(self.cta.image, self.thread, pc),
        }
        return found | names.place_of(details.get("filled_by", -1), self.thread.barrier_used)

    def here(self, error: SimulationError) -> SimulationError:
        """`error` at the executing instruction."""
        return self.located(error, self.fragment.pc)

    def located(self, error: SimulationError, pc: int) -> SimulationError:
        """`error` at the instruction at `pc`, with its location and the executing thread."""
        image = self.cta.image
        item = image.item(pc)
        return error.located(item.line if item else 0, image.source(item), self.blame(error.details))

    def later(
        self, latency: int, action: Callable[[], None], channel: Hashable = None, busy: int = 1, storing: bool = False
    ) -> None:
        """Schedules an asynchronous operation of the executing instruction; errors refer to it."""
        cluster, machine, pc = self.cta.cluster, self.cta.machine, self.fragment.pc
        machine.progress += 1

        def guarded() -> None:
            # Before it runs: operations that it starts are counted anew.
            cluster.outstanding -= 1
            machine.progress += 1
            machine.acting = lambda error: self.located(error, pc)
            try:
                action()
            except UnitError as error:
                raise self.located(SimulationError.of_unit(error), pc) from error
            except SimulationError as error:
                raise self.located(error, pc) from error.__cause__

        # Channels belong to a cluster: others may run beside it.
        place = None if channel is None else (cluster.index, channel)
        cluster.outstanding += 1
        machine.set_going.add(pc)
        machine.events.schedule(machine.now, latency, guarded, place, busy, storing, pc == machine.schedule.held)


class Cta(AddressSpaces):
    """`index` is its position in the grid, `position` that in the cluster, `rank` its number there."""

    def __init__(self, cluster: Cluster, rank: int, index: Triple, position: Triple) -> None:
        self.cluster, self.rank, self.index, self.position = cluster, rank, index, position
        self.image: Image = cluster.image
        self.machine: Machine = cluster.machine
        self.block, self.grid = self.machine.block, self.machine.grid
        self.name = f"CTA ({index[0]},{index[1]},{index[2]})"
        self.mbarriers: dict[int, TrackedBarrier] = {}
        self.former_mbarriers: dict[int, TrackedBarrier] = {}  # the last ones to be invalidated, by offset
        self.shared: SharedMemory = self._shared_memory()
        self.shared.reclaim = functools.partial(reclaim, self.mbarriers, self.shared, self.machine.practised)
        self.shared.mbarriers, self.shared.left = self.mbarriers, self._overwritten
        self.named = NamedBarriers()
        self.tensor: TensorState | None = None
        self.delayed = rank == self.machine.schedule.late and prod(cluster.shape) > 1  # it starts when nothing else can run
        self.launch_control_ended = False  # a request for another cluster was observed to fail
        self.register_counts: dict[int, int] = {}  # warp -> registers per thread, where setmaxnreg has changed them
        self.register_waiters: list[Fragment] = []
        self.meetings: dict[int, list[Meeting]] = {}  # wgmma that some warps of a warpgroup have reached, by warpgroup
        threads = self.block[0] * self.block[1] * self.block[2]
        count = -(-threads // LANES)
        self.warp_rows = self.machine.rows_of_warps(count)
        self.warpgroups = Warpgroups(self.machine, self.image, count)
        self.warps = [
            Warp(self, number, ALL_LANES if threads >= (number + 1) * LANES else number * LANES + LANE < threads)
            for number in range(count)
        ]
        self.live_threads = threads
        self._connect([warp.thread for warp in self.warps])

    def _shared_memory(self) -> SharedMemory:
        size = max(self.image.shared_end, self.image.dynamic_base)
        races = self.machine.races if self.machine.watching else None
        # Cooperative groups keep barriers of parts of the CTA in the reserved bytes at the start, and query their address.
        base = 0 if "%reserved_smem_offset_1" in self.image.specials else SHARED_BASE
        if size > base:
            memory = SharedMemory(size, self.rank, races, base, self.machine.schedule.filling, self.image.granule)
            memory.shadow.owner = self.name
            return memory
        # In a kernel without shared memory every access is out of bounds, so all CTAs of a rank may share one.
        found: SharedMemory | None = self.machine.no_shared.get(self.rank)
        if found is None:
            found = self.machine.no_shared[self.rank] = SharedMemory(size, self.rank, races)
        return found

    def _connect(self, peers: list[Thread]) -> None:
        """Introduces the warps to each other, and sets machine code's pointers to their state."""
        numbers = self.machine.races.sets.enter(peers)
        common = {
            native.SHARED_DATA: self.shared.data_address,
            native.SHARED_STATE: self.shared.state_address,
            native.SHARED_SIZE: self.shared.size,
            native.RANK: self.rank << RANK_SHIFT,
            native.SHARED_SHADOW: self.shared.shadow_address,
            native.FIRST: numbers[0],
        }
        self.warp_rows.fill(common)
        for thread, number in zip(peers, numbers, strict=True):
            thread.connect(number, self.image.executions(), peers)

    @property
    def exited(self) -> bool:
        return not any(warp.alive for warp in self.warps)

    def trace(self, kind: TraceKind, **details: object) -> None:
        self.machine.record(self.cluster.now, kind, self.index, details)

    # ---- registers

    def set_registers(self, warp: Warp, count: int, grows: bool) -> Wait | None:
        """setmaxnreg: takes registers from the CTA's pool, which the launch sized for its threads, or returns them.

        Returns what to wait for while the pool is too small (PTX ISA 9.7.20.5).
        """
        launch = self.image.launch_registers
        if launch is not None:
            own = self.register_counts.get(warp.index, launch)
            if (count < own) if grows else (count > own):
                direction = "inc" if grows else "dec"
                raise SimulationError("undefined", f"setmaxnreg.{direction} to {count} registers by a warp that has {own}")
            others = sum(self.register_counts.get(one.index, launch) for one in self.warps if one is not warp)
            # The pool belongs to the CTA: registers that one warp releases may go to another, in any order.
            free = launch * len(self.warps) - others
            if count > free:
                self.register_waiters.append(warp.fragment)
                text = f"{count} registers per thread, where the other warps leave {free}"
                return Wait("registers", text, retry=True)
        self.register_counts[warp.index] = count
        self.machine.progress += 1
        for fragment in self.register_waiters:
            fragment.wait = None
        self.register_waiters.clear()
        return None

    # ---- the cluster

    def peer(self, address: int, what: str) -> Cta:
        """The CTA of the cluster that a shared::cluster address names."""
        rank = address >> RANK_SHIFT
        if not 0 <= rank < len(self.cluster.ctas):
            raise SimulationError(
                "out_of_bounds",
                f"{what}: shared::cluster address 0x{address:x} names CTA rank {rank} of a cluster of {len(self.cluster.ctas)}",
            )
        cta = self.cluster.ctas[rank]
        if cta is not self:
            if cta.exited:
                raise SimulationError("undefined", f"{what}: CTA rank {rank} has already exited")
            self.check_running(cta, what)
        return cta

    def check_running(self, peer: Cta, what: str) -> None:
        """Checks that the executing warp knows that `peer` has started, as accesses to it require."""
        if not self.knows_running(peer):
            self.not_running(peer, what)

    def knows_running(self, peer: Cta) -> bool:
        thread = self.machine.thread
        if not self.machine.watching or thread is None or peer.rank in thread.running:
            return True
        clock = thread.knowledge.order
        if any(warp.thread.number in clock for warp in peer.warps) or any(
            thread.actors.reached(clock, warp.thread.number, 1) for warp in peer.warps
        ):
            # Cached, since a started CTA stays valid until it exits, which is a separate error.
            thread.running.add(peer.rank)
            return True
        return False

    def not_running(self, peer: Cta, what: str) -> None:
        message = f"{what} works on {peer.name}, and no cluster barrier or other signal has shown that it runs"
        located = self.machine.acting(SimulationError("undefined", message))
        self.machine.findings.add("peer", (located.ptx_line, what), located)

    # ---- mbarriers

    def mbarrier(self, offset: int, what: str) -> TrackedBarrier:
        barrier = self.mbarriers.get(offset)
        if barrier is None:
            if offset % 8:
                raise SimulationError("misaligned", f"{what} on 0x{offset:x}: an mbarrier is 8-byte aligned")
            self.shared.check(np.array([offset]), 8, what)
            raise SimulationError("uninitialised", f"{what} on shared address 0x{offset:x}, where no mbarrier is initialised")
        return barrier

    def check_ready(self, warp: Warp, barrier: TrackedBarrier, tests: bool = False) -> bool:
        """Whether `warp` is ordered after the initialisation of a barrier that it uses; reports it otherwise."""
        if warp.watched is not None:
            barrier.used_by(warp.thread, warp.fragment.pc, tests)
            if barrier.overwritten is not None:
                self.machine.races.on_object(warp.thread, barrier.overwritten, False, self.shared.shadow, barrier.offset, "wait")
        return self._check_made(warp, barrier)

    def check_signalled(self, warp: Warp, offset: int, what: str) -> None:
        """The same where an operation that `warp` issues signals the barrier once it is complete: it may be complete at once."""
        barrier = self.mbarrier(offset, what)
        # One report is enough where the other CTA is not even known to run (`check_running`).
        if self is warp.cta or self.rank in warp.thread.running:
            self._check_made(warp, barrier)

    def _check_made(self, warp: Warp, barrier: TrackedBarrier) -> bool:
        knowledge, number = warp.thread.knowledge, warp.thread.number
        if warp.watched is None or (barrier.announced and barrier.made.over(knowledge.order, number)):
            return True
        if barrier.made.over(knowledge.values, number):
            return True
        if barrier.made.over(warp.thread.neighbours) and self.machine.practised("own memory behind a relaxed cluster barrier"):
            # `neighbours` knows warps of the acting warp's own CTA only, so this never covers the barrier of another CTA.
            return True
        missing: Missing = "init" if barrier.made.over(knowledge.order, number) else "wait"
        self.machine.races.on_object(warp.thread, barrier.made, False, self.shared.shadow, barrier.offset, missing)
        return False

    def check_over(self, warp: Warp, barrier: TrackedBarrier) -> None:
        """Reports operations on a barrier that are not ordered before `warp` ends its life."""
        if warp.watched is not None:
            self._check_uses(warp.thread, barrier)

    def _check_uses(self, thread: Thread, barrier: TrackedBarrier) -> None:
        for use in self._unordered_uses(thread, barrier):
            self.machine.races.on_object(thread, use, True, self.shared.shadow, barrier.offset, "wait")

    def _overwritten(self, offsets: Iterable[int], access: Access | None) -> None:
        """These mbarriers, which are left, end by an operation that is issued now, or by a store of the executing warp (None)."""
        thread = self.machine.thread if access is None else access.thread
        if thread is None:
            return
        for offset in offsets:
            barrier = self.mbarriers[offset]
            barrier.overwritten = access
            self._check_uses(thread, barrier)

    def _unordered_uses(self, thread: Thread, barrier: TrackedBarrier) -> list[Access]:
        uses = [Access("", user, pc, time, False) for user, (time, pc) in barrier.uses.items()]
        return [use for use in uses if not use.over(thread.knowledge.order, thread.number)]

    def invalidate(self, warp: Warp, barrier: TrackedBarrier) -> None:
        """Arrivals from other CTAs may come late, as nobody waits for them: they meet no barrier, and nothing else unless the memory is
        used again."""
        for use in self._unordered_uses(warp.thread, barrier) if warp.watched is not None else ():
            if use.thread.cta == self.name:
                self.machine.races.on_object(warp.thread, use, True, self.shared.shadow, barrier.offset, "wait")
            else:
                complain_of_a_late_arrival(self.machine, self.image, use, warp.thread, warp.fragment.pc, barrier.offset)
                self.machine.races.note(use, self.shared.shadow, np.array([barrier.offset // 8]), 8)
        warp.thread.touched = True
        barrier.invalidated = Access("", warp.thread, warp.fragment.pc, warp.thread.time, True)
        self.former_mbarriers[barrier.offset] = self.mbarriers.pop(barrier.offset)
        self.shared.mark_barrier(barrier.offset, live=False)

    def arrives_late(self, warp: Warp, offset: int) -> bool:
        """Whether `warp`, of another CTA, arrives where a barrier was until a moment ago; reports it."""
        former = None if offset in self.mbarriers or warp.cta is self else self.former_mbarriers.get(offset)
        if former is None or former.invalidated is None or warp.watched is None:
            return False
        ended, thread = former.invalidated, warp.thread
        if ended.over(thread.knowledge.order, thread.number):
            return False
        thread.touched = True
        use = Access("", thread, warp.fragment.pc, thread.time, False)
        complain_of_a_late_arrival(self.machine, self.image, use, ended.thread, ended.pc, offset)
        place = np.array([offset // 8])
        if (self.shared.state[offset : offset + 8] & WRITTEN).any():
            self.machine.races.begin(thread, use, self.shared.shadow, place, size=8)
        else:
            self.machine.races.note(use, self.shared.shadow, place, 8)
        former.remote[thread.number] = Access("", thread, warp.fragment.pc, thread.time, True)
        return True

    def announce_barriers(self, warp: Warp) -> None:
        """A warp's barrier initialisations become visible through signals that release nothing else."""
        for barrier in self.mbarriers.values():
            barrier.announced |= barrier.made.thread is warp.thread

    def after_barrier_operation(self, barrier: TrackedBarrier, flipped: bool) -> None:
        """Wakes the waiters of a completed phase and records it."""
        self.machine.progress += 1
        if not flipped:
            return
        self._check_tested(barrier)
        # Before the waiters wake: they acquire what the arrivals of this phase have released.
        barrier.publish()
        self.trace("phase", address=barrier.offset, phase=barrier.state.phase - 1)
        for fragment in barrier.waiting:
            fragment.wait = None
        barrier.waiting.clear()

    def _check_tested(self, barrier: TrackedBarrier) -> None:
        """A phase is complete: tests for the one before it would be false from now on, so they must all come first."""
        phase = barrier.state.phase - 1
        for thread, (time, pc) in barrier.tested.items():
            key = pc, barrier.offset, thread.number
            if key in self.machine.late_tests or barrier.comes_after(thread, time):
                continue
            item = self.image.item(pc)
            found = f"phase {phase - 1} complete" if phase else "the mbarrier new"
            error = SimulationError(
                "undefined",
                f"test of the mbarrier at shared 0x{barrier.offset:x} for parity {phase - 1 & 1} by warp {thread.index} found {found}: "
                f"nothing orders it before the completion of phase {phase}, after which it is false",
                details={"address": barrier.offset},
            )
            # At the end, as what else is wrong says more.
            located = error.located(item.line if item else 0, self.image.source(item))
            self.machine.late_tests[key] = LateTest(located, time)
        barrier.tested.clear()

    # ---- named barriers

    def settle_named(self, barrier: NamedBarrier) -> bool:
        return barrier.settle(self.live_threads)


class Meeting:
    """One wgmma of a warpgroup, at a PTX line, while its warps arrive."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.arrived: list[tuple[Warp, Operation]] = []
        self.ends: list[tuple[int, int]] = []  # what shows its completion, by warp (`Access.ends`)
        self.shown: list[Clock] = []  # `Thread.take_part`


class Cluster:
    """CTAs that run together. `index` and `shape` are in clusters and CTAs; `count` is clusters in the grid."""

    def __init__(self, machine: Machine, image: Image, index: Triple, shape: Triple, count: Triple, explicit: bool) -> None:
        self.machine, self.image = machine, image
        self.index, self.shape, self.count, self.explicit = index, shape, count, explicit
        self.several = prod(shape) > 1
        self.outstanding = 0  # asynchronous operations of its warps
        self.barrier_phase = 0
        self.barrier_arrived = 0
        self.barrier_waiting: list[Fragment] = []
        self.barrier_gathers = self.barrier_tells = UNKNOWING  # of the current phase, and of the previous one
        self.barrier_ahead: list[tuple[int, Knowledge]] = []  # arrivals that count in the next phase
        self.number = machine.pending_clusters.started
        self.granted = 0  # requests for further clusters
        self.ctas: list[Cta] = []
        for rank in range(shape[0] * shape[1] * shape[2]):
            x, y, z = position = (rank % shape[0], rank // shape[0] % shape[1], rank // (shape[0] * shape[1]))
            block = (index[0] * shape[0] + x, index[1] * shape[1] + y, index[2] * shape[2] + z)
            self.ctas.append(Cta(self, rank, block, position))

    @property
    def warps(self) -> list[Warp]:
        return [warp for cta in self.ctas for warp in cta.warps]

    @property
    def now(self) -> int:
        return self.machine.now

    def arrive(self, threads: int, told: Knowledge, ahead: bool) -> None:
        """Threads arrive in barrier.cluster, in its current phase or in the next one."""
        if ahead:
            self.barrier_ahead.append((threads, told))
            return
        self.barrier_arrived += threads
        self.barrier_gathers = merged(self.barrier_gathers, told)

    def settle_barrier(self) -> None:
        """Completes barrier.cluster when all live threads have arrived."""
        live = sum(cta.live_threads for cta in self.ctas)
        # Exited threads are not waited for (PTX ISA, barrier.cluster: all non-exited threads of the cluster).
        if self.barrier_arrived and self.barrier_arrived >= live:
            self.barrier_arrived = 0
            self.barrier_phase += 1
            self.barrier_tells, self.barrier_gathers = self.barrier_gathers, UNKNOWING
            for fragment in self.barrier_waiting:
                fragment.wait = None
            self.barrier_waiting.clear()
            ahead, self.barrier_ahead = self.barrier_ahead, []
            for threads, told in ahead:
                self.arrive(threads, told, ahead=False)
            self.settle_barrier()

    def after_exit(self, cta: Cta, threads: int) -> None:
        """Exited threads no longer count for the barriers that mean "all threads"."""
        cta.live_threads -= threads
        for barrier in cta.named.values():
            if barrier.arrived and barrier.expected is None:
                cta.settle_named(barrier)
        if self.barrier_arrived:
            self.settle_barrier()
        if self.several and not cta.live_threads and self.machine.watching and self.machine.findings.wanted("peer"):
            self._check_left(cta)

    def _check_left(self, cta: Cta) -> None:
        clocks = [warp.thread.knowledge.order for warp in cta.warps]
        accesses = not_past(self.machine.races, cta.shared.shadow, cta.name, clocks)
        # A relaxed cluster barrier may overtake an arrival.
        settled = [warp.thread.knowledge.settled for warp in cta.warps]
        barriers = (*cta.mbarriers.values(), *cta.former_mbarriers.values())
        left = [*unseen_arrivals(barriers, settled), *accesses]
        overtaken = [one for one in left if one.ends is None and any(one.over(clock) for clock in clocks)]
        if overtaken and self.machine.practised("arrivals before a relaxed cluster barrier"):
            left = [one for one in left if one not in overtaken]
        shown = [one for one in left if is_shown(one, clocks)]
        complain_of_what_is_left(self.machine, self.image, cta.name, shown, "exit")
        complain_of_what_is_left(self.machine, self.image, cta.name, (one for one in left if one not in shown))
