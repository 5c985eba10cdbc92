"""Choices among values: the largest, the smallest, what a condition selects. None of them rounds, so their bounds come from the operands.

A number that is known to an error lies in an interval. The largest of several lies between the largest lower and the largest upper end
of their intervals: what cannot be the largest adds nothing to the error, however little is known of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipec.reference.bounded import Bounded, bounded, farthest
from pipec.reference.problem import ReferenceProblem

Axes = int | tuple[int, ...] | None


def chosen(function: Callable[..., Any]) -> Callable[..., Bounded]:
    """Of some: `function` gives one of its operands, and grows with each."""

    def applied(*operands: Bounded) -> Bounded:
        value = function(*(one.value for one in operands))
        low, high = (function(*(one.value + sign * one.error for one in operands)) for sign in (-1, 1))
        return bounded(value, farthest(value, low, high))

    return applied


maximum, minimum = chosen(np.maximum), chosen(np.minimum)
fmax, fmin = chosen(np.fmax), chosen(np.fmin)  # a number takes precedence over NaN
clip = chosen(lambda x, low, high: np.minimum(np.maximum(x, low), high))
relu = chosen(lambda x: np.maximum(x, 0.0))


def _extreme(function: Callable[..., Any], x: Bounded, axis: Axes = None, keepdims: bool = False) -> Bounded:
    if not x.value.size:
        raise ReferenceProblem("of no elements none is the largest or the smallest")
    along = partial(function, axis=axis, keepdims=keepdims)
    value = along(x.value)
    return bounded(value, farthest(value, along(x.value - x.error), along(x.value + x.error)))


max = partial(_extreme, np.max)
min = partial(_extreme, np.min)


def where(condition: Bounded, yes: Bounded, no: Bounded) -> Bounded:
    """An uncertain condition leaves the result at either; unbounded where only one of them is finite."""
    met = condition.value != 0
    value, error = np.where(met, yes.value, no.value), np.where(met, yes.error, no.error)
    if condition.exact:
        return bounded(value, error)
    other, other_error = np.where(met, no.value, yes.value), np.where(met, no.error, yes.error)
    same = (value == other) | np.isnan(value) & np.isnan(other)
    either = np.maximum(error, np.where(same, 0.0, np.abs(other - value)) + other_error)
    unsure = (condition.error > 0) & (np.abs(condition.value) <= condition.error)
    # A bound is one of a finite number: of an infinity that may be another one nothing is known.
    value = np.where(unsure & ~same & ~np.isfinite(value), np.where(np.isfinite(other), other, 0.0), value)
    return bounded(value, np.where(unsure, either, error))


def argmax(x: Bounded, axis: int | None = None) -> Bounded:
    """The first of the largest, as NumPy's; unbounded where rounding may make another one the largest."""
    if not x.value.size:
        raise ReferenceProblem("of no elements none is the largest or the smallest")
    if axis is None:
        x, axis = Bounded(x.value.ravel(), x.error.ravel()), 0
    first = np.argmax(x.value, axis=axis, keepdims=True)
    best, error = (np.take_along_axis(part, first, axis=axis) for part in (x.value, x.error))
    others = np.moveaxis(np.arange(x.value.shape[axis]).reshape(-1, *(1,) * (x.value.ndim - 1)), 0, axis) != first
    rivals = others & (x.error + error > 0) & (x.value + x.error >= best - error)
    return bounded(first.squeeze(axis), np.where(rivals.any(axis), np.inf, 0.0))


def argmin(x: Bounded, axis: int | None = None) -> Bounded:
    return argmax(Bounded(-x.value, x.error), axis=axis)
