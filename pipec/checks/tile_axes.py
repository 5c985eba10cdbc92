"""Along which dimensions of a tensor a tile lies.

A tile has rows and columns, and they run along the last two dimensions of its tensor; of the others it takes one element each. Where
the place of the tile moves along one of those others by the number of the tile's rows, and not along the dimension of the rows, the
author meant the rows to run there: all but every n-th element of that dimension would be left out.
"""

from collections.abc import Iterator

from pipec.diag.catalogue import tile_axes as messages
from pipec.diag.message import Sink
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType

_DEEPEST = 16  # variables that stand for each other


@record
class _Names:
    """What variables of a role stand for: the only value that is assigned to them, or the step of their loop."""

    values: dict[tree.Variable, tree.Expression | None]
    steps: dict[tree.Variable, int]


def check(kernel: tree.Kernel, sink: Sink) -> None:
    for role in kernel.roles:
        statements = tuple(_statements(role.body))
        names = _names(statements)
        for statement in statements:
            for place, rows in _places(statement):
                _check(place, rows, names, sink)


def _statements(body: tuple[tree.Statement, ...]) -> Iterator[tree.Statement]:
    for statement in body:
        yield statement
        match statement:
            case tree.If():
                yield from _statements((*statement.then, *statement.otherwise))
            case tree.For() | tree.While() | tree.Elect():
                yield from _statements(statement.body)
            case _:
                pass


def _names(statements: tuple[tree.Statement, ...]) -> _Names:
    values: dict[tree.Variable, tree.Expression | None] = {}
    steps: dict[tree.Variable, int] = {}
    for statement in statements:
        if isinstance(statement, tree.Assign):
            values[statement.variable] = None if statement.variable in values else statement.value
        elif isinstance(statement, tree.For):
            steps[statement.variable] = statement.step
    return _Names(values, steps)


def _places(statement: tree.Statement) -> Iterator[tuple[tree.TensorSlice, int]]:
    """The places of tiles that the statement copies, with the tiles' rows."""
    match statement:
        case tree.TmaLoad(destination=tile, source=place) | tree.TmaStore(destination=place, source=tile):
            yield place, tile.buffer.rows
        case tree.Store(destination=place, value=value) if isinstance(value.type, TileType):
            yield place, value.type.rows
        case _:
            pass


def _check(place: tree.TensorSlice, rows: int, names: _Names, sink: Sink) -> None:
    if rows == 1 or len(place.coordinates) < 3:
        return
    *outer, along, _ = place.coordinates
    if _steps(along, rows, names, _DEEPEST):
        return
    for axis, coordinate in enumerate(outer):
        if not _steps(coordinate, rows, names, _DEEPEST):
            continue
        sink.report(
            messages.RowsAlongAnother(
                tensor=place.tensor.name,
                rows=rows,
                dimension=place.tensor.shape[-2],
                moved=place.tensor.shape[axis],
                columns=place.tensor.shape[-1],
                at=coordinate.span,
                along=along.span,
                declared=place.tensor.span,
            )
        )
        return


def _steps(expression: tree.Expression, rows: int, names: _Names, depth: int) -> bool:
    """Whether a term of the sum moves by `rows` from one value of something else to the next."""
    match expression:
        case tree.Binary("+" | "-", left, right) if depth:
            return _steps(left, rows, names, depth - 1) or _steps(right, rows, names, depth - 1)
        case tree.Binary("*", left, right):
            return any(isinstance(side, tree.Constant) and side.value == rows for side in (left, right))
        case tree.ReadVariable(variable) if variable in names.steps:
            return names.steps[variable] == rows
        case tree.ReadVariable(variable) if depth and (value := names.values.get(variable)) is not None:
            return _steps(value, rows, names, depth - 1)
        case _:
            return False
