"""Stores and assignments of tiles whose rows are shared by several threads (pipec.lower.tiles.striped)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipec.isa.dtypes import DTYPES, DType
from pipec.kir.spread import both, first_part, stripe
from pipec.lower.context import RoleContext, repeated
from pipec.lower.emit.memory import pack, pack_converted, row_address, store_words
from pipec.lower.emit.value import Value, integer
from pipec.lower.global_memory import first_rows, global_row
from pipec.lower.synchronisation.pipelines import shared_tile
from pipec.lower.tiles.chunks import Chunk, Row
from pipec.lower.tiles.reader import TileReader
from pipec.lower.tiles.staging import staged_fill
from pipec.lower.tiles.striped import batches, panel_chunks
from pipec.lower.tiles.tma import coordinates
from pipec.lower.tiles.vectors import Vector, store_columns, store_vectors
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of

_WORD_BYTES = 4
_STORED_BOOL = DTYPES["u8"]


def _rows(role: RoleContext, reader: TileReader, operation: tree.Operation, value: tree.Expression) -> list[Row]:
    """This thread's rows, with values that are constant along them."""
    reader.prepare(value)
    row_map = role.kernel.plan.row_maps[operation]
    rows = [reader.row(row_map, integer(number), number) for number in range(row_map.blocks)]
    for row in rows:
        reader.prepare_row(value, row)
    return rows


def store_direct(role: RoleContext, operation: tree.Store, rows: Value | None) -> None:
    """Each thread stores its vectors with bounds checks: any stride, any size."""
    value = operation.value
    assert isinstance(value.type, TileType) and value.type.columns > 1
    tensor = operation.destination.tensor
    reader = TileReader(role)
    origin = coordinates(role, operation.destination)[-len(tensor.shape) :]
    (row,) = _rows(role, reader, operation, value)
    placed = reader.row_stored(operation, origin, row)
    target = first_rows(role, global_row(role, tensor, origin, placed), row.index, rows)
    for chunks in batches(reader, value, [row], value.type.columns, written_out=row.map.in_registers):
        vectors = [
            Vector(target, one.column, one.count, value.type.dtype, both(role.builder, one.present, row.working))
            for one in chunks
        ]
        store_vectors(role, vectors, [_words(reader, value, chunk) for chunk in chunks], operation.reduce)


def store_transposed(role: RoleContext, operation: tree.Store) -> None:
    """Element by element: a thread's part of a row goes to as many rows of the tensor."""
    value = operation.value
    assert isinstance(value.type, TileType)
    reader = TileReader(role)
    origin = coordinates(role, operation.destination)[-len(operation.destination.tensor.shape) :]
    (row,) = _rows(role, reader, operation, value)
    for chunks in batches(reader, value, [row], value.type.columns, written_out=row.map.in_registers):
        for chunk in chunks:
            store_columns(
                role, operation, origin, chunk, reader.values(value, chunk), both(role.builder, chunk.present, row.working)
            )


def write(role: RoleContext, operation: tree.Write) -> None:
    """The fence and the arrival that hand the stage over are part of its signal."""
    value = operation.value
    assert isinstance(value.type, TileType)
    builder, dtype = role.builder, value.type.dtype
    layout = role.kernel.plan.layouts[operation.destination.buffer]
    panel_columns = layout.span_bytes // dtype.bytes
    reader = TileReader(role)
    rows = _rows(role, reader, operation, value)
    tile = shared_tile(role, operation.destination, by_threads=True)
    if value.type.columns == 1:  # which all threads of a row have
        for row in rows:
            column = Chunk(row, integer(0), integer(0), 0, 1, 0)
            with _where(role, first_part(builder, row.map, row.part, row.working)):
                start = row_address(builder, layout, tile, integer(0), row.index)
                _write_vector(role, start, column.column, _words(reader, value, column), column, dtype)
        return
    for chunks in batches(reader, value, rows, value.type.columns, written_out=rows[0].map.in_registers):
        words = [_words(reader, value, chunk) for chunk in chunks]
        with _where(role, rows[0].working):
            for chunk, packed in zip(chunks, words, strict=True):
                panel, inside = integer(0), chunk.column
                if layout.panels > 1:
                    panel = builder.bits("udiv", chunk.column, panel_columns)
                    inside = builder.bits("urem", chunk.column, panel_columns)
                with _where(role, chunk.present):
                    start = row_address(builder, layout, tile, panel, chunk.row.index)
                    _write_vector(role, start, inside, packed, chunk, dtype)


