"""Shared memory in which the threads of a role reduce the columns of tiles."""

from collections.abc import Mapping

from pipec.isa.dtypes import DType
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import RolePlan, RowMap
from pipec.sema import tree
from pipec.sema.types import TileType

_WORD_BYTES = 4


def element_bytes(dtype: DType) -> int:
    """That an element takes where threads exchange it: whole words."""
    return max(_WORD_BYTES, dtype.bytes)


def parts_of(row_map: RowMap, warps: int) -> int:
    """Rows of parts: one for each warp, or for all warps that have columns of the same row."""
    return max(1, warps // row_map.warps_of_row) if row_map.vector else warps


def reduced_bytes(row: RolePlan, maps: Mapping[tree.Operation, RowMap]) -> dict[tree.ReducedColumns, int]:
    """For each reduction of the role; the result is the first row of its parts."""
    found = {}
    for operation in operations(row.role):
        if isinstance(operation, tree.ReduceColumns):
            tile = operation.operand.type
            assert isinstance(tile, TileType)
            parts = parts_of(maps[operation], row.role.warps)
            found[operation.result] = parts * tile.columns * element_bytes(tile.dtype)
    return found
