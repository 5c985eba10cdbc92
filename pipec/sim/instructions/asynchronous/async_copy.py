"""cp.async, st.async, red.async (PTX ISA 9.7.9.12-14, 9.7.9.25.3)."""

from __future__ import annotations

import functools

import numpy as np

from pipec.record import field, mutable

from ...compiled.copies import issued
from ...errors import SimulationError
from ...machine.memory.global_memory import Held
from ...machine.memory.spaces import OFFSET_MASK, RANK_SHIFT, STEPS
from ...machine.program import Execute
from ...machine.races.clocks import UNKNOWING, Clock, Knowledge, join, learned
from ...machine.races.ledger import Access
from ...machine.threads.barriers import TrackedBarrier
from ...machine.threads.cta import Cta, Warp
from ...machine.threads.divergence import Outcome
from ...machine.threads.groups import Operation
from ...ptx.tree import Negated, Register
from ...ptx.types import TYPES, Addresses, LaneMask, LaneValues, unsigned
from ...units.copies.reductions import REDUCTIONS, reduce_elements
from ..decode import Decoder, instruction
from ..memory.loadstore import address_reader, shared_addresses
from ..widths import Reader
from .mbarrier import complain_of_split, local_barrier
from .operations import COPY_LATENCY, commit_groups, complete, finished, groups_of_lanes, operation, wait_for_groups


@instruction("cp.async")
def copy(d: Decoder) -> Execute:
    d.require("ca", "cg")
    d.require("shared", "shared::cta")
    d.require("global")
    policy = d.flag("L2::cache_hint")
    size = d.integer(2)
    shift = size.bit_length() - 1
    dst, source = shared_addresses(d, 0, False), address_reader(d, 1, "global")
    present = _bytes_read(d, size) if len(d.operands) > 3 + policy else None

    def execute(warp: Warp) -> None:
        cta, machine = warp.cta, warp.cta.machine
        offsets, origins, counts = dst(warp), source(warp), present(warp) if present else None
        by_lane = offsets.copy() if warp.mask is None else np.where(warp.mask, offsets, -1)
        if warp.mask is not None:
            offsets, origins, counts = offsets[warp.mask], origins[warp.mask], counts[warp.mask] if counts is not None else None
        offsets = offsets ^ (cta.rank << RANK_SHIFT)
        # Most lanes read all or nothing: compilers mask a copy by a source size of 0. None: all lanes read everything.
        whole = None if counts is None or counts.tolist() == [size] * counts.size else counts == size
        read = origins if whole is None else origins[whole]
        partly = whole is not None and counts is not None and bool(counts[~whole].any())
        held = machine.memory.holder(read, size)
        thread = warp.thread
        access = Access(
            "cp.async", thread, warp.fragment.pc, thread.time, True, ends=thread.issue("cp.async"), lanes=(by_lane, size)
        )
        if warp.watched is None or not issued(thread.address, machine.races.sets.alone(access), offsets, size):
            offsets = cta.own_pieces(offsets ^ (cta.rank << RANK_SHIFT), size, "cp.async")
            if warp.watched is not None:
                machine.races.begin(thread, access, cta.shared.shadow, offsets >> shift, size=size)
        if warp.watched is not None and cta.mbarriers:
            cta.shared.over_mbarriers(access, offsets >> 4, int(offsets.min()) >> 4, int(offsets.max()) >> 4)
        # One operation for all lanes: they arrive together, and each lane's group contains it.
        operation = Operation()
        for groups in groups_of_lanes(warp, "cp.async"):
            groups.open.append(operation)
        if warp.watched is not None:
            thread.copies_by_lane(by_lane >= 0)
            thread.lay_out(offsets)
            reading = Access("cp.async", thread, access.pc, access.time, False, ends=access.ends)
            if counts is not None and partly:
                machine.memory.begin(thread, reading, _read_places(origins, counts), thread.knowledge)
            elif read.size:
                machine.memory.begin_pieces(thread, reading, read, size, thread.knowledge, held)

        def arrive() -> None:
            if partly or not _copied_at_once(cta, offsets, held, whole, size):
                lanes = np.full(offsets.size, size) if counts is None else counts
                _copied_by_lane(cta, offsets, origins, lanes, size)
            finished(warp, operation)

        warp.later(COPY_LATENCY, arrive, ("cp.async", cta.rank, warp.index))

    return execute


