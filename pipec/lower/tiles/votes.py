"""Votes of a role's threads."""

from collections.abc import Iterator

from pipec.lower.context import FULL_WARP, RoleContext, repeated
from pipec.lower.emit.value import FALSE, TRUE, Value, integer
from pipec.lower.scalars import scalar
from pipec.lower.table import lowers
from pipec.lower.tiles import fragments
from pipec.lower.tiles.chunks import Chunk, Row
from pipec.lower.tiles.reader import TileReader
from pipec.sema import tree
from pipec.sema.types import TileType


@lowers(tree.Vote)
def vote(role: RoleContext, operation: tree.Vote) -> None:
    """The warps of a role synchronise at its named barrier, which combines their votes."""
    builder, condition = role.builder, operation.condition
    mine = _of_rows(role, operation) if isinstance(condition.type, TileType) else scalar(role, condition)
    if role.plan.named_barrier is None:
        told = builder.call(f"vote.{operation.kind}", FULL_WARP, mine)
    else:
        barrier, threads = role.named_barrier, integer(role.plan.threads)
        told = builder.call(f"barrier.{operation.kind}", barrier, threads, mine)
    role.variables[operation.result].write(told)


def _of_rows(role: RoleContext, operation: tree.Vote) -> Value:
    """The vote of this thread's rows; neutral without rows."""
    builder, some = role.builder, operation.kind == "any"
    found = builder.variable("i1", f"{role.prefix}.vote")
    found.write(FALSE if some else TRUE)
    reader = TileReader(role)
    reader.prepare(operation.condition)
    for row in _rows(role, reader, operation):
        reader.prepare_row(operation.condition, row)
        says = reader.values(operation.condition, Chunk(row, integer(0), integer(0), 0, 1, 0))[0]
        if row.working is not None:
            says = builder.select(row.working, says, FALSE if some else TRUE)
        found.write(builder.binary("or" if some else "and", found.read(), says))
    return found.read()


def _rows(role: RoleContext, reader: TileReader, operation: tree.Vote) -> Iterator[Row]:
    row_map = role.kernel.plan.row_maps[operation]
    if row_map.fragment:
        yield from fragments.rows_of(role, row_map)
        return
    for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
        yield reader.row(row_map, block, number)
