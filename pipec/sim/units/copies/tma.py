"""Tensor copies (cp.async.bulk.tensor, PTX ISA 9.7.9.25.5; measured corrections of the coordinate and clipping rules).

A box is a 1-D uint8 array of its payload bytes in dense index order, dimension 0 fastest; where each of those bytes lives in
shared memory is a separate question, answered by `smem_offsets`.  All functions are pure; memories are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from pipec.record import record

from ..alignment import round_up
from ..errors import UnitError
from ..layouts import Tile
from ..numbers.formats import OUT_OF_BOUNDS
from ..protocols import GlobalMemory
from ..swizzle import Swizzle
from . import im2col
from .im2col import Im2colMap
from .places import Places
from .reductions import Reduction, reduce_elements
from .tensormap import TensorMap

SMEM_ALIGNMENT = 128
GATHER_ROWS = 4

AnyMap = TensorMap | Im2colMap

_TF32_NAN = 0x7FFFE000


@record
class Region:
    """For each row of a box, its global address (int64) and whether it is in bounds (bool); of its `inner` bytes those from `low` up to
    `high` are in bounds."""

    starts: np.ndarray
    rows: np.ndarray
    inner: int
    low: int
    high: int

    @property
    def whole(self) -> bool:
        return self.low == 0 and self.high == self.inner and bool(self.rows.all())

    @property
    def runs(self) -> np.ndarray:
        """The starts of the in-bounds bytes, `high - low` each, of all rows that have any."""
        return self.starts[self.rows] + self.low if self.high > self.low else self.starts[:0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts.size, self.inner

    def cut(self, box: np.ndarray) -> np.ndarray:
        """The bytes of `runs` from those of a box [rows, inner]."""
        return box[self.rows, self.low : self.high] if self.high > self.low else box[:0]


def transaction_bytes(tensor_map: AnyMap, rows: int | None = None) -> int:
    """Bytes one copy completes on its mbarrier: the whole box, out-of-bounds part included, row padding and packing pads not."""
    return tensor_map.box_bytes if rows is None else tensor_map.inner_bytes * rows


def check_coordinates(tensor_map: AnyMap, coords: Sequence[int], storing: bool = False) -> None:
    """UnitError unless the start coordinates are ones the hardware accepts (also for prefetches).

    coord0 * element size must be a multiple of 16 bytes; stores and reductions must not start at a negative index.
    """
    if storing and tensor_map.interleave != "none":
        raise UnitError("unsupported", f"tensor stores with interleave {tensor_map.interleave} are not modelled")
    if storing and isinstance(tensor_map, Im2colMap) and min(tensor_map.lower) < 0:
        # Even if no such pixel is accessed (measured).
        raise UnitError("out_of_bounds", f"store through an im2col map with the lower corner {tensor_map.lower} (minimum 0)")
    if len(coords) != tensor_map.rank:
        raise UnitError("illegal", f"{len(coords)} coordinates for a tensor map of rank {tensor_map.rank}")
    _check_inner_coordinate(tensor_map, coords[0])
    for index, coordinate in enumerate(coords):
        if not -(1 << 31) <= coordinate < 1 << 31:
            raise UnitError("illegal", f"coordinate {coordinate} of dimension {index} is no 32-bit signed integer")
        if storing and coordinate < 0:
            raise UnitError("out_of_bounds", f"store coordinate {coordinate} of dimension {index} is negative (minimum 0)")


def _check_inner_coordinate(tensor_map: AnyMap, coordinate: int) -> None:
    bits = coordinate * tensor_map.unit_bits
    if bits % 128:
        raise UnitError(
            "misaligned", f"coordinate 0 is {coordinate}: {bits / 8:g} bytes of {tensor_map.dtype}, not a multiple of 16 bytes"
        )
    if tensor_map.element.payload < 16 and coordinate % 128:
        raise UnitError("misaligned", f"coordinate 0 is {coordinate}, not a multiple of 128 as {tensor_map.dtype} needs")


def load(tensor_map: TensorMap, coords: Sequence[int], memory: GlobalMemory) -> np.ndarray:
    """Box bytes of a tiled load; elements outside the tensor get the map's fill; tf32 maps round to nearest even."""
    check_coordinates(tensor_map, coords)
    return _read(tensor_map, _region(tensor_map, coords), memory)


