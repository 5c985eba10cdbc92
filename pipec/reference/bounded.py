"""Array arithmetic in float64 with an error bound per element for a kernel's result.

A kernel computes the same expression in single precision, in another order and with approximate functions. Each operation here
propagates the error bounds of its operands, and adds its own (a running error analysis: N. Higham, Accuracy and Stability of Numerical
Algorithms, section 3.3). So the bound of an element depends only on the values that contribute to it: a large number elsewhere in the
array, or an infinity, does not relax it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipec.sema.language.functions import FUNCTIONS, ElementFunction

# A few roundings of float32: a kernel may fuse, distribute and reorder the operations of the reference.
ARITHMETIC = 2.0**-21
# Errors of the functions of pipec.lower.emit.functions: relative (the argument of an exponential is rounded as well), or absolute for erf.
FUNCTION = 2.0**-18
ERROR_FUNCTION = 2.0**-20
CIRCULAR = 2.0**-23  # of sin and cos, absolute
TANH_APPROX = 2.0**-11  # of the value; PTX ISA 9.7.3.22
MOST_NUMBERS = 2**24  # of `arange`: a line is untrusted
UNDERFLOW = 2.0**-126  # the least normal float32: approximate functions and tensor cores may flush smaller results to zero
_CHUNK = 32  # terms of a product that are added at once when computing the magnitude of its partial sums


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
    coarsest type in which it computes, if that is narrower than float32.
    """

    term: float = 2.0**-23
    operand: Rounding = Rounding()
    argument: Rounding = Rounding()
    working: Rounding = Rounding()


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values, and the error allowed for each; 0 for non-finite values, which must match exactly."""

    value: np.ndarray
    error: np.ndarray

    @property
    def exact(self) -> bool:
        return not self.error.any()


def bounded(value: Any, error: Any = 0.0) -> Bounded:
    """A NaN error means unbounded."""
    values = np.asarray(value, np.float64)
    errors = np.broadcast_to(np.asarray(error, np.float64), values.shape)
    errors = np.where(np.isfinite(values), np.where(np.isnan(errors), np.inf, errors), 0.0)
    return Bounded(values, errors)


def constant(number: float) -> Bounded:
    """A literal; a kernel uses the nearest float32."""
    with np.errstate(over="ignore"):
        nearest = float(np.float32(number))
    return bounded(number, abs(nearest - number) if math.isfinite(nearest) else 0.0)


class Arithmetic:
    """The operations of a reference, for a kernel with this precision. NumPy errors (shapes that do not fit) are propagated."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self._unit = ARITHMETIC + precision.working.relative
        self._operation = Rounding(self._unit, max(UNDERFLOW, precision.working.absolute))
        # Whole numbers up to here have whole sums and products, whatever the order: places, distances, indices.
        self._whole = min(2.0**24, 1 / precision.working.relative if precision.working.relative else math.inf)

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
        passed_on = _product(left, b.error) + _product(right, a.error) + a.error * b.error
        return bounded(value, passed_on + self._rounding(a, b, value, self._operation.of(value)))

    def _rounding(self, a: Bounded, b: Bounded, value: np.ndarray, error: np.ndarray) -> np.ndarray:
        """The error of one operation: none where whole numbers give a whole number."""
        if not (a.exact and b.exact):
            return error
        whole = (a.value % 1 == 0) & (b.value % 1 == 0) & (np.abs(value) <= self._whole)
        return np.where(whole, 0.0, error)

    def divide(self, a: Bounded, b: Bounded) -> Bounded:
        value, margin = a.value / b.value, np.abs(b.value) - b.error
        passed_on = (a.error + _product(np.abs(value), b.error)) / np.where(margin > 0, margin, 0.0)
        passed_on = np.where((a.error == 0) & (b.error == 0), 0.0, passed_on)
        return bounded(value, passed_on + 2 * self._operation.of(value))

    def floor_divide(self, a: Bounded, b: Bounded) -> Bounded:
        value = a.value // b.value
        if a.exact and b.exact:
            return bounded(value)
        quotient = self.divide(a, b)
        return bounded(value, _reach(np.floor, quotient, value))

    def remainder(self, a: Bounded, b: Bounded) -> Bounded:
        """Of the sign of `b`, as Python's."""
        if a.exact and b.exact:
            return bounded(np.mod(a.value, b.value))
        return self.subtract(a, self.multiply(b, self.floor_divide(a, b)))

    def power(self, a: Bounded, b: Bounded) -> Bounded:
        value = a.value**b.value
        if not b.exact:
            return bounded(value, np.where(a.error + b.error > 0, np.inf, 0.0))
        reach = _reach(lambda x: x**b.value, a, value)
        crossing = np.where(a.error >= np.abs(a.value), np.abs(value), 0.0)  # an even power has a zero in between
        return bounded(value, np.where(a.error > 0, np.maximum(reach, crossing), 0.0) + 4 * self._operation.of(value))

    def negative(self, a: Bounded) -> Bounded:
        return Bounded(-a.value, a.error)

    def positive(self, a: Bounded) -> Bounded:
        return a

    def matmul(self, a: Bounded, b: Bounded) -> Bounded:
        value, way = _sums(a.value, b.value)
        terms = max(1, a.value.shape[-1])
        error = (self.precision.term + self.precision.working.relative / terms) * way + self._operation.of(value)
        error = error + np.where(way > 0, terms * UNDERFLOW, 0.0)
        made = self.precision.argument if a.exact and b.exact else self.precision.operand
        if made.relative:
            left, right = np.abs(a.value), np.abs(b.value)
            error = (
                error + made.relative * (left @ right) + made.absolute * (np.ones_like(left) @ right + left @ np.ones_like(right))
            )
        if not a.exact:
            error = error + a.error @ (np.abs(b.value) + b.error)
        if not b.exact:
            error = error + np.abs(a.value) @ b.error
        return bounded(value, error)

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
            return bounded(value, _reach(function, x, value) + relative * np.abs(value) + self._operation.of(value))

        return applied

    def element_function(self, row: ElementFunction) -> Callable[[Bounded], Bounded]:
        return self.monotone(partial(row.value, np), FUNCTION, rounds_argument=True)

    def erf(self, x: Bounded) -> Bounded:
        function = partial(FUNCTIONS["erf"].value, np)
        value = function(x.value)
        return bounded(value, _reach(function, x, value) + ERROR_FUNCTION + self.precision.working.relative)

    def sin(self, x: Bounded) -> Bounded:
        return self._circular("sin", x)

    def cos(self, x: Bounded) -> Bounded:
        return self._circular("cos", x)

    def _circular(self, name: str, x: Bounded) -> Bounded:
        value = FUNCTIONS[name].value(np, x.value)
        # It changes no faster than its argument, and by no more than 2.
        return bounded(value, np.minimum(x.error, 2.0) + CIRCULAR + self.precision.working.relative)

    def gelu(self, x: Bounded) -> Bounded:
        grown = self.add(bounded(1.0), self.erf(self.multiply(x, bounded(math.sqrt(0.5)))))
        return self.multiply(self.multiply(x, bounded(0.5)), grown)

    def abs(self, x: Bounded) -> Bounded:
        return Bounded(np.abs(x.value), x.error)

    def maximum(self, a: Bounded, b: Bounded) -> Bounded:
        return self._chosen(np.maximum, a, b)

    def minimum(self, a: Bounded, b: Bounded) -> Bounded:
        return self._chosen(np.minimum, a, b)

    def fmax(self, a: Bounded, b: Bounded) -> Bounded:
        """A number takes precedence over NaN."""
        return self._chosen(np.fmax, a, b)

    def fmin(self, a: Bounded, b: Bounded) -> Bounded:
        return self._chosen(np.fmin, a, b)

    def _chosen(self, function: Callable[[Any, Any], Any], a: Bounded, b: Bounded) -> Bounded:
        """The maximum or minimum of two: if it is certain which one, the other's error is irrelevant."""
        value = function(a.value, b.value)
        surely_a = np.abs(value - b.value) > a.error + b.error
        surely_b = np.abs(value - a.value) > a.error + b.error
        return bounded(value, np.where(surely_a, a.error, np.where(surely_b, b.error, np.maximum(a.error, b.error))))

    def relu(self, x: Bounded) -> Bounded:
        return self.maximum(x, bounded(0.0))

    def clip(self, x: Bounded, low: Bounded, high: Bounded) -> Bounded:
        return self.minimum(self.maximum(x, low), high)

    def where(self, condition: Bounded, yes: Bounded, no: Bounded) -> Bounded:
        value = np.where(condition.value != 0, yes.value, no.value)
        error = np.where(condition.value != 0, yes.error, no.error)
        if not condition.exact:
            either = np.maximum(yes.error, no.error) + np.abs(yes.value - no.value)
            error = np.where(condition.error > 0, either, error)
        return bounded(value, error)

    def sum(self, x: Bounded, *others: Bounded, axis: Any = None, keepdims: bool = False) -> Bounded:
        _one_array("sum", others)
        value = np.sum(x.value, axis=axis, keepdims=keepdims)
        terms = x.value.size / max(1, np.size(value))
        share = terms * self.precision.term + self._unit
        lost = np.sum(x.error + share * np.abs(x.value), axis=axis, keepdims=keepdims)
        return bounded(value, lost)

    def max(self, x: Bounded, *others: Bounded, axis: Any = None, keepdims: bool = False) -> Bounded:
        _one_array("max", others)
        return bounded(np.max(x.value, axis=axis, keepdims=keepdims), np.max(x.error, axis=axis, keepdims=keepdims))

    def min(self, x: Bounded, *others: Bounded, axis: Any = None, keepdims: bool = False) -> Bounded:
        _one_array("min", others)
        return bounded(np.min(x.value, axis=axis, keepdims=keepdims), np.max(x.error, axis=axis, keepdims=keepdims))

    def argmax(self, x: Bounded, *others: Bounded, axis: Any = None) -> Bounded:
        """The first of the largest, as NumPy's; unbounded where rounding may make another one the largest."""
        _one_array("argmax", others)
        if axis is None:
            x, axis = Bounded(x.value.ravel(), x.error.ravel()), 0
        first = np.argmax(x.value, axis=axis, keepdims=True)
        best, error = (np.take_along_axis(part, first, axis=axis) for part in (x.value, x.error))
        others_of = np.moveaxis(np.arange(x.value.shape[axis]).reshape(-1, *(1,) * (x.value.ndim - 1)), 0, axis) != first
        rivals = others_of & (x.error + error > 0) & (x.value + x.error >= best - error)
        return bounded(first.squeeze(axis), np.where(rivals.any(axis), np.inf, 0.0))

    def argmin(self, x: Bounded, *others: Bounded, axis: Any = None) -> Bounded:
        _one_array("argmin", others)
        return self.argmax(self.negative(x), axis=axis)

    def cumsum(self, x: Bounded, *others: Bounded, axis: Any = None) -> Bounded:
        _one_array("cumsum", others)
        terms = x.value.size if axis is None else x.value.shape[axis]
        share = terms * self.precision.term + self._unit
        lost = np.cumsum(x.error + share * np.abs(x.value), axis=axis)
        return bounded(np.cumsum(x.value, axis=axis), lost)

    def softmax(self, x: Bounded, causal: Bounded | None = None) -> Bounded:
        """Along the last axis; with `causal` row i has the columns 0 to i."""
        if causal is not None:
            x = self.causal(x, causal)
        exp = self.monotone(np.exp, FUNCTION, rounds_argument=True)
        largest = self.max(x, axis=-1, keepdims=True)
        # The quotient is independent of the shift, so the error of the maximum is irrelevant; that of each difference is not.
        weights = exp(self.subtract(x, bounded(largest.value)))
        return self.divide(weights, self.sum(weights, axis=-1, keepdims=True))

    def causal(self, x: Bounded, applied: Bounded) -> Bounded:
        """If `applied` is true, -inf after column i of row i: the scores of keys that query i must not see."""
        if not applied.value.any():
            return x
        rows, columns = np.indices(x.value.shape[-2:])
        return self.where(bounded(columns <= rows), x, bounded(-np.inf))

    def block_scale(self, x: Bounded, scales: Bounded, rows: Bounded, columns: Bounded) -> Bounded:
        """Each block of `rows` x `columns` elements times its scale."""

        def spread(factors: np.ndarray) -> np.ndarray:
            grown = np.repeat(np.repeat(factors, int(rows.value), axis=0), int(columns.value), axis=1)
            return grown[: x.value.shape[0], : x.value.shape[1]]

        return self.multiply(x, Bounded(spread(scales.value), spread(scales.error)))

    def scaled(self, operand: Bounded, chunks: Bounded, block: Bounded) -> Bounded:
        """The products of elements and scale factors are exact."""
        from pipec.reference.packed_arrays import scaled

        size = int(block.value)
        return bounded(scaled(operand.value, chunks.value, size), scaled(operand.error, np.abs(chunks.value), size))

    def grouped(self, a: Bounded, b: Bounded, begins: Bounded, rest: Bounded | None = None) -> Bounded:
        """Rows begins[g] to begins[g + 1] of `a` times the transposed b[g]; rows without a group are those of `rest`, or zeros."""
        shape = a.value.shape[0], b.value.shape[1]
        out, error = (np.array(np.broadcast_to(part, shape)) for part in ((rest.value, rest.error) if rest else (0.0, 0.0)))
        places = begins.value.astype(int)
        for group, (first, last) in enumerate(itertools.pairwise(places)):
            rows = Bounded(a.value[first:last], a.error[first:last])
            product = self.matmul(rows, Bounded(b.value[group].T, b.error[group].T))
            out[first:last], error[first:last] = product.value, product.error
        return bounded(out, error)

    def offsets(self, *sizes: Bounded) -> Bounded:
        """The starts of consecutive runs of these sizes, and the end of the last one."""
        return bounded(np.cumsum([0.0, *(float(size.value) for size in sizes)]))

    def arange(self, count: Bounded) -> Bounded:
        """0 to count - 1: numbers of rows, columns or keys, to compare them or to index with."""
        if count.value.ndim or not count.exact or not 0 <= count.value <= MOST_NUMBERS or count.value % 1:
            raise ValueError(f"arange: {count.value} is no whole number from 0 to {MOST_NUMBERS}")
        return bounded(np.arange(int(count.value)))


