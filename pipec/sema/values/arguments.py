"""Matching the arguments of calls with a signature."""

from collections.abc import Callable

from pipec.diag.catalogue.language import types as messages
from pipec.sema.context import Context
from pipec.sema.language.operation import Operation
from pipec.sema.meanings import Meaning
from pipec.syntax import ast

# The implementation of an operation, given its row, its receiver, and the call.
Action = Callable[[Context, Operation, Meaning | None, ast.Call], Meaning]


def bind_arguments(
    context: Context,
    node: ast.Call,
    callee: str,
    parameters: tuple[str, ...],
    optional: tuple[str, ...] = (),
    signature: str | None = None,
    advice: str | None = None,
) -> dict[str, ast.Expression]:
    """Parameter name -> argument expression; positional first, then by name, as in Python. Reports mismatches.

    `advice`: what to write instead, for who gives an argument that there is no parameter for.
    """
    names = parameters + optional
    bound: dict[str, ast.Expression] = {}

    def wrong(problem: str, at: ast.Argument | ast.Call, advice: str | None = None) -> None:
        shown = signature or f"{callee}({', '.join(names)})"
        context.fail(messages.WrongArguments(callee=callee, problem=problem, signature=shown, at=at.span, advice=advice))

    by_name = False
    for position, argument in enumerate(node.arguments):
        if argument.name is None:
            if by_name:
                wrong("has a positional argument after a named one", argument)
            if position >= len(names):
                wrong(
                    f"takes {len(names)} argument{'s' if len(names) != 1 else ''} and was given {len(node.arguments)}",
                    node,
                    advice,
                )
            name = names[position]
        else:
            by_name, name = True, argument.name
        if name not in names:
            wrong(f"has no parameter `{name}`", argument, advice)
        if name in bound:
            wrong(f"is given `{name}` twice", argument)
        bound[name] = argument.value
    missing = [name for name in parameters if name not in bound]
    if missing:
        wrong(f"lacks {', '.join(f'`{name}`' for name in missing)}", node)
    return bound


def no_arguments(context: Context, operation: Operation, node: ast.Call) -> None:
    bind_arguments(context, node, operation.name, (), signature=operation.signature)
