"""cp.async, st.async, red.async (PTX ISA 9.7.9.12-14, 9.7.9.25.3)."""

from __future__ import annotations

import functools

import numpy as np

from ...errors import SimulationError
from ...machine.barriers import TrackedBarrier
from ...machine.cta import Cta, Warp
from ...machine.divergence import Outcome
from ...machine.groups import Operation
from ...machine.memory import OFFSET_MASK
from ...machine.program import Execute
from ...ptx.tree import Negated, Register
from ...ptx.types import TYPES, Addresses, LaneValues, unsigned
from ...units.reductions import REDUCTIONS
from ..decode import Decoder, Reader, instruction
from ..memory.atomics import combine
from ..memory.loadstore import address_reader, shared_addresses
from .mbarrier import local_barrier
from .operations import COPY_LATENCY, commit_groups, complete, finished, groups_of, wait_for_groups, writing


@instruction("cp.async")
def copy(d: Decoder) -> Execute:
    d.require("ca", "cg")
    d.require("shared", "shared::cta")
    d.require("global")
    policy = d.flag("L2::cache_hint")
    size = d.integer(2)
    dst, source = shared_addresses(d, 0, False), address_reader(d, 1, "global")
    present = _bytes_read(d, size) if len(d.operands) > 3 + policy else None

    def execute(warp: Warp) -> None:
        cta, machine = warp.cta, warp.cta.machine
        lanes = warp.lanes()
        offsets, origins = cta.own_offset(dst(warp)[lanes]), source(warp)[lanes]
        cta.shared.check(offsets, size, "cp.async")
        counts = present(warp)[lanes] if present else np.full(len(lanes), size)
        operation = Operation()
        for lane in lanes:
            groups_of(warp, lane, "cp.async").open.append(operation)
        # Smaller copies of several threads share granules.
        access = writing(warp, cta, places_of(offsets, size), "cp.async") if size == 16 else None

        def arrive() -> None:
            if access is not None:
                cta.shared.underway.end(access)
            for offset, origin, count in zip(offsets.tolist(), origins.tolist(), counts.tolist(), strict=True):
                data = np.zeros(size, np.uint8)
                data[:count] = machine.memory.gather(np.arange(origin, origin + count, dtype=np.int64))
                places = np.arange(offset, offset + size, dtype=np.int64)
                cta.shared.store(places, data, 1, machine.tick(), warp.identity)
            finished(warp, operation)

        warp.later(COPY_LATENCY, arrive, ("cp.async", cta.rank, warp.index))

    return execute


def _bytes_read(d: Decoder, size: int) -> Reader:
    """The fourth operand: how many bytes are read, or a predicate that ignores the source altogether."""
    operand = d.operand(3)
    inner = operand.operand if isinstance(operand, Negated) else operand
    if not (isinstance(inner, Register) and inner.type == "pred"):
        return d.source(3, TYPES["u32"])
    ignored = d.source(3, TYPES["pred"])
    return lambda warp: np.where(ignored(warp), 0, size)


def places_of(offsets: Addresses, size: int) -> Addresses:
    """All byte offsets of pieces of `size` bytes."""
    return (offsets[:, None] + np.arange(size)).reshape(-1)


@instruction("cp.async.commit_group")
def commit(d: Decoder) -> Execute:
    return commit_groups("cp.async")


@instruction("cp.async.wait_group")
def wait_group(d: Decoder) -> Execute:
    return wait_for_groups("cp.async", d.integer(0), False)


@instruction("cp.async.wait_all")
def wait_all(d: Decoder) -> Execute:
    block = wait_for_groups("cp.async", 0, False)

    def execute(warp: Warp) -> Outcome:
        for lane in warp.lanes():
            groups = groups_of(warp, lane, "cp.async")
            if groups.open:
                groups.commit()
        return block(warp)

    return execute


@instruction("cp.async.mbarrier.arrive")
def arrive_on_barrier(d: Decoder) -> Execute:
    """With .noinc one arrival, without it one unit of tx (measured), once the thread's copies have landed."""
    counted = d.flag("noinc")
    generic = d.choose("shared", "shared::cta") is None
    d.types()
    read = shared_addresses(d, 0, generic)

    def execute(warp: Warp) -> None:
        cta, addresses = warp.cta, read(warp)
        for lane in warp.lanes():
            barrier = local_barrier(warp, int(addresses[lane]), "cp.async.mbarrier.arrive")
            if not counted:
                barrier.state.expect_tx(1)

            warp.later(COPY_LATENCY, functools.partial(_copies_landed, cta, barrier, counted), ("cp.async", cta.rank, warp.index))

    return execute


def _copies_landed(cta: Cta, barrier: TrackedBarrier, counted: bool) -> None:
    state = barrier.state
    cta.after_barrier_operation(barrier, state.arrive() if counted else state.complete_tx(1))


@instruction("st.async", "red.async")
def store_async(d: Decoder) -> Execute:
    d.ignore_ordering()
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
            if address >> 24 != signal >> 24:
                raise SimulationError("undefined", f"st.async to CTA {address >> 24} with a barrier of CTA {signal >> 24}")
            values = np.array([read(warp)[lane] for read in readers], raw.dtype)
            target = warp.cta.peer(address, "st.async")
            send(warp, target, address & OFFSET_MASK, signal, values)

    def send(warp: Warp, target: Cta, offset: int, signal: int, values: LaneValues) -> None:
        def land() -> None:
            places = offset + size * np.arange(values.size, dtype=np.int64)
            data = values
            if reduction:
                old = target.shared.load(places, size)
                data = np.concatenate([combine(reduction, type_, old[i : i + 1], values[i : i + 1]) for i in range(values.size)])
            target.shared.store(places, data, size, warp.cta.machine.tick(), warp.identity)
            complete(target, signal, size * values.size, "st.async")

        warp.later(COPY_LATENCY, land)

    assert count == len(readers)
    return execute
