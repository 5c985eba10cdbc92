"""Bulk and tensor copies: cp.async.bulk*, cp.reduce.async.bulk* (PTX ISA 9.7.9.25)."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..decode import Decoder, instruction
from ..errors import SimulationError
from ..execution import Warp
from ..memory import OFFSET_MASK, space_of
from ..types import TYPES, Type
from ..units import tma
from ..units.im2col import Im2colMap
from ..units.reductions import reduce_elements
from ..units.tensormap import TensorMap
from .asynchronous import (
    COPY_LATENCY,
    AsyncView,
    Operation,
    commit_groups,
    complete,
    copy_slots,
    finished,
    groups_of,
    reading,
    wait_for_groups,
    writing,
)
from .control import nothing
from .loadstore import address_reader, shared_addresses

if TYPE_CHECKING:
    from ..machine import Cta

_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_TILED = ("tile", "tile::gather4", "tile::scatter4")
_IM2COL = ("im2col", "im2col_no_offs")


@functools.lru_cache(maxsize=64)
def _decoded(data: bytes) -> tma.AnyMap:
    return Im2colMap.decode(data) if Im2colMap.is_encoded(data) else TensorMap.decode(data)


def tensor_map(warp: Warp, address: int, mode: str) -> tma.AnyMap:
    """The map at a generic address (parameter, constant or global memory), which must be one for this mode of copying."""
    if address % 64:
        raise SimulationError("misaligned", f"tensor map at 0x{address:x} is not 64-byte aligned")
    space = space_of(address)
    if space not in ("param", "const", "global"):
        raise SimulationError("undefined", f"tensor map at 0x{address:x} lies in {space} memory")
    found = _decoded(warp.cta.read_bytes("generic", address, 128, warp))
    if isinstance(found, Im2colMap) != (mode in _IM2COL):
        kind = "an im2col map" if isinstance(found, Im2colMap) else "a tiled map"
        raise SimulationError("undefined", f"a copy in mode .{mode} through {kind}")
    return found


@dataclass(frozen=True)
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
        holder = cta.peer(barrier, "copy barrier") if pair else target
        if pair and holder.rank // 2 != target.rank // 2:
            raise SimulationError("undefined", f"barrier of CTA {holder.rank} for data of CTA {target.rank}: not one pair")
        return [Destination(target, dst & OFFSET_MASK, holder, barrier & OFFSET_MASK)]
    if mask >> len(ctas) or not mask:
        raise SimulationError("undefined", f"multicast mask 0x{mask:x} in a cluster of {len(ctas)} CTAs")
    parity = barrier >> 24 & 1
    found = []
    for rank in range(len(ctas)):
        if mask >> rank & 1:
            target = cta.peer(rank << 24, "multicast")
            holder = ctas[(rank & ~1) | parity] if pair else target
            found.append(Destination(target, dst & OFFSET_MASK, holder, barrier & OFFSET_MASK))
    return found


def deliver(warp: Warp, target: Destination, offsets: np.ndarray, fetch, what: str, exclusive: bool = True) -> None:
    """Schedules the arrival of bytes at `offsets`; in random timing in pieces of multiples of 32 bytes."""
    machine = warp.cta.machine
    count = offsets.size
    target.cta.shared.check_range(offsets, 1, what)
    # Reductions into one place may overlap.
    access = writing(warp, target.cta, offsets, what, target.barrier) if exclusive else None
    open_bytes = [count]

    def piece(start: int, end: int) -> None:
        if target.cta.exited:
            raise SimulationError("undefined", f"{what} writes shared memory of {target.cta.name}, which has exited")
        target.cta.shared.async_write(offsets[start:end], fetch()[start:end], what)
        open_bytes[0] -= end - start
        if access is not None and not open_bytes[0]:
            target.cta.shared.underway.end(access)
        target.cta.cluster.trace("tma_completed", target.cta, bytes=end - start, barrier=target.barrier, address=target.offset)
        complete(target.barrier_cta, target.barrier, end - start, what)

    cuts = [0, count]
    if machine.events.timing == "random" and count > 64:
        inner = {machine.events.random.randrange(32, count, 32) for _ in range(machine.events.random.randrange(3))}
        cuts = sorted({0, count, *inner})
    channel = ("tma", warp.cta.rank) if machine.events.timing == "order" else None
    for start, end in itertools.pairwise(cuts):
        machine.later(warp, COPY_LATENCY, functools.partial(piece, start, end), channel, busy=copy_slots(end - start))


# ---- tensor loads and stores


@instruction("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def tensor_copy(d: Decoder):
    d.require(*_DIMENSIONS)
    halo = d.choose("im2col::w", "im2col::w::128")
    if halo:
        d.fail(f".{halo} is not simulated")
    mode = d.choose(*_TILED, *_IM2COL, default="tile")
    if d.choose("bulk_group"):
        return _tensor_store(d, mode)
    if d.item.opcode.startswith("cp.reduce"):
        d.fail("needs .bulk_group", "malformed")
    return _tensor_load(d, mode)


def _map_operand(d: Decoder, index: int):
    operand = d.operand(index)
    return address_reader(d, index, "generic"), [d.source(item, TYPES["s32"]) for item in operand.coordinates]


def _one(reader, warp: Warp, lane: int) -> int:
    return int(reader(warp)[lane])


def _routing(d: Decoder, after_barrier: int) -> tuple:
    """(mask reader, uses pair signals): the modifiers that loads share."""
    multicast, hint = d.flag("multicast::cluster"), d.flag("L2::cache_hint")
    pair = d.choose("cta_group::1", "cta_group::2") == "cta_group::2"
    d.require("mbarrier::complete_tx::bytes")
    del hint
    return (d.source(after_barrier, TYPES["u16"]) if multicast else None), pair


def _tensor_load(d: Decoder, mode: str):
    d.require("shared::cluster", "shared::cta")
    d.require("global")
    dst, barrier = shared_addresses(d, 0, False), shared_addresses(d, 2, False)
    map_address, coordinates = _map_operand(d, 1)
    shifts = [d.source(item, TYPES["u16"]) for item in d.vector(3)] if mode == "im2col" else []
    mask, pair = _routing(d, 4 if shifts else 3)
    what = "TMA load"

    def one_lane(warp: Warp, lane: int) -> None:
        entry = tensor_map(warp, _one(map_address, warp, lane), mode)
        point = [_one(reader, warp, lane) for reader in coordinates]
        load, rows = _loading(entry, mode, point, [_one(reader, warp, lane) for reader in shifts], warp.cta.machine.memory)
        cache: list = []

        def fetch() -> np.ndarray:
            if not cache:
                cache.append(load())
            return cache[0]

        chosen = _one(mask, warp, lane) if mask else None
        address = _one(dst, warp, lane)
        for target in destinations(warp, address, _one(barrier, warp, lane), chosen, pair):
            offsets = tma.smem_offsets(entry, target.offset, rows)
            warp.cta.cluster.trace(
                "tma_issued",
                warp.cta,
                bytes=offsets.size,
                barrier=target.barrier,
                address=target.offset,
                coordinates=tuple(point),
                warp=warp.index,
                destination=target.cta.rank,
            )
            deliver(warp, target, offsets, fetch, what)

    return _each_lane(one_lane)


def _loading(entry: tma.AnyMap, mode: str, point: list[int], shifts: list[int], memory):
    """(what reads the box's bytes, rows of a gather)"""
    if isinstance(entry, Im2colMap):
        tma.check_coordinates(entry, point)
        return functools.partial(tma.load_im2col, entry, point, shifts, memory), None
    if mode == "tile::gather4":
        return functools.partial(tma.load_gather4, entry, point[0], point[1:], memory), 4
    tma.check_coordinates(entry, point)
    return functools.partial(tma.load, entry, point, memory), None


def _each_lane(action):
    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            action(warp, lane)

    return execute


def _tensor_store(d: Decoder, mode: str):
    d.require("global")
    d.require("shared::cta")
    reduction = d.choose(*_REDUCTIONS) if d.item.opcode.startswith("cp.reduce") else None
    d.flag("L2::cache_hint")
    map_address, coordinates = _map_operand(d, 0)
    source = shared_addresses(d, 1, False)
    what = "TMA reduction" if reduction else "TMA store"

    def one_lane(warp: Warp, lane: int) -> None:
        cta, machine = warp.cta, warp.cta.machine
        entry = tensor_map(warp, _one(map_address, warp, lane), mode)
        point = [_one(reader, warp, lane) for reader in coordinates]
        offset = int(cta.own_offset(np.array([_one(source, warp, lane)]))[0])
        if mode == "tile::scatter4":
            offsets = tma.smem_offsets(entry, offset, 4)
            write = functools.partial(_scatter4, entry, point, memory=machine.memory)
        else:
            tma.check_coordinates(entry, point, storing=True)
            past = tma.bytes_past_the_edge(entry, point)
            if past:
                machine.warn(f"{what} at {tuple(point)} writes {past} bytes past the tensor's edge in each row")
            offsets = tma.smem_offsets(entry, offset)
            write = functools.partial(_store_box, entry, point, reduction, memory=machine.memory)
        cta.shared.check_range(offsets, 1, what)
        start_store(warp, lane, offsets, write, what)

    return _each_lane(one_lane)


def _scatter4(entry: tma.AnyMap, point: list[int], data: np.ndarray, memory) -> None:
    assert isinstance(entry, TensorMap)
    tma.store_scatter4(entry, point[0], point[1:], data, memory)


def _store_box(entry: tma.AnyMap, point: list[int], reduction: str | None, data: np.ndarray, memory) -> None:
    if isinstance(entry, Im2colMap):
        tma.store_im2col(entry, point, reduction, data, memory)
    elif reduction:
        tma.reduce(entry, point, reduction, data, memory)
    else:
        tma.store(entry, point, data, memory)


def start_store(warp: Warp, lane: int, offsets: np.ndarray, write, what: str) -> None:
    """A group-tracked store: sources are read at one moment, the destination is written at a later one."""
    cta, machine = warp.cta, warp.cta.machine
    view, operation = AsyncView(cta, warp, what), Operation()
    groups_of(warp, lane, "bulk").open.append(operation)
    cta.cluster.trace("store_issued", cta, bytes=offsets.size, warp=warp.index)
    held: list[np.ndarray] = []
    access = reading(warp, cta, offsets, what)

    def read() -> None:
        if cta.exited:
            raise SimulationError(
                "undefined", f"{what} reads shared memory of {cta.name}, which has exited; wait for the group first"
            )
        held.append(view.read(offsets).copy())
        cta.shared.underway.end(access)
        finished(warp, operation, read_only=True)

    def finish() -> None:
        write(data=held[0])
        cta.cluster.trace("store_completed", cta, bytes=offsets.size, warp=warp.index)
        finished(warp, operation)

    channel = ("store", cta.rank, warp.index, lane)
    machine.later(warp, COPY_LATENCY // 2, read, channel, busy=copy_slots(offsets.size), storing=True)
    machine.later(warp, COPY_LATENCY, finish, channel, storing=True)


@instruction("cp.async.bulk.commit_group")
def commit(d: Decoder):
    return commit_groups("bulk")


@instruction("cp.async.bulk.wait_group")
def wait_group(d: Decoder):
    return wait_for_groups("bulk", d.integer(0), d.flag("read"))


@instruction("cp.async.bulk.prefetch")
def prefetch(d: Decoder):
    d.modifiers.clear()
    return nothing


# ---- plain bulk copies


@instruction("cp.async.bulk", "cp.reduce.async.bulk")
def bulk_copy(d: Decoder):
    """Without a tensor map: sizes are rounded down to 16 bytes, as measured."""
    reduction = d.require(*_REDUCTIONS) if d.item.opcode.startswith("cp.reduce") else None
    spaces = [name for name in d.modifiers if name in ("shared::cluster", "shared::cta", "global")]
    if len(spaces) != 2:
        d.fail("needs a destination and a source space", "malformed")
    for name in spaces:
        d.flag(name)
    d.flag("noftz")
    kind = d.types()
    type_ = kind[0] if kind else None
    to, from_ = spaces
    if to == "global":
        return _bulk_to_global(d, reduction, type_)
    if reduction:
        return _bulk_to_shared(d, from_, reduction, type_)
    return _bulk_to_shared(d, from_, None, None)


def _checked_size(size: int, *addresses: int) -> int:
    for address in addresses:
        if address % 16:
            raise SimulationError("misaligned", f"bulk copy address 0x{address:x} is not a multiple of 16")
    return size // 16 * 16


def _bulk_to_shared(d: Decoder, from_: str, reduction: str | None, type_: Type | None):
    dst, size, barrier = shared_addresses(d, 0, False), d.source(2, TYPES["u32"]), shared_addresses(d, 3, False)
    source = address_reader(d, 1, "generic" if from_ == "global" else "shared")
    mask, pair = _routing(d, 4)
    what = "bulk copy" if reduction is None else "bulk reduction"

    def one_lane(warp: Warp, lane: int) -> None:
        start, address = _one(source, warp, lane), _one(dst, warp, lane)
        count = _checked_size(_one(size, warp, lane), start, address)
        if not count:
            return
        fetch = _source(warp, from_, start, count, what)
        chosen, signal = _one(mask, warp, lane) if mask else None, _one(barrier, warp, lane)
        if from_ == "shared::cta" and address >> 24 != signal >> 24:
            raise SimulationError(
                "undefined",
                f"{what} to CTA rank {address >> 24} signals a barrier of rank {signal >> 24}: they must be one CTA's",
            )
        for target in destinations(warp, address, signal, chosen, pair):
            offsets = np.arange(target.offset, target.offset + count, dtype=np.int64)
            combined = fetch if reduction is None or type_ is None else _combining(target, offsets, fetch, reduction, type_)
            deliver(warp, target, offsets, combined, what, exclusive=reduction is None)

    return _each_lane(one_lane)


def _source(warp: Warp, from_: str, start: int, count: int, what: str):
    cta = warp.cta
    if from_ == "global":
        return lambda: cta.machine.memory.gather(np.arange(start, start + count, dtype=np.int64))
    view, offsets = AsyncView(cta, warp, what), cta.own_offset(np.arange(start, start + count, dtype=np.int64))
    access = reading(warp, cta, offsets, what)

    def read() -> np.ndarray:
        cta.shared.underway.end(access)
        return view.read(offsets)

    return read


def _combining(target: Destination, offsets: np.ndarray, fetch, reduction: str, type_: Type):
    def combined() -> np.ndarray:
        old = target.cta.shared.async_read(offsets, "bulk reduction")
        return reduce_elements(type_.name, reduction, old, fetch())

    return combined


def _bulk_to_global(d: Decoder, reduction: str | None, type_: Type | None):
    d.require("bulk_group")
    hinted, masked = d.flag("L2::cache_hint"), d.flag("cp_mask")
    mask = d.source(4 if hinted else 3, TYPES["u16"]) if masked else None
    dst, source, size = address_reader(d, 0, "generic"), shared_addresses(d, 1, False), d.source(2, TYPES["u32"])

    def one_lane(warp: Warp, lane: int) -> None:
        start, address = _one(source, warp, lane), _one(dst, warp, lane)
        count = _checked_size(_one(size, warp, lane), start, address)
        offsets = warp.cta.own_offset(np.arange(start, start + count, dtype=np.int64))
        warp.cta.shared.check_range(offsets, 1, "bulk store")
        memory = warp.cta.machine.memory
        places = np.arange(address, address + count, dtype=np.int64)
        # One bit of .cp_mask for each byte of every 16.
        copied = slice(None) if mask is None else (_one(mask, warp, lane) >> np.arange(count) % 16 & 1).astype(bool)

        def write(data: np.ndarray) -> None:
            value = reduce_elements(type_.name, reduction, memory.gather(places), data) if reduction and type_ else data
            memory.scatter(places[copied], value[copied])

        start_store(warp, lane, offsets, write, "bulk reduction" if reduction else "bulk store")

    return _each_lane(one_lane)
