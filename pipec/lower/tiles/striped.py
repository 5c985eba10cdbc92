"""Rows shared by neighbouring lanes or whole warps: each thread has vectors of the row at a fixed stride (pipec.kir.spread).

A thread processes its vectors in batches: all loads of a batch from global memory are issued before any result is used, so that many are
in flight.
"""

from collections.abc import Iterator, Sequence

from pipec.isa.dtypes import DTYPES
from pipec.isa.targets import WARP
from pipec.kir import spread
from pipec.kir.plan.roles import register_tiles
from pipec.kir.spread import Share, both, striped_share
from pipec.kir.walk import children
from pipec.lower.context import RoleContext, counted_loop
from pipec.lower.emit.arithmetic import binary, convert, is_narrow_float
from pipec.lower.emit.functions import call_function
from pipec.lower.emit.value import Value, integer
from pipec.lower.global_memory import GlobalRow, global_row
from pipec.lower.tiles.chunks import Chunk, Reader, Row
from pipec.lower.tiles.reductions import fold, fold_lanes, fold_tree, fold_warps, identity
from pipec.lower.tiles.vectors import Vector, load_vectors
from pipec.sema import tree
from pipec.sema.types import TileType

_BATCH = 8  # vectors per batch, at most
_LOADED_BYTES = 128  # loaded by a thread before it uses any of them: in flight for every thread, and in its registers
_BESIDE = 16  # registers of a thread for addresses and what is computed, while it has the tiles that it keeps and what it loaded
_KEPT_BYTES = 256  # likewise, if they stay in registers

_F32 = DTYPES["f32"]


def batches(
    reader: Reader, expression: tree.Expression, rows: Sequence[Row], columns: int, *, written_out: bool, kept: bool = False
) -> Iterator[list[Chunk]]:
    """This thread's part of its rows, one vector per chunk; a run-time loop if one row is long and not to be `written_out`."""
    row = rows[0]
    share = striped_share(row.map, columns)
    together = _together(reader, expression, row, kept=kept)
    if written_out or len(rows) > 1:
        places = [(one, number) for one in rows for number in range(share.chunks)]
        for start in range(0, len(places), together):
            chunks = [_chunk(reader.role, one, share, number) for one, number in places[start : start + together]]
            yield _loaded(reader, expression, chunks)
        return
    whole = columns // share.step  # stripes in which every thread has a vector
    rounds = whole // together
    if rounds:
        with counted_loop(reader.role.kernel, rounds, f"{reader.role.prefix}.batch") as index:
            first = reader.role.builder.multiply(index, together * share.step)
            yield _loaded(reader, expression, [_further(reader.role, row, share, first, number) for number in range(together)])
    rest = range(rounds * together, share.chunks)
    if rest:
        yield _loaded(reader, expression, [_chunk(reader.role, row, share, number) for number in rest])