def _one_array(name: str, others: Sequence[Bounded]) -> None:
    """NumPy takes a second operand for the axis, and Python takes it for a second number: here it is neither."""
    if others:
        pair = f"; of two values it is `{name}imum(a, b)`" if name in ("min", "max") else ""
        raise ValueError(f"`{name}` is that of one array's elements, and its axis is written `axis=1`{pair}")


def functions(arithmetic: Arithmetic) -> dict[str, Callable[..., Bounded]]:
    """The functions available in a `numpy:` line, by name. Monotone element functions need only their row."""
    rows = {row.name: arithmetic.element_function(row) for row in FUNCTIONS.values() if row.monotone}
    logarithms = {name: _logarithm(arithmetic, getattr(np, name)) for name in ("log", "log2")}
    numbers = ("abs", "maximum", "minimum", "fmax", "fmin", "where", "clip", "relu")
    along = ("sum", "max", "min", "argmax", "argmin", "cumsum")
    own = (
        *numbers,
        *along,
        "sin",
        "cos",
        "erf",
        "gelu",
        "softmax",
        "causal",
        "block_scale",
        "scaled",
        "grouped",
        "offsets",
        "arange",
    )
    named = {name: getattr(arithmetic, name) for name in own}
    shares = {"sqrt": (np.sqrt, ARITHMETIC), "tanh_approx": (np.tanh, TANH_APPROX)}
    shares |= {"floor": (np.floor, 0.0), "ceil": (np.ceil, 0.0), "round": (np.rint, 0.0)}
    own_shares = {name: arithmetic.monotone(*row) for name, row in shares.items()}
    return {**rows, **logarithms, **own_shares, **named}


