"""The way of a register tile through shared memory to a TMA store, one panel at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipec.kir.plan_types import Staging, TmaPlan
from pipec.lower.context import RoleContext
from pipec.lower.llvm import Value, integer
from pipec.lower.tma import box_coordinates, issue_store


@contextmanager
def staged_panel(
    role: RoleContext,
    staging: Staging,
    row_plan: TmaPlan,
    origin: Sequence[Value],
    rows: tuple[Value, int],
    columns: tuple[Value, int],
    reduce: str | None,
) -> Iterator[Value]:
    """Gives the address of a buffer that was read; the code inside fills it, and then one thread stores it `rows` and `columns` (each
    a number of steps and the length of one) from the origin."""
    builder = role.builder
    assert role.staging_turn is not None
    buffer = role.kernel.shared_address(staging.offset)
    turn = role.staging_turn.read()
    if staging.buffers > 1:
        buffer = builder.binary("add", buffer, builder.multiply(turn, staging.stride))
        role.staging_turn.write(builder.bits("xor", turn, 1))
    with role.one_thread("staged"):
        builder.call("bulk.wait_group.read", integer(staging.buffers - 1))
    role.synchronise()
    yield buffer
    builder.call("fence.proxy.async.shared")
    role.synchronise()
    with role.one_thread("store"):
        row, column = builder.multiply(*rows), builder.multiply(*columns)
        for part in range(row_plan.row_boxes):
            skipped = part * row_plan.box_rows
            at = box_coordinates(role, list(origin), builder.add(row, skipped), column)
            issue_store(role, row_plan, builder.add(buffer, skipped * staging.layout.span_bytes), at, reduce)
        builder.call("bulk.commit_group")
