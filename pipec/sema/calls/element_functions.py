"""Functions of single elements and conversions between element types, folded if the arguments are known."""

import math
from collections.abc import Callable
from typing import Any

from pipec.diag.catalogue.language import types as messages
from pipec.isa.dtypes import DTYPES, DType
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.functions import ElementFunction
from pipec.sema.meanings import Known, Meaning
from pipec.sema.types import BOOL, TileType, dtype_of, with_dtype
from pipec.sema.values import arithmetic
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import Value, as_runtime, known_dtype, need_values, value
from pipec.syntax import ast


def element_function(context: Context, function: ElementFunction, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, function.name, function.parameters)
    values = [value(context, bound[name], f"`{name}` of `{function.name}`") for name in function.parameters]
    if all(isinstance(one, Known) for one in values) and function.name in _KNOWN:
        return _fold_call(context, function.name, values, node)
    typed = next((one for one in values if not isinstance(one, Known)), None)
    # A literal has no type of its own: it takes the type of a run-time argument, or f32 if there is none.
    wanted = dtype_of(typed.type) if typed is not None else (DTYPES["f32"] if function.domain == "float" else None)
    parts = [as_runtime(context, one, wanted if isinstance(one, Known) else None) for one in values]
    for position, part in enumerate(parts[1:], 1):
        pair = arithmetic.common(parts[0], part)
        if pair is None:
            context.fail(arithmetic.mixed(function.name, parts[0], part, node.span))
        parts[0], parts[position] = pair
    parts = [_in_domain(context, function, part) for part in parts]
    dtype = dtype_of(parts[0].type)
    shape = None
    for part in parts:
        joined = arithmetic.joint_shape(TileType(dtype, *shape) if shape else dtype, part.type)
        if joined is False:
            context.fail(
                messages.ShapeMismatch(operator=function.name, left=str(parts[0].type), right=str(part.type), at=node.span)
            )
        shape = joined
    if shape is None:
        return tree.Call(function.name, tuple(parts), dtype, node.span)
    return tree.Call(function.name, tuple(arithmetic.splat(part) for part in parts), TileType(dtype, *shape), node.span)


def _in_domain(context: Context, function: ElementFunction, part: tree.Expression) -> tree.Expression:
    dtype = dtype_of(part.type)
    if function.domain == "float":
        widened = arithmetic.widen(part, DTYPES["f32"])
        if widened is None:
            context.fail(
                messages.BadOperand(
                    operator=function.name, type=str(dtype), hint="convert it first: `cast[f32](...)`", at=part.span
                )
            )
        return widened
    good = dtype.is_integer if function.domain == "integer" else dtype is not BOOL and dtype.computes
    if not good:
        context.fail(
            messages.BadOperand(
                operator=function.name,
                type=str(dtype),
                hint="convert it first: `cast[f32](...)`" if dtype is not BOOL else None,
                at=part.span,
            )
        )
    return part


_KNOWN: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "ceildiv": lambda x, y: -(-x // y)}


def _fold_call(context: Context, name: str, values: list[Any], node: ast.Call) -> Known:
    numbers = [one.value for one in values]
    if any(isinstance(number, bool) for number in numbers) or (
        name == "ceildiv" and any(isinstance(number, float) for number in numbers)
    ):
        context.fail(messages.BadOperand(operator=name, type="bool" if name != "ceildiv" else "float", hint=None, at=node.span))
    if name == "ceildiv" and numbers[1] == 0:
        context.fail(messages.DivisionByZero(at=values[1].span))
    # The result of Python's min and max of a NaN and a number depends on the argument order.
    if any(isinstance(number, float) and math.isnan(number) for number in numbers):
        return Known(math.nan, node.span)
    return Known(_KNOWN[name](*numbers), node.span)


CONVERSIONS = ("cast", "bitcast")


def conversion(context: Context, node: ast.Call) -> Meaning:
    """`cast[dtype](value)`, and `bitcast[dtype](value)`, which keeps the bits."""
    callee = node.callee
    assert isinstance(callee, ast.Subscript)
    name = callee.value.span.text()
    if len(callee.items) != 1:
        context.fail(
            messages.WrongArguments(
                callee=name, problem="takes one element type", signature=f"{name}[dtype](value)", at=callee.span
            )
        )
    dtype = known_dtype(context, callee.items[0])
    need_values(context, dtype, "the type to convert to", callee.span)
    bound = bind_arguments(context, node, name, ("value",))
    operand = value(context, bound["value"], "what is converted")
    return (_cast if name == "cast" else _bitcast)(context, node, callee.items[0], dtype, operand)


def _bitcast(context: Context, node: ast.Call, target: ast.Expression, dtype: DType, operand: Value) -> Meaning:
    own = None if isinstance(operand, Known) else dtype_of(operand.type)
    if isinstance(operand, Known) or own is None or own is BOOL:
        found = "a number without a type" if own is None else "a condition"
        expected = "a number with a type, as `cast[f32](1.0)` is"
        context.fail(messages.WrongType(what="what `bitcast` reads the bits of", expected=expected, found=found, at=operand.span))
    if dtype is BOOL or "tf32" in (own.name, dtype.name) or own.bits != dtype.bits:
        expected = f"a number type of {own.bits} bits, as {own} is"
        context.fail(messages.WrongType(what="the target of a bitcast", expected=expected, found=str(dtype), at=target.span))
    return tree.Bitcast(operand, with_dtype(operand.type, dtype), node.span)


def _cast(context: Context, node: ast.Call, target: ast.Expression, dtype: DType, operand: Value) -> Meaning:
    if isinstance(operand, Known):
        if isinstance(operand.value, float) and dtype.is_integer:
            # Towards zero, as `cvt.rzi` does at run time.
            operand = Known(int(operand.value), operand.span)
        return context.accept(arithmetic.constant(operand, dtype))
    own = dtype_of(operand.type).name
    if dtype is BOOL or dtype.name == "tf32" or (own == "tf32" and dtype.name != "f32"):
        expected = "a number type" if own != "tf32" else "f32"
        context.fail(messages.WrongType(what="the target of a cast", expected=expected, found=str(dtype), at=target.span))
    return tree.Convert(operand, with_dtype(operand.type, dtype), node.span)
