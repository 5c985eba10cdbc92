"""Arrays in float64 with an error bound per element for a kernel's result.

A kernel computes the same expression in single precision, in another order and with approximate functions. Each operation
propagates the error bounds of its operands, and adds its own (a running error analysis: N. Higham, Accuracy and Stability of Numerical
Algorithms, section 3.3). So the bound of an element depends only on the values that contribute to it: a large number elsewhere in the
array, or an infinity, does not relax it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_NUMBERS = 2**24  # of `arange`, of what `pad` adds: a line is untrusted
UNDERFLOW = 2.0**-126  # the least normal float32: approximate functions and tensor cores may flush smaller results to zero


@dataclass(frozen=True, slots=True)
class Rounding:
    """The error of rounding to a type: half a unit in the last place, and half the least positive number near zero."""

    relative: float = 0.0
    absolute: float = 0.0

    def of(self, values: np.ndarray) -> np.ndarray:
        error: np.ndarray = self.relative * np.abs(values) + np.where(values == 0, 0.0, self.absolute)
        return error


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of a kernel's computations.

    `term`: the error of adding one term to a sum, relative to the largest partial sum. `operand`: the rounding of MMA operands that the
    kernel itself computes; `argument`: the same for operands that the reference takes directly from the arguments. `working`: of the
    coarsest type in which it computes, if that is narrower than float32. `whole`: up to here its types have all whole numbers, `working`
    aside.
    """

    term: float = 2.0**-23
    operand: Rounding = Rounding()
    argument: Rounding = Rounding()
    working: Rounding = Rounding()
    whole: float = 2.0**24


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values, and the error allowed for each; 0 for non-finite values, which must match exactly."""

    value: np.ndarray
    error: np.ndarray

    @property
    def exact(self) -> bool:
        return not self.error.any()

    @property
    def whole(self) -> np.ndarray:
        """Which elements are exact, and whole numbers or infinite."""
        whole: np.ndarray = (self.error == 0) & (np.floor(self.value) == self.value)
        return whole


def bounded(value: Any, error: Any = 0.0) -> Bounded:
    """A NaN error means unbounded."""
    values = np.asarray(value, np.float64)
    errors = np.broadcast_to(np.asarray(error, np.float64), values.shape)
    errors = np.where(np.isfinite(values), np.where(np.isnan(errors), np.inf, errors), 0.0)
    return Bounded(values, errors)


def constant(number: float, precision: Precision) -> Bounded:
    """A literal; a kernel uses the nearest number of the type in which it computes."""
    if abs(number) <= precision.whole and number == int(number) and not precision.working.relative:
        return bounded(number)
    with np.errstate(over="ignore"):
        nearest = float(np.float32(number))
    error = abs(nearest - number) if math.isfinite(nearest) else 0.0
    if precision.working.relative and math.frexp(number)[0] / precision.working.relative % 1:
        error = float(precision.working.of(np.asarray(number)))
    return bounded(number, error)


def unless(unknown: np.ndarray, known: Bounded) -> Bounded:
    """Without a bound where `unknown`, also where the value is not finite: a kernel's need not be infinite there, too."""
    if not unknown.any():
        return known
    finite = np.isfinite(known.value)
    return Bounded(np.where(unknown & ~finite, 0.0, known.value), np.where(unknown, np.inf, known.error))


def product(size: np.ndarray, error: np.ndarray) -> np.ndarray:
    """size * error, which is 0 for an exact operand, whatever the other's size."""
    return np.where(error == 0, 0.0, size * error)


def reach(function: Callable[[Any], Any], x: Bounded, value: np.ndarray) -> np.ndarray:
    """How far a monotone function may be from `value`, its value at x."""
    if x.exact:
        return np.zeros(np.shape(value))
    up, down = function(x.value + x.error), function(x.value - x.error)
    return np.where(x.error == 0, 0.0, farthest(value, up, down))


def farthest(value: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """The distance from `value` to the farthest of the others; 0 to an equal one, also where both are infinite."""
    distances = [np.where(other == value, 0.0, np.abs(other - value)) for other in others]
    return np.asarray(np.maximum.reduce(distances))
