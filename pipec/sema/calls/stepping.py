"""Explicit barriers: waits, steps, the number and barrier of the current stage.

A wait acquires a stage without a name (form "stepped") and a step releases it, so all checks of held stages apply here too.
"""

from typing import NoReturn

from pipec.diag.catalogue.language import types as names
from pipec.diag.catalogue.stages import stepping as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Barrier, Meaning, Token, View, Void, describe
from pipec.sema.types import I32
from pipec.sema.values.arguments import Action, bind_arguments, no_arguments
from pipec.sema.values.stage_numbers import picked_stage
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import BARRIER_SIDE, OTHER_SIDE, Form, Side


def pipeline_of(receiver: Meaning | None) -> tree.Pipeline:
    assert isinstance(receiver, tree.Pipeline | View)
    return receiver.pipeline if isinstance(receiver, View) else receiver


def side_of(operation: Operation) -> Side:
    assert operation.side is not None
    return operation.side


def take_stage(
    context: Context, pipeline: tree.Pipeline, side: Side, form: Form, name: str, span: Span, token: Token | None = None
) -> tree.Handle:
    """Emits the wait and makes the stage the current one of its side."""
    handle = tree.Handle(name, pipeline, side, form, span)
    looked, ready = (token.handle, token.ready) if token is not None else (None, None)
    context.emit(tree.Acquire(handle, span, token=looked, ready=ready))
    context.current.pop((pipeline, side), None)  # reinsertion keeps the newest last
    context.current[pipeline, side] = handle
    return handle


def wait_by_hand(context: Context, pipeline: tree.Pipeline, side: Side, span: Span, token: Token | None = None) -> tree.Handle:
    return take_stage(context, pipeline, side, "stepped", f"{pipeline.name}.{side}_stage()", span, token)


# ------------------------------------------------------------------------------------------------------------ waits and steps


def _wait(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    wait_by_hand(context, pipeline_of(receiver), side_of(operation), node.span)
    return Void()


def _step(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline, side = pipeline_of(receiver), side_of(operation)
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
    handle = wait_by_hand(context, pipeline_of(receiver), side_of(operation), node.span)
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
    return tree.StageIndex(_current(context, pipeline_of(receiver), side_of(operation), node), I32, node.span)


def _stage_barrier(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, (), ("stage",), signature=operation.signature)
    pipeline, side = pipeline_of(receiver), side_of(operation)
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


STEPPING_ACTIONS: dict[ActionName, Action] = {
    "wait": _wait,
    "step": _step,
    "signal_and_step": _signal_and_step,
    "current_stage": _current_stage,
    "stage_barrier": _stage_barrier,
    "arrive_on": _arrive_on,
}