def store_tma(role: RoleContext, operation: tree.Store) -> None:
    """Panel by panel through a staging buffer. A stripe wider than a panel is split: some of the threads have a part of each."""
    value = operation.value
    assert isinstance(value.type, TileType)
    reader = TileReader(role)
    origin = coordinates(role, operation.destination)
    (row,) = _rows(role, reader, operation, value)
    width, rows = stripe(row.map), (integer(0), row.map.block_rows)
    for run in role.kernel.plan.staging[operation].runs:
        step = sum(panel.columns for panel in run[0])
        apart = any(width % panel.columns != 0 and panel.columns % width != 0 for panel in run[0])
        for at, number in repeated(role.kernel, len(run), f"{role.prefix}.panel", written_out=row.map.in_registers or apart):
            with staged_fill(role, operation, origin, rows, run[0], (at, step)) as buffer:
                for panel in run[0]:
                    # Counted in panels like this one from the start of the row, of which those before it are whole multiples.
                    before = panel.first // panel.columns
                    place = role.builder.add(role.builder.multiply(at, step // panel.columns), before)
                    known = None if number is None else number * (step // panel.columns) + before
                    chunks = panel_chunks(reader, value, row, (place, known), panel.columns)
                    words = [_words(reader, value, chunk) for chunk in chunks]
                    for chunk, packed in zip(chunks, words, strict=True):
                        with _where(role, both(role.builder, chunk.present, row.working)):
                            target = role.builder.add(buffer, panel.aside)
                            start = row_address(role.builder, panel.layout, target, 0, row.index)
                            inside = role.builder.binary("sub", chunk.column, role.builder.multiply(place, panel.columns))
                            _write_vector(role, start, inside, packed, chunk, value.type.dtype)


def keep(role: RoleContext, operation: tree.Assign) -> None:
    """Vector by vector: an element of the new tile depends only on the same one of the old tile, and on values of its whole row."""
    value = operation.value
    assert isinstance(value.type, TileType)
    reader = TileReader(role)
    rows = _rows(role, reader, operation, value)
    tile = role.register_tiles[operation.variable]
    if value.type.columns == 1:
        for row, registers in zip(rows, tile, strict=True):
            registers[0].write(reader.values(value, Chunk(row, integer(0), integer(0), 0, 1, 0))[0])
        return
    for chunks in batches(reader, value, rows, value.type.columns, written_out=True, kept=True):
        for chunk in chunks:
            assert chunk.register is not None and chunk.row.number is not None
            registers = tile[chunk.row.number]
            if chunk.row.map.packed(value.type.dtype):
                words = _words(reader, value, chunk)
                first = chunk.register * value.type.dtype.bytes // _WORD_BYTES
                for slot, word in zip(registers[first : first + len(words)], words, strict=True):
                    slot.write(word)
                continue
            kept = registers[chunk.register : chunk.register + chunk.count]
            for slot, element in zip(kept, reader.values(value, chunk), strict=True):
                slot.write(element)


def _words(reader: TileReader, expression: tree.Expression, chunk: Chunk) -> list[Value]:
    """The vector as packed words; a conversion at the root packs as it rounds."""
    expression = reader.resolve(expression)
    assert isinstance(expression.type, TileType)
    builder, dtype = reader.builder, expression.type.dtype
    if isinstance(expression, tree.Convert) and expression.type.columns > 1:
        values = reader.values(expression.operand, chunk)
        return pack_converted(builder, values, dtype_of(expression.operand.type), dtype)
    values = reader.values(expression, chunk)
    if dtype.bits == 1:
        return pack(builder, [builder.cast("zext", value, "i8") for value in values], _STORED_BOOL)
    return pack(builder, values, dtype)


def _write_vector(role: RoleContext, row: Value, inside: Value, words: Sequence[Value], chunk: Chunk, dtype: DType) -> None:
    """Stores to shared memory: `row` is the address of the panel's row, `inside` the column in the panel."""
    builder, size = role.builder, chunk.count * dtype.bytes
    offset = builder.multiply(inside, dtype.bytes)
    if size >= _WORD_BYTES:
        store_words(builder, row, offset, words)
        return
    pointer = builder.shared_pointer(builder.binary("xor", row, offset))
    builder.store(builder.cast("trunc", words[0], f"i{8 * size}"), pointer, size)


@contextmanager
def _where(role: RoleContext, condition: Value | None) -> Iterator[None]:
    """Runs the code inside only in threads for which the condition holds (all, if it is None)."""
    with role.only_if(condition, "striped"):
        yield
    if condition is not None:
        role.reconverge()
