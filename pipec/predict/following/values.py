"""Scalars of a role as functions of the values known at run time; each expression is translated once.

This follows one block of one launch, iteration by iteration, whereas the value analysis (pipec.kir.values) covers all of them. A
loop-carried value is a number here, and an unknown leaf there.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pipec.arithmetic import MEANINGS
from pipec.sema import tree

Number = int | float
Known = dict[
    tree.Variable | tree.Handle, Number | None
]  # a held response of a tile scheduler is represented by the tile it grants
Value = Callable[[Known], Number | None]

_SHIFTS = MEANINGS["<<"], MEANINGS[">>"]
_MOST_SHIFTED = 32


class Values:
    """The values of one launch: `sizes` are its dimensions and integer parameters, `specials` a block's hardware values.

    The value of an expression is None if only the GPU knows it.
    """

    def __init__(self, sizes: Mapping[str, int], specials: Mapping[str, int]) -> None:
        self._sizes, self._specials = sizes, specials
        self._made: dict[tree.Expression, Value] = {}

    def of(self, expression: tree.Expression) -> Value:
        if expression not in self._made:
            self._made[expression] = self._make(expression)
        return self._made[expression]

    def _make(self, expression: tree.Expression) -> Value:
        match expression:
            case tree.Constant():
                return _always(expression.value)
            case tree.ReadDimension():
                return _always(self._sizes.get(expression.name))
            case tree.ReadParameter():
                return _always(self._sizes.get(expression.parameter.name))
            case tree.Special():
                return _always(self._specials.get(expression.name))
            case tree.ReadVariable(variable):
                return lambda known: known.get(variable)
            case tree.ReadResponse(handle):
                return lambda known: known.get(handle)
            case tree.Convert():
                return self.of(expression.operand)
            case tree.Unary("-"):
                return _applied(MEANINGS["-"], _always(0), self.of(expression.operand))
            case tree.Unary("not"):
                return _applied(MEANINGS["=="], _always(0), self.of(expression.operand))
            case tree.Binary(operator) if operator in MEANINGS:
                return _applied(MEANINGS[operator], self.of(expression.left), self.of(expression.right))
            case tree.Call(function, (left, right)) if function in MEANINGS:
                return _applied(MEANINGS[function], self.of(left), self.of(right))
            case tree.Select():
                condition, taken, other = (
                    self.of(one) for one in (expression.condition, expression.when_true, expression.when_false)
                )
                return lambda known: _selected(condition(known), taken, other, known)
            case _:
                return _always(None)


def _always(value: Number | None) -> Value:
    return lambda known: value


def _selected(holds: Number | None, taken: Value, other: Value, known: Known) -> Number | None:
    return None if holds is None else taken(known) if holds else other(known)


def _applied(operator: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def value(known: Known) -> Number | None:
        first, second = left(known), right(known)
        if first is None or second is None:
            return None
        if operator in _SHIFTS and not 0 <= second < _MOST_SHIFTED:
            return None
        try:
            found: Number = operator(first, second)
        except (ZeroDivisionError, TypeError, OverflowError):
            return None
        return found

    return value
