"""cp.async, st.async, red.async (PTX ISA 9.7.9.12-14, 9.7.9.25.3)."""

from __future__ import annotations

import numpy as np

from ..decode import Decoder, instruction
from ..errors import SimulationError
from ..execution import Warp
from ..memory import OFFSET_MASK
from ..tree import Negated, Register
from ..types import TYPES, unsigned
from .asynchronous import COPY_LATENCY, Operation, commit_groups, complete, finished, groups_of, wait_for_groups, writing
from .atomics import combine
from .loadstore import address_reader, shared_addresses
from .mbarrier import local_barrier


@instruction("cp.async")
def copy(d: Decoder):
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

        machine.later(warp, COPY_LATENCY, arrive, ("cp.async", cta.rank, warp.index))

    return execute


def _bytes_read(d: Decoder, size: int):
    """The fourth operand: how many bytes are read, or a predicate that ignores the source altogether."""
    operand = d.operand(3)
    inner = operand.operand if isinstance(operand, Negated) else operand
    if not (isinstance(inner, Register) and inner.type == "pred"):
        return d.source(3, TYPES["u32"])
    ignored = d.source(3, TYPES["pred"])
    return lambda warp: np.where(ignored(warp), 0, size)


def places_of(offsets: np.ndarray, size: int) -> np.ndarray:
    """All byte offsets of pieces of `size` bytes."""
    return (offsets[:, None] + np.arange(size)).reshape(-1)


@instruction("cp.async.commit_group")
def commit(d: Decoder):
    return commit_groups("cp.async")


@instruction("cp.async.wait_group")
def wait_group(d: Decoder):
    return wait_for_groups("cp.async", d.integer(0), False)


@instruction("cp.async.wait_all")
def wait_all(d: Decoder):
    block = wait_for_groups("cp.async", 0, False)

    def execute(warp: Warp):
        for lane in warp.lanes():
            groups = groups_of(warp, lane, "cp.async")
            if groups.open:
                groups.commit()
        return block(warp)

    return execute


@instruction("cp.async.mbarrier.arrive")
def arrive_on_barrier(d: Decoder):
    """With .noinc one arrival, without it one unit of tx (measured), once the thread's copies have landed."""
    counted = d.flag("noinc")
    generic = d.choose("shared", "shared::cta") is None
    d.types()
    read = shared_addresses(d, 0, generic)

    def execute(warp: Warp) -> None:
        cta, machine, addresses = warp.cta, warp.cta.machine, read(warp)
        for lane in warp.lanes():
            barrier = local_barrier(warp, int(addresses[lane]), "cp.async.mbarrier.arrive")
            if not counted:
                barrier.state.expect_tx(1)

            def land(barrier=barrier) -> None:
                state = barrier.state
                cta.after_barrier_operation(barrier, state.arrive() if counted else state.complete_tx(1))

            machine.later(warp, COPY_LATENCY, land, ("cp.async", cta.rank, warp.index))

    return execute


@instruction("st.async", "red.async")
def store_async(d: Decoder):
    d.ignore_ordering()
    d.require("shared::cluster")
    d.require("mbarrier::complete_tx::bytes")
    reduction = d.require("add", "min", "max", "inc", "dec", "and", "or", "xor") if d.item.opcode.startswith("red") else None
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
            _send(warp, target, address & OFFSET_MASK, signal, values, size, reduction, type_)

    def _send(warp, target, offset, signal, values, size, reduction, type_) -> None:
        machine = warp.cta.machine

        def land() -> None:
            places = offset + size * np.arange(values.size, dtype=np.int64)
            data = values
            if reduction:
                old = target.shared.load(places, size)
                data = np.concatenate([combine(reduction, type_, old[i : i + 1], values[i : i + 1]) for i in range(values.size)])
            target.shared.store(places, data, size, machine.tick(), warp.identity)
            complete(target, signal, size * values.size, "st.async")

        machine.later(warp, COPY_LATENCY, land)

    assert count == len(readers)
    return execute
