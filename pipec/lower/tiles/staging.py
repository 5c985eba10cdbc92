"""Stages a register tile in shared memory for a TMA store, one panel at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipec.kir.plan.types import Staging, TmaPlan
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.tiles.tma import box_coordinates, issue_store
from pipec.sema import tree


@contextmanager
def staged_panel(
    role: RoleContext,
    operation: tree.Store,
    staging: Staging,
    row_plan: TmaPlan,
    origin: Sequence[Value],
    rows: tuple[Value, int],
    columns: tuple[Value, int],
) -> Iterator[Value]:
    """Yields the address of a free buffer, which the code inside fills; then one thread stores it at offset `rows` and `columns` (each a
    number of steps and the step length) from the origin."""
    with staged_panels(role, operation, staging, row_plan, origin, rows, (columns,)) as (buffer,):
        yield buffer


@contextmanager
def staged_panels(
    role: RoleContext,
    operation: tree.Store,
    staging: Staging,
    row_plan: TmaPlan,
    origin: Sequence[Value],
    rows: tuple[Value, int],
    columns: Sequence[tuple[Value, int]],
) -> Iterator[list[Value]]:
    """Like `staged_panel`, for all panels in `columns`, at most as many as there are buffers: the threads synchronise once for all."""
    builder, count = role.builder, len(columns)
    buffers = _next_buffers(role, staging, count)
    # The thread that stores waits. Others have no stores that they could wait for, and no branch is cheaper than one around this.
    builder.call("bulk.wait_group.read", integer(staging.buffers - count))
    role.synchronise()
    yield buffers
    builder.call("fence.proxy.async.shared")
    role.synchronise()
    with role.one_thread("store"):
        row = builder.multiply(*rows)
        for buffer, place in zip(buffers, columns, strict=True):
            column = builder.multiply(*place)
            for part in range(row_plan.row_boxes):
                skipped = part * row_plan.box_rows
                at = box_coordinates(role, list(origin), builder.add(row, skipped), column)
                issue_store(role, operation, row_plan, builder.add(buffer, skipped * staging.layout.span_bytes), at)
            builder.call("bulk.commit_group")


def _next_buffers(role: RoleContext, staging: Staging, count: int) -> list[Value]:
    """The buffers with the oldest stores, in order; each panel's store is a group of its own, which preserves the order."""
    builder, most = role.builder, staging.buffers
    assert role.staging_turn is not None
    first = role.kernel.shared_address(staging.offset)
    if most == 1:
        return [first]
    turn = role.staging_turn.read()
    turns = [turn if index == 0 else builder.bits("and", builder.add(turn, index), most - 1) for index in range(count)]
    if count < most:
        role.staging_turn.write(
            builder.bits("xor", turn, 1) if most == 2 else builder.bits("and", builder.add(turn, count), most - 1)
        )
    return [builder.binary("add", first, builder.multiply(one, staging.stride)) for one in turns]
