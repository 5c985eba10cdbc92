"""What copies elements to other places: the values and their bounds move together, and nothing is rounded."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from pipec.reference.bounded import Bounded
from pipec.reference.problem import ReferenceProblem
from pipec.reference.shapes import axes_within, listed

Widths = tuple[tuple[int, int], ...]
Mode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


def _moved(move: Callable[..., Any], *arrays: Bounded) -> Bounded:
    return Bounded(np.asarray(move([one.value for one in arrays])), np.asarray(move([one.error for one in arrays])))


def stack(arrays: tuple[Bounded, ...], axis: int = 0) -> Bounded:
    """Along a new axis; all have one shape."""
    shapes = tuple(dict.fromkeys(one.value.shape for one in arrays))
    if len(shapes) > 1:
        raise ReferenceProblem(f"`stack` takes arrays of one shape, and these have {listed(shapes)}")
    axes_within(axis, len(shapes[0]) + 1)
    return _moved(partial(np.stack, axis=axis), *arrays)


def concatenate(arrays: tuple[Bounded, ...], axis: int = 0) -> Bounded:
    """Along an axis that they have; the others are of equal sizes."""
    shapes = [one.value.shape for one in arrays]
    if not min(map(len, shapes)):
        raise ReferenceProblem("`concatenate` takes arrays, and one of these is a number: `stack` makes an array of numbers")
    axes_within(axis, len(shapes[0]))
    others = {(len(shape), *np.delete(shape, axis)) for shape in shapes if len(shape) == len(shapes[0])}
    if len(others) > 1 or len(set(map(len, shapes))) > 1:
        different = tuple(dict.fromkeys(shapes))
        raise ReferenceProblem(
            f"`concatenate` takes arrays that differ along axis {axis} alone, and these have {listed(different)}"
        )
    return _moved(partial(np.concatenate, axis=axis), *arrays)


def pad(x: Bounded, width: Widths, mode: Mode = "constant", constant_values: Bounded | None = None) -> Bounded:
    """`width`: (before, after) for each axis, or one pair for all of them."""
    dimensions = x.value.ndim
    widths = width * dimensions if len(width) == 1 else width
    if len(widths) != dimensions:
        raise ReferenceProblem(f"`pad` has widths for {len(widths)} axes, and the array has {dimensions}")
    if mode != "constant":
        if constant_values is not None:
            raise ReferenceProblem(f'`pad` with `mode="{mode}"` takes its values from the array: leave out `constant_values`')
        if not x.value.size:
            raise ReferenceProblem(f'`pad` with `mode="{mode}"` takes its values from the array, which has no elements')
        return _moved(lambda parts: np.pad(parts[0], widths, mode=mode), x)
    value, error = (constant_values.value, constant_values.error) if constant_values else (0.0, 0.0)
    return Bounded(np.pad(x.value, widths, constant_values=value), np.pad(x.error, widths, constant_values=error))


def roll(x: Bounded, shift: int, axis: int | None = None) -> Bounded:
    """Element i goes to place i + shift, and what leaves the end comes in at the beginning; without an axis in the flattened array."""
    return _moved(lambda parts: np.roll(parts[0], shift, axis=axis), x)
