"""The meaning of an expression of any kind."""

from pipec.sema.context import Context
from pipec.sema.meanings import Known, Meaning
from pipec.sema.values.names import attribute, named, subscript
from pipec.sema.values.operators import binary, conditional, unary
from pipec.syntax import ast


def elaborate(context: Context, node: ast.Expression) -> Meaning:
    """The meaning of the expression. Reports an error and raises Reported if it has none."""
    context.meter.spend(1, node.span)
    match node:
        case ast.Name():  # the most frequent first
            return named(context, node)
        case ast.Number() | ast.Boolean() | ast.String():
            return Known(node.value, node.span)
        case ast.Attribute():
            return attribute(context, node)
        case ast.Subscript():
            return subscript(context, node)
        case ast.Call():
            return context.call(node)
        case ast.Unary():
            return unary(context, node)
        case ast.Binary():
            return binary(context, node)
        case ast.Conditional():
            return conditional(context, node)
