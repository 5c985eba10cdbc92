"""Which role may do what: its declared pipelines, and its side of each (E04xx)."""

from itertools import islice

from pipec.checks.stages.arrivals import ADDED_UP
from pipec.checks.stages.participation import check_participation, check_shared_values
from pipec.checks.stages.warpgroups import check_tensor_memory, check_warpgroups
from pipec.checks.summary import (
    ACCUMULATE,
    COPY,
    LOAD,
    OPERAND,
    READ,
    STORE,
    WRITE,
    RoleSummary,
    StageSummary,
    Summary,
    Touch,
)
from pipec.diag.catalogue.stages import roles as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.source import Span
from pipec.vocabulary import FILLING, OTHER_SIDE, SIDES, Side

_OPERATION = {
    LOAD: "tma.load",
    COPY: "cp.async",
    WRITE: "write",
    ACCUMULATE: "mma",
    OPERAND: "mma",
    READ: "this expression",
    STORE: "tma.store",
}


@record
class _Side:
    clause: str
    use: str
    other_clause: str
    other_call: str


ROLE_WAITS = {"producer": "acquire", "consumer": "wait"}
_SIDES = {
    "producer": _Side("produces", "for filling", "consumes", "consume"),
    "consumer": _Side("consumes", "for reading", "produces", "produce"),
}


def check(summary: Summary, sink: Sink) -> None:
    _declarations(summary, sink)
    for role in summary.roles:
        check_participation(role, sink)
        _drains(role, sink)
        check_shared_values(role, sink)
        check_tensor_memory(role, sink)
        check_warpgroups(role, sink)
        for handle in role.handles.values():
            if not _other_way_round(role, handle.handle.pipeline):
                _sides(handle, sink)
    _modified(summary, sink)


def _declarations(summary: Summary, sink: Sink) -> None:
    producers: dict[tree.Pipeline, list[tuple[ir.Role, Span]]] = {}
    consumers: dict[tree.Pipeline, list[tuple[ir.Role, Span]]] = {}
    for role in summary.roles:
        clauses = (role.role.produces, role.role.consumes)
        for side, declared, found in zip(SIDES, clauses, (producers, consumers), strict=True):
            acquired = _acquired(role, side)
            _compare_with_header(role, side, declared, acquired, sink)
            for pipeline in dict.fromkeys((*declared, *acquired)):
                found.setdefault(pipeline, []).append((role.role, acquired.get(pipeline, role.role.span)))
    for pipeline in summary.kernel.pipelines:
        # Which side such a role is on is open: "two producers" or "no consumer" would only repeat its error.
        if not any(_other_way_round(role, pipeline) for role in summary.roles):
            _roles_of_pipeline(pipeline, producers.get(pipeline, []), consumers.get(pipeline, []), sink)


def _acquired(role: RoleSummary, side: Side) -> dict[tree.Pipeline, Span]:
    """The pipelines whose stages the role obtains on that side, with the first location."""
    found: dict[tree.Pipeline, Span] = {}
    for handle, summary in role.handles.items():
        if handle.side == side and summary.acquires:
            found.setdefault(handle.pipeline, summary.acquires[0].operation.span)
    return found


def _compare_with_header(
    summary: RoleSummary, side: Side, declared: tuple[tree.Pipeline, ...], acquired: dict[tree.Pipeline, Span], sink: Sink
) -> None:
    role = summary.role
    for pipeline, span in acquired.items():
        if pipeline in declared:
            continue
        if _other_way_round(summary, pipeline):
            words = _SIDES[side]
            sink.report(
                messages.OtherWayRound(
                    role=role.name,
                    pipeline=pipeline.name,
                    declares=words.other_clause,
                    use=words.use,
                    clause=words.clause,
                    call=_other_call(summary, pipeline, side),
                    at=span,
                    declared=role.span,
                )
            )
        else:
            undeclared = messages.UndeclaredProducer if side == "producer" else messages.UndeclaredConsumer
            sink.report(undeclared(role=role.name, pipeline=pipeline.name, declares=header(role), at=span, declared=role.span))
    for pipeline in declared:
        if pipeline in acquired or _other_way_round(summary, pipeline):
            continue
        call = ROLE_WAITS[side] if pipeline.kind == ROLE else _SIDES[OTHER_SIDE[side]].other_call
        if side == "producer":
            sink.report(messages.NeverProduces(role=role.name, pipeline=pipeline.name, call=call, at=role.span))
        else:
            stages = "its stage is" if pipeline.stages == 1 else f"all {pipeline.stages} stages are"
            sink.report(messages.NeverConsumes(role=role.name, pipeline=pipeline.name, call=call, stages=stages, at=role.span))


