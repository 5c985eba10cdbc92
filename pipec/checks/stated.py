"""What the author states by hand, against what was derived: arrival counts and bytes (E052x)."""

from pipec.diag.catalogue import signals as messages
from pipec.diag.message import Sink
from pipec.kir.plan_types import Plan
from pipec.sema import tree


def check(plan: Plan, sink: Sink) -> None:
    for stated in plan.kernel.stated:
        _counts(plan, stated, sink)
    for role in plan.kernel.roles:
        operations = [operation for block in role.blocks for operation in block.operations]
        for operation in operations:
            if isinstance(operation, tree.ExpectBytes):
                _bytes(plan, operation, operations, sink)


def _counts(plan: Plan, stated: tree.StatedCounts, sink: Sink) -> None:
    pipeline = stated.pipeline
    producer, consumer = (plan.signals[pipeline, side].count for side in ("producer", "consumer"))
    if (stated.producer, stated.consumer) == (producer, consumer):
        return
    taking_part = [role for role in plan.kernel.roles if pipeline in (*role.produces, *role.consumes)]
    sink.report(
        messages.StatedArrivals(
            pipeline=pipeline.name,
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
