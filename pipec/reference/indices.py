"""Indices: `[:, None]`, `[:, ::2]`; or whole numbers, which select as in NumPy: `table[tokens]`, `logits[arange(M), labels]`."""

import ast
from collections.abc import Callable

import numpy as np

from pipec.reference.bounded import MOST_NUMBERS, Bounded
from pipec.reference.problem import ReferenceProblem
from pipec.reference.shapes import Shape, fitting

Place = tuple[slice | np.ndarray | None, ...]


def place_of(node: ast.expr, shape: Shape, evaluate: Callable[[ast.expr], Bounded]) -> Place:
    """The index of an array of this shape, which is inside of it. Raises ReferenceProblem."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    place = tuple(_part(part, evaluate) for part in parts)
    axes = [part for part in place if part is not None]
    if len(axes) > len(shape):
        raise ReferenceProblem(f"{len(axes)} indices for an array of {len(shape)} dimension{'s' * (len(shape) != 1)}")
    for part, size in zip(axes, shape, strict=False):
        _check_within(part, size)
    fitting([part.shape for part in axes if isinstance(part, np.ndarray)])
    return place


def _part(node: ast.expr, evaluate: Callable[[ast.expr], Bounded]) -> slice | np.ndarray | None:
    match node:
        case ast.Slice(lower, upper, step):
            part = slice(*(None if end is None else _end(end, evaluate) for end in (lower, upper, step)))
            if part.step == 0:
                raise ReferenceProblem("the step of a part of an axis is at least 1")
            return part
        case ast.Constant(value=None):
            return None
    return _whole(node, evaluate)


def _end(node: ast.expr, evaluate: Callable[[ast.expr], Bounded]) -> int:
    """The beginning, the end or the step of a slice."""
    found = _whole(node, evaluate)
    if found.ndim:
        raise ReferenceProblem(f"`{ast.unparse(node)}` is no index: a part of an axis has one beginning and one end")
    return int(found)


def _whole(node: ast.expr, evaluate: Callable[[ast.expr], Bounded]) -> np.ndarray:
    numbers = evaluate(node)
    if not numbers.whole.all() or (numbers.value < 0).any() or (numbers.value > MOST_NUMBERS).any():
        raise ReferenceProblem(f"`{ast.unparse(node)}` is no index: its numbers must be whole, exact and not negative")
    return numbers.value.astype(np.int64)


def _check_within(part: slice | np.ndarray, size: int) -> None:
    """(NumPy would shorten a part that reaches beyond, and a row of one element fits every other.)"""
    if isinstance(part, np.ndarray):
        if part.size and part.max() >= size:
            raise ReferenceProblem(f"the index {part.max()} is out of bounds: the axis has {size} elements")
        return
    ends = [one for one in (part.start, part.stop) if one is not None]
    if ends and max(ends) > size:
        raise ReferenceProblem(f"a part of an axis reaches to {max(ends)}, but the axis has {size} elements")