def _other_way_round(role: RoleSummary, pipeline: tree.Pipeline) -> bool:
    """The role declares one side of the pipeline and obtains only stages of the other."""
    declared = {"producer": role.role.produces, "consumer": role.role.consumes}
    used = {handle.side for handle, summary in role.handles.items() if handle.pipeline is pipeline and summary.acquires}
    return (
        len(used) == 1
        and {side for side, pipelines in declared.items() if pipeline in pipelines}.isdisjoint(used)
        and any(pipeline in pipelines for pipelines in declared.values())
    )


def _other_call(role: RoleSummary, pipeline: tree.Pipeline, side: Side) -> str:
    """The call that obtains a stage of the side opposite to `side`, in the form that the role uses."""
    if pipeline.kind == ROLE:
        return ROLE_WAITS[OTHER_SIDE[side]]
    if any(handle.form == "stepped" for handle in role.handles if handle.pipeline is pipeline):
        return f"wait_{side}"
    return _SIDES[side].other_call


def header(role: ir.Role) -> str:
    parts = []
    if role.produces:
        parts.append(f"`produces {', '.join(pipeline.name for pipeline in role.produces)}`")
    if role.consumes:
        parts.append(f"`consumes {', '.join(pipeline.name for pipeline in role.consumes)}`")
    return " and ".join(parts) or "no pipelines"


def _roles_of_pipeline(
    pipeline: tree.Pipeline, producers: list[tuple[ir.Role, Span]], consumers: list[tuple[ir.Role, Span]], sink: Sink
) -> None:
    if not producers and not consumers:
        sink.report(messages.UnusedPipeline(pipeline=pipeline.name, at=pipeline.span))
        return
    if not producers:
        role, span = consumers[0]
        sink.report(messages.NoProducer(pipeline=pipeline.name, role=role.name, at=pipeline.span, consumer=span))
    if not consumers:
        role, span = producers[0]
        blocked = pipeline.stages + 1
        sink.report(messages.NoConsumer(pipeline=pipeline.name, role=role.name, blocked=blocked, at=pipeline.span, producer=span))
    # The cursor and the parity of a side are registers of the role: two producers take the same slots independently. The barriers count
    # the signals of each role, so a stage is full when all producers have filled their tiles, and free when all consumers have read it.
    for number, (role, span) in enumerate(producers):
        if pipeline not in role.produces:
            continue  # already reported
        found = ((one, why) for one in producers[:number] if (why := _why_not_together(pipeline, one[0], role)) is not None)
        for (first, other), consequence in islice(found, 1):
            sink.report(
                messages.TwoProducers(
                    consequence=consequence,
                    pipeline=pipeline.name,
                    first=first.name,
                    second=role.name,
                    at=span,
                    other=other,
                    declared=pipeline.span,
                )
            )