def load_gather4(tensor_map: TensorMap, column: int, rows: Sequence[int], memory: GlobalMemory) -> np.ndarray:
    """Bytes of four rows of a rank-2 map with box (width, 1), packed one after another (.tile::gather4)."""
    _check_gather(tensor_map, column, rows, storing=False)
    return _read(tensor_map, _gather_region(tensor_map, column, rows), memory)


def load_im2col(tensor_map: Im2colMap, coords: Sequence[int], offsets: Sequence[int], memory: GlobalMemory) -> np.ndarray:
    """Bytes of the pixels of an im2col load, one pixel's channels after another's; those outside the tensor get the fill."""
    check_coordinates(tensor_map, coords)
    im2col.check_offsets(tensor_map, offsets)
    starts, inside = im2col.rows(tensor_map, im2col.walk(tensor_map, coords, offsets))
    return _read(tensor_map, _with_inner(tensor_map, coords[0], starts, inside, False), memory)


def load_wide(tensor_map: Im2colMap, coords: Sequence[int], halo: int, offset: int, memory: GlobalMemory) -> np.ndarray:
    """Bytes of a wide im2col load (im2col::w), the halo's last."""
    check_coordinates(tensor_map, coords)
    starts, inside = im2col.rows(tensor_map, im2col.walk_wide(tensor_map, coords, halo, offset))
    return _read(tensor_map, _with_inner(tensor_map, coords[0], starts, inside, False), memory)


def wide_rows(tensor_map: Im2colMap, halo: int, offset: int) -> int:
    """Pixels that a wide load moves. UnitError for an invalid halo or offset."""
    im2col.check_halo(tensor_map, halo, offset)
    return tensor_map.walked + halo * (4 if tensor_map.wide == "w128" else 1)


def store(tensor_map: TensorMap, coords: Sequence[int], data: np.ndarray, memory: GlobalMemory) -> None:
    """Write a box; rows beyond the edge are dropped, dimension 0 is cut at the next 16-byte boundary past its edge."""
    check_coordinates(tensor_map, coords, storing=True)
    region = _region(tensor_map, coords, storing=True)
    _write(tensor_map, region, data, memory)


def store_scatter4(tensor_map: TensorMap, column: int, rows: Sequence[int], data: np.ndarray, memory: GlobalMemory) -> None:
    """Write four packed rows to four row indices of a rank-2 map with box (width, 1) (.tile::scatter4)."""
    _check_gather(tensor_map, column, rows, storing=True)
    _write(tensor_map, _gather_region(tensor_map, column, rows, storing=True), data, memory)


def reduce(tensor_map: TensorMap, coords: Sequence[int], op: Reduction, data: np.ndarray, memory: GlobalMemory) -> None:
    """Combine a box into global memory element by element (add, min, max, inc, dec, and, or, xor); clips as a store does."""
    check_coordinates(tensor_map, coords, storing=True)
    _combine(tensor_map, _region(tensor_map, coords, storing=True), op, data, memory)


def store_im2col(
    tensor_map: Im2colMap, coords: Sequence[int], op: Reduction | None, data: np.ndarray, memory: GlobalMemory
) -> None:
    """Write (or with `op` combine) the pixels of an im2col copy without offsets; those outside the tensor are dropped."""
    check_coordinates(tensor_map, coords, storing=True)
    starts, inside = im2col.rows(tensor_map, im2col.walk(tensor_map, coords, (0,) * (tensor_map.rank - 2)))
    region = _with_inner(tensor_map, coords[0], starts, inside, storing=True)
    if op is None:
        _write(tensor_map, region, data, memory)
    else:
        _combine(tensor_map, region, op, data, memory)


def bytes_past_the_edge(tensor_map: AnyMap, coords: Sequence[int]) -> int:
    """Bytes per row (0..15) that a store at `coords` writes beyond the tensor in dimension 0: legal, but rarely intended."""
    start = coords[0] * tensor_map.unit_bits // 8
    edge = tensor_map.dims[0] * tensor_map.unit_bits // 8
    end = min(start + tensor_map.inner_bytes, round_up(edge, 16))
    return max(0, end - max(edge, start))


