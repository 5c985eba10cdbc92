"""Parameters of a kernel: compile-time parameters with their overrides, and launch parameters."""

import numbers
from collections.abc import Mapping

from pipec.diag.catalogue.language import constants as constants_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.diag.shown import shown
from pipec.isa.dtypes import DTYPES, DType
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Known, KnownValue
from pipec.sema.types import I32
from pipec.sema.values.expected import known, known_dtype, known_int
from pipec.syntax import ast

_CONSTANT_TYPES: dict[str, tuple[type[KnownValue], str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number with a decimal point"),
    "bool": (bool, "True or False"),
    "dtype": (DType, "an element type"),
    "str": (str, "a text"),
}
# Strings only where a string is expected: command-line values arrive as text, and a misspelt number must not be accepted as a string.
_ANY_CONSTANT: tuple[type[KnownValue], ...] = (int, float, bool, DType)


def parse_override(value: object) -> KnownValue:
    """A compile-time value given as text (`128`, `0.5`, `true`, `bf16`) or as a Python value."""
    if not isinstance(value, str):
        return _plain_number(value)
    text = value.strip()
    if text in DTYPES and text != "bool":
        return DTYPES[text]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not text.isascii() or "_" in text:  # Python accepts more number syntax than the language
        return text
    for convert in (lambda t: int(t, 0), float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _plain_number(value: object) -> KnownValue:
    """Converts NumPy and similar numbers to Python's int or float."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return float(value)
    return value  # type: ignore[return-value]


def _constant_type(context: Context, constant: ast.Constant) -> tuple[type[KnownValue] | None, str]:
    """The Python type that a compile-time parameter declares, and the wording for it."""
    if constant.annotation is None:
        return None, ""
    word = constant.annotation.name if isinstance(constant.annotation, ast.Name) else ""
    if word not in _CONSTANT_TYPES:
        context.fail(
            types_messages.WrongType(
                what="the type of a compile-time parameter",
                expected="int, float, bool, dtype or str",
                found=f"`{constant.annotation.span.text()}`",
                at=constant.annotation.span,
            )
        )
    return _CONSTANT_TYPES[word]


def default_value(context: Context, constant: ast.Constant) -> KnownValue:
    """The default of a parameter, given the parameters in scope of `context`."""
    assert constant.default is not None
    kind, expected = _constant_type(context, constant)
    what = f"the default of `{constant.name.name}`"
    return known(context, constant.default, kind or _ANY_CONSTANT, what, expected or "a compile-time value")


def read_constant(context: Context, constant: ast.Constant, overrides: Mapping[str, object]) -> dict[str, KnownValue]:
    name = constant.name.name
    kind, expected = _constant_type(context, constant)
    if name in overrides:
        given = overrides[name]
        value = given if kind is str and isinstance(given, str) else parse_override(given)
        # A value that fits neither i64 nor u64 has no type in the language.
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            context.fail(
                constants_messages.BadConstant(
                    name=name, problem=f"must fit 64 bits, and {shown(given)} does not", at=constant.span
                )
            )
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind or _ANY_CONSTANT) or (kind is int and isinstance(value, bool)):
            context.fail(
                constants_messages.BadConstant(
                    name=name,
                    problem=f"must be {expected or 'a number or an element type'}, not {shown(given)}",
                    at=constant.span,
                )
            )
    elif constant.default is None:
        context.fail(
            constants_messages.BadConstant(name=name, problem=f"has no value: give one with `-D {name}=...`", at=constant.span)
        )
    else:
        value = default_value(context, constant)
    context.define(constant.name, Known(value, constant.name.span))
    return {name: value}


def read_parameter(
    context: Context, parameter: ast.Parameter, tensors: list[tree.TensorParameter], scalars: list[tree.ScalarParameter]
) -> None:
    name, annotation = parameter.name, parameter.annotation
    if annotation is None:
        context.fail(
            types_messages.WrongType(
                what=f"parameter `{name.name}`",
                expected="typed, for example `tensor[bf16, M, K]` or `f32`",
                found="a name without a type",
                at=name.span,
            )
        )
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name) and annotation.value.name == "tensor":
        dtype = known_dtype(context, annotation.items[0])
        if not 1 <= len(annotation.items) - 1 <= 5:
            context.fail(
                types_messages.WrongType(
                    what="the rank of a tensor", expected="1 to 5", found=str(len(annotation.items) - 1), at=annotation.span
                )
            )
        shape = tuple(_dimension(context, item) for item in annotation.items[1:])
        tensor = tree.TensorParameter(name.name, dtype, shape, name.span)
        context.define(name, tensor)
        tensors.append(tensor)
        return
    dtype = known_dtype(context, annotation)
    scalar = tree.ScalarParameter(name.name, dtype, name.span)
    if not (dtype.is_integer or (dtype.is_float and dtype.computes)):
        context.fail(
            types_messages.WrongType(
                what="a scalar parameter", expected="an integer or f16, bf16, f32, f64", found=str(dtype), at=annotation.span
            )
        )
    context.define(name, scalar)
    scalars.append(scalar)


def _dimension(context: Context, node: ast.Expression) -> str | int:
    """A size: a compile-time number, or a name that the launch binds."""
    if isinstance(node, ast.Name):
        binding = context.scope.find(node.name)
        # The first tensor that names a size binds it, and all others must agree: this is how a launch detects mismatched arrays.
        if binding is None and node.name not in DTYPES:
            context.bind(node.name, tree.ReadDimension(node.name, I32, node.span), node.span)
            context.dimensions.add(node.name)
            return node.name
        if binding is not None and isinstance(binding.meaning, tree.ReadDimension):
            return node.name
    size = known_int(
        context, node, "a dimension that is no name", f"name it, and say what it is: `assume(SIZE == {node.span.text()})`"
    )
    if not 1 <= size < 2**31:
        context.fail(
            types_messages.WrongType(what="a dimension", expected="between 1 and 2147483647", found=str(size), at=node.span)
        )
    return size