def _why_not_together(pipeline: tree.Pipeline, *roles: ir.Role) -> str | None:
    """Why two roles cannot fill the stages of a pipeline together; None if each fills tiles of its own, by signals that add up."""
    fills = [
        [use for one in operations(role) for use in one.effects.filling if use.tile.handle.pipeline is pipeline] for role in roles
    ]
    first, second = ({use.tile.buffer: None for use in uses} for uses in fills)
    both = next((tile.name for tile in first if tile in second), None)
    if both is not None and any(use.tile.rows < use.tile.buffer.rows for uses in fills for use in uses):
        return f"both fill rows of `{both}`, but all of a tile is filled by one role"
    if both is not None:
        return f"both fill `{both}`, and one overwrites what the other has put there"
    idle = next((role.name for role, uses in zip(roles, fills, strict=True) if not uses), None)
    if idle is not None:
        return f"a stage is full when each has filled tiles of its own, and `{idle}` fills none"
    if not {use.kind for uses in fills for use in uses} <= ADDED_UP["producer"] or any(
        tile.space == "tensor" for tile in (*first, *second)
    ):
        return "tiles in tensor memory are handed over by one role, in the order of its MMAs"
    if pipeline.cta_group > 1:
        return "the stages of a pair of CTAs are filled by one role"
    if pipeline.producer_sub_stages > 1:
        return "each of its sub-stages is filled by one role"
    return None


def _drains(role: RoleSummary, sink: Sink) -> None:
    """Only the producer of a pipeline can wait for the stages it filled."""
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.Drain) and operation.pipeline not in role.role.produces:
                pipeline = operation.pipeline.name
                sink.report(
                    messages.DrainsForeign(
                        role=role.role.name,
                        pipeline=pipeline,
                        declares=header(role.role),
                        at=operation.span,
                        declared=role.role.span,
                    )
                )


def _sides(summary: StageSummary, sink: Sink) -> None:
    """One message per handle: the first use on the wrong side."""
    handle = summary.handle
    obtained = summary.acquires[0].operation.span if summary.acquires else None
    wrong_side = handle.side == "producer"
    for _, touch in summary.touches:
        if touch.buffer is None or (touch.kind in FILLING) == wrong_side or _returns(touch):
            continue
        message = messages.ReadsProducerStage if wrong_side else messages.FillsConsumerStage
        name = _OPERATION[touch.kind]
        sink.report(
            message(
                operation=name if touch.kind == READ else f"`{name}`",
                stage=handle.name,
                pipeline=handle.pipeline.name,
                suggestion=_suggestion(handle, OTHER_SIDE[handle.side]),
                at=touch.span,
                obtained=obtained,
            )
        )
        return


def _modified(summary: Summary, sink: Sink) -> None:
    """A tile that a consumer modifies may be used by no other one. One message per tile: the first write and the first other use."""
    consumed: dict[tree.Buffer, list[tuple[str, Touch]]] = {}
    for role, handle in summary.handles():
        for _, touch in handle.touches if handle.handle.side == "consumer" else ():
            if touch.buffer is not None:
                consumed.setdefault(touch.buffer, []).append((role.role.name, touch))
    for buffer, found in consumed.items():
        pairs = (
            (writer, write, other, use)
            for writer, write in found
            if write.kind == WRITE and _returns(write)
            for other, use in found
            if other != writer
        )
        for writer, write, other, use in islice(pairs, 1):
            sink.report(
                messages.WritesWhatOthersUse(
                    role=writer,
                    other=other,
                    tile=buffer.label,
                    pipeline=write.handle.pipeline.name,
                    at=write.span,
                    use=use.span,
                )
            )


def _returns(touch: Touch) -> bool:
    """A RolePipeline may return a modified accumulator, to which its producer accumulates."""
    assert touch.buffer is not None
    return touch.kind == WRITE and touch.handle.pipeline.kind == ROLE and touch.buffer.space == "tensor"


def _suggestion(handle: tree.Handle, side: Side) -> str:
    """The call that obtains a stage of the other side in the same form."""
    if handle.pipeline.kind == ROLE:
        return f"{handle.pipeline.name}.{ROLE_WAITS[side]}()"
    if handle.form == "stepped":
        return f"{handle.pipeline.name}.wait_{OTHER_SIDE[side]}()"
    if handle.form != "linear":
        return f"{handle.pipeline.name}.{'consume' if side == 'consumer' else 'produce'}()"
    if handle.pipeline.kind == "OutputTilePipeline":
        return f"{handle.pipeline.name}.{'acquire_epilogue_linear' if side == 'consumer' else 'acquire_mma_linear'}()"
    return f"{handle.pipeline.name}.acquire_{side}()"
