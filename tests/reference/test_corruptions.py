"""What `pipec run` would say of results that are wrong in one way each: every example, every output, every kind of mistake.

The right result is the reference itself, rounded to the output's type; it must pass. Then each corruption is planted in a copy.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from examples.catalogue import EXAMPLES

from pipec.driver import Options, compile_source
from pipec.kir.plan.types import Plan
from pipec.reference import Trial, rounded, shape_sets, trial_of
from pipec.source import Source

# Those that are compared elsewhere, with what no line can say, have no such line.
FILES = [path for path in sorted(EXAMPLES.glob("*.pipe")) if "numpy:" in path.read_text(encoding="utf-8")]
Corruption = Callable[[np.ndarray, np.ndarray], None]  # changes the first; the second is what stood there before the launch


@cache
def plans(name: str) -> tuple[Plan, ...]:
    source = Source(name, (EXAMPLES / name).read_text(encoding="utf-8"))
    return tuple(compile_source(source, Options(), until="limits").plans or ())


def trials(name: str) -> Iterator[tuple[Plan, Trial]]:
    for plan in plans(name):
        for values in shape_sets(plan.kernel.document):
            numbers = {key: float(text) if "." in text or "-" in text else int(text) for key, text in values.items()}
            yield plan, trial_of(plan, numbers, seed=3)


def place(array: np.ndarray) -> tuple[int, ...]:
    """Some element in the middle."""
    return tuple(size // 2 for size in array.shape)


def a_little(array: np.ndarray, before: np.ndarray) -> None:
    """By 5 % of what the array holds, or of the element where that is more; integers by one."""
    at = place(array)
    value = array.astype(np.float64)
    off = 1.0 if array.dtype.kind in "iu" else 0.05 * max(np.sqrt(np.mean(value**2)), abs(value[at]), 0.05)
    array[at] = (value[at] + off * (1 if array.dtype.itemsize > 1 else 16)).astype(array.dtype)


def swapped_rows(array: np.ndarray, before: np.ndarray) -> None:
    rows = array.reshape(-1, array.shape[-1])
    other = next((row for row in range(1, len(rows)) if not np.array_equal(rows[0], rows[row])), None)
    if other is None:  # one row, or all alike: swap two elements, or else there is nothing to tell
        rows[0] = np.roll(rows[0], 1)
    else:
        rows[[0, other]] = rows[[other, 0]]


def zeroed_tile(array: np.ndarray, before: np.ndarray) -> None:
    array[tuple(slice(size - min(size, 8), size) for size in array.shape)] = 0


def infinity(array: np.ndarray, before: np.ndarray) -> None:
    array[place(array)] = np.inf


def nan(array: np.ndarray, before: np.ndarray) -> None:
    array[place(array)] = np.nan


def never_written(array: np.ndarray, before: np.ndarray) -> None:
    at = place(array)
    array[at] = before[at]


CORRUPTIONS: tuple[Corruption, ...] = (a_little, swapped_rows, zeroed_tile, infinity, nan, never_written)


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_each_corruption_is_caught(name: str) -> None:
    planted = 0
    for plan, trial in trials(name):
        before = {output: trial.arguments[output].copy() for output in trial.expected}
        for output, expected in trial.expected.items():
            array = trial.arguments[output]
            right = expected.value if array.dtype.kind in "iub" else rounded(expected.value, array.dtype)
            array[...] = right.astype(array.dtype)
        assert all(outcome.passed for outcome in trial.judged()), plan.kernel.name
        for output in trial.expected:
            for corruption in CORRUPTIONS:
                planted += _is_caught(trial, output, corruption, before[output])
    assert planted > 4, "a test that plants nothing shows nothing"


def _is_caught(trial: Trial, output: str, corruption: Corruption, before: np.ndarray) -> bool:
    array = trial.arguments[output]
    right = array.copy()
    if corruption in (infinity, nan) and array.dtype.kind in "iub":
        return False
    corruption(array, before)
    changed = array.tobytes() != right.tobytes() and not np.array_equal(array, right)
    outcome = next(outcome for outcome in trial.judged() if outcome.output == output)
    array[...] = right
    if changed:
        assert not outcome.passed, (output, corruption.__name__, outcome)
        assert (outcome.unwritten > 0) == (corruption is never_written and output in trial.poison)
    return changed
