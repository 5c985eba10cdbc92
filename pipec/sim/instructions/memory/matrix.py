"""ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15-17)."""

from __future__ import annotations

import functools

import numpy as np

from ...machine.memory.spaces import SharedMemory
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANE, LANES, TYPES, Addresses, LaneValues
from ..decode import Decoder, instruction
from .loadstore import shared_addresses


def _form(d: Decoder) -> tuple[int, bool, bool]:
    """(matrices, transposed, generic address)"""
    d.flag("sync")
    d.flag("aligned")
    d.require("m8n8")
    count = int(d.require("x1", "x2", "x4")[1:])
    transposed = d.flag("trans")
    generic = d.choose("shared", "shared::cta") is None
    if [type_.name for type_ in d.types()] != ["b16"]:
        d.fail("only .b16 is simulated")
    return count, transposed, generic


_INSIDE = 2 * np.arange(8)  # of the elements in a row


def _places(transposed: bool, half: int) -> tuple[Addresses, Addresses]:
    """(row, column) of each lane's low (0) or high (1) half."""
    row, column = LANE // 4, 2 * (LANE % 4) + half
    return (column, row) if transposed else (row, column)


def _flat_places(transposed: bool) -> Addresses:
    """Of the halves of all lanes, low and high in turn: the place in a matrix by rows."""
    halves = [_places(transposed, half) for half in (0, 1)]
    return np.stack([8 * row + column for row, column in halves], axis=1).reshape(-1)


def _stored(shared: SharedMemory, offsets: Addresses, rows: LaneValues) -> bool:
    """Whether all of it is there already."""
    found = shared.load_words(offsets, rows.dtype, 8, None)
    return found is not None and bool((found == rows).all())


@instruction("ldmatrix")
def load_matrix(d: Decoder) -> Execute:
    count, transposed, generic = _form(d)
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    read = shared_addresses(d, 1, generic)
    places = _flat_places(transposed)

    def execute(warp: Warp) -> None:
        offsets = warp.cta.own_pieces(read(warp)[: 8 * count], 16, "ldmatrix")
        shared = warp.cta.shared
        if warp.watched is not None:
            warp.cta.machine.races.load(warp.watched, shared.shadow, offsets // 16, 16)
        rows = shared.load_words(offsets, np.dtype(np.uint16), 8, None)
        if rows is None:  # element by element it shows what is wrong
            rows = shared.load((offsets[:, None] + _INSIDE).reshape(-1), 2)
        words = np.ascontiguousarray(rows.reshape(count, 64)[:, places]).view(np.uint32)
        for matrix, write in enumerate(writers):
            write(warp, words[matrix])

    return execute


@instruction("stmatrix")
def store_matrix(d: Decoder) -> Execute:
    count, transposed, generic = _form(d)
    places = _flat_places(transposed)
    read, readers = shared_addresses(d, 0, generic), [d.source(item, TYPES["b32"]) for item in d.vector(1)]

    def execute(warp: Warp) -> None:
        cta = warp.cta
        offsets = cta.own_pieces(read(warp)[: 8 * count], 16, "stmatrix")
        values = np.empty((count, 64), np.uint16)
        values[:, places] = np.stack([value(warp) for value in readers]).view(np.uint16)
        rows = values.reshape(8 * count, 8)
        if warp.watched is not None:
            warp.watched.lay_out(offsets)
            # Warps that hold copies of a matrix store the same.
            same = functools.partial(_stored, cta.shared, offsets, rows)
            cta.machine.races.store(warp.watched, cta.shared.shadow, offsets // 16, 16, same)
        changed = cta.shared.store_words(offsets, rows, None, None)
        if changed is None:  # element by element it shows what is wrong
            changed = cta.shared.store((offsets[:, None] + _INSIDE).reshape(-1), rows.reshape(-1), 2)
        cta.machine.progress += changed

    return execute


@instruction("movmatrix")
def move_matrix(d: Decoder) -> Execute:
    for name in ("sync", "aligned", "trans", "m8n8"):
        d.flag(name)
    d.types()
    write, read = d.destination(0, TYPES["b32"]), d.source(1, TYPES["b32"])

    def execute(warp: Warp) -> None:
        values, lanes = np.zeros((8, 8), np.uint32), read(warp)
        for half in (0, 1):
            values[_places(False, half)] = lanes >> np.uint32(16 * half) & np.uint32(0xFFFF)
        low, high = (values[_places(True, half)] for half in (0, 1))
        write(warp, high << np.uint32(16) | low)

    assert LANES == 32
    return execute
