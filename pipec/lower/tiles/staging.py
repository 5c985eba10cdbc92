"""Stages a register tile in shared memory for a TMA store, one buffer or several at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipec.kir.plan.types import Panel, Staging
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.tiles.tma import box_coordinates, issue_store
from pipec.sema import tree


@contextmanager
def staged_fill(
    role: RoleContext, operation: tree.Store, origin: Sequence[Value], rows: tuple[Value, int],
    fill: Sequence[Panel], column: tuple[Value, int],
) -> Iterator[Value]:  # fmt: skip
    """Yields the address of a free buffer, which the code inside fills with panels; then one thread stores them at offset `rows`, and
    `column` beyond their own columns (each a number of steps and the step length), from the origin."""
    with staged_fills(role, operation, origin, rows, (fill,), (column,)) as (buffer,):
        yield buffer


@contextmanager
def staged_fills(
    role: RoleContext, operation: tree.Store, origin: Sequence[Value], rows: tuple[Value, int],
    fills: Sequence[Sequence[Panel]], columns: Sequence[tuple[Value, int]],
) -> Iterator[list[Value]]:  # fmt: skip
    """Like `staged_fill`, for as many fills, at most as many as there are buffers: the threads synchronise once for all."""
    builder, plan, count = role.builder, role.kernel.plan, len(fills)
    staging = plan.staging[operation]
    buffers = _next_buffers(role, staging, count)
    # The thread that stores waits. Others have no stores that they could wait for, and no branch is cheaper than one around this.
    builder.call("bulk.wait_group.read", integer(staging.buffers - count))
    role.synchronise()
    yield buffers
    builder.call("fence.proxy.async.shared")
    role.synchronise()
    with role.one_thread("store"):
        row = builder.multiply(*rows)
        for buffer, fill, place in zip(buffers, fills, columns, strict=True):
            for panel in fill:
                copy = plan.stored[operation][panel.layout]
                column = builder.add(builder.multiply(*place), panel.first)
                for part in range(copy.row_boxes):
                    skipped = part * copy.box_rows
                    at = box_coordinates(role, list(origin), builder.add(row, skipped), column)
                    issue_store(role, operation, copy, builder.add(buffer, panel.aside + skipped * panel.layout.span_bytes), at)
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
