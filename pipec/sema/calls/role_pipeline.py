"""RolePipeline: its operations have no handle in the source. A role's current stage is the one it obtained last.

The first wait after a step obtains a stage; waits for its other sub-stages, the signals and the step refer to that stage. The typed tree
thus sees one handle per stage, as with the other pipelines, with a sub-stage on each wait and signal.
"""

from pipec.diag.catalogue.language import types as names
from pipec.diag.catalogue.stages import sub_stages as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Barrier, Elected, Meaning, Void, describe
from pipec.sema.types import I32
from pipec.sema.values.arguments import Action, bind_arguments, no_arguments
from pipec.sema.values.expected import known_int
from pipec.sema.values.groups import ask_for_value
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import OTHER_SIDE, SIDES, Side

_WAIT = {"producer": "acquire", "consumer": "wait"}


def _pipeline(receiver: Meaning | None) -> tree.Pipeline:
    assert isinstance(receiver, tree.Pipeline)
    return receiver


def sub_stage(context: Context, operation: Operation, node: ast.Call) -> int | None:
    """The number in `operation[number](...)`; None if omitted."""
    if not isinstance(node.callee, ast.Subscript):
        return None
    if operation.sub_stages is None:
        context.fail(messages.NoSubStages(operation=operation.name, signature=operation.signature, at=node.callee.span))
    if len(node.callee.items) != 1:
        context.fail(
            names.WrongArguments(
                callee=operation.name, problem="takes one sub-stage", signature=operation.signature, at=node.callee.span
            )
        )
    at = node.callee.items[0]
    ask_for_value(context, context.elaborate(at))
    return known_int(context, at, "the sub-stage")


def _side(operation: Operation) -> Side:
    assert operation.side is not None, f"`{operation.name}` is an operation of no side"
    return operation.side


def _checked_sub_stage(context: Context, operation: Operation, pipeline: tree.Pipeline, node: ast.Call) -> int:
    found, picked = sub_stage(context, operation, node) or 0, operation.sub_stages
    count = 1 if picked is None or picked == "both" else pipeline.sub_stages(picked)
    _in_range(context, operation, pipeline, found, count, None if picked == "both" else picked, node)
    return found


def _in_range(
    context: Context, operation: Operation, pipeline: tree.Pipeline, found: int, count: int, side: Side | None, node: ast.Call
) -> None:
    if 0 <= found < count:
        return
    context.fail(
        messages.SubStageRange(
            operation=operation.name,
            pipeline=pipeline.name,
            index=found,
            count=f"{count} {side} sub-stage{'s' if count != 1 else ''}",
            last="only 0" if count == 1 else f"0 to {count - 1}",
            at=node.callee.span,
            declared=pipeline.span,
        )
    )


