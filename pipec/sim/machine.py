"""CTAs and clusters: memories, barriers and the things lanes can wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .errors import SimulationError
from .execution import LANE, Fragment, Wait, Warp
from .memory import OFFSET_MASK, RANK_SHIFT, FlatMemory, SharedMemory, space_of
from .specials import SPECIALS, special_value
from .types import LANES, unsigned
from .units.mbarrier import Mbarrier

if TYPE_CHECKING:
    from .program import Program

NAMED_BARRIERS = 16


@dataclass(eq=False)
class NamedBarrier:
    """bar.sync state: `arrived` threads of the current phase out of `expected` (None: all live threads of the CTA)."""

    number: int
    arrived: int = 0
    expected: int | None = None
    waiting: list[tuple[Warp, Fragment]] = field(default_factory=list)
    reduction: list = field(default_factory=list)


@dataclass(eq=False)
class TrackedBarrier:
    """An mbarrier with the fragments parked on it and, per thread, the phase it last saw complete."""

    state: Mbarrier
    offset: int
    waiting: list[Fragment] = field(default_factory=list)
    observed: int = 0


class Cta:
    def __init__(self, cluster: Cluster, rank: int, index: tuple, position: tuple, program: Program, machine) -> None:
        self.cluster, self.rank, self.index, self.position = cluster, rank, index, position
        self.program, self.machine = program, machine
        self.block, self.grid = machine.block, machine.grid
        self.shared = SharedMemory(max(program.shared_end, program.dynamic_base), rank)
        self.parameters, self.constants = machine.parameters, machine.constants
        self.named = [NamedBarrier(number) for number in range(NAMED_BARRIERS)]
        self.mbarriers: dict[int, TrackedBarrier] = {}
        self.tensor = None
        self.outstanding = 0
        self.launch_control_ended = False  # a request for another cluster was seen to fail
        self.register_counts: dict[int, int] = {}  # warp -> registers of each thread, once they were set
        self.register_waiters: list[Fragment] = []
        self.warpgroups: dict[int, list] = {}
        threads = self.block[0] * self.block[1] * self.block[2]
        self.warps = [self._warp(number, threads) for number in range(-(-threads // LANES))]

    def _warp(self, number: int, threads: int) -> Warp:
        live = number * LANES + LANE < threads
        warp = Warp(self, number, live, [], self.program.local_bytes)
        warp.registers = self.program.registers_for(lambda kind, value: self._initial(warp, kind, value))
        return warp

    def _initial(self, warp: Warp, kind: str, value) -> np.ndarray:
        if kind == "special":
            return np.zeros(LANES, np.uint32) if SPECIALS[value].dynamic else special_value(value, warp)
        address, width = value
        return np.full(LANES, (self.rank << RANK_SHIFT) | address, unsigned(width).dtype)

    @property
    def live_threads(self) -> int:
        return sum(int(np.count_nonzero(warp.live)) for warp in self.warps)

    @property
    def exited(self) -> bool:
        return not any(warp.alive for warp in self.warps)

    @property
    def name(self) -> str:
        return f"CTA ({self.index[0]},{self.index[1]},{self.index[2]})"

    # ---- registers

    def set_registers(self, warp: Warp, count: int) -> Wait | None:
        """setmaxnreg: takes registers from the CTA's pool, what the launch gave its threads (`.maxnreg`), or gives them back.

        Returns what to wait for while the pool is too small (PTX ISA 9.7.20.5). Without `.maxnreg` nobody knows the pool.
        """
        (launch,) = self.program.function.directives.get("maxnreg") or (None,)
        if launch is not None:
            others = sum(self.register_counts.get(one.index, launch) for one in self.warps if one is not warp)
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

    # ---- address spaces

    def own_offset(self, addresses: np.ndarray) -> np.ndarray:
        """Offsets of `.shared::cta` addresses; a foreign rank byte faults (measured)."""
        offsets = addresses ^ (self.rank << RANK_SHIFT)
        if int(np.bitwise_or.reduce(offsets, axis=None)) & ~OFFSET_MASK:
            bad = int(addresses[addresses >> RANK_SHIFT != self.rank][0])
            if bad >> RANK_SHIFT < 0 or bad >> RANK_SHIFT >= 16:
                raise SimulationError("out_of_bounds", f"shared address 0x{bad:x} is outside the shared window")
            raise SimulationError(
                "out_of_bounds",
                f"shared::cta address 0x{bad:x} belongs to CTA rank {bad >> RANK_SHIFT}, executed by rank {self.rank}",
            )
        return offsets

    def peer(self, address: int, what: str) -> Cta:
        """The CTA of the cluster that a shared::cluster address names."""
        rank = address >> RANK_SHIFT
        if not 0 <= rank < len(self.cluster.ctas):
            raise SimulationError(
                "out_of_bounds",
                f"{what}: shared::cluster address 0x{address:x} names CTA rank {rank} of a cluster of {len(self.cluster.ctas)}",
            )
        cta = self.cluster.ctas[rank]
        if cta.exited and cta is not self:
            raise SimulationError("undefined", f"{what}: CTA rank {rank} has already exited")
        return cta

    def local_memory(self, warp: Warp) -> FlatMemory:
        if warp.local is None:
            warp.local = FlatMemory("local", np.zeros(max(1, warp.local_bytes) * LANES, np.uint8))
        return warp.local

    def load(self, warp: Warp, space: str, addresses: np.ndarray, size: int) -> np.ndarray:
        """Unsigned values of `size` bytes; `addresses` are those of the active lanes only, in lane order."""
        if space == "global":
            return self.machine.memory.load(addresses, size)
        if space == "shared":
            return self.shared.load(self.own_offset(addresses), size)
        if space == "generic":
            return self._generic(warp, addresses, lambda s, a, _: self.load(warp, s, a, size))
        if space == "cluster":
            return self._by_rank(addresses, lambda cta, offsets, _: cta.shared.load(offsets, size))
        return self._flat(warp, space, size).load(self._flat_address(warp, space, addresses, size), size)

    def store(self, warp: Warp, space: str, addresses: np.ndarray, values: np.ndarray, size: int) -> None:
        self.machine.progress += 1
        if space == "global":
            self.machine.memory.store(addresses, values, size)
        elif space == "shared":
            self.shared.store(self.own_offset(addresses), values, size, self.machine.tick(), warp.identity)
        elif space == "generic":
            self._generic(warp, addresses, lambda s, a, chosen: self.store(warp, s, a, values[chosen], size))
        elif space == "cluster":
            self._by_rank(
                addresses,
                lambda cta, offsets, chosen: cta.shared.store(offsets, values[chosen], size, self.machine.tick(), warp.identity),
            )
        else:
            self._flat(warp, space, size).store(self._flat_address(warp, space, addresses, size), values, size)

    def _flat(self, warp: Warp, space: str, size: int) -> FlatMemory:
        return {"param": self.parameters, "const": self.constants}.get(space) or self.local_memory(warp)

    def _flat_address(self, warp: Warp, space: str, addresses: np.ndarray, size: int) -> np.ndarray:
        if space != "local":
            return addresses
        if ((addresses < 0) | (addresses + size > warp.local_bytes)).any():
            raise SimulationError(
                "out_of_bounds", f"local address 0x{int(addresses.max()):x} is outside the {warp.local_bytes} bytes of the thread"
            )
        lanes = LANE if addresses.size == LANES else np.flatnonzero(warp.active)
        return addresses + lanes * warp.local_bytes

    def _generic(self, warp: Warp, addresses: np.ndarray, action):
        """Splits generic addresses by window. A warp practically always touches one."""
        if not addresses.size:
            return action("global", addresses, slice(None))
        windows = addresses & ~0xFF_FFFF_FFFF
        first = int(windows[0])
        if (windows == first).all():
            space = space_of(first)
            return action("cluster" if space == "shared" else space, addresses - (first if space != "global" else 0), slice(None))
        results = None
        for window in np.unique(windows):
            chosen = windows == window
            space = space_of(int(window))
            part = action(
                "cluster" if space == "shared" else space, addresses[chosen] - (int(window) if space != "global" else 0), chosen
            )
            if part is not None:
                results = np.zeros(addresses.size, part.dtype) if results is None else results
                results[chosen] = part
        return results

    def _by_rank(self, addresses: np.ndarray, action):
        ranks = addresses >> RANK_SHIFT
        if not addresses.size or (ranks == ranks[0]).all():
            owner = self.peer(int(addresses[0]), "memory access") if addresses.size else self
            return action(owner, addresses & OFFSET_MASK, slice(None))
        results = None
        for rank in np.unique(ranks):
            chosen = ranks == rank
            part = action(self.peer(int(rank) << RANK_SHIFT, "memory access"), addresses[chosen] & OFFSET_MASK, chosen)
            if part is not None:
                results = np.zeros(addresses.size, part.dtype) if results is None else results
                results[chosen] = part
        return results

    def read_bytes(self, space: str, address: int, count: int, warp: Warp) -> bytes:
        """`count` bytes anywhere, for descriptors; `space` as in `load`."""
        saved, warp.active = warp.active, np.zeros(LANES, bool)
        try:
            return self.load(warp, space, np.arange(address, address + count, dtype=np.int64), 1).tobytes()
        finally:
            warp.active = saved

    # ---- mbarriers

    def mbarrier(self, offset: int, what: str) -> TrackedBarrier:
        barrier = self.mbarriers.get(offset)
        if barrier is None:
            if offset % 8:
                raise SimulationError("misaligned", f"{what} on 0x{offset:x}: an mbarrier is 8-byte aligned")
            self.shared.check(np.array([offset]), 8, what)
            raise SimulationError("uninitialised", f"{what} on shared address 0x{offset:x}, where no mbarrier is initialised")
        return barrier

    def after_barrier_operation(self, barrier: TrackedBarrier, flipped: bool) -> None:
        """Wakes the waiters of a completed phase and records it."""
        self.machine.progress += 1
        if not flipped:
            return
        self.cluster.trace("phase", self, address=barrier.offset, phase=barrier.state.phase - 1)
        for fragment in barrier.waiting:
            fragment.wait = None
        barrier.waiting.clear()

    # ---- named barriers

    def arrive_named(self, number: int, threads: int, expected: int | None) -> NamedBarrier:
        barrier = self.named[number]
        if barrier.arrived and barrier.expected != expected:
            raise SimulationError(
                "undefined", f"barrier {number} is used with {expected} threads while others use it with {barrier.expected}"
            )
        barrier.expected = expected
        barrier.arrived += threads
        self.machine.progress += 1
        return barrier

    def settle_named(self, barrier: NamedBarrier) -> bool:
        """Completes the barrier if everybody is there; true if it did."""
        wanted = self.live_threads if barrier.expected is None else barrier.expected
        if not barrier.arrived or barrier.arrived < wanted:
            return False
        if barrier.arrived > wanted:
            raise SimulationError("undefined", f"barrier {barrier.number} expects {wanted} threads, {barrier.arrived} arrived")
        for _, fragment in barrier.waiting:
            fragment.wait = None
        barrier.waiting.clear()
        barrier.arrived, barrier.expected = 0, None
        return True


class Cluster:
    """CTAs that run together. `index` and `shape` are in clusters and CTAs; `count` is clusters in the grid."""

    def __init__(self, machine, index: tuple, shape: tuple, count: tuple, explicit: bool, program: Program) -> None:
        self.machine, self.index, self.shape, self.count, self.explicit = machine, index, shape, count, explicit
        self.now = machine.now
        self.barrier_phase = 0
        self.barrier_arrived = 0
        self.barrier_waiting: list[Fragment] = []
        self.ctas: list[Cta] = []
        total = shape[0] * shape[1] * shape[2]
        for rank in range(total):
            position = (rank % shape[0], rank // shape[0] % shape[1], rank // (shape[0] * shape[1]))
            block = tuple(index[axis] * shape[axis] + position[axis] for axis in range(3))
            self.ctas.append(Cta(self, rank, block, position, program, machine))

    @property
    def warps(self) -> list[Warp]:
        return [warp for cta in self.ctas for warp in cta.warps]

    def trace(self, kind: str, cta: Cta, **details) -> None:
        self.machine.record(self.now, kind, cta, details)

    def settle_barrier(self) -> None:
        """Completes barrier.cluster when all live threads have arrived."""
        live = sum(cta.live_threads for cta in self.ctas)
        if self.barrier_arrived and self.barrier_arrived >= live:
            self.barrier_arrived = 0
            self.barrier_phase += 1
            self.machine.progress += 1
            for fragment in self.barrier_waiting:
                fragment.wait = None
            self.barrier_waiting.clear()

    def after_exit(self, cta: Cta) -> None:
        """Exited threads no longer count for the barriers that mean "all threads"."""
        for barrier in cta.named:
            if barrier.expected is None:
                cta.settle_named(barrier)
        self.settle_barrier()
