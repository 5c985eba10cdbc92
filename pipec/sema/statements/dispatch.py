"""Analyses statements of any kind; an error abandons only its own statement."""

from pipec.diag.catalogue.language import placement as messages
from pipec.diag.catalogue.stages import peek
from pipec.diag.message import Message
from pipec.sema import tree
from pipec.sema.calls.peeks import completing_wait
from pipec.sema.context import Context
from pipec.sema.meanings import Acquired, AcquiredPair, Peeked, Poison, Reported, Turn, Void
from pipec.sema.statements.assignments import assign, augmented, comptime
from pipec.sema.statements.control_flow import branch, for_loop, while_loop
from pipec.sema.statements.with_blocks import with_block
from pipec.syntax import ast


def run_body(context: Context, body: tuple[ast.Statement, ...]) -> None:
    """Analyses statements one by one; an error abandons only its own statement."""
    for statement in body:
        try:
            _run(context, statement)
        except Reported:
            _poison(context, statement)


def _poison(context: Context, statement: ast.Statement) -> None:
    """Poisons the names that a failed statement would have bound, so that their uses are not reported as well."""
    for target in _targets(statement):
        if context.scope.find(target.name) is None:
            context.bind(target.name, Poison(), None)


def _targets(statement: ast.Statement) -> list[ast.Name]:
    match statement:
        case ast.Assign(target=target) | ast.Comptime(target=target):
            return [target]
        case ast.With(items=items, body=body):  # what its body assigns outlasts it
            held = [item.target for item in items if item.target is not None]
            return held + [target for inner in body for target in _targets(inner)]
        case _:
            return []


def _run(context: Context, statement: ast.Statement) -> None:
    match statement:
        case ast.Assign():
            assign(context, statement)
        case ast.AugmentedAssign():
            augmented(context, statement)
        case ast.ExpressionStatement():
            _expression(context, statement)
        case ast.If():
            branch(context, statement)
        case ast.For():
            for_loop(context, statement)
        case ast.While():
            while_loop(context, statement)
        case ast.With():
            with_block(context, statement, list(statement.items))
        case ast.Comptime():
            comptime(context, statement)
        case ast.Pass():
            pass
        case ast.Tune():
            where = "inside a role" if context.place == "role" else "in a helper"
            context.fail(messages.Misplaced(what="`tune`", where=where, to="to the kernel", at=statement.span))
        case ast.Return():
            context.misplaced_return(statement.span)
        case ast.Role():
            context.fail(messages.Misplaced(what="a role", where="inside a role", to="to the kernel", at=statement.span))


def _expression(context: Context, statement: ast.ExpressionStatement) -> None:
    if isinstance(statement.value, ast.String):
        return
    meaning = context.elaborate(statement.value)
    match meaning:
        case Void():
            return
        case Acquired() | AcquiredPair():
            by_hand = isinstance(meaning, Acquired) and meaning.form == "linear"
            call = statement.span.text()
            context.fail(messages.UnnamedStage(fix=f"s = {call}" if by_hand else f"with {call} as s:", at=statement.span))
        case Peeked():
            context.fail(_dropped_peek(meaning))
        case Turn():
            context.fail(messages.NoEffect(hint=f"write `with {statement.span.text()}:`", at=statement.span))
        case _:
            context.fail(messages.NoEffect(hint=None, at=statement.span))


def _dropped_peek(peeked: Peeked) -> Message:
    token = tree.Handle("ready", peeked.pipeline, peeked.side, "token", peeked.span)
    return peek.PeekNeverUsed(
        token=token.name,
        pipeline=peeked.pipeline.name,
        ending="",
        right=completing_wait(token),
        at=peeked.span,
        end=None,
    )
