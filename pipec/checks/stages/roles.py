"""Which role may do what, and which of its threads: declared pipelines, sides, participation (E04xx)."""

from collections.abc import Iterator

from pipec.checks.summary import ACCUMULATE, COPY, LOAD, OPERAND, READ, STORE, WRITE, RoleSummary, StageSummary, Summary, Touch
from pipec.diag.catalogue.stages import roles as messages
from pipec.diag.message import Sink
from pipec.isa.targets import WARP, WARPGROUP_WARPS
from pipec.kir import ir
from pipec.kir.values.sameness import of_elected, of_threads
from pipec.kir.walk import subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import OTHER_SIDE, SIDES, Side, Threads

_OPERATION = {
    LOAD: "tma.load",
    COPY: "cp.async",
    WRITE: "write",
    ACCUMULATE: "mma",
    OPERAND: "mma",
    READ: "this expression",
    STORE: "tma.store",
}
_FILLS = (LOAD, COPY, WRITE, ACCUMULATE)


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
        _participation(role, sink)
        _drains(role, sink)
        _same_in_all_threads(role, sink)
        _tensor_memory_readers(role, sink)
        _warpgroups(role, sink)
        for handle in role.handles.values():
            if not _other_way_round(role, handle.handle.pipeline):
                _sides(handle, sink)


# ------------------------------------------------------------------------------------------------------- declarations


def _declarations(summary: Summary, sink: Sink) -> None:
    producers: dict[tree.Pipeline, list[tuple[ir.Role, Span]]] = {}
    consumers: dict[tree.Pipeline, list[tuple[ir.Role, Span]]] = {}
    for role in summary.roles:
        clauses = (role.role.produces, role.role.consumes)
        for side, declared, found in zip(SIDES, clauses, (producers, consumers), strict=True):
            acquired = _acquired(role, side)
            _compare_with_header(role, side, declared, acquired, sink)
            for pipeline in dict.fromkeys((*declared, *acquired)):
                if pipeline not in declared and _other_way_round(role, pipeline):
                    continue
                found.setdefault(pipeline, []).append((role.role, acquired.get(pipeline, role.role.span)))
    for pipeline in summary.kernel.pipelines:
        _roles_of_pipeline(pipeline, producers.get(pipeline, []), consumers.get(pipeline, []), sink)


def _acquired(role: RoleSummary, side: Side) -> dict[tree.Pipeline, Span]:
    """The pipelines whose stages the role obtains on that side, with the first place."""
    found: dict[tree.Pipeline, Span] = {}
    for handle, summary in role.handles.items():
        if handle.side == side and summary.acquires:
            found.setdefault(handle.pipeline, summary.acquires[0].operation.span)
    return found


def _compare_with_header(
    summary: RoleSummary, side: Side, declared: tuple[tree.Pipeline, ...], acquired: dict[tree.Pipeline, Span], sink: Sink
) -> None:
    role = summary.role
    undeclared = messages.UndeclaredProducer if side == "producer" else messages.UndeclaredConsumer
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
            sink.report(undeclared(role=role.name, pipeline=pipeline.name, declares=_header(role), at=span, declared=role.span))
    for pipeline in declared:
        if pipeline in acquired or _other_way_round(summary, pipeline):
            continue
        call = ROLE_WAITS[side] if pipeline.kind == ROLE else _SIDES[OTHER_SIDE[side]].other_call
        if side == "producer":
            sink.report(messages.NeverProduces(role=role.name, pipeline=pipeline.name, call=call, at=role.span))
        else:
            stages = "1 stage" if pipeline.stages == 1 else f"{pipeline.stages} stages"
            sink.report(messages.NeverConsumes(role=role.name, pipeline=pipeline.name, call=call, stages=stages, at=role.span))


def _other_way_round(role: RoleSummary, pipeline: tree.Pipeline) -> bool:
    """The role declares one side of the pipeline and obtains stages of the other only."""
    declared = {"producer": role.role.produces, "consumer": role.role.consumes}
    used = {handle.side for handle, summary in role.handles.items() if handle.pipeline is pipeline and summary.acquires}
    return (
        len(used) == 1
        and {side for side, pipelines in declared.items() if pipeline in pipelines}.isdisjoint(used)
        and any(pipeline in pipelines for pipelines in declared.values())
    )