def _wait(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline, side = _pipeline(receiver), _side(operation)
    found = _checked_sub_stage(context, operation, pipeline, node)
    handle = context.current.get((pipeline, side))
    # Only the first wait after a step moves the role to its next stage; the others wait for further sub-stages of that stage.
    first = handle is None or handle not in context.open_stages
    if handle is None or first:
        handle = tree.Handle(f"{pipeline.name}.index()", pipeline, side, "linear", node.span)
        context.current[pipeline, side] = handle
        context.open_stages.add(handle)
    context.emit(tree.Acquire(handle, node.span, found, first))
    return Void()


def _held(context: Context, operation: Operation, pipeline: tree.Pipeline, side: Side, span: Span) -> tree.Handle:
    handle = context.current.get((pipeline, side))
    if handle is None:
        other = (pipeline, OTHER_SIDE[side]) in context.current
        call = None if other else f"{pipeline.name}.{_WAIT[side]}()"
        handing = "commit" if side == "consumer" else "release"
        instead = (
            f"call `{call}` before this"
            if call
            else f"a {OTHER_SIDE[side]} hands its stage over by `{pipeline.name}.{handing}()`"
        )
        context.fail(
            messages.NothingObtained(
                operation=operation.name,
                pipeline=pipeline.name,
                side=side,
                call=call,
                instead=instead,
                reason=f"holds a {OTHER_SIDE[side]} stage of it" if other else "has obtained none",
                at=span,
            )
        )
    return handle


def _either(context: Context, operation: Operation, pipeline: tree.Pipeline, span: Span) -> tree.Handle:
    """The stage that the role holds on either side; if it holds both, the one obtained last, and if none, on the side that it declares."""
    # `context.current` keeps the order of the waits, so the last entry is the newest.
    sides = [side for owner, side in context.current if owner is pipeline]
    held = [side for side in sides if context.current[pipeline, side] in context.open_stages]
    return _held(context, operation, pipeline, (held or sides or [_declared(context, pipeline)])[-1], span)


def _declared(context: Context, pipeline: tree.Pipeline) -> Side:
    """The side that the header of the role names, the producer's if it names both."""
    clauses = context.role.clauses if context.role is not None else ()
    words = {clause.word for clause in clauses for name in clause.pipelines if name.name == pipeline.name}
    return "consumer" if words == {"consumes"} else "producer"


def _step_of(context: Context, handle: tree.Handle, span: Span) -> None:
    context.emit(tree.Release(handle, False, span))
    context.open_stages.discard(handle)


def _signal(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    """commit(), release[sub]() and release_no_step[sub](): the signal that the use of the stage requires."""
    no_arguments(context, operation, node)
    pipeline = _pipeline(receiver)
    found = _checked_sub_stage(context, operation, pipeline, node)
    handle = _held(context, operation, pipeline, _side(operation), node.span)
    context.emit(tree.Signal(handle, "own", node.span, found))
    if operation.stage.startswith("releases"):
        _step_of(context, handle, node.span)
    return Void()


def _commit_mma(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, (), ("elect",), signature=operation.signature)
    handle = _held(context, operation, _pipeline(receiver), "producer", node.span)
    sub_stage(context, operation, node)
    commit = tree.Signal(handle, "commit", node.span)
    if "elect" not in bound:
        context.emit(commit)
        return Void()
    elected = context.elaborate(bound["elect"])
    if not isinstance(elected, Elected):
        context.fail(
            names.WrongType(what="the thread that commits", expected="`elect()`", found=describe(elected), at=bound["elect"].span)
        )
    # `commit_mma(elect())` is a block of one statement, so the rule for `with elect():` also checks its participation.
    context.emit(tree.Elect((commit,), node.span))
    return Void()


def _step(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    sub_stage(context, operation, node)
    _step_of(context, _either(context, operation, _pipeline(receiver), node.span), node.span)
    return Void()


def _barrier(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline = _pipeline(receiver)
    found = _checked_sub_stage(context, operation, pipeline, node)
    return Barrier(_held(context, operation, pipeline, _side(operation), node.span), node.span, found)


def _arrive(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    assert isinstance(receiver, Barrier)
    sub_stage(context, operation, node)
    context.emit(tree.Signal(receiver.handle, "own", node.span, receiver.sub_stage))
    return Void()


def _index(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline = _pipeline(receiver)
    found = sub_stage(context, operation, node)
    if found is not None:
        # The side with more sub-stages distinguishes all parts of a stage.
        side = max(SIDES, key=pipeline.sub_stages)
        _in_range(context, operation, pipeline, found, pipeline.sub_stages(side), side, node)
    return tree.StageIndex(_either(context, operation, pipeline, node.span), I32, node.span, found)


ROLE_ACTIONS: dict[ActionName, Action] = {
    "role_wait": _wait,
    "role_signal": _signal,
    "role_commit_mma": _commit_mma,
    "role_step": _step,
    "role_barrier": _barrier,
    "role_index": _index,
    "barrier_arrive": _arrive,
}
