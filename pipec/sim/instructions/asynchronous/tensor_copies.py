"""Copies through tensor maps: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor (PTX ISA 9.7.9.25.5)."""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from ...errors import SimulationError
from ...machine.memory.spaces import space_of
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import TYPES, Bytes
from ...units.copies import tma
from ...units.copies.im2col import Im2colMap, Wide
from ...units.copies.mapbits import MAP_BYTES, MEANT_BYTES
from ...units.copies.reductions import REDUCTIONS, Reduction
from ...units.copies.tensormap import TensorMap
from ..decode import Decoder, instruction
from ..memory.loadstore import address_reader, shared_addresses
from ..widths import Reader
from .operations import operation
from .transfers import (
    Fetch,
    Store,
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

Mode = Literal["tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs", "im2col::w", "im2col::w::128"]
_TILED: tuple[Mode, ...] = ("tile", "tile::gather4", "tile::scatter4")
_IM2COL: tuple[Mode, ...] = ("im2col", "im2col_no_offs")
_WIDE: dict[Mode, Wide] = {"im2col::w": "w", "im2col::w::128": "w128"}
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")


@functools.lru_cache(maxsize=64)
def _decoded(data: bytes) -> tma.AnyMap:
    return Im2colMap.decode(data) if Im2colMap.is_encoded(data) else TensorMap.decode(data)


def tensor_map(warp: Warp, address: int, mode: Mode) -> tma.AnyMap:
    """The map at a generic address (parameter, constant or global memory), which must be valid for this copy mode."""
    if address % 64:
        # A host array need not be aligned as a GPU allocation would be; its simulated address is.
        (address,) = warp.cta.machine.memory.placed(np.array([address])).tolist()
    if address % 64:
        raise SimulationError("misaligned", f"tensor map at 0x{address:x} is not 64-byte aligned")
    space = space_of(address)
    if space not in ("param", "const", "global"):
        raise SimulationError("undefined", f"tensor map at 0x{address:x} lies in {space} memory")
    # Read again by each copy: kernels modify maps in place (PTX ISA 9.7.9.26).
    data = warp.cta.read_bytes("generic", address, MAP_BYTES, warp)
    if any(data[MEANT_BYTES:]) and not warp.cta.machine.practised("half a tensor map"):
        raise SimulationError(
            "undefined", f"tensor map at 0x{address:x}: bytes {MEANT_BYTES} to {MAP_BYTES - 1} were overwritten"
        )
    if space == "global" and warp.watched is not None:
        warp.cta.machine.memory.map_used(warp.watched, address, MEANT_BYTES)
    found = _decoded(data[:MEANT_BYTES])
    wide = found.wide if isinstance(found, Im2colMap) else "no"
    if isinstance(found, Im2colMap) != (mode not in _TILED) or wide != _WIDE.get(mode, "no"):
        kind = (
            "a tiled map" if isinstance(found, TensorMap) else "an im2col map" if wide == "no" else f"a wide im2col map ({wide})"
        )
        raise SimulationError("undefined", f"a copy in mode .{mode} through {kind}")
    return found


@instruction("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def tensor_copy(d: Decoder) -> Execute:
    d.require(*_DIMENSIONS)
    mode = d.choose(*_TILED, *_IM2COL, *_WIDE, default="tile")
    if d.choose("bulk_group"):
        return _tensor_store(d, mode)
    if d.item.opcode.startswith("cp.reduce"):
        d.fail("needs .bulk_group", "malformed")
    return _tensor_load(d, mode)


def _map_operand(d: Decoder, index: int) -> tuple[Reader, list[Reader]]:
    coordinates = d.address_operand(index).coordinates
    return address_reader(d, index, "generic"), [d.source(item, TYPES["s32"]) for item in coordinates]


def _tensor_load(d: Decoder, mode: Mode) -> Execute:
    d.require("shared::cluster", "shared::cta")
    d.require("global")
    dst, barrier = shared_addresses(d, 0, False), shared_addresses(d, 2, False)
    map_address, coordinates = _map_operand(d, 1)
    shifts = [d.source(item, TYPES["u16"]) for item in d.vector(3)] if mode == "im2col" or mode in _WIDE else []
    if mode in _WIDE and len(shifts) != 2:
        d.fail("needs a halo and an offset", "malformed")
    mask, pair = routing(d, 4 if shifts else 3)
    what = "TMA load"

    def one_lane(warp: Warp, lane: int) -> None:
        entry = tensor_map(warp, one(map_address, warp, lane), mode)
        point = [one(reader, warp, lane) for reader in coordinates]
        # Its completion is signalled by the barriers of all CTAs that a multicast reaches, so `deliver` fills it in.
        source = operation(warp, what, False)
        memory = WatchedMemory.of(warp, source)
        shifted = [one(reader, warp, lane) for reader in shifts]
        load, rows = _loading(entry, mode, point, shifted, memory)
        cache: list[Bytes] = []

        # A multicast reads global memory once, whatever the number of CTAs and pieces delivered.
        def fetch() -> Bytes:
            if not cache:
                cache.append(load())
            return cache[0]

        chosen = one(mask, warp, lane) if mask else None
        address = one(dst, warp, lane)
        for target in destinations(warp, address, one(barrier, warp, lane), chosen, pair):
            places = tma.smem_places(entry, target.offset, rows)
            warp.cta.trace(
                "tma_issued",
                bytes=places.size,
                barrier=target.barrier,
                address=target.offset,
                coordinates=tuple(point),
                warp=warp.index,
                destination=target.cta.rank,
                holder=target.barrier_cta.rank,
                row_bytes=entry.inner_bytes,
                tensor=entry.address,
            )
            tile, copied = tma.tile_of(entry, target.offset, rows, point), (entry, mode, *point, *shifted)
            deliver(warp, target, places, fetch, what, source, tile=tile, copied=copied)

    return each_lane(one_lane)


def _loading(
    entry: tma.AnyMap, mode: Mode, point: list[int], shifts: list[int], memory: WatchedMemory
) -> tuple[Fetch, int | None]:
    """(reader of the box's bytes, rows of a gather or with a halo)"""
    if isinstance(entry, Im2colMap):
        tma.check_coordinates(entry, point)
        if entry.wide != "no":
            halo, offset = shifts
            return functools.partial(tma.load_wide, entry, point, halo, offset, memory), tma.wide_rows(entry, halo, offset)
        return functools.partial(tma.load_im2col, entry, point, shifts, memory), None
    if mode == "tile::gather4":
        return functools.partial(tma.load_gather4, entry, point[0], point[1:], memory), 4
    tma.check_coordinates(entry, point)
    return functools.partial(tma.load, entry, point, memory), None


def _tensor_store(d: Decoder, mode: Mode) -> Execute:
    d.require("global")
    d.require("shared::cta")
    reduction = d.choose(*REDUCTIONS) if d.item.opcode.startswith("cp.reduce") else None
    d.flag("L2::cache_hint")
    map_address, coordinates = _map_operand(d, 0)
    source = shared_addresses(d, 1, False)
    what = "TMA reduction" if reduction else "TMA store"

    def one_lane(warp: Warp, lane: int) -> None:
        cta, machine = warp.cta, warp.cta.machine
        memory = storing(warp, what, "sys" if reduction is not None else None)
        entry = tensor_map(warp, one(map_address, warp, lane), mode)
        point = [one(reader, warp, lane) for reader in coordinates]
        offset = int(cta.own_offset(np.array([one(source, warp, lane)]))[0])
        write: Store
        if mode == "tile::scatter4":
            rows = 4
            write = functools.partial(_scatter4, memory, entry, point)
        else:
            tma.check_coordinates(entry, point, storing=True)
            past = tma.bytes_past_the_edge(entry, point)
            if past:
                # Rows end at multiples of 16 bytes (measured), so the tensor's padding, or the next tensor, is overwritten.
                machine.warn(f"{what} at {tuple(point)} writes {past} bytes past the tensor's edge in each row")
            rows = None
            write = functools.partial(_store_box, memory, entry, point, reduction)
        # Checked before the operation starts: unwritten bytes that it would read later are this instruction's error.
        places = tma.smem_places(entry, offset, rows)
        cta.shared.check_places(places, what)
        told = {"row_bytes": entry.inner_bytes, "tensor": entry.address, "coordinates": tuple(point)}
        start_store(warp, lane, places, write, what, memory, tma.tile_of(entry, offset, rows), told)

    return each_store(one_lane, reduction is not None, map_address, source, *coordinates)


def _scatter4(memory: WatchedMemory, entry: tma.AnyMap, point: list[int], data: Bytes) -> None:
    assert isinstance(entry, TensorMap)
    tma.store_scatter4(entry, point[0], point[1:], data, memory)


def _store_box(memory: WatchedMemory, entry: tma.AnyMap, point: list[int], reduction: Reduction | None, data: Bytes) -> None:
    if isinstance(entry, Im2colMap):
        tma.store_im2col(entry, point, reduction, data, memory)
    elif reduction:
        tma.reduce(entry, point, reduction, data, memory)
    else:
        tma.store(entry, point, data, memory)
