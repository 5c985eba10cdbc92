"""Register tiles with wgmma's distribution of an accumulator (pipec.lower.tiles.fragments), stored by the threads themselves."""

from pipec.kir import spread
from pipec.kir.spread import GROUP_COLUMNS
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.global_memory import GlobalRow, first_rows, global_row, store_element
from pipec.lower.tiles.chunks import Chunk
from pipec.lower.tiles.fragments import chunks_of, from_lane, pairs_of, prepared_rows
from pipec.lower.tiles.reader import TileReader
from pipec.lower.tiles.tma import coordinates
from pipec.lower.tiles.vectors import Vector, store_vectors
from pipec.sema import tree
from pipec.sema.types import TileType

_LANES = 4  # lanes that share a row; each has two columns of a group of eight


def store_direct(role: RoleContext, operation: tree.Store, rows: Value | None) -> None:
    """Every thread stores under bounds: any stride, any size."""
    plan, value = role.kernel.plan, operation.value
    assert isinstance(value.type, TileType)
    tensor, columns = operation.destination.tensor, value.type.columns
    reader = TileReader(role)
    reader.prepare(value)
    origin = coordinates(role, operation.destination)[-len(tensor.shape) :]
    mine = prepared_rows(role, reader, value, plan.row_maps[operation])
    by_vectors = not operation.transposed and operation.reduce is None and columns % GROUP_COLUMNS == 0
    for row, chunk in chunks_of(role, mine, columns, 0, columns):
        placed = reader.row_stored(operation, origin, row)
        target = None if operation.transposed else first_rows(role, global_row(role, tensor, origin, placed), row.index, rows)
        if target is not None and by_vectors and value.type.dtype.bits >= 8:
            _store_chunk(role, reader, value, chunk, target)
        else:
            _store_elements(role, reader, operation, chunk, target, (origin, placed))


def _store_chunk(role: RoleContext, reader: TileReader, value: tree.Expression, chunk: Chunk, target: GlobalRow) -> None:
    """Of four groups of 16-bit elements, each of a row's four lanes gets one, 16 bytes; otherwise a lane stores its pairs."""
    assert isinstance(value.type, TileType) and chunk.place is not None
    builder, dtype = role.builder, value.type.dtype
    groups, pairs = list(chunk.place.groups), pairs_of(reader, value, chunk)
    whole = len(groups) // _LANES * _LANES if dtype.bits == 16 else 0
    vectors: list[Vector] = []
    words: list[list[Value]] = []
    for at in range(0, whole, _LANES):
        column = builder.add(builder.multiply(builder.bits("and", role.lane, 3), GROUP_COLUMNS), groups[at] * GROUP_COLUMNS)
        vectors.append(Vector(target, column, GROUP_COLUMNS, dtype, None))
        words.append(_exchanged(role, pairs[at : at + _LANES]))
    if vectors:
        store_vectors(role, vectors, words, None)
    if whole == len(groups):
        return
    rest = [Vector(target, spread.fragment_column(builder, role.lane, group), 2, dtype, None) for group in groups[whole:]]
    store_vectors(role, rest, [_words(role, pair) for pair in pairs[whole:]], None)


def _words(role: RoleContext, pair: Value) -> list[Value]:
    """A pair as words of 32 bits."""
    builder = role.builder
    match pair.type:
        case "i16":
            return [builder.cast("zext", pair, "i32")]
        case "i32":
            return [pair]
        case _:
            return [builder.element(pair, index, "i32") for index in range(int(pair.type.split()[0].removeprefix("<")))]


def _exchanged(role: RoleContext, words: list[Value]) -> list[Value]:
    """From each of a row's four lanes its word of this lane's group: a 4x4 transpose, first by single lanes, then by pairs."""
    builder = role.builder
    for distance in (1, 2):
        odd = builder.compare("ne", builder.bits("and", role.lane, distance), integer(0))
        other = builder.bits("xor", role.lane, distance)
        for low in (at for at in range(_LANES) if not at & distance):
            high = low + distance
            given = from_lane(role, builder.select(odd, words[low], words[high]), other)
            words[low], words[high] = builder.select(odd, given, words[low]), builder.select(odd, words[high], given)
    return words


def _store_elements(
    role: RoleContext, reader: TileReader, operation: tree.Store, chunk: Chunk, target: GlobalRow | None,
    place: tuple[list[Value], Value],
) -> None:  # fmt: skip
    """`place`: the store's first element, and how far from it the row goes."""
    origin, placed = place
    value, tensor = operation.value, operation.destination.tensor
    assert isinstance(value.type, TileType) and chunk.place is not None
    for index, element in enumerate(reader.values(value, chunk)):
        if chunk.place.groups[index // 2] * GROUP_COLUMNS + index % 2 >= value.type.columns:
            continue  # not even the first lane has it
        position, inside = chunk.position(role.builder, index), chunk.inside(role.builder, index)
        if target is None:
            turned = global_row(role, tensor, origin, position)
            store_element(role, turned, chunk.row.index, element, value.type.dtype, inside, operation.reduce)
            continue
        if len(tensor.shape) == 1 and value.type.rows > 1:
            position = placed  # one value per row
        store_element(role, target, position, element, value.type.dtype, inside, operation.reduce)
