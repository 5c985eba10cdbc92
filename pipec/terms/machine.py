"""The operators, functions and conversions of the typed tree on terms, as lowered: in registers of a type.

A divisor 0 counts as 1, and a shift by the width or more leaves zero or the sign, as in `pipec.lower.emit.arithmetic`.
"""

from collections.abc import Callable, Mapping
from operator import add, mul, sub

from pipec.isa.dtypes import DTYPES, DType
from pipec.terms import registers
from pipec.terms.arithmetic import at_least, equal, extreme, product, quotient, remainder, select
from pipec.terms.term import ONE, ZERO, Operator, Term, uninterpreted
from pipec.vocabulary import BinaryOperator, UnaryOperator

# On numbers without wrapping: the counterparts of the operations on terms below.
EXACT: Mapping[str, Callable[[int, int], int]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "//": lambda left, right: left // (right or 1),
    "%": lambda left, right: left % (right or 1),
}
_FLOATS = 1 << 1100  # exceeds every finite number of a float type


def range_of(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer of a type; for a float, bounds on any integer converted from it."""
    if dtype.family == "bool":
        return 0, 1
    return registers.type_range(dtype.bits, dtype.family == "signed") if dtype.is_integer else (-_FLOATS, _FLOATS)


def wrap(term: Term, dtype: DType) -> Term:
    return registers.wrapped(term, dtype.bits, dtype.family == "signed")


def _ceiling(left: Term, right: Term) -> Term:
    divisor = right.number
    return quotient(left + divisor - 1, right) if divisor is not None and divisor > 0 else -quotient(-left, right)


def is_distance(start: Term, stop: Term) -> bool:
    """Whether the difference is the distance from a start to a stop, or less than 0: it does not wrap."""
    least, largest = range_of(DTYPES["i32"])
    apart = stop - start
    return least <= apart.least and apart.largest <= largest


_COMPARISONS: Mapping[str, Callable[[Term, Term], Term]] = {
    "==": equal,
    "!=": lambda left, right: ONE - equal(left, right),
    ">=": lambda left, right: at_least(left - right),
    "<=": lambda left, right: at_least(right - left),
    "<": lambda left, right: ONE - at_least(left - right),
    ">": lambda left, right: ONE - at_least(right - left),
}
_ARITHMETIC: Mapping[str, Callable[[Term, Term], Term]] = {
    "+": Term.__add__,
    "-": Term.__sub__,
    "*": product,
    "//": quotient,
    "%": remainder,
    "ceildiv": _ceiling,
    "min": lambda left, right: extreme(Operator.MIN, (left, right)),
    "max": lambda left, right: extreme(Operator.MAX, (left, right)),
}
_CONDITIONS: Mapping[str, Callable[[Term, Term], Term]] = {
    "and": lambda left, right: select(left, right, ZERO),
    "&": lambda left, right: select(left, right, ZERO),
    "or": lambda left, right: select(left, ONE, right),
    "|": lambda left, right: select(left, ONE, right),
    "^": lambda left, right: ONE - equal(left, right),
}


def binary(operator: BinaryOperator, dtype: DType, left: Term, right: Term) -> Term:
    """`dtype` is the type of the operands."""
    if not dtype.is_integer and dtype.family != "bool":
        return uninterpreted(operator, (left, right), *((0, 1) if operator in _COMPARISONS else range_of(dtype)))
    if operator in _COMPARISONS:
        return _COMPARISONS[operator](left, right)
    if dtype.family == "bool":
        return _CONDITIONS[operator](left, right)
    if operator in _ARITHMETIC:
        return wrap(_ARITHMETIC[operator](left, right), dtype)
    return registers.bitwise(operator, dtype.bits, dtype.family == "signed", left, right)


def unary(operator: UnaryOperator, dtype: DType, operand: Term) -> Term:
    if operator == "not" or (operator == "~" and dtype.family == "bool"):
        return ONE - operand
    if not dtype.is_integer:
        return uninterpreted(operator, (operand,), *range_of(dtype))
    return wrap(-operand if operator == "-" else -operand - 1, dtype)


def call(function: str, dtype: DType, arguments: tuple[Term, ...]) -> Term:
    """`dtype` is the type of the arguments and of the result."""
    first = arguments[0]
    if not dtype.is_integer:
        return uninterpreted(function, arguments, *range_of(dtype))
    match function:
        case "min" | "max":
            return extreme(Operator.MIN if function == "min" else Operator.MAX, arguments)
        case "ceildiv":
            return wrap(_ceiling(*arguments), dtype)
        case "distance":
            start, stop = arguments
            return stop - start if is_distance(start, stop) else extreme(Operator.MAX, (stop - start, ZERO))
        case "relu":
            return extreme(Operator.MAX, (first, ZERO))
        case "abs":
            return extreme(Operator.MAX, (first, wrap(-first, dtype))) if dtype.family == "signed" else first
        case "fma":
            return wrap(product(first, arguments[1]) + arguments[2], dtype)
        case _:
            return uninterpreted(function, arguments, *range_of(dtype))


def bitcast(operand: Term, source: DType, target: DType) -> Term:
    """Reinterprets the bits as another type; the result is a known integer only if both types are integers."""
    if source.is_integer and target.is_integer:
        return wrap(operand, target)
    return uninterpreted(("bitcast", source, target), (operand,), *range_of(target))


def convert(operand: Term, source: DType, target: DType) -> Term:
    if source.name == target.name:
        return operand
    known = source.is_integer or source.family == "bool"
    if known and target.family == "bool":
        return ONE - equal(operand, ZERO)
    if known and target.is_integer:
        return wrap(operand, target)
    return uninterpreted(("cast", target), (operand,), *range_of(target))
