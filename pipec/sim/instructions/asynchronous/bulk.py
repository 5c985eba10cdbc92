"""Bulk copies without a tensor map, and bulk groups: cp.async.bulk, cp.reduce.async.bulk (PTX ISA 9.7.9.25.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.races.ledger import Access, Scope
from ...machine.threads.cta import Warp
from ...ptx.types import TYPES, Addresses, Bytes, Type
from ...units.copies.places import Places
from ...units.copies.reductions import REDUCTIONS, Reduction, reduce_elements
from ...units.limits import CTA_SHARED_BYTES
from ..control.branches import nothing
from ..decode import Decoder, instruction
from ..memory.loadstore import address_reader, shared_addresses
from ..ordering import SCOPES
from ..widths import Reader
from .operations import AsyncView, commit_groups, operation, wait_for_groups
from .transfers import (
    Destination,
    Fetch,
    WatchedMemory,
    deliver,
    destinations,
    each_lane,
    each_store,
    one,
    routing,
    start_store,
    storing,
)

Source = Literal["shared::cluster", "shared::cta", "global"]
_SPACES: tuple[Source, ...] = ("shared::cluster", "shared::cta", "global")


@instruction("cp.async.bulk.commit_group")
def commit(d: Decoder) -> Execute:
    return commit_groups("bulk")


@instruction("cp.async.bulk.wait_group")
def wait_group(d: Decoder) -> Execute:
    return wait_for_groups("bulk", d.count(0), d.flag("read"))


@instruction("cp.async.bulk.prefetch")
def prefetch(d: Decoder) -> Execute:
    d.modifiers.clear()
    return nothing


@instruction("cp.async.bulk", "cp.reduce.async.bulk")
def bulk_copy(d: Decoder) -> Execute:
    """Without a tensor map: sizes are rounded down to 16 bytes, as measured."""
    reduction = d.require(*REDUCTIONS) if d.item.opcode.startswith("cp.reduce") else None
    to, from_ = d.choose(*_SPACES), d.choose(*_SPACES)
    if to is None or from_ is None:
        d.fail("needs a destination and a source space", "malformed")
    d.flag("noftz")
    d.flag("weak")
    scope = (d.choose(*SCOPES) or "cta") if d.flag("relaxed") else None
    kind = d.types()
    type_ = kind[0] if kind else None
    if to == "global":
        return _bulk_to_global(d, reduction, type_, scope)
    if reduction:
        return _bulk_to_shared(d, from_, reduction, type_)
    return _bulk_to_shared(d, from_, None, None, scope)


def _checked_size(size: int, *addresses: int) -> int:
    for address in addresses:
        if address % 16:
            raise SimulationError("misaligned", f"bulk copy address 0x{address:x} is not a multiple of 16")
    # Checked before anything counts the bytes: a miscalculated size may be any 32-bit number.
    if size > CTA_SHARED_BYTES:
        raise SimulationError("out_of_bounds", f"bulk copy of {size} bytes: shared memory has at most {CTA_SHARED_BYTES}")
    return size // 16 * 16


def _ignored(warp: Warp, lane: int, counts: Sequence[Reader]) -> tuple[int, int]:
    """How many bytes at the beginning and at the end may lie outside the source's memory (`.ignore_oob`)."""
    left, right = (one(count, warp, lane) for count in counts) if counts else (0, 0)
    if max(left, right) > 15:
        raise SimulationError("undefined", f"bulk copy ignores {left} bytes before and {right} behind: at most 15 each")
    return left, right


