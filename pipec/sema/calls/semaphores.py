"""Blocks that take turns: `with semaphore(counter[i], turn, turns):`."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipec.diag.catalogue.grid import global_memory as messages
from pipec.diag.catalogue.language import types as names
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import Operation
from pipec.sema.meanings import Meaning, Turn
from pipec.sema.types import BOOL, I32
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import scalar, tensor_slice
from pipec.source import Span
from pipec.syntax import ast

COUNTER = "i32"


def semaphore(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("counter", "turn", "turns"), signature=operation.signature)
    counter = tensor_slice(context, bound["counter"], "the counter")
    if counter.tensor.dtype.name != COUNTER:
        found = f"an element of `{counter.tensor.name}`, a tensor of {counter.tensor.dtype}"
        context.fail(
            names.WrongType(what="the counter", expected=f"an element of {COUNTER}", found=found, at=bound["counter"].span)
        )
    turn, turns = (scalar(context, bound[name], I32, f"`{name}`") for name in ("turn", "turns"))
    if isinstance(turns, tree.Constant) and (
        turns.value < 1 or (isinstance(turn, tree.Constant) and not 0 <= turn.value < turns.value)
    ):
        at = bound["turn" if turns.value >= 1 else "turns"].span
        context.fail(messages.NoSuchTurn(turn=bound["turn"].span.text(), turns=int(turns.value), at=at))
    return Turn(counter, turn, turns, node.span)


@contextmanager
def take_turn(context: Context, meaning: Turn) -> Iterator[Context]:
    """The context of the block that runs during the turn. The operands of the turn are evaluated once, before it."""
    if context.turn is not None:
        context.fail(messages.NestedTurn(at=meaning.span, outer=context.turn))
    at = meaning.span
    coordinates = tuple(_settled(context, coordinate, at) for coordinate in meaning.counter.coordinates)
    counter = replace(meaning.counter, coordinates=coordinates)
    turn, turns = (_settled(context, value, at) for value in (meaning.turn, meaning.turns))
    context.emit(tree.AwaitTurn(counter, turn, turns, at))
    with context.block(at, "turn") as inner:
        inner.turn = at
        yield inner
    context.statements.extend(inner.statements)
    one, zero = tree.Constant(1, I32, at), tree.Constant(0, I32, at)
    after = tree.Binary("+", turn, one, I32, at)
    last = tree.Binary("==", after, turns, BOOL, at)
    context.emit(tree.PassTurn(counter, tree.Select(last, zero, after, I32, at), at))


def _settled(context: Context, value: tree.Expression, span: Span) -> tree.Expression:
    """The current value, unaffected by assignments in the block."""
    if isinstance(value, tree.Constant | tree.ReadDimension | tree.ReadParameter | tree.Special):
        return value
    variable = tree.Variable("turn", I32, span)
    context.emit(tree.Assign(variable, value, span))
    return tree.ReadVariable(variable, value.span)
