"""Votes of a role's threads: `any(condition)`, `all(condition)`."""

from pipec.diag.catalogue.language import types as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Known, Meaning, describe
from pipec.sema.types import BOOL, I32, TileType, dtype_of
from pipec.sema.values.arguments import Action, bind_arguments
from pipec.sema.values.expected import known, value
from pipec.syntax import ast
from pipec.vocabulary import RowFunction, VoteKind


def _vote(kind: VoteKind) -> Action:
    def vote(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
        bound = bind_arguments(context, node, operation.name, ("condition",), signature=operation.signature)
        found = value(context, bound["condition"], "what is voted on")
        if isinstance(found, Known):
            known(context, bound["condition"], bool, "what is voted on", "a condition")
            return found
        if dtype_of(found.type) is not BOOL:
            expected, at = "true or false for each row or thread", bound["condition"].span
            context.fail(messages.WrongType(what="what is voted on", expected=expected, found=describe(found), at=at))
        result = tree.Variable(operation.name, BOOL, node.span)
        context.emit(tree.Vote(kind, _by_row(kind, found), result, node.span))
        return tree.ReadVariable(result, node.span)

    return vote


def _by_row(kind: VoteKind, condition: tree.Expression) -> tree.Expression:
    """Reduces each row's columns to one column."""
    tile, at = condition.type, condition.span
    if not isinstance(tile, TileType) or tile.columns == 1:
        return condition
    numbers, row = TileType(I32, tile.rows, tile.columns), TileType(I32, tile.rows, 1)
    one, zero = (tree.Splat(tree.Constant(number, I32, at), numbers, at) for number in (1, 0))
    function: RowFunction = "max" if kind == "any" else "min"
    found = tree.RowReduce(function, tree.Select(condition, one, zero, numbers, at), row, at)
    none = tree.Splat(tree.Constant(0, I32, at), row, at)
    return tree.Binary("!=", found, none, TileType(BOOL, tile.rows, 1), at)


VOTE_ACTIONS: dict[ActionName, Action] = {"vote_any": _vote("any"), "vote_all": _vote("all")}