def smem_offsets(tensor_map: AnyMap, dst_address: int, rows: int | None = None) -> np.ndarray:
    """Absolute shared byte address (int64, 1-D) of every box byte, in the order of the box array."""
    return smem_places(tensor_map, dst_address, rows).offsets


def smem_places(tensor_map: AnyMap, dst_address: int, rows: int | None = None) -> Places:
    """Where the bytes of a box lie in shared memory.

    With a swizzle the row pitch is always the swizzle width and the XOR acts on the absolute address; without one rows are
    dense.  Packed types skip their pads.  `rows` replaces the row count of the box (gather4: 4).
    """
    if dst_address % SMEM_ALIGNMENT:
        raise UnitError("misaligned", f"shared address {dst_address:#x} of a tensor copy is not {SMEM_ALIGNMENT}-byte aligned")
    row_count = prod(tensor_map.box_shape[1:]) if rows is None else rows
    shape = tensor_map.inner_bytes, tensor_map.element.payload, row_count, _row_pitch(tensor_map)
    return _placed(tensor_map.swizzle_mode, dst_address, *shape)


def tile_of(tensor_map: AnyMap, address: int, rows: int | None = None, coords: Sequence[int] = ()) -> Tile | None:
    """The tile that a load of a box at `coords` writes at `address`; None where its rows are not multiples of 16 bytes."""
    pitch = _row_pitch(tensor_map)
    if tensor_map.interleave != "none" or pitch % 16:
        return None
    box = tensor_map.box_shape if rows is None else (tensor_map.box_shape[0], rows)
    inside: tuple[tuple[int, int], ...] = ()
    joined = 0, 0
    if rows is None and isinstance(tensor_map, TensorMap):
        inside, joined = _inside(tensor_map, coords) if coords else (), tensor_map.joined
    return Tile(tensor_map.swizzle, tensor_map.dtype, tuple(box), tensor_map.inner_bytes, pitch, address, inside, joined)


