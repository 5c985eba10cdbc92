"""Operators and `a if condition else b`: folded if both sides are known, typed otherwise."""

from pipec.diag.catalogue.language import types as messages
from pipec.diag.message import Message
from pipec.isa.dtypes import DTYPES
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Known, Meaning, Reported, describe
from pipec.sema.types import BOOL, TileType, dtype_of
from pipec.sema.values import arithmetic
from pipec.sema.values.expected import Value, as_runtime, as_value, known, value
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import BinaryOperator


def unary(context: Context, node: ast.Unary) -> Meaning:
    operand = value(context, node.operand, f"the operand of `{node.operator}`")
    if isinstance(operand, Known):
        return context.accept(arithmetic.fold_unary(node.operator, operand, node.span))
    made = arithmetic.unary(node.operator, operand, node.span)
    return context.fail(made) if isinstance(made, Message) else made


def binary(context: Context, node: ast.Binary) -> Meaning:
    sides: list[Value] = []
    for side in (node.left, node.right):
        try:
            meaning = context.elaborate(side)
        except Reported:
            if side is node.left:  # the right side may have an independent error
                context.elaborate(node.right)
            raise
        if not isinstance(meaning, Known):
            meaning = as_value(context, meaning, side.span, f"the operand of `{node.operator}`")
        sides.append(meaning)
    return _combine(context, node.operator, sides[0], sides[1], node.span)


def _combine(context: Context, operator: BinaryOperator, left: Value, right: Value, span: Span) -> Value:
    """`left operator right`, folded when both are known."""
    if isinstance(left, Known) and isinstance(right, Known):
        return context.accept(arithmetic.fold(operator, left, right, span))
    return operate(context, operator, left, right, span)


def operate(context: Context, operator: BinaryOperator, left: Value, right: Value, span: Span) -> tree.Expression:
    """`left operator right`, at least one of them a run-time value."""
    if isinstance(right, Known) and operator in ("/", "//", "%") and right.value == 0:
        context.fail(messages.DivisionByZero(at=right.span))
    made = arithmetic.binary(operator, _beside(context, left, right), _beside(context, right, left), span)
    return context.fail(made) if isinstance(made, Message) else made


def _beside(context: Context, found: Value, other: Value) -> tree.Expression:
    """A compile-time operand takes the element type of the run-time one."""
    if not isinstance(found, Known):
        return found
    assert not isinstance(other, Known)
    return context.accept(arithmetic.constant(found, dtype_of(other.type)))


def conditional(context: Context, node: ast.Conditional) -> Meaning:
    condition = value(context, node.condition, "the condition")
    if isinstance(condition, Known):
        chosen = known(context, node.condition, bool, "the condition", "a condition")
        return context.elaborate(node.when_true if chosen else node.when_false)
    return select(context, condition, value(context, node.when_true), value(context, node.when_false), node.span)


def select(
    context: Context,
    condition: Value,
    when_true: Value,
    when_false: Value,
    span: Span,
) -> tree.Expression:
    """Selects one of two values, element by element."""
    test = as_runtime(context, condition, None)
    if dtype_of(test.type) is not BOOL:
        context.fail(messages.WrongType(what="the condition", expected="a condition", found=describe(test), at=test.span))
    first, second = _alternatives(context, when_true, when_false)
    pair = arithmetic.common(first, second)
    if pair is None:
        context.fail(arithmetic.mixed("if else", first, second, span))
    first, second = pair
    # None: both are scalars. False: the shapes do not broadcast.
    shape = arithmetic.joint_shape(first.type, second.type)
    if shape is not False:
        shape = arithmetic.joint_shape(test.type, TileType(BOOL, *shape) if shape else BOOL)
    if shape is False:
        context.fail(messages.ShapeMismatch(operator="if else", left=str(first.type), right=str(second.type), at=span))
    dtype = dtype_of(first.type)
    if shape is None:
        return tree.Select(test, first, second, dtype, span)
    test, first, second = arithmetic.splat(test), arithmetic.splat(first), arithmetic.splat(second)
    return tree.Select(test, first, second, TileType(dtype, *shape), span)


def _alternatives(context: Context, when_true: Value, when_false: Value) -> tuple[tree.Expression, tree.Expression]:
    if isinstance(when_true, Known) and isinstance(when_false, Known):
        # Two constants have no run-time operand to take a type from.
        both_int = isinstance(when_true.value, int) and isinstance(when_false.value, int)
        dtype = arithmetic.default_dtype(when_true) if both_int else DTYPES["f32"]
        return as_runtime(context, when_true, dtype), as_runtime(context, when_false, dtype)
    return _beside(context, when_true, when_false), _beside(context, when_false, when_true)