def _other_call(role: RoleSummary, pipeline: tree.Pipeline, side: Side) -> str:
    """What obtains a stage of the other side than `side`, in the form the role used."""
    if pipeline.kind == ROLE:
        return ROLE_WAITS[OTHER_SIDE[side]]
    if any(handle.form == "stepped" for handle in role.handles if handle.pipeline is pipeline):
        return f"wait_{side}"
    return _SIDES[side].other_call


def _header(role: ir.Role) -> str:
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
    for role, span in producers[1:]:
        if pipeline not in role.produces:
            continue  # told already
        first, other = producers[0]
        sink.report(
            messages.TwoProducers(
                pipeline=pipeline.name, first=first.name, second=role.name, at=span, other=other, declared=pipeline.span
            )
        )


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
                        declares=_header(role.role),
                        at=operation.span,
                        declared=role.role.span,
                    )
                )


# ------------------------------------------------------------------------------------------------------ participation


def _participation(role: RoleSummary, sink: Sink) -> None:
    _needs_elect(role.role, sink)
    told: set[tuple[str, Span | None]] = set()  # one message per kind of mistake and guard
    for number, block in enumerate(role.role.blocks):
        threads, guard = block.participation.threads, block.participation.guard
        for operation, touches in zip(block.operations, role.touches[number], strict=True):
            asked = operation.effects.threads
            one = asked if isinstance(asked, tree.OneThread) else None
            doing = None if one else _doing(operation, touches)
            key = ("one" if one else "wide", guard if guard else operation.span)
            if (one is None and doing is None) or key in told:
                continue
            if one is not None and _report_one_thread(one, operation, threads, guard, sink):
                told.add(key)
            if doing is not None and _report_role_wide(role.role, doing, operation, threads, guard, sink):
                told.add(key)
        if isinstance(block.terminator, ir.ElectBranch) and threads != "all":
            _report_elect(role.role, block, block.terminator, sink)


def _doing(operation: tree.Operation, touches: tuple[Touch, ...]) -> str | None:
    """What all threads of the role have to do together here; None when any may run the operation."""
    threads = operation.effects.threads
    if isinstance(threads, tree.AllThreads):
        return threads.doing
    return "reading a tile" if any(touch.kind == READ for touch in touches) else None


def _needs_elect(role: ir.Role, sink: Sink) -> None:
    """One message for all one-thread operations that every thread of a larger role would issue: one `elect()` can hold them."""
    if role.warps == 1:
        return
    sites = [
        (operation.effects.threads, operation.span)
        for block in role.blocks
        if block.participation.threads == "all"
        for operation in block.operations
        if isinstance(operation.effects.threads, tree.OneThread)
    ]
    if not sites:
        return
    (first, span), *others = sites
    sink.report(
        messages.NeedsElect(
            operation=first.name,
            role=role.name,
            threads=role.warps * WARP,
            warps=role.warps,
            consequence=first.otherwise,
            at=span,
            others=tuple(other for _, other in others),
            declared=role.span,
        )
    )


def _report_one_thread(one: tree.OneThread, operation: tree.Operation, threads: Threads, guard: Span | None, sink: Sink) -> bool:
    if threads in ("one", "all"):
        return False
    condition = guard.text() if guard else "its thread"
    sink.report(
        messages.OneThreadInGuard(
            operation=one.name, condition=condition, consequence=one.otherwise, at=operation.span, guard=guard
        )
    )
    return True


def _report_role_wide(
    role: ir.Role, name: str, operation: tree.Operation, threads: Threads, guard: Span | None, sink: Sink
) -> bool:
    if threads == "all":
        return False
    if isinstance(operation, tree.Signal) and threads == "lanes":
        return False  # `if lane_id() < N: stage.arrive()` says how many arrive
    if isinstance(operation, tree.Signal) and threads == "unknown":
        handle = operation.handle
        sink.report(
            messages.ArriveInUnknownGuard(
                role=role.name, stage=handle.name, pipeline=handle.pipeline.name, at=operation.span, guard=guard
            )
        )
        return True
    message = messages.RoleWideInElect if threads == "one" else messages.RoleWideInGuard
    asked = operation.effects.threads
    consequence = (asked if isinstance(asked, tree.AllThreads) else tree.AllThreads(name)).otherwise
    sink.report(message(operation=name, role=role.name, consequence=consequence, at=operation.span, guard=guard))
    return True


