"""Operators: folding of compile-time values, element types and shapes of run-time ones.

Folding is Python arithmetic on known numbers, including floats, with messages for undefined results. The value analysis (pipec.kir.values)
cannot do this: a term there is an integer of a typed expression, whereas this module determines the types, handles floats, strings and
element types, and rejects what a term would leave unknown. That analysis reads the tree created here.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pipec.arithmetic import MEANINGS
from pipec.diag.catalogue.language import types as messages
from pipec.diag.message import Message
from pipec.isa.dtypes import DTYPES, DType
from pipec.sema import tree
from pipec.sema.meanings import Known
from pipec.sema.types import BOOL, TileType, ValueType, dtype_of, with_dtype
from pipec.source import Span
from pipec.vocabulary import BinaryOperator, UnaryOperator

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LOGICAL = ("and", "or")
_BITWISE = ("&", "|", "^")
_SHIFTS = ("<<", ">>")

_FOLD: Mapping[str, Callable[[Any, Any], Any]] = {
    **MEANINGS,
    # Python would build an arbitrarily long number, and PTX clamps the shift amount: the author means neither.
    "<<": lambda a, b: a << b if 0 <= b < 64 else None,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else None,
}

# Every integer type fits below this. Without a limit, repeated squaring of a compile-time number would take unbounded time.
_LARGEST_KNOWN = 2**64


def fold(symbol: BinaryOperator, left: Known, right: Known, span: Span) -> Known | Message:
    """The compile-time result of `left symbol right`, or the message why there is none."""
    a, b = left.value, right.value
    if symbol in ("==", "!="):
        return Known(_FOLD[symbol](a, b), span)
    for side in (left, right):
        bad = _bad_known(symbol, side)
        if bad is not None:
            return bad
    # Checked before Python divides and raises; the message belongs to the divisor, not to the operator.
    if symbol in ("/", "//", "%") and b == 0:
        return messages.DivisionByZero(at=right.span)
    if symbol == "/" and isinstance(a, int) and isinstance(b, int):
        return messages.BadOperand(operator="/", type="int", hint="use `//` for integers", at=span)
    try:
        value = _FOLD[symbol](a, b)
    except (OverflowError, TypeError):
        value = None
    if (
        value is None
        or (isinstance(value, int) and abs(value) >= _LARGEST_KNOWN)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return messages.DoesNotFit(value=f"{a} {symbol} {b}", type="64 bits", at=span)
    return Known(value, span)


def _bad_known(symbol: BinaryOperator, side: Known) -> Message | None:
    value = side.value
    if symbol in LOGICAL:
        if isinstance(value, bool):
            return None
        return messages.BadOperand(operator=symbol, type=_known_type(value), hint="compare it: `x != 0`", at=side.span)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric:
        return messages.BadOperand(operator=symbol, type=_known_type(value), hint=None, at=side.span)
    if isinstance(value, float) and symbol in (*_BITWISE, *_SHIFTS):
        return messages.BadOperand(operator=symbol, type="float", hint=None, at=side.span)
    return None


def _known_type(value: object) -> str:
    return "an element type" if isinstance(value, DType) else {"str": "a string"}.get(type(value).__name__, type(value).__name__)


def constant(known: Known, dtype: DType) -> tree.Constant | Message:
    """A compile-time value as a constant of `dtype`, or a message if its kind or range does not fit."""
    value = known.value
    if isinstance(value, bool) or dtype is BOOL:
        if isinstance(value, bool) and dtype is BOOL:
            return tree.Constant(value, BOOL, known.span)
        return messages.WrongType(what="the value", expected=str(dtype), found=_known_type(value), at=known.span)
    if isinstance(value, str | DType):
        return messages.WrongType(what="the value", expected=str(dtype), found=_known_type(value), at=known.span)
    if dtype.is_float:
        # An explicit infinity is intended; a number that would become one is not.
        if value != math.inf and value != -math.inf and abs(value) > dtype.largest:
            return messages.DoesNotFit(value=str(value), type=str(dtype), at=known.span)
        return tree.Constant(float(value), dtype, known.span)
    if isinstance(value, float):
        return messages.WrongType(what="the value", expected=str(dtype), found=f"the float {value}", at=known.span)
    low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.family == "signed" else (0, (1 << dtype.bits) - 1)
    if not low <= value <= high:
        return messages.DoesNotFit(value=str(value), type=str(dtype), at=known.span)
    return tree.Constant(value, dtype, known.span)


def default_dtype(known: Known) -> DType | None:
    """The element type of a compile-time value without a typed operand beside it."""
    match known.value:
        case bool():
            return BOOL
        case int():
            return DTYPES["i32"]
        case float():
            return DTYPES["f32"]
        case _:
            return None


def widen(value: tree.Expression, dtype: DType) -> tree.Expression | None:
    """`value` with element type `dtype` if the conversion is lossless; None otherwise."""
    own = dtype_of(value.type)
    if own is dtype:
        return value
    if dtype.name in own.widens_to:
        return tree.Convert(value, with_dtype(value.type, dtype), value.span)
    return None


def common(left: tree.Expression, right: tree.Expression) -> tuple[tree.Expression, tree.Expression] | None:
    """Both operands with one element type, by lossless widening of one of them; None if impossible."""
    a, b = dtype_of(left.type), dtype_of(right.type)
    if a is b:
        return left, right
    widened = widen(left, b)
    if widened is not None:
        return widened, right
    widened = widen(right, a)
    if widened is not None:
        return left, widened
    # No third type is invented for f16 with bf16, or i32 with u32: the author must choose what may be lost.
    return None


def shape_of(value_type: ValueType) -> tuple[int, int] | None:
    return (value_type.rows, value_type.columns) if isinstance(value_type, TileType) else None


def joint_shape(left: ValueType, right: ValueType) -> tuple[int, int] | None | Literal[False]:
    """The shape of an element-wise result: None for scalars, False when the shapes do not combine."""
    a, b = shape_of(left), shape_of(right)
    if a is None or b is None:
        return a or b
    joined = []
    for one, other in zip(a, b, strict=True):
        if one != other and 1 not in (one, other):
            return False
        joined.append(max(one, other))
    return joined[0], joined[1]


_SHORT = 30  # characters of an operand that a message repeats


def mixed(operator: str, left: tree.Expression, right: tree.Expression, span: Span) -> Message:
    """The message, with an example that converts an integer to the other side's floats, or else the right side to the left side's type."""
    one, other = dtype_of(left.type), dtype_of(right.type)
    source, target = (left, other) if other.is_float and not one.is_float else (right, one)
    text = source.span.text()
    if len(text) > _SHORT or "\n" in text:
        text = "..."
    return messages.MixedTypes(operator=operator, left=str(one), right=str(other), example=f"cast[{target}]({text})", at=span)


def binary(symbol: BinaryOperator, left: tree.Expression, right: tree.Expression, span: Span) -> tree.Expression | Message:
    """The typed node of a run-time operator, or the message that says what is wrong."""
    if symbol in LOGICAL:
        wrong = next((side for side in (left, right) if dtype_of(side.type) is not BOOL), None)
        if wrong is not None:
            return messages.BadOperand(operator=symbol, type=str(dtype_of(wrong.type)), hint=_compared(wrong), at=wrong.span)
    pair = common(left, right)
    if pair is None:
        return mixed(symbol, left, right, span)
    left, right = pair
    dtype = dtype_of(left.type)
    problem = _operator_problem(symbol, dtype)
    if problem is not None:
        return messages.BadOperand(operator=symbol, type=str(dtype), hint=problem or None, at=left.span)
    shape = joint_shape(left.type, right.type)
    if shape is False:
        return messages.ShapeMismatch(operator=symbol, left=str(left.type), right=str(right.type), at=span)
    result = BOOL if symbol in COMPARISONS or symbol in LOGICAL else dtype
    if shape is None:
        return tree.Binary(symbol, left, right, result, span)
    # A scalar combined with a tile becomes a one-element tile, so that the lowering has a single rule for broadcasting.
    return tree.Binary(symbol, splat(left), splat(right), TileType(result, *shape), span)


def _compared(operand: tree.Expression) -> str:
    """Python accepts any number as a condition; here the comparison must be explicit."""
    zero = "0.0" if dtype_of(operand.type).is_float else "0"
    text = operand.span.text() if isinstance(operand, tree.ReadVariable | tree.ReadDimension | tree.ReadParameter) else "x"
    return f"`and`, `or` and `not` take conditions: write `{text} != {zero}`"


def splat(value: tree.Expression) -> tree.Expression:
    """A scalar as a one-element tile that broadcasts; tiles unchanged."""
    if isinstance(value.type, TileType):
        return value
    return tree.Splat(value, TileType(value.type, 1, 1), value.span)


def _operator_problem(symbol: BinaryOperator, dtype: DType) -> str | None:
    """None if the operator supports the type; else a hint (possibly empty)."""
    if symbol in LOGICAL:
        return None
    if dtype is BOOL:
        return None if symbol in ("==", "!=", *_BITWISE) else ""
    if not dtype.computes:
        return "convert it first: `cast[f32](...)`"
    if symbol in ("//", "%", *_SHIFTS, *_BITWISE):
        return None if dtype.is_integer else "this operator is for integers"
    if symbol == "/":
        return None if dtype.is_float else "use `//` for integers"
    return None


def unary(symbol: UnaryOperator | Literal["+"], operand: tree.Expression, span: Span) -> tree.Expression | Message:
    dtype = dtype_of(operand.type)
    good = {"not": dtype is BOOL, "~": dtype.is_integer, "-": dtype.is_float or dtype.family == "signed", "+": dtype is not BOOL}[
        symbol
    ]
    if not good or not dtype.computes:
        hint = _compared(operand) if symbol == "not" else None
        return messages.BadOperand(operator=symbol, type=str(dtype), hint=hint, at=operand.span)
    return operand if symbol == "+" else tree.Unary(symbol, operand, operand.type, span)


def fold_unary(symbol: UnaryOperator | Literal["+"], operand: Known, span: Span) -> Known | Message:
    value = operand.value
    if symbol == "not" and isinstance(value, bool):
        return Known(not value, span)
    if isinstance(value, int | float) and not isinstance(value, bool) and symbol in ("-", "+"):
        return Known(-value if symbol == "-" else value, span)
    if isinstance(value, int) and not isinstance(value, bool) and symbol == "~":
        return Known(~value, span)
    return messages.BadOperand(operator=symbol, type=_known_type(value), hint=None, at=span)