def _together(reader: Reader, expression: tree.Expression, row: Row, *, kept: bool) -> int:
    """The number of vectors in a batch."""
    loaded = sum(row.map.vector * node.type.dtype.bytes for node, _ in _loads(reader, expression))
    if not loaded:
        return _BATCH
    return max(1, (_KEPT_BYTES if kept else min(_LOADED_BYTES, _room(reader.role, expression, row))) // loaded)


def _room(role: RoleContext, expression: tree.Expression, row: Row) -> int:
    """Bytes for which a thread has registers beside the tiles that it keeps: with more of them, ptxas would spill."""
    kept = 0
    for variable in register_tiles(expression, role.lets):
        tile = variable.type
        assert isinstance(tile, TileType)
        kept += row.map.blocks * row.map.registers_of_thread(tile.columns, tile.dtype) if tile.columns > 1 else 0
    return max(0, 4 * (role.kernel.plan.registers_of(role.plan) - kept - _BESIDE))


def _chunk(role: RoleContext, row: Row, share: Share, number: int) -> Chunk:
    """A vector; a thread without one gets that at the start of the row, which is not used."""
    builder = role.builder
    column = spread.inside_panel(builder, share, row.part, integer(number * share.step))
    present = spread.has_vector(builder, share, column, number)
    if present is not None:
        # An address inside the row, so that the access cannot fault; a select costs less than a branch around a load.
        column = builder.select(present, column, integer(0))
    register = number * share.count if row.map.in_registers else None
    return Chunk(row, column, column, 0, share.count, register, present=present)


def _further(role: RoleContext, row: Row, share: Share, first: Value, number: int) -> Chunk:
    column = spread.inside_panel(role.builder, share, row.part, role.builder.add(first, number * share.step))
    return Chunk(row, column, column, 0, share.count)


def panel_chunks(
    reader: Reader, expression: tree.Expression, row: Row, panel: tuple[Value, int | None], columns: int
) -> list[Chunk]:
    """This thread's vectors in a panel of this many columns of the tile, with the panel's number if it is known.

    A stripe divides the panel, or the panel the stripe; or the number is known.
    """
    builder, width = reader.role.builder, spread.stripe(row.map)
    first = builder.multiply(panel[0], columns)
    if columns % width == 0:
        steps = columns // width
        starts = [(builder.add(first, step * width), step) for step in range(steps)]
        known = 0 if panel[1] is None else panel[1] * steps
    elif panel[1] is None:
        stripe = builder.bits("udiv", first, width)
        starts, known = [(builder.multiply(stripe, width), 0)], 0
    else:
        known = panel[1] * columns // width
        last = ((panel[1] + 1) * columns - 1) // width
        starts = [(integer((known + step) * width), step) for step in range(last - known + 1)]
    chunks = []
    for start, step in starts:
        column = builder.binary("add", builder.multiply(row.part, row.map.vector), start)
        present = None
        if columns % width:
            present = builder.compare("eq", builder.bits("udiv", column, columns), panel[0])
            column = builder.select(present, column, first)
        register = (known + step) * row.map.vector if panel[1] is not None and row.map.in_registers else None
        chunks.append(Chunk(row, column, column, 0, row.map.vector, register, present=present))
    return _loaded(reader, expression, chunks)


# ------------------------------------------------------------------------------------------------------------- global memory


def _loaded(reader: Reader, expression: tree.Expression, chunks: list[Chunk]) -> list[Chunk]:
    """The chunks, with the expression's operands in global memory loaded."""
    vectors: list[Vector] = []
    places: list[tuple[Chunk, tree.ReadTensor]] = []
    for node, ahead in _loads(reader, expression):
        sources: dict[int, GlobalRow] = {}  # by the row's block
        for chunk in chunks:
            if (source := sources.get(chunk.row.number or 0)) is None:
                source = sources[chunk.row.number or 0] = _row_of(reader, node, chunk.row)
            place = chunk.moved(reader.role.builder, ahead) if ahead else chunk
            if node not in place.cache:
                allowed = both(reader.role.builder, place.present, place.row.working)
                vectors.append(Vector(source, place.column, place.count, node.type.dtype, allowed))
                places.append((place, node))
    if vectors:
        for (place, node), values in zip(places, load_vectors(reader.role, vectors), strict=True):
            place.cache[node] = values
    return chunks


def _loads(reader: Reader, expression: tree.Expression) -> Iterator[tuple[tree.ReadTensor, int]]:
    """What is read along the row, and its column offset; one-column expressions have been computed before."""
    stack, seen = [(expression, 0)], set[tuple[tree.Expression, int]]()
    while stack:
        node, ahead = stack.pop()
        node = reader.resolve(node)
        if (node, ahead) in seen or not isinstance(node.type, TileType) or node.type.columns == 1:
            continue
        seen.add((node, ahead))
        if isinstance(node, tree.ReadTensor):
            yield node, ahead
            continue
        further = ahead + node.first if isinstance(node, tree.Columns) else ahead
        stack += [(child, further) for child in reversed(children(node))]


def _row_of(reader: Reader, node: tree.ReadTensor, row: Row) -> GlobalRow:
    return global_row(reader.role, node.source.tensor, reader.scalars[node], reader.row_in_memory(node, row))


# ---------------------------------------------------------------------------------------------------------------- reductions


def reduce(reader: Reader, node: tree.RowReduce, operand: tree.Expression, row: Row) -> Value:
    """Each thread folds its own elements; then the lanes of the row, and its warps."""
    role, builder, tile = reader.role, reader.role.builder, operand.type
    assert isinstance(tile, TileType)
    dtype = _F32 if is_narrow_float(tile.dtype) else tile.dtype
    total = builder.variable(dtype.llvm, f"{role.prefix}.reduced")
    # Threads without a vector of a short row contribute the neutral element.
    total.write(identity(node.function, dtype))
    written_out = row.map.in_registers and any(register_tiles(operand, role.lets))
    for chunks in batches(reader, operand, [row], tile.columns, written_out=written_out):
        parts = [_fold_chunk(reader, node, operand, chunk) for chunk in chunks]
        total.write(fold(builder, node.function, dtype, [total.read(), fold_tree(builder, node.function, dtype, parts)]))
    result = fold_lanes(role, node.function, dtype, total.read(), min(WARP, row.map.split))
    if row.map.warps_of_row > 1:
        result = fold_warps(role, node.function, dtype, result, row.map, row.index)
    return convert(builder, [result], dtype, node.type.dtype)[0]


def _fold_chunk(reader: Reader, node: tree.RowReduce, operand: tree.Expression, chunk: Chunk) -> Value:
    tile = operand.type
    assert isinstance(tile, TileType)
    builder = reader.role.builder
    dtype = _F32 if is_narrow_float(tile.dtype) else tile.dtype
    product = _factors(reader, node, operand)
    if product is not None and chunk.present is None:
        left, right = (reader.values(factor, chunk) for factor in product)
        total = binary(builder, "*", dtype, left[0], right[0])
        for pair in zip(left[1:], right[1:], strict=True):
            total = call_function(builder, "fma", dtype, [*pair, total])
        return total
    values: Sequence[Value] = convert(builder, reader.values(operand, chunk), tile.dtype, dtype)
    if chunk.present is not None:
        values = [builder.select(chunk.present, value, identity(node.function, dtype)) for value in values]
    return fold_tree(builder, node.function, dtype, values)


def _factors(reader: Reader, node: tree.RowReduce, operand: tree.Expression) -> tuple[tree.Expression, tree.Expression] | None:
    """For a sum of products, which are accumulated by fma: one rounding and one instruction less for each."""
    operand = reader.resolve(operand)
    assert isinstance(operand.type, TileType)
    fused = node.function == "sum" and operand.type.dtype.name in ("f32", "f64")
    if fused and isinstance(operand, tree.Binary) and operand.operator == "*":
        return operand.left, operand.right
    return None
