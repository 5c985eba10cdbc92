"""Numbers of one launch computed for all blocks at once: a value is one number, or one per block."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipec.arithmetic import MEANINGS

Number = int | float
Values = int | float | np.ndarray[Any, Any]


def first(value: Values) -> Number:
    """The value for the reference block."""
    return value[0] if isinstance(value, np.ndarray) else value


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: MEANINGS[name] for name in ("+", "-", "*", "//", "%", "ceildiv", "<", "<=", ">", ">=", "==", "!=")},
    # For many blocks at once; the first of them decides whether a branch is taken.
    "min": lambda left, right: np.minimum(left, right) if _several(left, right) else min(left, right),
    "max": lambda left, right: np.maximum(left, right) if _several(left, right) else max(left, right),
    "distance": lambda start, stop: np.maximum(stop - start, 0),
    "and": lambda left, right: bool(first(left) and first(right)),
    "or": lambda left, right: bool(first(left) or first(right)),
}
_DIVISIONS = ("//", "%", "ceildiv")


def _several(left: Values, right: Values) -> bool:
    return isinstance(left, np.ndarray) or isinstance(right, np.ndarray)


def applied(operator: str, left: Values | None, right: Values | None) -> Values | None:
    apply = _OPERATORS.get(operator)
    if apply is None or left is None or right is None:
        return None
    if operator in _DIVISIONS and not (np.all(right) if isinstance(right, np.ndarray) else right):
        return None
    found: Values = apply(left, right)
    return found
