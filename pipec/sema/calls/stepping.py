"""Peeks and explicit barriers: waits, steps, the number and barrier of the current stage.

A wait acquires a stage without a name (form "stepped") and a step releases it, so all checks of held stages apply here too.
"""

from typing import NoReturn

from pipec.diag.catalogue.language import types as names
from pipec.diag.catalogue.stages import peek
from pipec.diag.catalogue.stages import stepping as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Acquired, Barrier, Meaning, Peeked, Reported, Token, View, Void, describe
from pipec.sema.types import BOOL, I32
from pipec.sema.values.arguments import Action, bind_arguments, no_arguments
from pipec.sema.values.stage_numbers import picked_stage
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import BARRIER_SIDE, OTHER_SIDE, Form, Side


def pipeline_of(receiver: Meaning | None) -> tree.Pipeline:
    assert isinstance(receiver, tree.Pipeline | View)
    return receiver.pipeline if isinstance(receiver, View) else receiver


def _side(operation: Operation) -> Side:
    assert operation.side is not None
    return operation.side


def take_stage(
    context: Context, pipeline: tree.Pipeline, side: Side, form: Form, name: str, span: Span, token: tree.Handle | None = None
) -> tree.Handle:
    """Emits the wait and makes the stage the current one of its side."""
    handle = tree.Handle(name, pipeline, side, form, span)
    context.emit(tree.Acquire(handle, span, token=token))
    context.current.pop((pipeline, side), None)  # reinsertion keeps the newest last
    context.current[pipeline, side] = handle
    return handle


def _wait_by_hand(
    context: Context, pipeline: tree.Pipeline, side: Side, span: Span, token: tree.Handle | None = None
) -> tree.Handle:
    return take_stage(context, pipeline, side, "stepped", f"{pipeline.name}.{side}_stage()", span, token)


# ------------------------------------------------------------------------------------------------------------ waits and steps


