"""Expressions outside roles: what the host evaluates before the launch (the grid, the number of tiles), and named values of a kernel.

The rule is about their form, not their value, so the value analysis (pipec.kir.values) cannot decide it: the host has only the operators
of pipec.interface, even where a term shows that the value is constant.
"""

from pipec.diag.catalogue.language import constants as messages
from pipec.interface import HOST_FUNCTIONS, HOST_OPERATORS, MULTIPROCESSORS
from pipec.isa.specials import SPECIALS
from pipec.sema import tree
from pipec.sema.context import Context


def launch_uniform(context: Context, expression: tree.Expression, what: str) -> None:
    """Rejects anything but sizes, integer parameters and constants."""
    match expression:
        case tree.Constant() | tree.ReadDimension():
            return
        case tree.Special(name) if name == MULTIPROCESSORS:
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


def block_uniform(context: Context, expression: tree.Expression, what: str) -> bool:
    """Rejects anything that may differ between threads of a block. Whether the rest reads memory, and may differ between evaluations."""
    match expression:
        case tree.Constant() | tree.ReadDimension() | tree.ReadParameter():
            parts: tuple[tree.Expression, ...] = ()
        case tree.Special(name) if name in SPECIALS:
            parts = ()
        case tree.Unary(_, operand) | tree.Convert(operand) | tree.Bitcast(operand):
            parts = (operand,)
        case tree.Binary(_, left, right):
            parts = left, right
        case tree.Select(condition, when_true, when_false):
            parts = condition, when_true, when_false
        case tree.Call(_, arguments):
            parts = arguments
        case tree.ReadElement(source):
            parts = source.coordinates
        case _:
            context.fail(messages.NotBlockUniform(what=what, found=_varies(expression), at=expression.span))
    read = [block_uniform(context, part, what) for part in parts]
    return isinstance(expression, tree.ReadElement) or any(read)


def _varies(expression: tree.Expression) -> str:
    match expression:
        case tree.Special(name):
            return f"`{name}()` differs between the threads of a block"
        case _:
            return "only the statements of a role can compute this"


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
