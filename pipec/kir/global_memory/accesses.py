"""Which operations of a role read and write global memory that the kernel itself writes, and which of them may conflict.

Only tensors that the kernel writes matter. A kernel that reads some tensors and stores others, tile by tile, has no conflicting accesses
here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pipec.kir.global_memory.iterations import apart_in_other_iterations
from pipec.kir.global_memory.places import TileBox, apart, overlap_by_numbers, place_of, same
from pipec.kir.ir import Branch, Kernel, Role
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Loop
from pipec.kir.walk import children, operands, subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import Reduction

THREADS: Final[tree.Engine] = "threads"
BULK: Final[tree.Engine] = "bulk"
COPIES: Final[tree.Engine] = "copies"


@record(eq=False)
class Access:
    """One operation's use of a tensor. `site` is its index in the block, or the index after the last for the block's condition.

    `where`: the slice that `place` locates. `handle`: the stage on whose full barrier a copy into shared memory completes. `reduce`: it
    combines with the existing value, in any order. `elementwise`: each thread reads exactly the elements that it then computes.
    `anywhere`: rows that are not known here, wherever `place` is.
    """

    tensor: str
    block: int
    site: int
    writes: bool
    engine: tree.Engine
    place: TileBox
    where: tree.TensorSlice
    span: Span
    operation: tree.Operation | None
    handle: tree.Handle | None = None
    reduce: Reduction | None = None
    elementwise: bool = False
    anywhere: bool = False


@record
class RoleAccesses:
    role: Role
    accesses: tuple[Access, ...]


def collect(kernel: Kernel, tensors: frozenset[str] | None = None) -> tuple[RoleAccesses, ...]:
    """For each role that touches one of the tensors, the accesses to them, but for turns; None: those that the kernel stores to."""
    names = written_tensors(kernel, "semaphore") if tensors is None else tensors
    found: list[RoleAccesses] = []
    for role in kernel.roles if names else ():
        accesses = tuple(_accesses(role, names))
        if accesses:
            found.append(RoleAccesses(role, accesses))
    return tuple(found)


def written_tensors(kernel: Kernel, *but: str) -> frozenset[str]:
    """The names of the tensors to which the kernel stores, by any engine except these."""
    return frozenset(
        memory.place.tensor.name
        for role in kernel.roles
        for block in role.blocks
        for operation in block.operations
        if (memory := operation.effects.memory) is not None and memory.writes and memory.engine not in but
    )


def _accesses(role: Role, tensors: frozenset[str]) -> Iterator[Access]:
    values = role.values
    lets = lazy_tiles(role)
    for number, block in enumerate(role.blocks):
        for site, operation in enumerate(block.operations):
            yield from _of_operation(operation, number, site, values, tensors)
            if not (isinstance(operation, tree.Assign) and operation.variable in lets):  # these are read at their uses
                for operand in operands(operation):
                    yield from _reads(operand, number, site, operation, values, lets, tensors)
        if isinstance(block.terminator, Branch):
            yield from _reads(block.terminator.condition, number, len(block.operations), None, values, lets, tensors)


def _of_operation(operation: tree.Operation, block: int, site: int, values: Values, tensors: frozenset[str]) -> Iterator[Access]:
    memory = operation.effects.memory
    if memory is None or memory.place.tensor.name not in tensors:
        return
    match operation:
        case tree.TmaLoad() | tree.CopyAsync():
            engine = BULK if isinstance(operation, tree.TmaLoad) else COPIES
            buffer, source = operation.destination.buffer, operation.source
            place = place_of(source, _tile_extent(source, operation.destination.rows, buffer.columns, buffer), values)
            yield Access(
                source.tensor.name,
                block,
                site,
                False,
                engine,
                place,
                source,
                operation.span,
                operation,
                operation.destination.handle,
            )
        case tree.TmaStore():
            buffer, target = operation.source.buffer, operation.destination
            place = place_of(target, _tile_extent(target, buffer.rows, buffer.columns, buffer), values)
            yield Access(
                target.tensor.name, block, site, True, BULK, place, target, operation.span, operation, reduce=operation.reduce
            )
        case tree.Store():
            target, tile = operation.destination, operation.placed
            place = place_of(target, _tile_extent(target, tile.rows, tile.columns, None), values)
            engine = BULK if operation.path == "tma" else THREADS
            anywhere = isinstance(operation.value, tree.Scattered)
            yield Access(
                target.tensor.name, block, site, True, engine, place, target, operation.span, operation, reduce=operation.reduce,
                anywhere=anywhere,
            )  # fmt: skip
        case _:
            pass


def reads_of(role: Role, value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> Iterator[Access]:
    """What an expression reads, wherever it is evaluated."""
    return _reads(value, 0, 0, None, role.values, lets)


def _reads(
    value: tree.Expression, block: int, site: int, operation: tree.Operation | None, values: Values,
    lets: dict[tree.Variable, tree.Expression], tensors: frozenset[str] | None = None,
) -> Iterator[Access]:  # fmt: skip
    """`tensors`: the names of those that matter; None if all do."""
    own: set[tree.Expression] | None = None  # most values read no tensor
    for node in subexpressions(value, lets):
        match node:
            case tree.ReadTensor(source=source, axis=axis, type=TileType(rows=rows, columns=columns)):
                extent = _vector_extent(source, rows, columns) if axis is not None else _tile_extent(source, rows, columns, None)
            case tree.ReadElement(source=source):
                extent = (1,) * len(source.tensor.shape)
            case _:
                continue
        if tensors is not None and source.tensor.name not in tensors:
            continue
        if own is None:
            turned = isinstance(operation, tree.Store) and operation.transposed
            own = set() if turned else _elementwise(value, lets)
        place = place_of(source, extent, values)
        anywhere = isinstance(node, tree.ReadTensor) and node.at is not None
        yield Access(
            source.tensor.name, block, site, False, THREADS, place, source, node.span, operation, elementwise=node in own,
            anywhere=anywhere,
        )  # fmt: skip


def _elementwise(value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> set[tree.Expression]:
    """The tiles whose elements each thread reads only where it computes the same elements of the value: not below reductions and slices
    of tiles."""
    found: set[tree.Expression] = set()
    below: set[tree.Expression] = set()
    for node in subexpressions(value, lets):
        if isinstance(node, tree.ReadTensor) and node.at is None and node.type == value.type:
            found.add(node)
        if isinstance(node, tree.RowReduce | tree.Columns):
            below.update(inner for child in children(node) for inner in subexpressions(child, lets))
    return found - below


def _tile_extent(where: tree.TensorSlice, rows: int, columns: int, buffer: tree.Buffer | None) -> tuple[int | None, ...]:
    """Rows and columns run along the last two axes. Tiles of scale factors are stored in blocks and are not tracked."""
    axes = len(where.tensor.shape)
    if buffer is not None and buffer.dtype.name.startswith("ue"):
        return (None,) * axes
    return (rows * columns,) if axes == 1 else (1,) * (axes - 2) + (rows, columns)


def _vector_extent(where: tree.TensorSlice, rows: int, columns: int) -> tuple[int | None, ...]:
    return (1,) * (len(where.tensor.shape) - 1) + (rows * columns,)


# --------------------------------------------------------------------------------------------------------- who meets whom


def commute(one: Access, other: Access) -> bool:
    return one.reduce is not None and one.reduce == other.reduce and one.writes and other.writes


def may_meet(one: Access, other: Access, loops: Mapping[Loop, int | None] | None = None, *, followed: bool = True) -> bool:
    """Whether the order of two accesses can matter; `loops` are those in which they are in different iterations (None: in none).

    Stores of tiles that are distributed over blocks are assumed to be disjoint unless they are known to be the same; all others must be
    proved disjoint. `followed`: whether all of the loops are counted.
    """
    if _shown_apart(one, other, loops, followed):
        return False
    dealt_out = one.writes and other.writes and one.place.dealt_out and other.place.dealt_out
    return not dealt_out or overlap_by_numbers(one.place, other.place, loops or {})


def not_compared(one: Access, other: Access, loops: Mapping[Loop, int | None] | None = None, *, followed: bool = True) -> bool:
    """Whether two stores are neither proved disjoint nor known to overlap."""
    if not (one.writes and other.writes) or _shown_apart(one, other, loops, followed):
        return False
    return not overlap_by_numbers(one.place, other.place, loops or {})


def _shown_apart(one: Access, other: Access, loops: Mapping[Loop, int | None] | None, followed: bool) -> bool:
    """Whether the order of two accesses provably cannot matter."""
    if one.tensor != other.tensor or not (one.writes or other.writes) or commute(one, other):
        return True
    if apart(one.place, other.place, loops or {}):
        return True
    return loops is not None and followed and apart_in_other_iterations(one.place, other.place, loops)


def own_elements(read: Access, write: Access) -> bool:
    """Whether each thread reads, in one statement, just the elements that it then writes."""
    return read.elementwise and same(read.place, write.place)
