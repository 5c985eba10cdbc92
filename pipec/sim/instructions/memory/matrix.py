"""ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15-17)."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from pipec.record import record

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANE, LANES, TYPES, Addresses
from ...units.tcgen05.operands import unpack_little_endian
from ..decode import Decoder, instruction
from .loadstore import shared_addresses


@record
class ByteMatrix:
    """A shape of matrices of bytes: `rows` of 16, each at an address of its own; `places` maps each lane's bytes, in the order of its
    registers, to the bytes of the matrix. The PTX ISA defines them by figures only; these follow CuTe. (copy_traits_sm100.hpp has the
    layouts; those of m16n16 are of the bytes as SM100_U8x16_LDSM_T in copy_sm100.hpp rearranges them after the instruction.)"""

    rows: int
    registers: int
    most: int  # matrices of one instruction
    transposed: bool
    places: Addresses


def _byte_places(rows: Addresses, columns: Addresses) -> Addresses:
    return (16 * rows + columns).astype(np.int64)


_BYTE = np.arange(8)
_LANE, _GROUP = LANE[:, None] % 4, LANE[:, None] // 4
_BYTE_LOADS = {
    "m8n16": ByteMatrix(8, 1, 4, False, _byte_places(_GROUP, 4 * _LANE + _BYTE[:4])),
    "m16n16": ByteMatrix(16, 2, 2, True, _byte_places(4 * _LANE + _BYTE % 4, _GROUP + 8 * (_BYTE // 4))),
}
_BYTE_STORES = {"m16n8": ByteMatrix(8, 1, 4, True, _byte_places(2 * _LANE + _BYTE[:4] % 2, _GROUP + 8 * (_BYTE[:4] // 2)))}
# Sub-byte elements, packed at the start of a row, are zero-extended to bytes: (bits, bytes of a row).
_PACKED = {"b6x16_p32": (6, 12), "b4x16_p64": (4, 8)}


def _form(d: Decoder) -> tuple[int, bool, bool]:
    """(matrices, transposed, generic address)"""
    d.require("m8n8")
    count = int(d.require("x1", "x2", "x4")[1:])
    transposed = d.flag("trans")
    generic = d.choose("shared", "shared::cta") is None
    if [type_.name for type_ in d.types()] != ["b16"]:
        d.fail("only .b16 is simulated")
    return count, transposed, generic


def _places(transposed: bool, half: int) -> tuple[Addresses, Addresses]:
    """(row, column) of each lane's low (0) or high (1) half."""
    row, column = LANE // 4, 2 * (LANE % 4) + half
    return (column, row) if transposed else (row, column)


def _flat_places(transposed: bool) -> Addresses:
    """The position in a row-major matrix of the halves of all lanes, low and high in turn."""
    halves = [_places(transposed, half) for half in (0, 1)]
    return np.stack([8 * row + column for row, column in halves], axis=1).reshape(-1)


def _byte_form(d: Decoder, shapes: Mapping[str, ByteMatrix]) -> tuple[ByteMatrix, int, tuple[int, int] | None, bool] | None:
    """(shape, matrices, packed elements, generic address); None for another shape."""
    d.flag("sync")
    d.flag("aligned")
    name = d.choose(*shapes)
    if name is None:
        return None
    shape, count = shapes[name], int(d.require("x1", "x2", "x4")[1:])
    if count > shape.most:
        d.fail(f".{name} takes at most .x{shape.most}", "malformed")
    if d.flag("trans") != shape.transposed:
        d.fail(f".{name} needs .trans" if shape.transposed else f".{name} takes no .trans", "malformed")
    generic = d.choose("shared", "shared::cta") is None
    packed = _PACKED[d.require(*_PACKED)] if d.flag("b8x16") else None
    if packed is None and not shape.transposed:
        d.fail(f".{name} needs .b8x16", "malformed")
    if packed is None and [type_.name for type_ in d.types()] != ["b8"]:
        d.fail(f".{name} is of .b8", "malformed")
    return shape, count, packed, generic


