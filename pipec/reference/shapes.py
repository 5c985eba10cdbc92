"""Which shapes fit each other. What NumPy says of those that do not is never shown: it names neither the operands nor the line."""

from collections.abc import Sequence

import numpy as np

from pipec.reference.problem import ReferenceProblem

Shape = tuple[int, ...]


def fitting(shapes: Sequence[Shape]) -> Shape:
    """The shape of an operation on each element."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        different = tuple(dict.fromkeys(shapes))
        raise ReferenceProblem(
            f"{listed(different)} do not fit: from the last axis on, sizes are equal or one of them is 1"
        ) from None


def listed(shapes: Sequence[Shape]) -> str:
    """`the shapes (2, 3) and (4,)`."""
    *first, last = map(str, shapes)
    return f"the shapes {', '.join(first)} and {last}" if first else f"the shape {last}"


def fit_for_matmul(a: Shape, b: Shape) -> None:
    if not a or not b:
        raise ReferenceProblem("one of the operands of `@` is one number, and no matrix")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ReferenceProblem(f"`@` with {a[-1]} columns on the left and {inner} rows on the right: {listed((a, b))}")
    fitting((a[:-2], b[:-2]))


def axes_within(axes: int | tuple[int, ...] | None, dimensions: int) -> None:
    """That each axis is one of so many, and none is named twice."""
    named = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
    for axis in named:
        if not -dimensions <= axis < dimensions:
            raise ReferenceProblem(f"there is no axis {axis}: the array has {dimensions} dimension{'s' * (dimensions != 1)}")
    if len({axis % dimensions for axis in named}) < len(named):
        raise ReferenceProblem(f"`axis={axes}` names an axis twice")
