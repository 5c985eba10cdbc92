"""The contents of memory when it is read (E08xx)."""

from pipec.checks.summary import ACCUMULATE, OPERAND, READ, WRITE, RoleSummary, Summary, Touch
from pipec.checks.tiles.first_mma import first_mmas
from pipec.checks.tiles.lost_products import lost_products
from pipec.diag.catalogue.stages import lifetime as messages
from pipec.diag.catalogue.stages import sub_stages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.plan.zero import plan_zero
from pipec.sema import tree


def check(summary: Summary, sink: Sink) -> None:
    _never_written(summary, sink)
    _unwritten_sub_stages(summary, sink)
    _nothing_added(summary, sink)
    for role in summary.roles:
        _first_adds(role, sink)
        _lost_products(role, sink)


def _first_adds(role: RoleSummary, sink: Sink) -> None:
    """One message per accumulator stage."""
    told: set[tree.Handle] = set()
    for first in first_mmas(role):
        # The hardware never clears tensor memory: an MMA that accumulates into a fresh accumulator adds to the contents left by the last
        # kernel.
        if first.adds is False or first.handle in told:
            continue
        told.add(first.handle)
        assert first.mma.accumulate is not None
        message = messages.StaleAccumulator if first.adds else messages.MaybeStaleAccumulator
        acquires = role.handles[first.handle].acquires
        sink.report(
            message(
                stage=first.handle.name,
                condition=first.mma.accumulate.span.text(),
                at=first.mma.accumulate.span,
                obtained=acquires[0].operation.span if acquires else None,
            )
        )


def _lost_products(role: RoleSummary, sink: Sink) -> None:
    """One message per MMA."""
    told: set[tree.Mma] = set()
    for lost in lost_products(role):
        if lost.mma in told:
            continue
        told.add(lost.mma)
        assert lost.mma.accumulate is not None
        when, what = "the first time it runs", "its products are lost"
        if lost.loop is not None:
            when, what = f"in the second iteration of {_named(lost.loop)}", "overwrites its own products of the first iteration"
        sink.report(
            messages.LostProduct(
                stage=lost.mma.accumulator.handle.name,
                condition=lost.mma.accumulate.span.text(),
                when=when,
                lost=what,
                at=lost.mma.accumulate.span,
                earlier=lost.earlier.span,
            )
        )


def _named(loop: ir.Loop) -> str:
    return f"the loop over `{loop.variable.name}`" if loop.variable is not None else "the loop"


def _unwritten_sub_stages(summary: Summary, sink: Sink) -> None:
    # `plan_zero` traverses the graph of every role; without sub-stages it has no error to report here.
    if all(pipeline.producer_sub_stages == 1 for pipeline in summary.kernel.pipelines):
        return
    for buffer, (pipeline, _) in plan_zero(summary.kernel).items():
        count = pipeline.producer_sub_stages
        if count > 1:
            sink.report(
                sub_stages.SubStageUnwritten(
                    buffer=buffer.label, pipeline=pipeline.name, count=count, at=buffer.span, declared=pipeline.span
                )
            )


def _nothing_added(summary: Summary, sink: Sink) -> None:
    for role in summary.roles:
        operations = [operation for block in role.role.blocks for operation in block.operations]
        added = {operation.accumulator for operation in operations if isinstance(operation, tree.RegisterMma)}
        for operation in operations:
            if isinstance(operation, tree.ClearAccumulator) and operation.accumulator not in added:
                sink.report(messages.NothingAdded(accumulator=operation.accumulator.name, at=operation.span))


def _never_written(summary: Summary, sink: Sink) -> None:
    """Accumulators of pipelines are covered by their stages, which must be filled; these are the kernel's own."""
    written: set[tree.Buffer] = set()
    read: dict[tree.Buffer, Touch] = {}
    for _, handle in summary.handles():
        for _, touch in handle.touches:
            if touch.buffer is None or touch.buffer.space != "tensor":
                continue
            if touch.kind in (ACCUMULATE, WRITE):
                written.add(touch.buffer)
            elif touch.kind in (READ, OPERAND):
                read.setdefault(touch.buffer, touch)
    for buffer, touch in read.items():
        if buffer not in written and buffer.owner is None:
            sink.report(messages.AccumulatorNeverWritten(buffer=buffer.label, at=touch.span, declared=buffer.span))
