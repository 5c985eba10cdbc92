"""Bulk data movement: where bytes go, when they arrive, what is signalled (PTX ISA 9.7.9.25)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping

from pipec.record import record, replace

from ...errors import SimulationError
from ...machine.memory.global_memory import GlobalMemory
from ...machine.memory.spaces import OFFSET_MASK
from ...machine.program import Execute
from ...machine.races.clocks import Agent, Knowledge
from ...machine.races.ledger import Access, Scope
from ...machine.threads.cta import Cta, Warp
from ...machine.threads.divergence import Outcome
from ...machine.threads.groups import Operation
from ...ptx.types import TYPES, Addresses, Bytes, LaneValues
from ...units.copies.places import Places
from ...units.layouts import Tile
from ..decode import Decoder
from ..widths import Reader
from .operations import COPY_LATENCY, AsyncView, complete, copy_slots, finished, groups_of, operation, writing

# A wait for a store's group covers either its source reads or its completion.
_STORING: tuple[Agent, Agent] = ("bulk read", "bulk")

Fetch = Callable[[], Bytes]
Store = Callable[[Bytes], None]


def one(reader: Reader, warp: Warp, lane: int) -> int:
    return int(reader(warp)[lane])


def each_lane(action: Callable[[Warp, int], None]) -> Execute:
    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            action(warp, lane)

    return execute


def each_store(action: Callable[[Warp, int], None], reducing: bool, *operands: Reader) -> Execute:
    """A store per lane; on chips, lanes with the same `operands` issue one store together (`machine.practice`). Reductions are always
    issued per lane."""
    everyone = each_lane(action)

    def execute(warp: Warp) -> Outcome:
        lanes = warp.lanes()
        if len(lanes) == 1:
            return everyone(warp)
        first: dict[tuple[int, ...], int] = {}
        for lane in lanes:
            first.setdefault(tuple(one(operand, warp, lane) for operand in operands), lane)
        if reducing:
            if len(first) < len(lanes):
                _tell_repeated(warp)
            return everyone(warp)
        if len(first) == len(lanes) or not warp.cta.machine.practised("one store by equal lanes"):
            return everyone(warp)
        for lane in first.values():
            action(warp, lane)
        return None

    return execute


def _tell_repeated(warp: Warp) -> None:
    """Lanes that reduce the same bytes into the same place: each of them adds."""
    findings, key = warp.cta.machine.findings, ("reduction", warp.fragment.pc)
    message = "several lanes of a warp make the same reduction, and each of them adds: one thread is to be elected"
    if not findings.again("lanes", key):
        findings.add("lanes", key, warp.here(SimulationError("undefined", message)))


def routing(d: Decoder, after_barrier: int) -> tuple[Reader | None, bool]:
    """(mask reader, uses pair signals): the modifiers that copies to shared memory share."""
    multicast = d.flag("multicast::cluster")
    d.ignore("L2::cache_hint")
    pair = d.choose("cta_group::1", "cta_group::2") == "cta_group::2"
    d.require("mbarrier::complete_tx::bytes")
    return (d.source(after_barrier, TYPES["u16"]) if multicast else None), pair


@record
class Destination:
    """Where one copy of the data goes, and the barrier (CTA, address) that counts its bytes."""

    cta: Cta
    offset: int
    barrier_cta: Cta
    barrier: int


def destinations(warp: Warp, dst: int, barrier: int, mask: int | None, pair: bool) -> list[Destination]:
    """Routing of data and signals (PTX ISA 9.7.9.25.5.2; rank bits under multicast as measured)."""
    cta = warp.cta
    ctas = cta.cluster.ctas
    if mask is None:
        target = cta.peer(dst, "copy destination")
        # With .cta_group::2 the signal may go to the CTA of the pair that does not receive the data (PTX ISA 9.7.9.25.5.2).
        holder = cta.peer(barrier, "copy barrier") if pair else target
        if pair and holder.rank // 2 != target.rank // 2:
            raise SimulationError("undefined", f"barrier of CTA {holder.rank} for data of CTA {target.rank}: not one pair")
        return [Destination(target, dst & OFFSET_MASK, holder, barrier & OFFSET_MASK)]
    if mask >> len(ctas) or not mask:
        raise SimulationError("undefined", f"multicast mask 0x{mask:x} in a cluster of {len(ctas)} CTAs")
    # Under multicast the rank bits of addresses are ignored, except the one that distinguishes the CTAs of a pair (measured).
    parity = barrier >> 24 & 1
    found = []
    for rank in range(len(ctas)):
        if mask >> rank & 1:
            target = cta.peer(rank << 24, "multicast")
            holder = ctas[(rank & ~1) | parity] if pair else target
            found.append(Destination(target, dst & OFFSET_MASK, holder, barrier & OFFSET_MASK))
    return found


def deliver(
    warp: Warp,
    target: Destination,
    places: Places,
    fetch: Fetch,
    what: str,
    source: Access,
    reducing: bool = False,
    tile: Tile | None = None,
    copied: object = None,
    outside: Addresses | None = None,
) -> None:
    """Schedules the arrival of bytes at `places`, read by `source`; in random timing, in pieces of multiples of 32 bytes. `copied`:
    where they come from; copies of the same source to the same place deliver the same bytes. `outside`: the offsets of bytes that no
    source determines."""
    machine = warp.cta.machine
    count = places.size
    target.cta.shared.check_places(places, what)
    access = writing(
        warp,
        target.cta,
        places,
        what,
        target.barrier,
        reducing,
        tile=tile,
        copied=copied and (copied, target.offset),
        barrier_cta=target.barrier_cta,
    )
    open_bytes = [count]

    def piece(start: int, end: int) -> None:
        if target.cta.exited:
            raise SimulationError("undefined", f"{what} writes shared memory of {target.cta.name}, which has exited")
        target.cta.shared.async_write(places, fetch()[start:end], what, start)
        if outside is not None and outside.size:
            target.cta.shared.undetermined(outside)
        open_bytes[0] -= end - start
        target.cta.trace("tma_completed", bytes=end - start, barrier=target.barrier, address=target.offset)
        ended = () if open_bytes[0] else (access, source)
        complete(target.barrier_cta, target.barrier, end - start, what, *ended)

    cuts = [0, count]
    if machine.events.timing == "random" and count > 64:
        inner = {machine.events.random.randrange(32, count, 32) for _ in range(machine.events.random.randrange(3))}
        # Bytes of one copy become visible in pieces, each counted separately, which exposes a wait for too few bytes.
        cuts = sorted({0, count, *inner})
    # Copies of one CTA arrive in order only under the timing "order": TMA guarantees no order among them.
    channel = ("tma", warp.cta.rank) if machine.events.timing == "order" else None
    for start, end in itertools.pairwise(cuts):
        warp.later(COPY_LATENCY, functools.partial(piece, start, end), channel, busy=copy_slots(end - start))


@record
class WatchedMemory:
    """Global memory as seen by an asynchronous operation that `warp` issued when it had that `knowledge`."""

    memory: GlobalMemory
    warp: Warp
    access: Access
    knowledge: Knowledge

    @staticmethod
    def of(warp: Warp, access: Access) -> WatchedMemory:
        # Checked against the accesses of others at its completion; stepping the clock distinguishes the warp's accesses in between from
        # earlier ones.
        warp.thread.step()
        return WatchedMemory(warp.cta.machine.memory, warp, access, warp.thread.knowledge)

    def gather(self, addresses: Addresses) -> LaneValues:
        if not self.access.writes:
            self._touch(addresses)
        return self.memory.gather(addresses)

    def scatter(self, addresses: Addresses, values: LaneValues) -> None:
        self._touch(addresses, values)
        self.memory.scatter(addresses, values)

    def gather_runs(self, starts: Addresses, length: int) -> LaneValues:
        if not self.access.writes and self.warp.watched is not None:
            self.memory.begin_runs(self.warp.watched, self.access, starts, length, self.knowledge)
        return self.memory.gather_runs(starts, length)

    def scatter_runs(self, starts: Addresses, values: LaneValues) -> None:
        if self.warp.watched is not None:
            self.memory.begin_runs(self.warp.watched, self.access, starts, values.shape[1], self.knowledge, values)
        self.memory.scatter_runs(starts, values)

    def _touch(self, addresses: Addresses, values: LaneValues | None = None) -> None:
        if self.warp.watched is not None:
            self.memory.begin(self.warp.watched, self.access, addresses, self.knowledge, values)


def storing(warp: Warp, what: str, scope: Scope | None) -> WatchedMemory:
    """Global memory that a bulk store will write; `scope`: of a strong store or a reduction."""
    access = operation(warp, what, True, *_STORING)
    # Of the two completions (source read, all done), only the second completes a write.
    access.ends = (access.ends or ())[1:]
    access.scope = scope
    return WatchedMemory.of(warp, access)


def start_store(
    warp: Warp,
    lane: int,
    places: Places,
    write: Store,
    what: str,
    target: WatchedMemory,
    tile: Tile | None = None,
    told: Mapping[str, object] | None = None,
) -> None:
    """A group-tracked store: the sources are read at one moment and the destination is written at a later one. `tile`: how the source
    reads are recorded; `told`: further details for the trace."""
    cta, thread = warp.cta, warp.thread
    view, operation = AsyncView(cta, what), Operation(warp.fragment.pc)
    groups_of(warp, lane, "bulk").open.append(operation)
    cta.trace("store_issued", bytes=places.size, warp=warp.index, **(told or {}))
    held: list[Bytes] = []
    ((_, issued),) = target.access.ends or ()
    source = replace(target.access, writes=False, scope=None, tile=tile)
    source.ends = tuple((thread.agent(kind), issued) for kind in _STORING)
    cta.shared.begin(thread, source, places.granules)
    cta.shared.copied_out(source, places.granules, tile)

    def read() -> None:
        if cta.exited and not cta.machine.practised("bulk stores at exit"):
            raise SimulationError(
                "undefined", f"{what} reads shared memory of {cta.name}, which has exited; wait for the group first"
            )
        # The sources may be overwritten from here on (`wait_group.read`), so their bytes are kept until the write.
        held.append(view.read_places(places))
        finished(warp, operation, read_only=True)

    def finish() -> None:
        write(held[0])
        cta.trace("store_completed", bytes=places.size, warp=warp.index)
        finished(warp, operation)

    channel = ("store", cta.rank, warp.index, lane)
    warp.later(COPY_LATENCY // 2, read, channel, busy=copy_slots(places.size), storing=True)
    warp.later(COPY_LATENCY, finish, channel, storing=True)
