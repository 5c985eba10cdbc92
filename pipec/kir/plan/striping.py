"""Which tiles of a role are distributed with several threads per row, and the vector length in elements.

A role with at least twice as many threads as a tile has rows assigns each row to neighbouring lanes, or to whole warps: loads and stores
are then coalesced, and a row of thousands of elements fits into the registers of its threads. Rows distributed by tensor memory or
`wgmma` keep that distribution.

Where a role only brings tiles from global to shared memory, a row has as many threads as vectors, also if the tile has more rows than
that: each thread then has several rows, in blocks. Otherwise the lanes of a warp would load 16 bytes from each of as many lines.
"""

from collections.abc import Iterator, Mapping
from math import gcd

from pipec.isa.dtypes import DType
from pipec.isa.targets import WARP
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.plan.types import RolePlan, RowMap
from pipec.kir.walk import evaluated_tile, subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType

_VECTOR_BYTES = 16  # of one access to memory by a thread, at most
_MOST_BLOCKS = 16  # of rows of a thread: their loads are written out

Values = Mapping[tree.Operation, tree.Expression]
Lets = dict[tree.Variable, tree.Expression]


def threads_of_row(rows: int, threads: int) -> int:
    """The number of threads per row: a power of two within a warp, or whole warps; 1 if each thread has its own row."""
    if rows * WARP <= threads:
        return threads // (rows * WARP) * WARP
    return 1 << (max(1, threads // rows).bit_length() - 1)


@record
class Stripes:
    """How the tiles of a role with some number of rows are striped: elements of a vector, and threads of a row."""

    vector: int
    sharing: int


def striped_map(rows: int, threads: int, stripes: Stripes, *, in_registers: bool) -> RowMap:
    block_rows = min(rows, threads // stripes.sharing)
    idle = block_rows * stripes.sharing != threads
    blocks = rows // block_rows
    return RowMap(block_rows, blocks, stripes.sharing, False, idle, in_registers=in_registers, vector=stripes.vector)


def rows_together(values: Values, lets: Lets) -> dict[tree.Operation, int]:
    """By operation, the number of rows that determines its distribution: its own, except for one-row register-resident tiles combined
    with others.

    The threads of each row of those then hold that one row, too.
    """
    rows = {operation: _rows(value) for operation, value in values.items()}
    beside = {other for value in values.values() for other in _broadcast(value, lets)}
    kept = {operation for operation, count in rows.items() if count == 1 and _keeps(operation, values[operation], lets)}
    if len(beside) == 1 and all(isinstance(operation, tree.Assign) for operation in kept):
        (other,) = beside
        return {operation: other if operation in kept else count for operation, count in rows.items()}
    return rows


def stripes_of(row: RolePlan, values: Values, lets: Lets, together: Mapping[tree.Operation, int], rows: int) -> Stripes | None:
    """The stripes of the role's tiles that are distributed like those with this many rows; None if they are not striped.

    The vectors are the same for all of these tiles, so that each thread keeps its columns: 16 bytes of the widest type that is
    transferred from or to memory, or fewer if some tile has an odd number of columns.
    """
    if row.uses_tensor or row.mma_waits is not None:
        return None
    mine = {operation: value for operation, value in values.items() if together[operation] == rows}
    apart = any(together[operation] == 1 and _keeps(operation, value, lets) for operation, value in values.items())
    if apart and any(rows in (1, other) for value in values.values() for other in _broadcast(value, lets)):
        return None
    vector = _VECTOR_BYTES // max((dtype.bytes for one in mine.items() for dtype in _in_memory(*one, lets)), default=4)
    for value in mine.values():
        for node in subexpressions(value, lets):
            if isinstance(node.type, TileType) and node.type.columns > 1:
                vector = gcd(vector, node.type.columns)
            if isinstance(node, tree.Columns):
                vector = gcd(vector, node.first or vector)
    moved = (node for value in mine.values() for node in subexpressions(value, lets) if isinstance(node, tree.Columns))
    # Registers cannot be indexed by lane: columns of a register-resident tile must start at a stripe, or threads must have whole rows.
    sharing = max(threads_of_row(rows, row.threads), _threads_that_bring(mine, lets, rows, row.threads, vector))
    if sharing < 2 or any(node.first % (vector * sharing) and _reads_registers(node, lets) for node in moved):
        return None
    return Stripes(vector, sharing)


def _threads_that_bring(mine: Values, lets: Lets, rows: int, threads: int, vector: int) -> int:
    """The number of threads per row of tiles that are only brought from global to shared memory, in whole blocks of rows; else 1."""
    nodes = [node for value in mine.values() for node in subexpressions(value, lets)]
    tiles = [node.type for node in nodes if isinstance(node.type, TileType)]
    wide = [tile.columns // vector for tile in tiles if tile.columns > 1]
    loads = (isinstance(node, tree.ReadTensor) and isinstance(node.type, TileType) and node.type.columns > 1 for node in nodes)
    if not any(loads) or any(tile.rows != rows for tile in tiles):
        return 1
    if not all(isinstance(operation, tree.Assign | tree.Write) for operation in mine):
        return 1
    if any(isinstance(node, tree.RowReduce | tree.Columns | tree.ReadReducedColumns) for node in nodes):
        return 1
    sharing = 1 << (min(WARP, *wide).bit_length() - 1)
    block_rows = threads // sharing
    return sharing if rows % block_rows == 0 and rows // block_rows <= _MOST_BLOCKS else 1


def _rows(value: tree.Expression) -> int:
    assert isinstance(value.type, TileType)
    return value.type.rows


def _keeps(operation: tree.Operation, value: tree.Expression, lets: Lets) -> bool:
    """Whether an operation has to do with register-resident tiles; of others, such as stores of reduced columns, nothing is kept."""
    return isinstance(operation, tree.Assign) or any(
        isinstance(node, tree.ReadVariable) and node.variable.in_registers for node in subexpressions(value, lets)
    )


def _broadcast(value: tree.Expression, lets: Lets) -> Iterator[int]:
    """The number of rows of a tile that is combined with a one-row register-resident tile."""
    for node in subexpressions(value, lets):
        if not (isinstance(node, tree.ReadVariable) and node.variable.in_registers and isinstance(node.type, TileType)):
            continue
        if node.type.columns > 1 and node.type.rows == 1 < _rows(value):
            yield _rows(value)


def _in_memory(operation: tree.Operation, value: tree.Expression, lets: Lets) -> Iterator[DType]:
    """The types of tiles that the operation transfers from or to memory. Row vectors are few, and stay in caches."""
    for node in subexpressions(value, lets):
        read = isinstance(node, tree.ReadBuffer) or (isinstance(node, tree.ReadTensor) and node.axis is None)
        if read and isinstance(node.type, TileType) and node.type.columns > 1:
            yield node.type.dtype
    if isinstance(operation, tree.Store | tree.Write) and isinstance(value.type, TileType) and value.type.columns > 1:
        yield value.type.dtype


def _reads_registers(node: tree.Columns, lets: Lets) -> bool:
    return any(isinstance(one, tree.ReadVariable) and one.variable.in_registers for one in subexpressions(node, lets))


def exchange_bytes(row: RolePlan, maps: Mapping[tree.Operation, RowMap]) -> int:
    """The size of a buffer in shared memory in which the warps of a row combine their partial reductions; 0 if there are none."""
    lets = lazy_tiles(row.role)
    largest = 0
    for block in row.role.blocks:
        for operation in block.operations:
            row_map, value = maps.get(operation), evaluated_tile(operation)
            if row_map is None or value is None or not row_map.vector or row_map.warps_of_row == 1:
                continue
            nodes = (node for node in subexpressions(value, lets) if isinstance(node, tree.RowReduce))
            largest = max(largest, *(max(4, node.type.dtype.bytes) for node in nodes), 0)
    return row.role.warps * largest
