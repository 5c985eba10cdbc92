"""`columns(tile, first, count)` with a first column that varies over iterations, to process a tile panel by panel.

The tile belongs to a stage. The first column is built from constants, variables of loops with compile-time bounds and the CTA's place in
its cluster, so that all its values are known: each is checked, and it is uniform in a warp, which loads from tensor memory require.
"""

from itertools import product
from math import prod

from pipec.diag.catalogue.language import types as names
from pipec.diag.catalogue.tiles import columns as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Meaning
from pipec.sema.types import TileType
from pipec.sema.values.expected import as_buffer_ref, coordinate, known_int
from pipec.source import Span
from pipec.syntax import ast
from pipec.terms.machine import EXACT

_MOST_STARTS = 65_536  # combinations of loop values that are enumerated
_STARTS_PER_OPERATION = 16  # the cost of enumerating them in the kernel's budget
_MOST_AT_ONCE = 32  # columns that a thread reads from shared memory at once, by wide loads


def moving_columns(context: Context, bound: dict[str, ast.Expression], node: ast.Call) -> Meaning:
    """Takes the arguments of `columns`."""
    meaning = context.elaborate(bound["tile"])
    if isinstance(meaning, tree.BufferRef) and meaning.cta is not None:
        source = meaning  # reading values is allowed for another CTA's tile
    else:
        what = "the tile of columns that move with a loop"
        source = as_buffer_ref(
            context, meaning, bound["tile"].span, what, "compute with the columns: `columns(stage.tile, ...) * x`"
        )
    if source.transposed:
        found = "a transposed view, which only `mma` takes"
        context.fail(names.WrongType(what="the tile", expected="in its stored order", found=found, at=bound["tile"].span))
    count = known_int(context, bound["count"], "`count`")
    if count < 1:
        context.fail(messages.ColumnsCount(count=count, needed="at least one is needed here", at=bound["count"].span))
    first = coordinate(context, bound["first"])
    _check(context, source, first, count, bound["first"].span, node.span)
    return tree.ReadBuffer(source, TileType(source.buffer.dtype, source.buffer.rows, count), node.span, first)


def _check(context: Context, source: tree.BufferRef, start: tree.Expression, count: int, at: Span, span: Span) -> None:
    buffer = source.buffer
    values = _values(context, start)
    if values is None:
        context.fail(messages.UnknownStart(start=at.text(), at=at))
    outside = next((value for value in values if value < 0 or value + count > buffer.columns), None)
    if outside is not None:
        context.fail(
            messages.ColumnsOutside(
                tile=source.span.text(),
                columns=buffer.columns,
                count=count,
                start=outside,
                at=span,
                declared=buffer.span,
            )
        )
    unit = min(_MOST_AT_ONCE, count & -count)
    split = next((value for value in values if value % unit), None)
    # Loads from tensor memory can start at any 32-bit column, so only packed elements must not be split.
    wide = buffer.space == "shared" or buffer.dtype.bits < 32  # several elements per word
    if wide and split is not None:
        context.fail(messages.ColumnsSplit(tile=source.span.text(), count=count, unit=unit, start=split, at=at))


# What varies in a first column: the variable of a loop, or the name of a place in the cluster.
_Varying = tree.Variable | str


def _values(context: Context, start: tree.Expression) -> set[int] | None:
    """All values of the start; None if they are not known."""
    found: set[_Varying] = set()
    if not _collect(context, start, found):
        return None
    ordered = tuple(found)
    ranges = [context.ranges[one] if isinstance(one, tree.Variable) else range(_places(context)[one]) for one in ordered]
    combinations = prod(map(len, ranges))
    if combinations > _MOST_STARTS:
        return None
    # Enumeration is cheap, but a kernel may have many such reads: the operation budget bounds their total.
    context.spend(start.span, combinations // _STARTS_PER_OPERATION)
    return {_evaluate(start, dict(zip(ordered, values, strict=True))) for values in product(*ranges)}


def _places(context: Context) -> dict[str, int]:
    """How many values the places of a CTA in its cluster have."""
    x, y, z = context.cluster.shape
    return {"cta.x": x, "cta.y": y, "cta.z": z, "cta.rank": context.cluster.size}


def _collect(context: Context, expression: tree.Expression, found: set[_Varying]) -> bool:
    match expression:
        case tree.Constant():
            return True
        case tree.ReadVariable(variable) if variable in context.ranges:
            found.add(variable)
            return True
        case tree.Special(name=name) if name in _places(context):
            found.add(name)
            return True
        case tree.Binary(operator, left, right) if operator in EXACT:
            return _collect(context, left, found) and _collect(context, right, found)
        case _:
            return False


def _evaluate(expression: tree.Expression, values: dict[_Varying, int]) -> int:
    match expression:
        case tree.Constant(value):
            return int(value)
        case tree.ReadVariable(variable):
            return values[variable]
        case tree.Special(name=name):
            return values[name]
        case tree.Binary(operator, left, right):
            return EXACT[operator](_evaluate(left, values), _evaluate(right, values))
        case _:
            raise AssertionError("`_collect` lets no other expression through")
