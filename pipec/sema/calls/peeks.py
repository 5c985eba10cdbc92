"""Peeks at the next stage of a pipeline, their names, and the waits that complete them."""

from pipec.diag.catalogue.language import types as names
from pipec.diag.catalogue.stages import peek
from pipec.sema import tree
from pipec.sema.calls.stepping import pipeline_of, side_of, wait_by_hand
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Acquired, Meaning, Peeked, Reported, Token, Void, describe
from pipec.sema.scope import Binding
from pipec.sema.types import BOOL
from pipec.sema.values.arguments import Action, bind_arguments, no_arguments
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import BARRIER_SIDE, OTHER_SIDE, Side


def _peek(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return Peeked(pipeline_of(receiver), side_of(operation), node.span)


def assign_peek(context: Context, target: ast.Name, peeked: Peeked) -> None:
    """`ready = p.try_acquire_...()`. A name that stands for what another peek found, or for False, keeps what this one finds from here
    on, in the next iteration of a loop as well."""
    binding = context.scope.find(target.name)
    token = _token_of(context, binding, peeked.pipeline, peeked.side)
    if token is not None:
        context.emit(tree.Peek(token.handle, token.ready, peeked.span))
    else:
        context.bind_again(target.name, _emit_peek(context, peeked, target.name), target.span)


def assign_token(context: Context, target: ast.Name, token: Token, span: Span) -> bool:
    """`ready = following`, where an enclosing block has `ready`: whether it is given what the other peek found."""
    binding = None if target.name in context.scope.names else context.scope.find(target.name)
    found = _token_of(context, binding, token.handle.pipeline, token.handle.side)
    if found is None:
        return False
    context.emit(tree.Assign(found.ready, tree.ReadVariable(token.ready, span), span))
    return True


def _token_of(context: Context, binding: Binding | None, pipeline: tree.Pipeline, side: Side) -> Token | None:
    """What the name stands for as the result of a peek at this side."""
    # Without a span it is the parameter of a helper, a name for something of the caller.
    token = binding.meaning if binding is not None and binding.span is not None else None
    if isinstance(token, tree.Variable) and token.type is BOOL:
        token = _condition(context, token, pipeline, side)
    return token if isinstance(token, Token) and (token.handle.pipeline, token.handle.side) == (pipeline, side) else None


def _condition(context: Context, ready: tree.Variable, pipeline: tree.Pipeline, side: Side) -> Token:
    """A condition that stands where the result of a peek does: False, until one is assigned."""
    return context.conditions.setdefault(ready, Token(tree.Handle(ready.name, pipeline, side, "token", ready.span), ready))


def _emit_peek(context: Context, peeked: Peeked, name: str) -> Token:
    # A handle, as for a stage: the linearity check then ensures that each peek is consumed exactly once.
    token = Token(tree.Handle(name, peeked.pipeline, peeked.side, "token", peeked.span), tree.Variable(name, BOOL, peeked.span))
    context.emit(tree.Peek(token.handle, token.ready, peeked.span))
    return token


def _wait_if_needed(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    pipeline, side = pipeline_of(receiver), side_of(operation)
    try:
        token = _token(context, operation, receiver, node)
    except Reported:
        # For either side that may have been meant, so that what follows the wait is not reported as well.
        for one in OTHER_SIDE:
            context.current.setdefault((pipeline, one), tree.Handle(pipeline.name, pipeline, one, "stepped", node.span))
        raise
    wait_by_hand(context, pipeline, side, node.span, token)
    return Void()


def _acquire_if_needed(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    token = _token(context, operation, receiver, node)
    return Acquired(pipeline_of(receiver), side_of(operation), "either", node.span, token)


def _token(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Token:
    """The peek that this wait completes; it must be of the same side of the same pipeline."""
    bound = bind_arguments(context, node, operation.name, ("ready",), signature=operation.signature)
    given = bound["ready"]
    pipeline, side = pipeline_of(receiver), side_of(operation)
    meaning = context.elaborate(given)
    if isinstance(meaning, Peeked):
        meaning = _emit_peek(context, meaning, "ready")
    elif isinstance(meaning, tree.ReadVariable) and meaning.type is BOOL:
        meaning = _condition(context, meaning.variable, pipeline, side)
    if not isinstance(meaning, Token):
        expected = f"the result of `{pipeline.name}.try_acquire_{side}()`"
        context.fail(names.WrongType(what="the peek", expected=expected, found=describe(meaning), at=given.span))
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
    return meaning


def completing_wait(token: tree.Handle) -> str:
    """The call that consumes a peek."""
    return f"{token.pipeline.name}.wait_{OTHER_SIDE[token.side]}_if_needed({token.name})"


PEEK_ACTIONS: dict[ActionName, Action] = {
    "peek": _peek,
    "wait_if_needed": _wait_if_needed,
    "acquire_if_needed": _acquire_if_needed,
}
