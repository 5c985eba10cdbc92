"""Evaluates lines of the form `name = expression`.

A line is untrusted data, so it is not executed as Python: a small set of node kinds and functions is evaluated.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pipec.reference.arguments import arguments_of
from pipec.reference.arithmetic import Arithmetic
from pipec.reference.bounded import Bounded, Precision, constant
from pipec.reference.functions import Function, functions
from pipec.reference.indices import place_of
from pipec.reference.problem import ReferenceProblem
from pipec.reference.shapes import fit_for_matmul, fitting

_BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.MatMult: "matmul",
    ast.Pow: "power",
}
_UNARY: dict[type, str] = {ast.USub: "negative", ast.UAdd: "positive"}
_RELATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_PYTHONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # whose texts say nothing of a line


class Evaluator:
    """Evaluates lines over known names, with a fixed set of node kinds and functions.

    `names` may be added to. `observe` is told of every part of a line and its value, operands first.
    """

    def __init__(
        self,
        names: dict[str, Bounded],
        precision: Precision,
        unread: frozenset[str] = frozenset(),
        observe: Callable[[ast.expr, Bounded], None] | None = None,
    ) -> None:
        self.names = names
        self._unread = unread
        self._observe = observe
        self._arithmetic = Arithmetic(precision)
        self._functions = functions(self._arithmetic)

    def assignment(self, line: str) -> tuple[str, Bounded]:
        """The target of `output = expression`, and the value. Raises ReferenceProblem."""
        target, expression = assigned(line)
        with np.errstate(all="ignore"):
            try:
                return target, self._evaluate(expression)
            except ReferenceProblem as problem:
                raise problem.within(line) from None
            except MemoryError:
                raise ReferenceProblem("its arrays do not fit this machine's memory").within(line) from None
            except RecursionError:
                raise ReferenceProblem("it is nested too deeply").within(line) from None

    def _evaluate(self, node: ast.expr) -> Bounded:
        try:
            value = self._value(node)
        except ReferenceProblem as problem:
            raise problem.at(node) from None
        except _PYTHONS:
            raise ReferenceProblem(f"`{ast.unparse(node)}` does not fit its operands").at(node) from None
        if self._observe:
            self._observe(node, value)
        return value

    def _value(self, node: ast.expr) -> Bounded:
        match node:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Constant(value=int() | float() as value):
                return constant(_float(value), self._arithmetic.precision)
            case ast.BinOp(left, symbol, right) if type(symbol) in _BINARY:
                return self._operator(_BINARY[type(symbol)], self._evaluate(left), self._evaluate(right))
            case ast.UnaryOp(symbol, operand) if type(symbol) in _UNARY:
                return self._operator(_UNARY[type(symbol)], self._evaluate(operand))
            case ast.Compare(left, [symbol], [right]) if type(symbol) in _RELATIONS:
                a, b = self._evaluate(left), self._evaluate(right)
                fitting((a.value.shape, b.value.shape))
                return self._arithmetic.compare(_RELATIONS[type(symbol)])(a, b)
            case ast.Attribute(value, "T"):
                return self._view(value, 1, lambda array: array.T)
            case ast.Attribute(value, "mT"):  # of the last two axes, as NumPy 2 spells it
                return self._view(value, 2, lambda array: np.swapaxes(array, -1, -2))
            case ast.Subscript(value, index):
                return self._element(value, index)
            case ast.Call(ast.Name(id=name)) if name in self._functions:
                return self._called(self._functions[name], node)
            case ast.Call(ast.Name(id=name)):
                raise ReferenceProblem(f"`{name}` is not among its functions: {', '.join(sorted(self._functions))}")
            case _:
                raise ReferenceProblem(f"`{ast.unparse(node)}` is not among the allowed forms")

    def _named(self, name: str) -> Bounded:
        if name in self.names:
            return self.names[name]
        if name in self._unread:
            raise ReferenceProblem(
                f"it reads `{name}`, which the kernel writes and does not read: there is no value before the launch to speak of"
            )
        raise ReferenceProblem(f"there is no argument `{name}`")

    def _operator(self, name: str, *operands: Bounded) -> Bounded:
        shapes = [operand.value.shape for operand in operands]
        if name == "matmul":
            fit_for_matmul(*shapes)
        else:
            fitting(shapes)
        value: Bounded = getattr(self._arithmetic, name)(*operands)
        return value

    def _called(self, function: Function, call: ast.Call) -> Bounded:
        operands, options = arguments_of(function, call, self._evaluate)
        return function.value(*operands, **options)

    def _view(self, node: ast.expr, dimensions: int, view: Callable[[np.ndarray], np.ndarray]) -> Bounded:
        whole = self._evaluate(node)
        found = whole.value.ndim
        if not found:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is one number: it has no .T and no index")
        if found < dimensions:
            raise ReferenceProblem(f"`{ast.unparse(node)}` has {found} dimension, and .mT exchanges the last two")
        return Bounded(np.asarray(view(whole.value)), np.asarray(view(whole.error)))

    def _element(self, node: ast.expr, index: ast.expr) -> Bounded:
        whole = self._evaluate(node)
        if not whole.value.ndim:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is one number: it has no .T and no index")
        place = place_of(index, whole.value.shape, self._evaluate)
        return Bounded(np.asarray(whole.value[place]), np.asarray(whole.error[place]))


def assigned(line: str) -> tuple[str, ast.expr]:
    """The name and the expression of a line. Raises ReferenceProblem."""
    try:
        statements = ast.parse(line).body
    except SyntaxError as error:
        column = min((error.offset or 1) - 1, len(line))
        found = f"from `{line[column:]}` on" if line[column:].strip() else "where it ends"
        raise ReferenceProblem(f"it is no Python expression {found}").within(line) from None
    except (ValueError, MemoryError, RecursionError):
        raise ReferenceProblem("it is no Python expression").within(line) from None
    match statements:
        case [ast.Assign([ast.Name(id=target)], expression)]:
            return target, expression
    raise ReferenceProblem("it must have the form `output = expression`, with the whole output on the left").within(line)


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise ReferenceProblem("it has a number that is larger than any float64") from None
