"""What memory holds when it is read (E08xx)."""

from pipec.checks.facts import ACCUMULATE, READ, Facts, Touch
from pipec.diag.catalogue import lifetime as messages
from pipec.diag.message import Sink
from pipec.sema import tree


def check(facts: Facts, sink: Sink) -> None:
    _never_written(facts, sink)
    for _, handle in facts.handles():
        mmas = [touch.operation for _, touch in handle.touches if touch.kind == ACCUMULATE]
        first = mmas[0] if mmas else None
        if not isinstance(first, tree.Mma) or not all(_always_adds(mma) for mma in mmas):
            continue
        assert isinstance(first.accumulate, tree.Constant)
        sink.report(
            messages.StaleAccumulator(
                stage=handle.handle.name,
                condition=first.accumulate.value,
                at=first.accumulate.span,
                obtained=handle.acquires[0].operation.span if handle.acquires else None,
            )
        )


def _always_adds(mma: tree.Operation | None) -> bool:
    return isinstance(mma, tree.Mma) and isinstance(mma.accumulate, tree.Constant) and bool(mma.accumulate.value)


def _never_written(facts: Facts, sink: Sink) -> None:
    """Accumulators of pipelines are covered by their stages, which somebody must fill; these are the kernel's own."""
    written: set[tree.Buffer] = set()
    read: dict[tree.Buffer, Touch] = {}
    for _, handle in facts.handles():
        for _, touch in handle.touches:
            if touch.buffer is None or touch.buffer.space != "tensor":
                continue
            if touch.kind == ACCUMULATE:
                written.add(touch.buffer)
            elif touch.kind == READ:
                read.setdefault(touch.buffer, touch)
    for buffer, touch in read.items():
        if buffer not in written and buffer.owner is None:
            sink.report(messages.AccumulatorNeverWritten(buffer=buffer.label, at=touch.span, declared=buffer.span))
