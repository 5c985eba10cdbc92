"""Along which dimensions of a tensor a tile extends.

A tile has rows and columns, which run along the last two dimensions of its tensor; of the other dimensions it takes one element each. If
the coordinate of another dimension advances by the number of the tile's rows, and that of the row dimension does not, the author meant
the rows to run there: otherwise all but every n-th element of that dimension would be skipped. A vector runs along the last dimension,
and the same holds for its elements, and for a tile of one column or one row.

A coordinate traverses a dimension if it counts blocks of the grid, or iterations of a loop, and their number is computed from that
dimension. Two coordinates that each traverse the dimension of the other are swapped.
"""

from itertools import combinations

from pipec.diag.catalogue.tiles import tile_axes as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.values.analysis import Values
from pipec.kir.walk import nodes
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, as_term, operands
from pipec.terms.walk import atoms, leaves

_BITS = 32  # of a coordinate
_LAST = "a vector lies along the last dimension"
_ROWS = "a tile's rows lie along the last dimension but one"


@record
class _Line:
    """What is said of a tile of one column or one row: the operation, what it does to the elements, and the right form for each."""

    operation: str
    does: str
    column: str
    row: str


_READ = _Line(
    "load",
    "read",
    "elements of a row are `per_row({tensor}[...], {count})`, or `load({tensor}[...], 1, {count})`",
    "a column of `{tensor}` is `load({tensor}[...], {count}, 1)`",
)
_WRITTEN = _Line(
    "store",
    "stored",
    "a tile of one column is stored along a row of `{tensor}` by `store.direct({tensor}[...], tile.T)`",
    "a tile of one row is stored along a column of `{tensor}` by `store.direct({tensor}[...], tile.T)`",
)


def check(kernel: ir.Kernel, sink: Sink) -> None:
    for role in kernel.roles:
        for block in role.blocks:
            for operation in block.operations:
                _check_placed(operation, role.values, sink)
                for read in nodes(operation):
                    if isinstance(read, tree.ReadTensor):
                        _check_read(read, role.values, sink)


def _check_placed(operation: tree.Operation, values: Values, sink: Sink) -> None:
    """Checks the position of the tile that the operation copies, if it does."""
    match operation:
        case tree.TmaLoad(destination=tile, source=place) | tree.TmaStore(destination=place, source=tile):
            if not _swapped(place, values, sink):
                _check(place, tile.rows, values, sink)
        case tree.Store(destination=place):
            shape = operation.placed
            if not _swapped(place, values, sink) and not _check_line(place, shape, _WRITTEN, values, sink):
                _check(place, shape.rows, values, sink)
        case _:
            pass


def _check_read(read: tree.ReadTensor, values: Values, sink: Sink) -> None:
    if _swapped(read.source, values, sink):
        return
    if read.axis is not None:
        _check_vector(read, values, sink)
    elif read.at is None and not _check_line(read.source, read.type, _READ, values, sink):
        _check(read.source, read.type.rows, values, sink)


def _check_vector(read: tree.ReadTensor, values: Values, sink: Sink) -> None:
    place, count = read.source, read.type.rows * read.type.columns
    *outer, along = place.coordinates
    steps, size = _steps(along, values), place.tensor.shape[-1]
    # One row of each block of rows may be meant, unless the vectors overlap or end outside.
    meant = not steps and not (isinstance(size, int) and size < count)
    if count == 1 or meant or any(step % count == 0 for step in steps):
        return
    for axis, coordinate in enumerate(outer):
        if count in _steps(coordinate, values):
            second_last = read.axis == 0 and axis == len(outer) - 1
            sink.report(
                messages.VectorAlongAnother(
                    tensor=place.tensor.name,
                    vector=("per_row", "per_column")[read.axis or 0],
                    count=count,
                    dimension=place.tensor.shape[-1],
                    moved=place.tensor.shape[axis],
                    lies=_LAST,
                    does="read",
                    hint=f"a column of `{place.tensor.name}` is `load({place.tensor.name}[...], {count}, 1)`"
                    if second_last
                    else None,
                    at=coordinate.span,
                    along=along.span,
                    declared=place.tensor.span,
                )
            )
            return