def _load_bytes(d: Decoder, shape: ByteMatrix, count: int, packed: tuple[int, int] | None, generic: bool) -> Execute:
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    if len(writers) != count * shape.registers:
        d.fail(f"needs {count * shape.registers} registers", "malformed")
    read, (bits, size) = shared_addresses(d, 1, generic), packed or (8, 16)

    def execute(warp: Warp) -> None:
        offsets = warp.cta.own_pieces(read(warp)[: shape.rows * count], 16, "ldmatrix")
        shared = warp.cta.shared
        if warp.watched is not None:
            warp.cta.machine.races.load(warp.watched, shared.shadow, offsets // 16, 16)
        data = shared.load((offsets[:, None] + np.arange(size)).reshape(-1), 1).reshape(-1, size)
        elements = data if bits == 8 else unpack_little_endian(data, bits)
        lanes = elements.reshape(count, -1)[:, shape.places.reshape(-1)].reshape(count, LANES, 4 * shape.registers)
        words = np.ascontiguousarray(lanes).view(np.uint32)
        for number, write in enumerate(writers):
            matrix, register = divmod(number, shape.registers)
            write(warp, np.ascontiguousarray(words[matrix, :, register]))

    return execute


def _store_bytes(d: Decoder, shape: ByteMatrix, count: int, generic: bool) -> Execute:
    read, readers = shared_addresses(d, 0, generic), [d.source(item, TYPES["b32"]) for item in d.vector(1)]
    if len(readers) != count:
        d.fail(f"needs {count} registers", "malformed")

    def execute(warp: Warp) -> None:
        cta = warp.cta
        offsets = cta.own_pieces(read(warp)[: shape.rows * count], 16, "stmatrix")
        values = np.empty((count, 16 * shape.rows), np.uint8)
        held = np.ascontiguousarray(np.stack([value(warp) for value in readers]), np.uint32)
        values[:, shape.places.reshape(-1)] = held.view(np.uint8)
        rows = values.reshape(-1, 16)
        if warp.watched is not None:
            warp.watched.lay_out(offsets)
            same = functools.partial(cta.shared.has, offsets, rows)
            cta.machine.races.store(warp.watched, cta.shared.shadow, offsets // 16, 16, same)
        cta.machine.progress += cta.shared.store((offsets[:, None] + np.arange(16)).reshape(-1), rows.reshape(-1), 1)

    return execute


@instruction("ldmatrix")
def load_matrix(d: Decoder) -> Execute:
    if (of_bytes := _byte_form(d, _BYTE_LOADS)) is not None:
        return _load_bytes(d, *of_bytes)
    count, transposed, generic = _form(d)
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    if len(writers) != count:
        d.fail(f"needs {count} registers", "malformed")
    read = shared_addresses(d, 1, generic)
    places = _flat_places(transposed)

    def execute(warp: Warp) -> None:
        for write, words in zip(writers, warp.cta.load_matrices(read(warp), count, places, warp.watched), strict=True):
            write(warp, words)

    return execute


@instruction("stmatrix")
def store_matrix(d: Decoder) -> Execute:
    if (of_bytes := _byte_form(d, _BYTE_STORES)) is not None:
        shape, count, packed, generic = of_bytes
        if packed is not None:
            d.fail("stores no packed elements", "malformed")
        return _store_bytes(d, shape, count, generic)
    count, transposed, generic = _form(d)
    places = _flat_places(transposed)
    read, readers = shared_addresses(d, 0, generic), [d.source(item, TYPES["b32"]) for item in d.vector(1)]
    if len(readers) != count:
        d.fail(f"needs {count} registers", "malformed")

    def execute(warp: Warp) -> None:
        warp.cta.store_matrices(read(warp), [value(warp) for value in readers], places, warp.watched)

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
