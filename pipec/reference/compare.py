"""Compares an output with its reference, element by element."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from pipec.reference.bounded import Bounded

_UNDERFLOW = 2.0**-120  # the error allowed for underflow in float32
_MARK = b"\xa5\x5a"  # bytes that mark unwritten memory; as a number, not a round one


@dataclass(frozen=True, slots=True)
class Comparison:
    """`error` is the largest difference and `bound` the allowed one there; `wrong` counts elements beyond their bound and `unwritten`
    those of them that still have their value from before the launch."""

    output: str
    error: float
    bound: float
    wrong: int
    unwritten: int
    total: int
    first: tuple[int, ...]
    found: float
    expected: float

    @property
    def passed(self) -> bool:
        return self.wrong == 0


def compare(output: str, found: np.ndarray, expected: Bounded, poison: np.ndarray | None = None) -> Comparison:
    """Compares an output with its reference; integers must be equal.

    An element may have any value between the reference minus its error and the reference plus its error, both rounded to the output's
    type. So an infinity requires an infinity of the same sign (or a value that overflows within its error) and NaN requires NaN.
    `poison` is what the output held before the launch (see `poisoned`).
    """
    if found.size == 0:
        return Comparison(output, 0.0, 0.0, 0, 0, 0, (), 0.0, 0.0)
    wanted = np.broadcast_to(expected.value, found.shape)
    got = found.astype(np.float64)
    low, high = _interval(expected, found.dtype, found.shape)
    right = ((low <= got) & (got <= high)) | (np.isnan(wanted) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        agree = right & ((got == wanted) | ~np.isfinite(got))
        difference = np.where(agree, 0.0, np.abs(got - wanted))
        bound = np.maximum(np.abs(high - wanted), np.abs(wanted - low))
    judged = np.where(np.isnan(difference), np.inf, difference)
    if not right.all():
        judged = np.where(right, -1.0, judged)
    worst = np.unravel_index(int(np.argmax(judged)), found.shape)
    first = tuple(int(i) for i in np.argwhere(~right)[0]) if not right.all() else (0,) * found.ndim
    kept = np.zeros(found.shape, bool) if poison is None else _bits(found) == _bits(poison)
    return Comparison(
        output,
        float(difference[worst]),
        0.0 if np.isnan(bound[worst]) else float(bound[worst]),
        int((~right).sum()),
        int((~right & kept).sum()),
        found.size,
        first,
        float(got[first]),
        float(wanted[first]),
    )


def _interval(expected: Bounded, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    value = np.broadcast_to(expected.value, shape)
    if dtype.kind in "iub":
        return value, value
    error = np.where(expected.error > 0, expected.error + _UNDERFLOW, 0.0)
    return rounded(value - error, dtype), rounded(value + error, dtype)


def rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The value that a kernel stores: rounded to the type; numbers too large become infinite, or the largest of an 8-bit type."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.itemsize == 1:
            largest = float(ml_dtypes.finfo(dtype).max)
            values = np.clip(values, -largest, largest)
        return values.astype(dtype).astype(np.float64)


def poisoned(output: np.ndarray, expected: Bounded | None = None) -> np.ndarray:
    """The initial contents of an output that a kernel has to write: a wrong value in each element, unlikely to be computed.

    Floats get a particular NaN, or a number where the reference is NaN; integers a pattern, or another one where the reference equals
    it.
    """
    poison = np.empty(output.shape, output.dtype)
    marks = _bits(poison)
    marks[...] = np.frombuffer((_MARK * 4)[: output.itemsize], marks.dtype)[0]
    if output.dtype.kind in "b":
        marks[...] = 0 if expected is None else expected.value == 0
    elif output.dtype.kind in "iu":
        if expected is not None:
            marks[...] = np.where(poison.astype(np.float64) == expected.value, ~marks, marks)
    else:
        number, none = marks.copy(), _quiet_nan(output.dtype)
        undefined = np.zeros(output.shape, bool) if expected is None else np.isnan(np.broadcast_to(expected.value, output.shape))
        marks[...] = np.where(undefined, number, none)
    return poison


def _quiet_nan(dtype: np.dtype) -> int:
    """A negative NaN with a payload; for types with only one NaN, that one."""
    bits = int(np.full((), np.nan, dtype).view(f"u{dtype.itemsize}"))
    width = 8 * dtype.itemsize
    bits |= 1 << (width - 1)
    return bits | 0b101 if dtype.itemsize > 1 else bits


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}")
