"""Explicit declarations of the author, against the derived values: arrival counts and bytes (E052x)."""

from pipec.diag.catalogue.stages import output as output_messages
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.kir.plan.memory import packed_buffers, tensor_width
from pipec.kir.plan.types import Plan
from pipec.sema import tree
from pipec.sema.language.operation import RING
from pipec.vocabulary import SIDES


def check(plan: Plan, sink: Sink) -> None:
    for allocation in plan.kernel.allocations:
        _allocation(plan, allocation, sink)
    for stated in plan.kernel.stated:
        _counts(plan, stated, sink)
    for role in plan.kernel.roles:
        operations = [operation for block in role.blocks for operation in block.operations]
        for operation in operations:
            if isinstance(operation, tree.ExpectBytes):
                _bytes(plan, operation, operations, sink)


def _allocation(plan: Plan, stated: tree.TensorAllocation, sink: Sink) -> None:
    """Must be large enough for its contents, and must have some."""
    buffers = [buffer for buffer in plan.kernel.buffers if buffer.space == "tensor" and buffer.alias is None]
    if not buffers:
        sink.report(output_messages.AllocationUnused(columns=stated.columns, at=stated.span))
        return
    ends = [plan.columns[one] + plan.column_stride[one] * (one.count - 1) + _width(plan, one) for one in buffers]
    # A larger allocation is allowed: the hardware allocates powers of two anyway.
    if max(ends) <= stated.columns:
        return
    sink.report(
        output_messages.AllocationTooSmall(
            columns=stated.columns,
            needed=max(ends),
            fitting=plan.allocated_columns,
            at=stated.span,
            tiles=tuple(buffer.span for buffer in buffers),
        )
    )


def _width(plan: Plan, buffer: tree.Buffer) -> int:
    return tensor_width(buffer, packed_buffers(plan.kernel))


def _counts(plan: Plan, stated: tree.StatedCounts, sink: Sink) -> None:
    pipeline = stated.pipeline
    producer, consumer = (plan.signals[pipeline, side].count for side in SIDES)
    if any(fill.pipeline is pipeline and fill.flag_offset is not None for fill in plan.zero_fills.values()):
        producer -= 1  # the flag whether an MMA ran is written by the compiler's own code
    if (stated.producer, stated.consumer) == (producer, consumer):
        return
    taking_part = [role for role in plan.kernel.roles if pipeline in (*role.produces, *role.consumes)]
    sink.report(
        messages.StatedArrivals(
            pipeline=pipeline.name,
            call="init_mbars" if pipeline.kind == RING else "init_barriers",
            stated=f"{stated.producer} and {stated.consumer} arrivals",
            derived=f"{producer} and {consumer}",
            part="gives arrivals",
            producer=producer,
            consumer=consumer,
            at=stated.span,
            declared=pipeline.span,
            roles=tuple(role.span for role in taking_part),
        )
    )


def _bytes(plan: Plan, stated: tree.ExpectBytes, operations: list[tree.Operation], sink: Sink) -> None:
    handle = stated.handle
    derived = plan.expected_bytes.get(handle, 0)
    if stated.bytes == derived:
        return
    loads = [one.span for one in operations if isinstance(one, tree.TmaLoad) and one.destination.handle is handle]
    obtained = next((one.span for one in operations if isinstance(one, tree.Acquire) and one.handle is handle), None)
    sink.report(
        messages.StatedBytes(
            stage=handle.name, stated=stated.bytes, derived=derived, at=stated.span, loads=tuple(loads), obtained=obtained
        )
    )
