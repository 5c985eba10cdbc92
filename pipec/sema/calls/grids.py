"""Programmatic dependent launch: kernels that overlap the preceding grids of their stream."""

from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Meaning, Void, describe
from pipec.sema.values.arguments import Action, no_arguments
from pipec.syntax import ast


def _programmatic(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    """Any number of tensors, by position."""
    if context.programmatic:
        context.fail(messages.Redefined(name=operation.name, at=node.span, first=context.programmatic[0].span))
    ready, named = [], []
    for argument in node.arguments:
        meaning = context.elaborate(argument.value)
        if argument.name is not None or not isinstance(meaning, tree.TensorParameter):
            found = f"a named argument `{argument.name}`" if argument.name is not None else describe(meaning)
            context.fail(
                types_messages.WrongType(
                    what="what is ready", expected="a tensor of the kernel", found=found, at=argument.value.span
                )
            )
        ready.append(meaning)
        named.append(argument.value.span)
    context.programmatic.append(tree.ProgrammaticLaunch(tuple(ready), tuple(named), node.span))
    return Void()


def _await_grids(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.AwaitGrids(node.span))
    return Void()


def _launch_dependents(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.LaunchDependents(node.span))
    return Void()


GRID_ACTIONS: dict[ActionName, Action] = {
    "programmatic": _programmatic,
    "await_grids": _await_grids,
    "launch_dependents": _launch_dependents,
}