def _check_line(place: tree.TensorSlice, shape: TileType, line: _Line, values: Values, sink: Sink) -> bool:
    """Reports a tile of one column, or of one row, whose position moves by its elements along the other dimension; whether it is one."""
    count = max(shape.rows, shape.columns)
    if min(shape.rows, shape.columns) > 1 or count == 1 or len(place.coordinates) < 2:
        return False
    own, other = (-2, -1) if shape.columns == 1 else (-1, -2)
    along, across = place.coordinates[own], place.coordinates[other]
    size, steps = place.tensor.shape[own], _steps(along, values)
    meant = not steps and not (isinstance(size, int) and size < count)
    if meant or any(step % count == 0 for step in steps) or count not in _steps(across, values):
        return False
    tensor = place.tensor.name
    sink.report(
        messages.VectorAlongAnother(
            tensor=tensor,
            vector=line.operation,
            count=count,
            dimension=place.tensor.shape[own],
            moved=place.tensor.shape[other],
            lies=_ROWS if shape.columns == 1 else _LAST,
            does=line.does,
            hint=(line.column if shape.columns == 1 else line.row).format(tensor=tensor, count=count),
            at=across.span,
            along=along.span,
            declared=place.tensor.span,
        )
    )
    return True


def _check(place: tree.TensorSlice, rows: int, values: Values, sink: Sink) -> None:
    # With two dimensions the rows can only run along one.
    if rows == 1 or len(place.coordinates) < 3:
        return
    *outer, along, _ = place.coordinates
    if any(step % rows == 0 for step in _steps(along, values)):
        return
    for axis, coordinate in enumerate(outer):
        if rows not in _steps(coordinate, values):
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


def _swapped(place: tree.TensorSlice, values: Values, sink: Sink) -> bool:
    """Reports coordinates that stand in each other's place; whether there are any."""
    shape = place.tensor.shape
    walked = [_walked(coordinate, values) for coordinate in place.coordinates]
    for (one, mine), (other, theirs) in combinations(enumerate(shape), 2):
        # (With equal extents, or if a coordinate also traverses its own dimension, either order may be meant.)
        if mine == theirs or mine in walked[one] or theirs in walked[other]:
            continue
        if mine in walked[other] and theirs in walked[one]:
            sink.report(
                messages.CoordinatesSwapped(
                    tensor=place.tensor.name,
                    first=mine,
                    second=theirs,
                    at=place.coordinates[one].span,
                    other=place.coordinates[other].span,
                    declared=place.tensor.span,
                )
            )
            return True
    return False


def _walked(coordinate: tree.Expression, values: Values) -> set[str | int]:
    """The dimensions that determine the range of the coordinate."""
    found: set[str | int] = set()
    for atom in atoms(values.of(coordinate)):
        number = _number(atom, values)
        if number is not None:
            found.update(str(one.operands[0]) for one in leaves(number) if one.operator is Operator.DIMENSION)
    return found


def _number(atom: Atom, values: Values) -> Term | None:
    """The number of values of a counted atom; None for any other. (The x coordinate of a tile is a remainder.)"""
    if atom.operator is Operator.REMAINDER:
        return operands(atom)[1]
    return values.counts[atom].stop if atom in values.counts else values.blocks(atom)


def _steps(coordinate: tree.Expression, values: Values) -> set[int]:
    """The strides of the coordinate in each of its parts; a loop counter advances by the loop's step, a loop-carried value by what is
    added to it."""
    parts = [(atom, factor) for atom, factor in values.of(coordinate).parts if factor]
    for atom, factor in parts:
        # A product that may exceed 32 bits is WRAPPED; its strides are the same.
        if atom.operator is Operator.WRAPPED:
            parts += [(inner, factor * own) for inner, own in operands(atom)[0].parts]
    return {factor * _step(atom, values) for atom, factor in parts}


def _step(atom: Atom, values: Values) -> int:
    if atom in values.counts:
        return values.counts[atom].step
    row = values.recurrences.get(atom)
    added = congruent(row.following - as_term(atom), _BITS).number if row is not None else None
    return 1 if added is None else added