def _logarithm(arithmetic: Arithmetic, function: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
    """lg2.approx has a relative error of 2**-22, and an absolute one of that size near 1."""
    inner = arithmetic.monotone(function, FUNCTION)

    def applied(x: Bounded) -> Bounded:
        result = inner(x)
        return bounded(result.value, result.error + ARITHMETIC)

    return applied


def _product(size: np.ndarray, error: np.ndarray) -> np.ndarray:
    """size * error, which is 0 for an exact operand, whatever the other's size."""
    return np.where(error == 0, 0.0, size * error)


def _reach(function: Callable[[Any], Any], x: Bounded, value: np.ndarray) -> np.ndarray:
    """How far a monotone function may be from `value`, its value at x."""
    if x.exact:
        return np.zeros(np.shape(value))
    up, down = function(x.value + x.error), function(x.value - x.error)
    return np.where(x.error == 0, 0.0, np.maximum(np.abs(up - value), np.abs(down - value)))


def _sums(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a @ b; and the sum over all terms of the magnitude that its addition rounds: the partial sum, or a product if one is larger.

    The terms are in the order of K. A kernel may sum ranges of K separately: these sums are differences of two partial sums here,
    therefore the factor of two.
    """
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: a number is no matrix")
    depth = a.shape[-1]
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if depth != inner:
        raise ValueError(f"matmul: mismatch of {depth} columns and {inner} rows")
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