def _copied_at_once(cta: Cta, offsets: Addresses, held: Held, whole: LaneMask | None, size: int) -> bool:
    """Copies the lanes that copy everything, and fills the others (those outside `whole`) with zeros (None: there are none); false where
    the lane-by-lane path has to report an error."""
    allocation, places = held
    unit = min(size, 8)
    if allocation is None and places.size:
        return False
    origins = places
    if whole is not None:
        origins = np.full(offsets.size, -1, np.int64)
        origins[whole] = places
    done = cta.shared.move_in(0 if allocation is None else allocation.address, origins, offsets, size)
    if done is not None:
        return done
    read = None if allocation is None else allocation.views[unit][places[:, None] // unit + STEPS[size // unit]]
    if read is not None and whole is None:
        return cta.shared.put(offsets, read)
    words = np.zeros((offsets.size, size // unit), f"u{unit}")
    if read is not None:
        words[whole] = read
    return cta.shared.put(offsets, words)


def _copied_by_lane(cta: Cta, offsets: Addresses, origins: Addresses, counts: LaneValues, size: int) -> None:
    for offset, origin, count in zip(offsets.tolist(), origins.tolist(), counts.tolist(), strict=True):
        data = np.zeros(size, np.uint8)
        data[:count] = cta.machine.memory.gather(np.arange(origin, origin + count, dtype=np.int64))
        places = np.arange(offset, offset + size, dtype=np.int64)
        cta.shared.store(places, data, 1)


def _bytes_read(d: Decoder, size: int) -> Reader:
    """The fourth operand: the number of bytes read, or a predicate that ignores the source altogether."""
    operand = d.operand(3)
    inner = operand.operand if isinstance(operand, Negated) else operand
    if not (isinstance(inner, Register) and inner.type == "pred"):
        return d.source(3, TYPES["u32"])
    ignored = d.source(3, TYPES["pred"])
    return lambda warp: np.where(ignored(warp), 0, size)


def _read_places(origins: Addresses, counts: LaneValues) -> Addresses:
    """All bytes that are read, `counts` of them from each origin."""
    if (counts == counts[0]).all():
        return (origins[:, None] + np.arange(int(counts[0]))).reshape(-1)
    return np.concatenate(
        [np.arange(start, start + count) for start, count in zip(origins.tolist(), counts.tolist(), strict=True)]
    )


@instruction("cp.async.commit_group")
def commit(d: Decoder) -> Execute:
    return commit_groups("cp.async")


@instruction("cp.async.wait_group")
def wait_group(d: Decoder) -> Execute:
    return wait_for_groups("cp.async", d.count(0), False)


@instruction("cp.async.wait_all")
def wait_all(d: Decoder) -> Execute:
    block = wait_for_groups("cp.async", 0, False)

    def execute(warp: Warp) -> Outcome:
        for groups in groups_of_lanes(warp, "cp.async"):
            if groups.open:
                groups.commit(warp.thread.count("cp.async"))
        return block(warp)

    return execute


@instruction("cp.async.mbarrier.arrive")
def arrive_on_barrier(d: Decoder) -> Execute:
    """With .noinc one arrival, without it one unit of tx-count (measured), once the thread's copies have completed."""
    counted = d.flag("noinc")
    generic = d.choose("shared", "shared::cta") is None
    d.types()
    read = shared_addresses(d, 0, generic)

    def execute(warp: Warp) -> None:
        cta, addresses, together = warp.cta, read(warp), _Together(warp, warp.fragment.pc)
        for lane in warp.lanes():
            barrier = local_barrier(warp, int(addresses[lane]), "cp.async.mbarrier.arrive")
            cta.check_ready(warp, barrier)
            if not counted:
                barrier.state.expect_tx(1)

            over = learned(UNKNOWING, warp.thread.agent("cp.async"), warp.thread.count("cp.async"))
            began = warp.thread.publish().order
            action = functools.partial(_copies_landed, cta, barrier, together if counted else None, over, began)
            warp.later(COPY_LATENCY, action, ("cp.async", cta.rank, warp.index))

    return execute


@mutable(eq=False)
class _Together:
    """Arrivals that lanes of `warp` have asked for in one instruction, at `pc`; the phase of the first one by barrier."""

    warp: Warp
    pc: int
    phases: dict[int, int] = field(default_factory=dict)

    def arrive(self, barrier: TrackedBarrier) -> bool:
        """One of them; whether it completes the phase."""
        if self.phases.setdefault(barrier.offset, barrier.state.phase) != barrier.state.phase:
            complain_of_split(self.warp, barrier, self.pc)
        return barrier.state.arrive()


def _copies_landed(cta: Cta, barrier: TrackedBarrier, together: _Together | None, over: Knowledge, began: Clock) -> None:
    barrier.arrived(over, True, began)
    barrier.landing = join(barrier.landing, began)
    cta.after_barrier_operation(barrier, together.arrive(barrier) if together else barrier.state.complete_tx(1))


@instruction("st.async", "red.async")
def store_async(d: Decoder) -> Execute:
    d.ordering()
    d.require("shared::cluster")
    d.require("mbarrier::complete_tx::bytes")
    reduction = d.require(*REDUCTIONS) if d.item.opcode.startswith("red") else None
    count = int(d.choose("v2", "v4", default="v1")[1:])
    type_ = d.type()
    if type_.bits == 128:
        d.fail("128-bit st.async is not simulated")
    raw, size = unsigned(type_.bits), type_.bytes
    dst, barrier = shared_addresses(d, 0, False), shared_addresses(d, 2, False)
    readers = [d.source(item, raw) for item in d.vector(1)]

    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            address, signal = int(dst(warp)[lane]), int(barrier(warp)[lane])
            # The barrier must be in the CTA that receives the data.
            if address >> 24 != signal >> 24:
                raise SimulationError("undefined", f"st.async to CTA {address >> 24} with a barrier of CTA {signal >> 24}")
            values = np.array([read(warp)[lane] for read in readers], raw.dtype)
            target = warp.cta.peer(address, "st.async")
            target.check_signalled(warp, signal & OFFSET_MASK, "st.async")
            send(warp, target, address & OFFSET_MASK, signal, values)

    def send(warp: Warp, target: Cta, offset: int, signal: int, values: LaneValues) -> None:
        places = offset + size * np.arange(values.size, dtype=np.int64)
        access = operation(warp, d.item.opcode.split(".mbarrier")[0], True, proxy="either")
        access.scope = "sys" if reduction else None
        if warp.watched is not None:
            shadow = target.shared.shadow
            warp.cta.machine.races.begin(warp.watched, access, shadow, shadow.pieces(places // size, size))

        def land() -> None:
            data = values
            if reduction:
                old = target.shared.load(places, size)
                data = reduce_elements(type_.name, reduction, old.view(np.uint8), values.view(np.uint8)).view(values.dtype)
            target.shared.store(places, data, size)
            complete(target, signal, size * values.size, "st.async", access)

        warp.later(COPY_LATENCY, land)

    assert count == len(readers)
    return execute