def _report_elect(role: ir.Role, block: ir.Block, elect: ir.ElectBranch, sink: Sink) -> None:
    once = block.participation.threads == "one"
    sink.report(
        messages.NestedElect(
            role=role.name,
            found="only one runs here" if once else "only some take this branch",
            fix="remove the inner `elect()`" if once else "move it out of the branch",
            at=elect.span,
            guard=block.participation.guard,
        )
    )


# ---------------------------------------------------------------------------------------- values that all threads must share


def _same_in_all_threads(role: RoleSummary, sink: Sink) -> None:
    """Where a tile lies and what it is combined with cannot depend on which thread asks."""
    threads, elected = of_threads(role.role.values), of_elected(role.role.values)
    for block in role.role.blocks:
        # One thread agrees with itself about what it computed; which thread it is stays open.
        sameness = elected if block.participation.threads == "one" else threads
        for operation in block.operations:
            for what, value in _shared_values(operation):
                if sameness.differs(value):
                    sink.report(messages.DiffersBetweenThreads(what=what, at=value.span, operation=operation.span))
                    break


def _shared_values(operation: tree.Operation) -> Iterator[tuple[str, tree.Expression]]:
    yield from operation.effects.shared
    tile = operation.value if isinstance(operation, tree.Assign) else operation.effects.tile  # lazy tiles, too
    if tile is not None and isinstance(tile.type, TileType):
        yield from _shared_parts(tile)


def _shared_parts(value: tree.Expression) -> Iterator[tuple[str, tree.Expression]]:
    """The scalars in a tile's expression."""
    for node in subexpressions(value):
        match node:
            case tree.Splat(operand):
                yield "a number in a tile's expression", operand
            case tree.ReadTensor(source):
                yield from (("a coordinate", coordinate) for coordinate in source.coordinates)
            case _:
                pass


# -------------------------------------------------------------------------------------------------- tensor memory and sides


def _tensor_memory_readers(role: RoleSummary, sink: Sink) -> None:
    if role.role.warps % 4 == 0:
        return
    for handle in role.handles.values():
        for _, touch in handle.touches:
            if touch.kind in (READ, WRITE) and touch.buffer is not None and touch.buffer.space == "tensor":
                warps = "1 warp" if role.role.warps == 1 else f"{role.role.warps} warps"
                reads = touch.kind == READ
                sink.report(
                    messages.TensorMemoryReader(
                        role=role.role.name,
                        warps=warps,
                        verb="reads" if reads else "writes",
                        done="read from" if reads else "written to",
                        word="read" if reads else "written",
                        at=touch.span,
                        declared=role.role.span,
                    )
                )
                return


def _warpgroups(role: RoleSummary, sink: Sink) -> None:
    if role.role.warps % WARPGROUP_WARPS == 0:
        return
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.ClearAccumulator):
                warps = "1 warp" if role.role.warps == 1 else f"{role.role.warps} warps"
                accumulator = operation.accumulator
                fitting = -(-role.role.warps // WARPGROUP_WARPS) * WARPGROUP_WARPS
                sink.report(
                    messages.NotWarpgroups(
                        role=role.role.name,
                        accumulator=accumulator.name,
                        warps=warps,
                        fitting=fitting,
                        at=operation.span,
                        declared=role.role.span,
                    )
                )
                return


def _sides(summary: StageSummary, sink: Sink) -> None:
    """One message per handle: the first use on the wrong side."""
    handle = summary.handle
    obtained = summary.acquires[0].operation.span if summary.acquires else None
    wrong_side = handle.side == "producer"
    for _, touch in summary.touches:
        if touch.buffer is None or (touch.kind in _FILLS) == wrong_side or _returns(touch):
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


def _returns(touch: Touch) -> bool:
    """A RolePipeline may bring an accumulator back changed, for its producer to add to."""
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
