"""Consumers that alternate on a pipeline: each stage is taken by one of them and skipped by the others."""

from pipec.checks.stages.roles import header
from pipec.checks.summary import Summary
from pipec.diag.catalogue.stages import roles as messages
from pipec.diag.catalogue.stages import signals as signals_messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import Plan
from pipec.sema import tree


def check(summary: Summary, sink: Sink) -> None:
    """A role that skips must be a consumer, and every other consumer must skip as well."""
    skips: dict[tree.Pipeline, dict[str, tree.Skip]] = {}
    for role in summary.kernel.roles:
        for operation in operations(role):
            if not isinstance(operation, tree.Skip):
                continue
            if operation.pipeline in role.consumes:
                skips.setdefault(operation.pipeline, {}).setdefault(role.name, operation)
            else:
                sink.report(
                    messages.SkipsForeign(
                        role=role.name,
                        pipeline=operation.pipeline.name,
                        declares=header(role),
                        at=operation.span,
                        declared=role.span,
                    )
                )
    for pipeline, first in skips.items():
        _shared(pipeline, first, [role for role in summary.kernel.roles if pipeline in role.consumes], sink)


def _shared(pipeline: tree.Pipeline, skips: dict[str, tree.Skip], consumers: list[ir.Role], sink: Sink) -> None:
    other, skip = next(iter(skips.items()))
    if len(consumers) == 1:
        stages = counted(pipeline.stages, "stage")
        sink.report(
            messages.SkippedByAll(role=other, pipeline=pipeline.name, stages=stages, at=skip.span, declared=pipeline.span)
        )
    for role in consumers:
        # How often each of them skips depends on the enclosing loops; the proof covers that.
        if len(consumers) > 1 and role.name not in skips:
            sink.report(
                messages.TakesEveryStage(role=role.name, pipeline=pipeline.name, other=other, at=role.span, skipped=skip.span)
            )


def check_counts(plan: Plan, sink: Sink) -> None:
    """All of them must release a stage with the same number of arrivals."""
    for (pipeline, _), signals in plan.signals.items():
        if not signals.in_turn:
            continue
        spans = {role.name: role.span for role in plan.kernel.roles}
        (first, count), *others = signals.counts.items()
        for name, other in others:
            if other != count:
                sink.report(
                    signals_messages.TurnsDiffer(
                        role=name,
                        other=first,
                        pipeline=pipeline.name,
                        gives=counted(other, "arrival"),
                        other_gives=counted(count, "arrival"),
                        at=spans[name],
                        others=spans[first],
                        declared=pipeline.span,
                    )
                )