def _inside(tensor_map: TensorMap, coords: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The elements of a box at `coords` that lie in the tensor; () for all."""
    found = []
    for at, step, extent, size in zip(coords, tensor_map.steps, tensor_map.box_shape, tensor_map.dims, strict=True):
        first, end = max(0, -(at // step)), min(extent, -((at - size) // step))
        found.append((first, end))
    whole = all(span == (0, extent) for span, extent in zip(found, tensor_map.box_shape, strict=True))
    return () if whole else tuple(found)


def _row_pitch(tensor_map: AnyMap) -> int:
    """Bytes between rows; interleaved rows stay dense under a swizzle (measured)."""
    if tensor_map.swizzle != "none" and tensor_map.interleave == "none":
        return tensor_map.swizzle_mode.width
    return tensor_map.inner_bytes * 16 // tensor_map.element.payload


@lru_cache(maxsize=64)
def _placed(swizzle: Swizzle, address: int, inner_bytes: int, payload: int, rows: int, pitch: int) -> Places:
    offsets = swizzle.apply(_linear_offsets(inner_bytes, payload, rows, pitch) + address)
    offsets.flags.writeable = False
    return Places(offsets)


@lru_cache(maxsize=64)
def _linear_offsets(inner_bytes: int, payload: int, rows: int, pitch: int) -> np.ndarray:
    inner = np.arange(inner_bytes, dtype=np.int64)
    inner = inner // payload * 16 + inner % payload
    offsets = (np.arange(rows, dtype=np.int64)[:, None] * pitch + inner).reshape(-1)
    offsets.flags.writeable = False
    return offsets


def _region(tensor_map: TensorMap, coords: Sequence[int], storing: bool = False) -> Region:
    """Rows of a box in dense order: dimension 1 varies fastest."""
    starts = np.array([tensor_map.address], dtype=np.int64)
    rows_inside = np.ones(1, dtype=bool)
    for index in range(1, tensor_map.rank):
        indices = coords[index] + tensor_map.steps[index] * np.arange(tensor_map.box_shape[index], dtype=np.int64)
        inside = (indices >= 0) & (indices < tensor_map.dims[index])
        # Far out-of-bounds indices times a stride could overflow int64; their addresses are never used.
        offsets = np.where(inside, indices, 0) * tensor_map.strides[index - 1]
        starts = (offsets[:, None] + starts).reshape(-1)
        rows_inside = (inside[:, None] & rows_inside).reshape(-1)
    return _with_inner(tensor_map, coords[0], starts, rows_inside, storing)


def _with_inner(tensor_map: AnyMap, column: int, starts: np.ndarray, rows_inside: np.ndarray, storing: bool) -> Region:
    """Add dimension 0 to row starts.  Loads end exactly at the edge, stores at the next multiple of 16 bytes."""
    bits, inner = tensor_map.unit_bits, tensor_map.inner_bytes
    first = column * bits // 8
    edge = -(-tensor_map.dims[0] * bits // 8)
    limit = round_up(edge, 16) if storing else edge
    return Region(starts + first, rows_inside, inner, min(max(-first, 0), inner), max(min(limit - first, inner), 0))


def _check_gather(tensor_map: TensorMap, column: int, rows: Sequence[int], storing: bool) -> None:
    if tensor_map.rank != 2:
        raise UnitError("illegal", f"gather4/scatter4 need a tensor map of rank 2, got {tensor_map.rank}")
    if tensor_map.box[1] != 1:
        raise UnitError("illegal", f"gather4/scatter4 need a box of 1 row, got {tensor_map.box[1]}")
    if len(rows) != GATHER_ROWS:
        raise UnitError("illegal", f"gather4/scatter4 take {GATHER_ROWS} row indices, got {len(rows)}")
    for row in rows:
        check_coordinates(tensor_map, (column, row), storing)


def _gather_region(tensor_map: TensorMap, column: int, rows: Sequence[int], storing: bool = False) -> Region:
    indices = np.array(rows, dtype=np.int64)
    inside = (indices >= 0) & (indices < tensor_map.dims[1])
    starts = tensor_map.address + np.where(inside, indices, 0) * tensor_map.strides[0]
    return _with_inner(tensor_map, column, starts, inside, storing)


def _read(tensor_map: AnyMap, region: Region, memory: GlobalMemory) -> np.ndarray:
    if region.whole:
        return _convert_on_load(tensor_map, memory.gather_runs(region.starts, region.inner)).reshape(-1)
    box, runs = _fill_bytes(tensor_map, region.shape), region.runs
    if runs.size:
        box[region.rows, region.low : region.high] = _convert_on_load(
            tensor_map, memory.gather_runs(runs, region.high - region.low)
        )
    return box.reshape(-1)


def _fill_bytes(tensor_map: AnyMap, shape: tuple[int, ...]) -> np.ndarray:
    if tensor_map.fill == "zero":
        return np.zeros(shape, dtype=np.uint8)
    words = np.full((shape[0], shape[1] // 2), OUT_OF_BOUNDS, dtype="<u2")
    return words.view(np.uint8)


def _convert_on_load(tensor_map: AnyMap, values: np.ndarray) -> np.ndarray:
    if not tensor_map.dtype.startswith("tf32"):
        return values
    words = np.ascontiguousarray(values, np.uint8).view("<u4")
    rounded = (words + np.uint32(0xFFF) + (words >> 13 & 1)) & np.uint32(0xFFFFE000)
    is_nan = (words & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, np.uint32(_TF32_NAN), rounded).astype("<u4").view(np.uint8)


def _as_box(tensor_map: AnyMap, region: Region, data: np.ndarray) -> np.ndarray:
    if tensor_map.element.payload < 16:
        raise UnitError("unsupported", f"stores of packed type {tensor_map.dtype} are not modelled")
    data = np.asarray(data, np.uint8)
    if data.size != prod(region.shape):
        raise UnitError("illegal", f"box has {prod(region.shape)} bytes, got {data.size}")
    return data.reshape(region.shape)


def _write(tensor_map: AnyMap, region: Region, data: np.ndarray, memory: GlobalMemory) -> None:
    box, runs = _as_box(tensor_map, region, data), region.runs
    if runs.size:
        memory.scatter_runs(runs, region.cut(box))


def _combine(tensor_map: AnyMap, region: Region, op: Reduction, data: np.ndarray, memory: GlobalMemory) -> None:
    box, runs = _as_box(tensor_map, region, data), region.runs
    if not runs.size:
        return
    source = region.cut(box)
    old = memory.gather_runs(runs, source.shape[1])
    memory.scatter_runs(runs, reduce_elements(tensor_map.dtype, op, old.reshape(-1), source.reshape(-1)).reshape(source.shape))
