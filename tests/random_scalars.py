"""Random scalar expressions of the typed tree, and what NumPy computes for them in registers of their types."""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
from hypothesis import strategies as st

from pipec.isa.dtypes import DTYPES, DType
from pipec.sema import tree
from pipec.sema.types import BOOL, I32
from pipec.source import Source

SPAN = Source("test", "x").span(1, 1, 1, 2)
TYPES = tuple(DTYPES[name] for name in ("i32", "u32", "i64", "u64", "i8", "u8", "i16", "u16"))
NUMPY = {dtype: np.dtype(dtype.numpy).type for dtype in (*TYPES, BOOL)}
Value = np.generic
Read = Callable[[tree.Expression], int]


def number(value: int, dtype: DType = I32) -> tree.Expression:
    return tree.Constant(value, dtype, SPAN)


def special(name: str) -> tree.Expression:
    return tree.Special(name, I32, SPAN)


def dimension(name: str) -> tree.Expression:
    return tree.ReadDimension(name, I32, SPAN)


PARAMETERS = {dtype: tree.ScalarParameter(f"p_{dtype}", dtype, SPAN) for dtype in (*TYPES, BOOL)}
FLAG = tree.ReadParameter(PARAMETERS[BOOL], SPAN)


def parameter(dtype: DType) -> tree.Expression:
    return tree.ReadParameter(PARAMETERS[dtype], SPAN)


def ends(dtype: DType) -> tuple[int, int]:
    information = np.iinfo(NUMPY[dtype])
    return int(information.min), int(information.max)


def numbers(dtype: DType) -> st.SearchStrategy[int]:
    """Small ones, powers of two, and the ends of the type."""
    least, largest = ends(dtype)
    near = [
        value for value in (least, least + 1, largest - 1, largest, 2 * (largest // 4), 255, 256) if least <= value <= largest
    ]
    powers = [1 << place for place in range(dtype.bits) if 1 << place <= largest]
    return st.one_of(st.integers(max(least, -9), 9), st.sampled_from(near), st.sampled_from(powers))


def scalars(dtype: DType, others: st.SearchStrategy[tree.Expression], depth: int) -> st.SearchStrategy[tree.Expression]:
    """Of one type; `others` are leaves of i32."""
    leaves = [numbers(dtype).map(lambda value: number(value, dtype)), st.just(parameter(dtype))]
    leaves += [others] if dtype is I32 else []
    if depth == 0:
        return st.one_of(leaves)
    inner = st.deferred(lambda: scalars(dtype, others, depth - 1))
    flags = st.deferred(lambda: conditions(others, depth - 1))
    operators = st.sampled_from(("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"))
    signed = ("-", "~") if dtype.family == "signed" else ("~",)
    return st.one_of(
        *leaves,
        st.builds(lambda o, a, b: tree.Binary(o, a, b, dtype, SPAN), operators, inner, inner),
        st.builds(lambda o, a, b: tree.Binary(o, a, number(b, dtype), dtype, SPAN), operators, inner, numbers(dtype)),
        st.builds(lambda o, a: tree.Unary(o, a, dtype, SPAN), st.sampled_from(signed), inner),
        st.builds(lambda f, a, b: tree.Call(f, (a, b), dtype, SPAN), st.sampled_from(("min", "max", "ceildiv")), inner, inner),
        st.builds(lambda f, a: tree.Call(f, (a,), dtype, SPAN), st.sampled_from(("abs", "relu")), inner),
        st.builds(lambda a, b, c: tree.Call("fma", (a, b, c), dtype, SPAN), inner, inner, inner),
        st.builds(lambda c, a, b: tree.Select(c, a, b, dtype, SPAN), flags, inner, inner),
        st.builds(lambda a: tree.Convert(a, dtype, SPAN), flags),
        st.sampled_from(TYPES).flatmap(
            lambda source: scalars(source, others, depth - 1).map(lambda operand: tree.Convert(operand, dtype, SPAN))
        ),
    )


def conditions(others: st.SearchStrategy[tree.Expression], depth: int) -> st.SearchStrategy[tree.Expression]:
    leaves = st.one_of(st.booleans().map(lambda value: tree.Constant(value, BOOL, SPAN)), st.just(FLAG))
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: conditions(others, depth - 1))
    compare = st.sampled_from(("==", "!=", "<", "<=", ">", ">="))
    return st.one_of(
        leaves,
        st.sampled_from(TYPES[:3]).flatmap(
            lambda dtype: st.builds(
                lambda o, a, b: tree.Binary(o, a, b, BOOL, SPAN),
                compare,
                scalars(dtype, others, depth - 1),
                scalars(dtype, others, depth - 1),
            )
        ),
        st.builds(
            lambda o, a, b: tree.Binary(o, a, b, BOOL, SPAN),
            st.sampled_from(("and", "or", "&", "|", "^", "==", "!=")),
            inner,
            inner,
        ),
        st.builds(lambda a: tree.Unary("not", a, BOOL, SPAN), inner),
        st.builds(lambda a: tree.Convert(a, BOOL, SPAN), scalars(I32, others, depth - 1)),
    )


def evaluate(node: tree.Expression, read: Read) -> int:
    """`read` gives the leaves. Arithmetic is NumPy's, in the operands' type, so that it wraps as registers do."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return int(_evaluate(node, read))


def _evaluate(node: tree.Expression, read: Read) -> Value:
    kind = NUMPY[node.type]  # type: ignore[index]
    match node:
        case tree.Constant(value=value):
            return kind(value)
        case tree.Unary(operator=operator, operand=operand):
            value = _evaluate(operand, read)
            return kind({"-": np.negative, "~": np.invert, "not": np.logical_not}[operator](value))
        case tree.Binary(operator=operator, left=left, right=right):
            return kind(_binary(operator, _evaluate(left, read), _evaluate(right, read)))
        case tree.Call(function=function, arguments=arguments):
            return kind(_call(function, [_evaluate(argument, read) for argument in arguments]))
        case tree.Select(condition=condition, when_true=one, when_false=other):
            return _evaluate(one if _evaluate(condition, read) else other, read)
        case tree.Convert(operand=operand):
            return _evaluate(operand, read).astype(kind)
        case _:
            return kind(read(node))


_NUMPY: Mapping[str, Callable[..., Value]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def _binary(operator: str, left: Value, right: Value) -> Value:
    kind = type(left)
    if operator in ("//", "%"):
        right = right or kind(1)
        return np.floor_divide(left, right) if operator == "//" else np.mod(left, right)
    if operator in ("<<", ">>"):
        bits = left.itemsize * 8
        if not 0 <= int(right) < bits:
            return kind(-1) if operator == ">>" and left < 0 else kind(0)
        return np.left_shift(left, right) if operator == "<<" else np.right_shift(left, right)
    return _NUMPY[operator](left, right)


def _call(function: str, values: list[Value]) -> Value:
    first, kind = values[0], type(values[0])
    match function:
        case "min" | "max":
            return (np.minimum if function == "min" else np.maximum)(*values)
        case "ceildiv":  # the quotient towards minus infinity, and one more where something is left
            quotient = _binary("//", *values)
            return np.add(quotient, kind(bool(_binary("%", *values))))
        case "relu":
            return np.maximum(first, kind(0))
        case "abs":
            return first if kind(0) - kind(1) > 0 else np.maximum(first, np.negative(first))
        case "fma":
            return np.add(np.multiply(first, values[1]), values[2])
        case _:
            raise AssertionError(function)