def _bulk_to_shared(
    d: Decoder, from_: Source, reduction: Reduction | None, type_: Type | None, scope: Scope | None = None
) -> Execute:
    dst, size = shared_addresses(d, 0, False), d.source(2, TYPES["u32"])
    source = address_reader(d, 1, "generic" if from_ == "global" else "shared")
    counts = [d.source(number, TYPES["u32"]) for number in (3, 4)] if d.flag("ignore_oob") else []
    barrier = shared_addresses(d, 3 + len(counts), False)
    mask, pair = routing(d, 4 + len(counts))
    what = "bulk copy" if reduction is None else "bulk reduction"

    def one_lane(warp: Warp, lane: int) -> None:
        start, address = one(source, warp, lane), one(dst, warp, lane)
        count = _checked_size(one(size, warp, lane), start, address)
        if not count:
            return
        source_access = operation(warp, what, False)
        source_access.scope = scope
        left, right = _ignored(warp, lane, counts)
        inside = max(count - left - right, 0)
        fetch = _source(warp, from_, start + left, inside, source_access)
        chosen, signal = one(mask, warp, lane) if mask else None, one(barrier, warp, lane)
        if from_ == "shared::cta" and address >> 24 != signal >> 24:
            raise SimulationError(
                "undefined",
                f"{what} to CTA rank {address >> 24} signals a barrier of rank {signal >> 24}: they must be one CTA's",
            )
        for target in destinations(warp, address, signal, chosen, pair):
            offsets = np.arange(target.offset, target.offset + count, dtype=np.int64)
            combined = fetch if reduction is None or type_ is None else _combining(target, offsets, fetch, reduction, type_)
            copied = (start, count) if from_ == "global" and reduction is None else None
            warp.cta.trace(
                "tma_issued",
                bytes=count,
                barrier=target.barrier,
                address=target.offset,
                coordinates=(count,),
                warp=warp.index,
                destination=target.cta.rank,
                holder=target.barrier_cta.rank,
                tensor=start if from_ == "global" else None,
            )
            outside = np.concatenate([offsets[:left], offsets[left + inside :]])
            delivered = _padded(combined, left, count - left - inside) if outside.size else combined
            deliver(
                warp,
                target,
                Places(offsets),
                delivered,
                what,
                source_access,
                reduction is not None,
                copied=copied,
                outside=outside,
            )

    return each_lane(one_lane)


def _padded(fetch: Fetch, before: int, behind: int) -> Fetch:
    return lambda: np.pad(fetch(), (before, behind))


def _source(warp: Warp, from_: Source, start: int, count: int, access: Access) -> Fetch:
    cta = warp.cta
    if from_ == "global":
        memory = WatchedMemory.of(warp, access)
        return lambda: memory.gather_runs(np.array([start], np.int64), count).reshape(-1)
    places = Places(cta.own_offset(np.arange(start, start + count, dtype=np.int64)))
    view = AsyncView(cta, access.what)
    cta.shared.begin(warp.thread, access, places.granules)
    return lambda: view.read_places(places)


def _combining(target: Destination, offsets: Addresses, fetch: Fetch, reduction: Reduction, type_: Type) -> Fetch:
    def combined() -> Bytes:
        old = target.cta.shared.async_read(offsets, "bulk reduction")
        return reduce_elements(type_.name, reduction, old, fetch())

    return combined


def _bulk_to_global(d: Decoder, reduction: Reduction | None, type_: Type | None, scope: Scope | None) -> Execute:
    d.require("bulk_group")
    hinted, masked = d.flag("L2::cache_hint"), d.flag("cp_mask")
    mask = d.source(4 if hinted else 3, TYPES["u16"]) if masked else None
    dst, source, size = address_reader(d, 0, "generic"), shared_addresses(d, 1, False), d.source(2, TYPES["u32"])

    def one_lane(warp: Warp, lane: int) -> None:
        start, address = one(source, warp, lane), one(dst, warp, lane)
        count = _checked_size(one(size, warp, lane), start, address)
        source_places = Places(warp.cta.own_offset(np.arange(start, start + count, dtype=np.int64)))
        warp.cta.shared.check_places(source_places, "bulk store")
        what = "bulk reduction" if reduction else "bulk store"
        memory = storing(warp, what, "sys" if reduction else scope)
        places = np.arange(address, address + count, dtype=np.int64)
        # One bit of .cp_mask per byte of every 16.
        copied = slice(None) if mask is None else (one(mask, warp, lane) >> np.arange(count) % 16 & 1).astype(bool)

        def write(data: Bytes) -> None:
            value = reduce_elements(type_.name, reduction, memory.gather(places), data) if reduction and type_ else data
            if mask is None and count:
                memory.scatter_runs(places[:1], value[None])
            else:
                memory.scatter(places[copied], value[copied])

        start_store(warp, lane, source_places, write, what, memory, told={"tensor": address, "coordinates": (count,)})

    return each_store(one_lane, reduction is not None, dst, source, size, *([mask] if mask else []))