def _wait(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    _wait_by_hand(context, pipeline_of(receiver), _side(operation), node.span)
    return Void()


def _step(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline, side = pipeline_of(receiver), _side(operation)
    handle = context.current.get((pipeline, side))
    # A stage with a handle is released through that handle; stepping as well would release it twice.
    if handle is None or handle.form != "stepped":
        _no_current_stage(context, pipeline, side, node)
    context.emit(tree.Release(handle, False, node.span))
    return Void()


def _no_current_stage(context: Context, pipeline: tree.Pipeline, side: Side, node: ast.Call) -> NoReturn:
    use = "fills" if side == "producer" else "reads"
    context.fail(
        messages.NoCurrentStage(
            call=node.span.text(),
            pipeline=pipeline.name,
            wait=f"{pipeline.name}.wait_{OTHER_SIDE[side]}()",
            consequence=f"without the wait the role {use} a slot that the {OTHER_SIDE[side]} may still be using",
            at=node.span,
        )
    )


def _signal_and_step(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    # A stage without a tile: only the turn is passed on, so a role can run ahead by at most as many turns as there are stages.
    handle = _wait_by_hand(context, pipeline_of(receiver), _side(operation), node.span)
    context.emit(tree.Signal(handle, "arrive", node.span))
    context.emit(tree.Release(handle, False, node.span))
    return Void()


# ---------------------------------------------------------------------------------------------------------- the current stage


def _current(context: Context, pipeline: tree.Pipeline, side: Side, node: ast.Call) -> tree.Handle:
    handle = context.current.get((pipeline, side))
    if handle is None:
        _no_current_stage(context, pipeline, side, node)
    return handle


def _current_stage(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return tree.StageIndex(_current(context, pipeline_of(receiver), _side(operation), node), I32, node.span)


def _stage_barrier(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, (), ("stage",), signature=operation.signature)
    pipeline, side = pipeline_of(receiver), _side(operation)
    if "stage" in bound:
        handle = _numbered(context, bound["stage"], pipeline, side)
    else:
        other = context.current.get((pipeline, OTHER_SIDE[side]))
        # Try the other side's stage first, so that `producer_mbar()` in a consumer is reported as the wrong barrier, not as a missing
        # wait.
        handle = context.current.get((pipeline, side)) or other or _current(context, pipeline, side, node)
    if handle.side != side:
        _other_sides_barrier(context, handle, side, node)
    return Barrier(handle, node.span)


def _numbered(context: Context, node: ast.Expression, pipeline: tree.Pipeline, side: Side) -> tree.Handle:
    """The held stage with this number."""
    meaning = context.elaborate(node)
    handle = picked_stage(context, meaning)
    if handle is None or handle.pipeline is not pipeline:
        context.fail(
            names.WrongType(
                what="the stage",
                expected=f"the number of a held stage of `{pipeline.name}`, such as `{pipeline.name}.{side}_stage()`",
                found=describe(meaning) if handle is None else f"the number of a stage of `{handle.pipeline.name}`",
                at=node.span,
            )
        )
    return handle


def _other_sides_barrier(context: Context, handle: tree.Handle, side: Side, node: ast.Call) -> NoReturn:
    name = handle.pipeline.name
    early = (
        "consumers read a slot that is not filled" if handle.side == "consumer" else "producer fills a slot that is still read"
    )
    context.fail(
        messages.OtherSidesBarrier(
            side=handle.side,
            other=side,
            pipeline=name,
            barrier=BARRIER_SIDE[side],
            consequence=f"the barrier completes a phase too early, and its own never: the {early}",
            right=f"{name}.{handle.side}_mbar({name}.{handle.side}_stage())",
            at=node.span,
            obtained=handle.span,
        )
    )


def _arrive_on(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("barrier",), signature=operation.signature)
    barrier = context.elaborate(bound["barrier"])
    if not isinstance(barrier, Barrier):
        context.fail(
            names.WrongType(what="the barrier", expected="`stage.mbar()`", found=describe(barrier), at=bound["barrier"].span)
        )
    context.emit(tree.Signal(barrier.handle, "arrive", node.span, barrier.sub_stage))
    return Void()


# ---------------------------------------------------------------------------------------------------------------------- peeks


def _peek(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return Peeked(pipeline_of(receiver), _side(operation), node.span)


def bind_peek(context: Context, peeked: Peeked, name: str) -> Token:
    """Emits the peek and names its result."""
    # A handle, as for a stage: the linearity check then ensures that each peek is consumed exactly once.
    token = Token(tree.Handle(name, peeked.pipeline, peeked.side, "token", peeked.span), tree.Variable(name, BOOL, peeked.span))
    context.emit(tree.Peek(token.handle, token.ready, peeked.span))
    return token


def _wait_if_needed(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    pipeline, side = pipeline_of(receiver), _side(operation)
    try:
        token = _token(context, operation, receiver, node)
    except Reported:
        # For either side that may have been meant, so that what follows the wait is not reported as well.
        for one in OTHER_SIDE:
            context.current.setdefault((pipeline, one), tree.Handle(pipeline.name, pipeline, one, "stepped", node.span))
        raise
    _wait_by_hand(context, pipeline, side, node.span, token)
    return Void()


def _acquire_if_needed(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    token = _token(context, operation, receiver, node)
    return Acquired(pipeline_of(receiver), _side(operation), "either", node.span, token)


def _token(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> tree.Handle:
    """The peek that this wait completes; it must be of the same side of the same pipeline."""
    bound = bind_arguments(context, node, operation.name, ("ready",), signature=operation.signature)
    meaning = context.elaborate(bound["ready"])
    if isinstance(meaning, Peeked):
        meaning = bind_peek(context, meaning, "ready")
    pipeline, side = pipeline_of(receiver), _side(operation)
    if not isinstance(meaning, Token):
        expected = f"the result of `{pipeline.name}.try_acquire_{side}()`"
        context.fail(names.WrongType(what="the peek", expected=expected, found=describe(meaning), at=bound["ready"].span))
    token = meaning.handle
    if token.pipeline is not pipeline:
        context.fail(
            peek.OtherPipelinesPeek(
                token=token.name,
                peeked_pipeline=token.pipeline.name,
                pipeline=pipeline.name,
                right=completing_wait(token),
                at=node.span,
                peeked=token.span,
            )
        )
    if token.side != side:
        context.fail(
            peek.WrongSideWait(
                side=token.side,
                other=OTHER_SIDE[token.side],
                call=operation.name,
                token=token.name,
                barrier=BARRIER_SIDE[token.side],
                right=completing_wait(token),
                at=node.span,
                peeked=token.span,
            )
        )
    return token


def completing_wait(token: tree.Handle) -> str:
    """The call that consumes a peek."""
    return f"{token.pipeline.name}.wait_{OTHER_SIDE[token.side]}_if_needed({token.name})"


STEPPING_ACTIONS: dict[ActionName, Action] = {
    "wait": _wait,
    "step": _step,
    "signal_and_step": _signal_and_step,
    "current_stage": _current_stage,
    "stage_barrier": _stage_barrier,
    "arrive_on": _arrive_on,
    "peek": _peek,
    "wait_if_needed": _wait_if_needed,
    "acquire_if_needed": _acquire_if_needed,
}
