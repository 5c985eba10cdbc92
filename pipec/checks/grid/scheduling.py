"""Tile schedulers: support by the target, and a declared grid against the derived one (E0270, E0911)."""

from itertools import product

from pipec.diag.catalogue.grid import scheduling as messages
from pipec.diag.message import Sink
from pipec.interface import MULTIPROCESSORS, LaunchExpression, evaluate
from pipec.isa.targets import Target
from pipec.kir.ir import Kernel
from pipec.kir.plan.interface import launch_expression
from pipec.sema import tree

# Values at which two grids are compared: small ones, ones that no tile size divides, and more tiles than a GPU has multiprocessors.
_SIZES = (1, 127, 1000, 40_000)
_GPUS = (1, 132)
_MOST_COMPARED = 4096


def check(kernel: Kernel, target: Target, sink: Sink) -> None:
    schedule = kernel.schedule
    if schedule is None:
        return
    if schedule.mode == "clc" and not target.launch_control:
        sink.report(messages.NoLaunchControl(target=target.name, scheduler=schedule.name, at=schedule.span))
    if kernel.stated_grid is not None:
        _compare(kernel, schedule, kernel.stated_grid, sink)


def _compare(kernel: Kernel, schedule: tree.Schedule, stated: tree.StatedGrid, sink: Sink) -> None:
    derived = [launch_expression(extent) for extent in kernel.grid]
    written = [launch_expression(extent) for extent in stated.extents]
    dimensions = {size: None for tensor in kernel.tensors for size in tensor.shape if isinstance(size, str)}
    names = [*dimensions, *(scalar.name for scalar in kernel.scalars if scalar.type.is_integer)]
    names = [name for name in names if _mentions(name, [*derived, *written])]
    gpus = _GPUS if _mentions(MULTIPROCESSORS, derived) else (None,)
    # Two expressions are compared by value, not by term: `(M + BM - 1) // BM` and `ceildiv(M, BM)` differ once M + BM - 1 wraps around,
    # and such sizes do not occur.
    for gpu in gpus:
        for count, values in enumerate(product(_SIZES, repeat=len(names))):
            sizes = dict(zip(names, values, strict=True))
            one, other = (_extents(grid, {**sizes, MULTIPROCESSORS: gpu or 1}) for grid in (written, derived))
            if one != other:
                _report(schedule, stated, (one, other), sizes if gpu is None else sizes | {"multiprocessors": gpu}, sink)
                return
            if count > _MOST_COMPARED:
                break


def _mentions(name: str, expressions: list[LaunchExpression]) -> bool:
    return any(
        expression == name or (isinstance(expression, tuple) and _mentions(name, list(expression[1:])))
        for expression in expressions
    )


def _extents(grid: list[LaunchExpression], sizes: dict[str, int]) -> tuple[int, ...] | None:
    try:
        return tuple(evaluate(extent, sizes) for extent in grid)
    except ZeroDivisionError:
        return None


def _report(
    schedule: tree.Schedule,
    stated: tree.StatedGrid,
    grids: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    sizes: dict[str, int],
    sink: Sink,
) -> None:
    written, derived = ("no grid" if grid is None else f"a grid of {' x '.join(map(str, grid))}" for grid in grids)
    fixed = "every cluster of the grid is one tile" if schedule.mode == "clc" else "each block takes every n-th tile of n blocks"
    sink.report(
        messages.GridDiffers(
            scheduler=schedule.name,
            stated=written,
            derived=derived,
            sizes=", ".join(f"{name} = {value}" for name, value in sizes.items()) or "these constants",
            consequence=f"{fixed}: with another grid tiles would be left out, or computed twice",
            at=stated.span,
            declared=schedule.span,
        )
    )
