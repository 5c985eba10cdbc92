"""The operations of a reference: each computes in float64 and bounds what a kernel's rounding may change."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipec.reference import choices
from pipec.reference.bounded import UNDERFLOW, Bounded, Precision, Rounding, bounded, product, reach, unless
from pipec.reference.choices import Axes
from pipec.reference.problem import ReferenceProblem
from pipec.sema.language.functions import FUNCTIONS, ElementFunction

# A few roundings of float32: a kernel may fuse, distribute and reorder the operations of the reference.
ARITHMETIC = 2.0**-21
# Errors of the functions of pipec.lower.emit.functions: relative (the argument of an exponential is rounded as well), or absolute for erf.
FUNCTION = 2.0**-18
ERROR_FUNCTION = 2.0**-20
CIRCULAR = 2.0**-23  # of sin and cos, absolute
TANH_APPROX = 2.0**-11  # of the value; PTX ISA 9.7.3.22
_CHUNK = 32  # terms of a product that are added at once when computing the magnitude of its partial sums
_LARGEST_POWER = 4  # up to which a kernel multiplies
_COARSE_SUM = 2.0**11  # whole numbers up to here are exact in accumulators of float16, and in those that drop all but 13 bits


class Arithmetic:
    """The operations of a reference, for a kernel with this precision. The shapes of the operands fit each other."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self._unit = ARITHMETIC + precision.working.relative
        self._operation = Rounding(self._unit, max(UNDERFLOW, precision.working.absolute))
        # Whole numbers up to here have whole sums and products, whatever the order: counts, places, distances, indices.
        self._whole = min(precision.whole, 1 / precision.working.relative if precision.working.relative else math.inf)
        self._whole_sum = self._whole if precision.term <= 2.0**-23 else min(self._whole, _COARSE_SUM)

    # ------------------------------------------------------------------------------------------------------- operators

    def add(self, a: Bounded, b: Bounded) -> Bounded:
        # Of both operands: under cancellation their earlier errors remain.
        value = a.value + b.value
        size = np.abs(a.value) + np.abs(b.value)  # and no underflow: sums of floats that become small are exact
        return bounded(value, a.error + b.error + self._rounding(a, b, value, self._unit * size))

    def subtract(self, a: Bounded, b: Bounded) -> Bounded:
        return self.add(a, self.negative(b))

    def multiply(self, a: Bounded, b: Bounded) -> Bounded:
        value, left, right = a.value * b.value, np.abs(a.value), np.abs(b.value)
        passed_on = product(left, b.error) + product(right, a.error) + product(a.error, b.error)
        return bounded(value, passed_on + self._rounding(a, b, value, self._operation.of(value)))

    def _rounding(self, a: Bounded, b: Bounded, value: np.ndarray, error: np.ndarray) -> np.ndarray:
        """The error of one operation: none where whole numbers give a whole number."""
        return np.where(a.whole & b.whole & (np.abs(value) <= self._whole), 0.0, error)

    def divide(self, a: Bounded, b: Bounded) -> Bounded:
        value, margin = a.value / b.value, np.abs(b.value) - b.error
        passed_on = (a.error + product(np.abs(value), b.error)) / np.where(margin > 0, margin, 0.0)
        passed_on = np.where((a.error == 0) & (b.error == 0), 0.0, passed_on)
        result = bounded(value, passed_on + 2 * self._operation.of(value))
        zero = (b.value == 0) & ((b.error > 0) | (a.error > 0) & (np.abs(a.value) <= a.error))
        return unless(zero & np.isfinite(a.value), result)

    def floor_divide(self, a: Bounded, b: Bounded) -> Bounded:
        value = a.value // b.value
        exact = (a.error == 0) & (b.error == 0)
        return bounded(value, np.where(exact, 0.0, reach(np.floor, self.divide(a, b), value)))

    def remainder(self, a: Bounded, b: Bounded) -> Bounded:
        """Of the sign of `b`, as Python's."""
        exact = (a.error == 0) & (b.error == 0)
        rest = self.subtract(a, self.multiply(b, self.floor_divide(a, b)))
        return bounded(np.where(exact, np.mod(a.value, b.value), rest.value), np.where(exact, 0.0, rest.error))

    def power(self, a: Bounded, b: Bounded) -> Bounded:
        value = a.value**b.value
        if not b.exact:
            return bounded(value, np.where(a.error + b.error > 0, np.inf, 0.0))
        moved = reach(lambda x: x**b.value, a, value)
        crossing = np.where(a.error >= np.abs(a.value), np.abs(value), 0.0)  # an even power has a zero in between
        error = np.where(a.error > 0, np.maximum(moved, crossing), 0.0) + 4 * self._operation.of(value)
        # A kernel multiplies for `x ** 2`; for `2 ** x` it may call an exponential function.
        multiplied = not b.value.ndim and 0 <= b.value <= _LARGEST_POWER
        return bounded(value, self._rounding(a, b, value, error) if multiplied else error)

    def negative(self, a: Bounded) -> Bounded:
        return Bounded(-a.value, a.error)

    def positive(self, a: Bounded) -> Bounded:
        return a

    def matmul(self, a: Bounded, b: Bounded) -> Bounded:
        made = self.precision.argument if a.exact and b.exact else self.precision.operand
        left, right = np.abs(a.value), np.abs(b.value)
        if self._kept(a, made) and self._kept(b, made) and (np.matmul(left, right) <= self._whole_sum).all():
            return bounded(np.matmul(a.value, b.value))
        value, way = _sums(a.value, b.value)
        terms = max(1, a.value.shape[-1])
        error = (self.precision.term + self.precision.working.relative / terms) * way + self._operation.of(value)
        error = error + np.where(way > 0, terms * UNDERFLOW, 0.0)
        if made.relative:
            error = (
                error + made.relative * (left @ right) + made.absolute * (np.ones_like(left) @ right + left @ np.ones_like(right))
            )
        if not a.exact:
            error = error + a.error @ (right + b.error)
        if not b.exact:
            error = error + left @ b.error
        return bounded(value, error)

    def _kept(self, operand: Bounded, made: Rounding) -> bool:
        """Whether an operand of an MMA is of whole numbers that rounding it leaves as they are."""
        largest = min(self._whole, 1 / made.relative if made.relative else math.inf)
        return bool(operand.whole.all()) and bool((np.abs(operand.value) <= largest).all())

    def compare(self, relation: Callable[[Any, Any], Any]) -> Callable[[Bounded, Bounded], Bounded]:
        """1 if it holds, else 0; an error of 1 if the operands are too close to decide."""

        def compared(a: Bounded, b: Bounded) -> Bounded:
            either, both = a.error + b.error, np.abs(a.value - b.value)
            return bounded(relation(a.value, b.value), ((either > 0) & (both <= either)).astype(np.float64))

        return compared

    # ------------------------------------------------------------------------------------------------------- functions

    def monotone(
        self, function: Callable[[Any], Any], relative: float, rounds_argument: bool = False
    ) -> Callable[[Bounded], Bounded]:
        def applied(x: Bounded) -> Bounded:
            value = function(x.value)
            if rounds_argument:
                x = bounded(x.value, x.error + self._unit * np.abs(x.value))
            result = bounded(value, reach(function, x, value) + relative * np.abs(value) + self._operation.of(value))
            if x.exact or np.isfinite(value).all():
                return result
            beside = np.isfinite(function(x.value + x.error)) | np.isfinite(function(x.value - x.error))
            return unless(~np.isfinite(value) & np.isfinite(x.value) & beside, result)

        return applied

    def to_whole(self, function: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
        """Rounds to whole numbers, which every type has that had the operand."""

        def applied(x: Bounded) -> Bounded:
            value = function(x.value)
            working = bounded(x.value, x.error + np.where(x.whole, 0.0, self.precision.working.relative * np.abs(x.value)))
            return bounded(value, reach(function, working, value))

        return applied

    def logarithm(self, function: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
        """lg2.approx has a relative error of 2**-22, and an absolute one of that size near 1."""
        inner = self.monotone(function, FUNCTION)

        def applied(x: Bounded) -> Bounded:
            result = inner(x)
            return bounded(result.value, result.error + ARITHMETIC)

        return applied

    def element_function(self, row: ElementFunction) -> Callable[[Bounded], Bounded]:
        return self.monotone(partial(row.value, np), FUNCTION, rounds_argument=True)

    def erf(self, x: Bounded) -> Bounded:
        function = partial(FUNCTIONS["erf"].value, np)
        value = function(x.value)
        return bounded(value, reach(function, x, value) + ERROR_FUNCTION + self.precision.working.relative)

    def circular(self, name: str) -> Callable[[Bounded], Bounded]:
        """sin and cos: they change no faster than their argument, and by no more than 2."""

        def applied(x: Bounded) -> Bounded:
            value = FUNCTIONS[name].value(np, x.value)
            return bounded(value, np.minimum(x.error, 2.0) + CIRCULAR + self.precision.working.relative)

        return applied

    def gelu(self, x: Bounded) -> Bounded:
        grown = self.add(bounded(1.0), self.erf(self.multiply(x, bounded(math.sqrt(0.5)))))
        return self.multiply(self.multiply(x, bounded(0.5)), grown)

    def abs(self, x: Bounded) -> Bounded:
        return Bounded(np.abs(x.value), x.error)

    # ------------------------------------------------------------------------------------------------------- sums

    def sum(self, x: Bounded, axis: Axes = None, keepdims: bool = False) -> Bounded:
        along = partial(np.sum, axis=axis, keepdims=keepdims)
        value = along(x.value)
        terms = x.value.size / max(1, np.size(value))
        lost = along(x.error + self._share(terms) * np.abs(x.value))
        return bounded(value, np.where(along(~x.whole) + (along(np.abs(x.value)) > self._whole_sum), lost, 0.0))

    def cumsum(self, x: Bounded, axis: int | None = None) -> Bounded:
        along = partial(np.cumsum, axis=axis)
        terms = x.value.size if axis is None else x.value.shape[axis]
        lost = along(x.error + self._share(terms) * np.abs(x.value))
        return bounded(along(x.value), np.where(along(~x.whole) + (along(np.abs(x.value)) > self._whole_sum), lost, 0.0))

    def _share(self, terms: float) -> float:
        """What adding this many terms may lose of each."""
        return terms * self.precision.term + self._unit

    def softmax(self, x: Bounded, causal: Bounded | None = None) -> Bounded:
        """Along the last axis; with `causal` row i has the columns 0 to i."""
        if causal is not None:
            x = self.causal(x, causal)
        if not x.value.shape[-1]:
            return x
        exp = self.monotone(np.exp, FUNCTION, rounds_argument=True)
        largest = choices.max(x, axis=-1, keepdims=True)
        # The quotient is independent of the shift, so the error of the maximum is irrelevant; that of each difference is not.
        weights = exp(self.subtract(x, bounded(largest.value)))
        return self.divide(weights, self.sum(weights, axis=-1, keepdims=True))

    def causal(self, x: Bounded, applied: Bounded) -> Bounded:
        """If `applied` is true, -inf after column i of row i: the scores of keys that query i must not see."""
        if not applied.value.any():
            return x
        if x.value.ndim < 2:
            raise ReferenceProblem("`causal` masks by the last two axes, rows and columns, and the array has one")
        rows, columns = np.indices(x.value.shape[-2:])
        return choices.where(bounded(columns <= rows), x, bounded(-np.inf))


def _sums(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a @ b; and the sum over all terms of the magnitude that its addition rounds: the partial sum, or a product if one is larger.

    The terms are in the order of K. A kernel may sum ranges of K separately: these sums are differences of two partial sums here,
    therefore the factor of two.
    """
    depth = a.shape[-1]
    total = np.matmul(a[..., :0], _rows(b, 0, 0))
    way = np.zeros_like(total)
    for first in range(0, depth, _CHUNK):
        left, right = a[..., first : first + _CHUNK], _rows(b, first, first + _CHUNK)
        total = total + np.matmul(left, right)
        products = np.sqrt(np.matmul(left * left, right * right))  # no less than the largest
        way += 2 * left.shape[-1] * (np.abs(total) + products)
    return total, way


def _rows(b: np.ndarray, first: int, last: int) -> np.ndarray:
    return b[..., first:last, :] if b.ndim > 1 else b[first:last]
