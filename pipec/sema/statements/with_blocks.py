"""`with`: stages held for a block, one elected thread, blocks that take turns."""

from pipec.diag.catalogue.language import placement as messages
from pipec.sema import tree
from pipec.sema.calls.semaphores import take_turn
from pipec.sema.context import Context
from pipec.sema.meanings import Acquired, AcquiredPair, Elected, EpilogueStage, Turn, describe
from pipec.sema.statements.assignments import acquire, refuse_shadowing
from pipec.syntax import ast


def with_block(context: Context, statement: ast.With, items: list[ast.WithItem]) -> None:
    """The items from left to right, each inside the one before; released from right to left."""
    if not items:
        context.run_body(statement.body)
        return
    item, rest = items[0], items[1:]
    meaning = context.elaborate(item.context)
    if isinstance(meaning, Elected):
        with context.block(item.span, "elected") as inner:
            with_block(inner, statement, rest)
        context.emit(tree.Elect(tuple(inner.statements), item.span))
        return
    if isinstance(meaning, AcquiredPair):
        _with_pair(context, statement, item, rest, meaning)
        return
    if isinstance(meaning, Turn):
        with take_turn(context, meaning) as inner:
            with_block(inner, statement, rest)
        return
    if not isinstance(meaning, Acquired):
        context.fail(messages.NotScoped(found=describe(meaning), at=item.context.span))
    if meaning.form == "linear":
        verb = "produce" if meaning.side == "producer" else "consume"
        context.fail(
            messages.LinearInWith(
                problem="an acquired stage is released by hand, not by a `with`",
                form="linear",
                fix=f"write `with {meaning.pipeline.name}.{verb}() as s:`, or assign it and call `release()`",
                at=item.context.span,
            )
        )
    if item.target is not None:
        refuse_shadowing(context, item.target)
    # An unnamed stage still needs a name in messages; nothing in the source can refer to it.
    name = item.target.name if item.target is not None else meaning.pipeline.name
    # The wait belongs to the enclosing block and the release follows the inner one, with which the stage's name ends.
    handle = acquire(context, name, meaning)
    with context.block(item.span, "with") as inner:
        if item.target is not None:
            inner.bind(name, handle, item.target.span)
        with_block(inner, statement, rest)
    context.statements.extend(inner.statements)
    # `consume_explicit()` (form "explicit") only steps: the signal is in its body.
    context.emit(tree.Release(handle, handle.form == "scoped", item.span))


def _with_pair(
    context: Context, statement: ast.With, item: ast.WithItem, rest: list[ast.WithItem], meaning: AcquiredPair
) -> None:
    """Holds both stages for the block; the accumulator is acquired first and released last."""
    if item.target is not None:
        refuse_shadowing(context, item.target)
    name = item.target.name if item.target is not None else meaning.output.pipeline.name
    # In this order, because the accumulator is full only after the MMAs that read the input stage; waiting for the input first gains
    # nothing.
    output = acquire(context, name, meaning.output)
    source = acquire(context, f"{name}.input_stage", meaning.input)
    with context.block(item.span, "with") as inner:
        if item.target is not None:
            inner.bind(name, EpilogueStage(output, source), item.target.span)
        with_block(inner, statement, rest)
    context.statements.extend(inner.statements)
    for handle in (source, output):
        context.emit(tree.Release(handle, True, item.span))
