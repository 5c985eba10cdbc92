"""Expressions that the host evaluates before the launch: the grid, the number of tiles.

Their form is asked for, not their value, so the analysis of values (pipec.kir.values) cannot tell: the host computes with the operators of
pipec.interface and no others, even where a term shows that the value is a constant.
"""

from pipec.diag.catalogue.language import constants as messages
from pipec.interface import HOST_FUNCTIONS, HOST_OPERATORS
from pipec.sema import tree
from pipec.sema.context import Context


def launch_uniform(context: Context, expression: tree.Expression, what: str) -> None:
    """Refuses what cannot be computed from sizes, integer parameters and constants."""
    match expression:
        case tree.Constant() | tree.ReadDimension():
            return
        case tree.ReadParameter(parameter) if parameter.type.is_integer:
            return
        case tree.Binary(operator, left, right) if operator in HOST_OPERATORS:
            launch_uniform(context, left, what)
            launch_uniform(context, right, what)
        case tree.Call(function, arguments) if function in HOST_FUNCTIONS:
            for argument in arguments:
                launch_uniform(context, argument, what)
        case _:
            context.fail(messages.NotLaunchUniform(what=what, found=found_in(expression), at=expression.span))


def found_in(expression: tree.Expression) -> str:
    """Why the host cannot compute it."""
    match expression:
        case tree.ReadParameter(parameter):
            return f"`{parameter.name}` is {parameter.type}, not an integer"
        case tree.Special(name):
            return f"`{name}` is known to the running threads only"
        case tree.Binary(operator) | tree.Unary(operator):
            return f"the host does not compute `{operator}`"
        case tree.Call(function):
            return f"the host does not compute `{function}`"
        case tree.Select() | tree.Convert():
            return "the host computes no conditions and no conversions"
        case _:
            return "this is known to the running threads only"
