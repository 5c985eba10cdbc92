"""The memory that one tcgen05.mma accesses, without executing it: granules of shared memory, blocks of tensor memory.

A block of tensor memory is 16 lanes by one column: `lane // 16 * 512 + column`. Layouts that leave half of a partition's lanes free (M =
64) can share columns, hence 16 lanes and not 32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pipec.record import record

from ..layouts import SOURCE, Reading
from ..products import Accumulator, Columns, Product, Scale
from .cells import CellMap
from .copy import COPY_SHAPES
from .descriptors import (
    KINDS,
    InstructionDescriptor,
    MatrixDescriptor,
    decode_matrix_descriptor,
)
from .fragments import fragment_map
from .memory import COLUMNS, LANES, SHIFTED, split_address
from .mma import MmaOperands
from .operands import operand_offsets
from .placement import a_cells, d_cells, data_path_name, metadata_cells, scale_cells

PLACE_LANES = 16
PLACES = LANES // PLACE_LANES * COLUMNS
_NOWHERE = np.zeros(0, np.int64)
_STEP = 32  # bytes of K per instruction


@record
class Footprint:
    """Places in each CTA of the group: `shared` granules read, `reads` and `writes` in tensor memory; `operands` has the layouts
    declared for the operands in shared memory, and `product` their product (for a copy: its source and destination)."""

    shared: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    operands: tuple[Reading, ...] = ()
    product: Product | None = None


# A loop's instructions repeat whenever its ring of stages wraps around.
@lru_cache(maxsize=512)
def mma_footprint(given: MmaOperands) -> Footprint:
    """UnitError for the descriptors that `mma` rejects."""
    descriptor, a = given.descriptor(), given.a
    name, rows = data_path_name(descriptor, given.weight_stationary), descriptor.m // given.cta_group
    columns = descriptor.n // given.cta_group
    if (mask := given.column_mask(descriptor)) is not None:
        columns += mask.shift
    operands = [_operand(descriptor, "B", given.b, columns, descriptor.k)]
    reads = []
    first = operands[0]
    left: Reading | Columns = Columns(
        a, first.k * first.element_bytes * descriptor.stored_k // descriptor.k // 4, descriptor.a_format
    )
    if given.a_in_tmem:
        reads.append(places(a_cells(name, rows), *split_address(a)))
    else:
        left = _operand(descriptor, "A", a, rows, descriptor.stored_k)
        operands.append(left)
    if given.metadata_address is not None:
        lane, column = split_address(given.metadata_address)
        cells = metadata_cells(rows, KINDS[given.kind].element_bytes)
        reads.append(places(cells, lane, column + descriptor.sparsity_selector))
    for address, count in zip(given.scale_addresses or (), (rows, descriptor.n), strict=False):
        reads.append(places(scale_cells(count), *split_address(address)))
    granules = [operand_granules(one.descriptor, one.rows, one.k, one.element_bytes, one.mn_major) for one in operands]
    written = places(d_cells(name, rows, descriptor.n), *split_address(given.d_address))
    sum_ = Accumulator(f"the accumulator at tensor address 0x{given.d_address:x}", descriptor.d_format)
    scales = None
    if given.scale_addresses is not None:
        of_a, of_b = given.scale_addresses
        scales = Scale(of_a, descriptor.scale_a_id), Scale(of_b, descriptor.scale_b_id)
    product = Product(sum_, left, first, (descriptor.negate_a, descriptor.negate_b), given.accumulate, scales, given.kind)
    return Footprint(_union(granules), _union(reads), written, tuple(operands), product)


@lru_cache(maxsize=256)
def copy_footprint(shape: str, multicast: str | None, address: int, matrix: int) -> Footprint:
    """What one tcgen05.cp reads and writes in each CTA; empty for a shape that `copy` rejects."""
    row = COPY_SHAPES.get((shape, multicast))
    if row is None:
        return Footprint(_NOWHERE, _NOWHERE, _NOWHERE)
    layout = decode_matrix_descriptor(matrix)
    offsets = operand_offsets(layout, row.rows, row.row_bytes, 1, False)
    lanes = np.array(row.lanes, dtype=np.int64).reshape(-1, 1)
    cells = CellMap.of(lanes, np.arange(row.row_bytes // 4, dtype=np.int64))
    source = Reading(SOURCE, layout, row.rows, row.row_bytes, 1, False, "bytes")
    product = Product(Accumulator(shape, ""), Columns(address, row.row_bytes // 4), source)
    operands = (source,) if row.row_bytes == _STEP else ()
    return Footprint(np.unique(offsets >> 4), _NOWHERE, places(cells, *split_address(address)), operands, product)


@lru_cache(maxsize=256)
def shift_footprint(address: int) -> Footprint:
    """What one tcgen05.shift reads and writes in each CTA."""
    lane, column = split_address(address)
    return Footprint(_NOWHERE, places(SHIFTED, lane + 1, column), places(SHIFTED, lane, column))


@lru_cache(maxsize=256)
def fragment_places(shape: str, count: int, half_offset: int, packed: bool, address: int) -> np.ndarray:
    """Places that one tcgen05.ld or st accesses."""
    lanes, columns = fragment_map(shape, count, half_offset)
    lane, column = split_address(address)
    if packed:
        lanes, columns = np.concatenate([lanes, lanes]), np.concatenate([2 * columns, 2 * columns + 1])
    return _places(lanes + lane, columns + column)


@lru_cache(maxsize=512)
def places(cells: CellMap, lane: int, column: int) -> np.ndarray:
    """Places of a map placed at (lane, column), sorted; cells outside tensor memory are checked by the access itself."""
    return _places(cells.lanes + lane, cells.columns + column)


def _places(lanes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    inside = (lanes >= 0) & (lanes < LANES) & (columns >= 0) & (columns < COLUMNS)
    return np.unique((lanes // PLACE_LANES * COLUMNS + columns)[inside])


def _union(parts: list[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.unique(np.concatenate(parts)) if parts else _NOWHERE


def _operand(descriptor: InstructionDescriptor, name: str, matrix: int, rows: int, k: int) -> Reading:
    layout, size = decode_matrix_descriptor(matrix), KINDS[descriptor.kind].element_bytes
    mn_major, format_name = (
        (descriptor.a_mn_major, descriptor.a_format) if name == "A" else (descriptor.b_mn_major, descriptor.b_format)
    )
    if descriptor.kind.startswith("mxf4"):  # two elements per byte
        return Reading(name, layout, rows, k // 2, 1, False, format_name)
    return Reading(name, layout, rows, k, size, mn_major, format_name)


@lru_cache(maxsize=512)
def operand_granules(layout: MatrixDescriptor, rows: int, k: int, element_bytes: int, mn_major: bool) -> np.ndarray:
    """16-byte granules of shared memory that an operand occupies, sorted."""
    return np.unique(operand_offsets(layout, rows, k, element_bytes, mn_major) >> 4)
