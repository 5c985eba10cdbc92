"""Stores of register tiles with wgmma's distribution of an accumulator.

A warpgroup has a share of the rows, in blocks of 64. In a block, warp w has rows 16w .. 16w + 15; lane l has rows l // 4 and l // 4 + 8
of these, and in them columns 2 (l % 4) and the next of each group of eight (hardware.md 8). Registers cannot be indexed, so everything
here is unrolled.
"""

from collections.abc import Iterator

from pipec.isa import wgmma as isa
from pipec.isa.dtypes import DType
from pipec.kir import spread
from pipec.kir.plan.types import RowMap, TileLayout
from pipec.kir.spread import GROUP_COLUMNS, fragment_groups
from pipec.lower.context import FULL_WARP, RoleContext
from pipec.lower.emit.memory import pack, pack_converted, row_address
from pipec.lower.emit.value import Value, integer
from pipec.lower.synchronisation.pipelines import shared_tile
from pipec.lower.table import lowers
from pipec.lower.tensor_cores import wgmma
from pipec.lower.tiles.chunks import AccumulatorPart, Chunk, Found, Row
from pipec.lower.tiles.reader import TileReader, fragment_chunk
from pipec.lower.tiles.staging import staged_fills
from pipec.lower.tiles.tma import coordinates
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of

_MATRIX_ELEMENT = 2  # bytes
_MOST_GROUPS = 8  # groups of columns that are computed together


def store(role: RoleContext, operation: tree.Store) -> None:
    """By TMA."""
    if operation.transposed:
        _store_transposed(role, operation)
    else:
        _store_tma(role, operation)


def rows_of(role: RoleContext, row_map: RowMap) -> list[Row]:
    """This thread's rows."""
    return [
        Row(row_map, index, integer(0), integer(0), None, number, fragment=AccumulatorPart(number // 2, number % 2, range(0)))
        for number, index in enumerate(spread.fragment_rows(role.builder, row_map, role.threads))
    ]


def prepared_rows(role: RoleContext, reader: TileReader, value: tree.Expression, row_map: RowMap) -> list[Row]:
    """The same, with values that are constant along each row."""
    rows = rows_of(role, row_map)
    for row in rows:
        reader.prepare_row(value, row)
    return rows


def chunks_of(role: RoleContext, rows: list[Row], tile: int, first: int, columns: int) -> Iterator[tuple[Row, Chunk]]:
    """This thread's elements of a tile of `tile` columns: of the groups of eight that overlap the `columns` columns from `first` on."""
    groups = fragment_groups(first, columns)
    for start in range(groups.start, groups.stop, _MOST_GROUPS):
        part, shared = range(start, min(start + _MOST_GROUPS, groups.stop)), Found()
        for row in rows:
            assert row.fragment is not None
            yield row, fragment_chunk(role, row, row.fragment, part, tile, shared)


def _store_tma(role: RoleContext, operation: tree.Store) -> None:
    plan, value = role.kernel.plan, operation.value
    assert isinstance(value.type, TileType)
    staging = plan.staging[operation]
    reader = TileReader(role)
    reader.prepare(value)
    origin = coordinates(role, operation.destination)
    rows = prepared_rows(role, reader, value, plan.row_maps[operation])
    together = len(staging.fills) if len(staging.fills) <= staging.buffers else 1
    for start in range(0, len(staging.fills), together):
        fills = staging.fills[start : start + together]
        with staged_fills(role, operation, origin, (integer(0), 1), fills, [(integer(0), 1)] * len(fills)) as buffers:
            for fill, buffer in zip(fills, buffers, strict=True):
                for panel in fill:
                    place = role.builder.add(buffer, panel.aside)
                    _write_panel(role, reader, value, rows, panel.layout, place, panel.first, panel.columns)


def _store_transposed(role: RoleContext, operation: tree.Store) -> None:
    """A block of 64 rows becomes a panel of 64 columns, filled by the warps with these rows."""
    plan, value = role.kernel.plan, operation.value
    staging = plan.staging[operation]
    reader = TileReader(role)
    reader.prepare(value)
    origin = coordinates(role, operation.destination)
    rows = prepared_rows(role, reader, value, plan.row_maps[operation])
    groups, share = wgmma.warpgroups(role), len(rows) // 2
    group = role.builder.bits("lshr", role.role_warp, 2)
    panels = list(staging.panels)
    assert [panel.first for panel in panels] == [block * wgmma.BLOCK_ROWS for block in range(groups * share)]
    together = len(panels) if len(panels) <= staging.buffers else 1
    for start in range(0, len(panels), together):
        part = panels[start : start + together]
        fills = [(panel,) for panel in part]
        with staged_fills(role, operation, origin, (integer(0), 1), fills, [(integer(0), 1)] * len(fills)) as buffers:
            for number, (panel, buffer) in enumerate(zip(part, buffers, strict=True), start):
                own = role.builder.compare("eq", group, integer(number // share)) if groups > 1 else None
                with role.only_if(own, "turned"):
                    block = number % share
                    _write_columns(role, reader, value, rows[2 * block : 2 * block + 2], panel.layout, buffer)
                if own is not None:
                    role.reconverge()


def _write_columns(
    role: RoleContext, reader: TileReader, value: tree.Expression, rows: list[Row], layout: TileLayout, panel: Value
) -> None:
    """The rows of a block of 64 as columns of a panel: matrices as in `_write_matrices`, each stored transposed.

    Lane l provides the address of column l % 8 of its matrix, which becomes a row: of the matrix in the upper or lower half of the
    warp's 16 rows (l // 8 % 2), in the first or second of two groups of columns (l // 16).
    """
    assert isinstance(value.type, TileType)
    builder, lane = role.builder, role.lane
    column = builder.binary("or", builder.bits("and", lane, 7), builder.bits("lshr", builder.bits("and", lane, 16), 1))
    warp = builder.bits("and", role.role_warp, 3)
    inside = builder.binary("or", builder.bits("shl", warp, 5), builder.bits("shl", builder.bits("and", lane, 8), 1))  # in bytes
    start = builder.binary("xor", row_address(builder, layout, panel, 0, column), inside)
    parts = list(chunks_of(role, rows, value.type.columns, 0, value.type.columns))
    for (_, upper), (_, lower) in zip(parts[::2], parts[1::2], strict=True):
        assert upper.place is not None
        words = list(zip(pairs_of(reader, value, upper), pairs_of(reader, value, lower), strict=True))
        for at in range(0, len(words), 2):
            matrices = [word for pair in words[at : at + 2] for word in pair]
            # Whole periods of the swizzle, so that adding them does not change it.
            skipped = (upper.place.groups.start + at) * GROUP_COLUMNS * layout.span_bytes
            builder.call(f"stmatrix.x{len(matrices)}.trans", builder.shared_pointer(builder.add(start, skipped)), *matrices)


def write(role: RoleContext, operation: tree.Write) -> None:
    """The fence and the arrival that hand the stage over are part of its signal."""
    plan, value = role.kernel.plan, operation.value
    assert isinstance(value.type, TileType)
    layout = plan.layouts[operation.destination.buffer]
    reader = TileReader(role)
    reader.prepare(value)
    rows = prepared_rows(role, reader, value, plan.row_maps[operation])
    panel_columns = layout.span_bytes // value.type.dtype.bytes
    tile = shared_tile(role, operation.destination, by_threads=True)
    for panel in range(layout.panels):
        start = role.builder.add(tile, panel * layout.panel_bytes)
        _write_panel(role, reader, value, rows, layout, start, panel * panel_columns, panel_columns)


def _write_panel(
    role: RoleContext, reader: TileReader, value: tree.Expression, rows: list[Row], layout: TileLayout, panel: Value, first: int,
    columns: int,
) -> None:  # fmt: skip
    """Stores this thread's elements of the columns from `first` on, in pairs; with the 128-byte swizzle there are no bank conflicts."""
    assert isinstance(value.type, TileType)
    builder, dtype, width = role.builder, value.type.dtype, value.type.columns
    if dtype.bits == 16:
        _write_matrices(role, reader, value, rows, layout, panel, first, columns)
        return
    if columns % GROUP_COLUMNS:
        _write_narrow(role, reader, value, rows, layout, panel, first, columns)
        return
    inside = builder.multiply(builder.bits("shl", builder.bits("and", role.lane, 3), 1), dtype.bytes)
    for row, chunk in chunks_of(role, rows, width, first, columns):
        assert chunk.place is not None
        start = builder.binary("xor", row_address(builder, layout, panel, 0, row.index), inside)
        for group, words in zip(chunk.place.groups, pairs_of(reader, value, chunk), strict=True):
            skipped = (group * GROUP_COLUMNS - first) * dtype.bytes
            pointer = builder.shared_pointer(builder.bits("xor", start, skipped))
            builder.store(words, pointer, 2 * dtype.bytes)


def _write_narrow(
    role: RoleContext, reader: TileReader, value: tree.Expression, rows: list[Row], layout: TileLayout, panel: Value, first: int,
    columns: int,
) -> None:  # fmt: skip
    """A panel that is a part of a group of eight columns, or a group and a part of the next: some lanes have no elements in it."""
    assert isinstance(value.type, TileType) and columns % 2 == 0
    builder, dtype = role.builder, value.type.dtype
    for row, chunk in chunks_of(role, rows, value.type.columns, first, columns):
        assert chunk.place is not None
        row_start = row_address(builder, layout, panel, 0, row.index)
        for group, words in zip(chunk.place.groups, pairs_of(reader, value, chunk), strict=True):
            inside = builder.binary("sub", spread.fragment_column(builder, role.lane, group), integer(first))
            write, done = (builder.label(f"{role.prefix}.{hint}") for hint in ("pair", "pair.done"))
            builder.branch(builder.compare("ult", inside, integer(columns)), write, done)
            builder.place(write)
            pointer = builder.shared_pointer(builder.binary("xor", row_start, builder.multiply(inside, dtype.bytes)))
            builder.store(words, pointer, 2 * dtype.bytes)
            builder.jump(done)
            builder.place(done)
            role.reconverge()


def _write_matrices(
    role: RoleContext, reader: TileReader, value: tree.Expression, rows: list[Row], layout: TileLayout, panel: Value, first: int,
    columns: int,
) -> None:  # fmt: skip
    """16-bit elements by stmatrix: the halves of 16 rows, in two groups of columns at a time.

    Lane l provides the address of row l % 16 and of group l // 16 of the two. A row of a matrix is 16 bytes, the unit of the swizzle:
    the rows of a matrix are in different banks if the swizzle spans 128 bytes.
    """
    assert isinstance(value.type, TileType)
    builder = role.builder
    parts = list(chunks_of(role, rows, value.type.columns, first, columns))
    inside = builder.bits("and", role.lane, 16)  # also in bytes
    aside = builder.binary("sub", builder.bits("and", role.lane, 15), builder.bits("lshr", role.lane, 2))
    for (row, upper), (_, lower) in zip(parts[::2], parts[1::2], strict=True):
        assert upper.place is not None
        start = row_address(builder, layout, panel, 0, builder.binary("add", row.index, aside))
        start = builder.binary("xor", start, inside)
        words = list(zip(pairs_of(reader, value, upper), pairs_of(reader, value, lower), strict=True))
        for at in range(0, len(words), 2):
            matrices = [word for pair in words[at : at + 2] for word in pair]
            skipped = ((upper.place.groups.start + at) * GROUP_COLUMNS - first) * _MATRIX_ELEMENT
            pointer = builder.shared_pointer(builder.bits("xor", start, skipped))
            builder.call(f"stmatrix.x{len(matrices)}", pointer, *matrices)


def pairs_of(reader: TileReader, expression: tree.Expression, chunk: Chunk) -> list[Value]:
    """The chunk in pairs of elements: i16, i32, or vectors of i32. A conversion at the root packs as it rounds."""
    expression = reader.resolve(expression)
    dtype = dtype_of(expression.type)
    one_column = isinstance(expression.type, TileType) and expression.type.columns == 1
    builder = reader.builder
    if isinstance(expression, tree.Convert) and not one_column:
        source = dtype_of(expression.operand.type)
        values = reader.values(expression.operand, chunk)
        words = [pack_converted(builder, values[at : at + 2], source, dtype) for at in range(0, len(values), 2)]
    else:
        values = reader.values(expression, chunk)
        words = [pack(builder, values[at : at + 2], dtype) for at in range(0, len(values), 2)]
    return [_joined(reader, pair, dtype) for pair in words]


def _joined(reader: TileReader, words: list[Value], dtype: DType) -> Value:
    if len(words) > 1:
        return reader.builder.vector(words)
    return words[0] if dtype.bytes > 1 else reader.builder.cast("trunc", words[0], "i16")


def keep(role: RoleContext, operation: tree.Assign) -> None:
    """Chunk by chunk: an element of the new tile depends only on the same one of the old tile, and on values of its whole row."""
    value = operation.value
    assert isinstance(value.type, TileType)
    reader = TileReader(role)
    reader.prepare(value)
    rows = prepared_rows(role, reader, value, role.kernel.plan.row_maps[operation])
    kept = role.register_tiles[operation.variable]
    if value.type.columns == 1:
        for row, registers in zip(rows, kept, strict=True):
            registers[0].write(reader.values(value, Chunk(row, integer(0), integer(0), 0, 1, 0))[0])
        return
    for row, chunk in chunks_of(role, rows, value.type.columns, 0, value.type.columns):
        assert row.number is not None and chunk.register is not None
        for slot, element in zip(kept[row.number][chunk.register :], reader.values(value, chunk), strict=False):
            slot.write(element)


# -------------------------------------------------------------------------------------------- accumulators and operands


@lowers(tree.WriteAccumulator)
def write_accumulator(role: RoleContext, operation: tree.WriteAccumulator) -> None:
    """Chunk by chunk, like `keep`."""
    value, registers = operation.value, role.accumulators[operation.accumulator]
    reader = TileReader(role)
    reader.prepare(value)
    rows = prepared_rows(role, reader, value, role.kernel.plan.row_maps[operation])
    for row, chunk in chunks_of(role, rows, registers.columns, 0, registers.columns):
        assert chunk.place is not None
        firsts = [registers.index(chunk.place.block, chunk.place.half, group) for group in chunk.place.groups]
        if registers.dtype.bits == 16:
            role.builder.issue(isa.write(registers, firsts), *pairs_of(reader, value, chunk))
        else:
            indices = [index for first in firsts for index in (first, first + 1)]
            role.builder.issue(isa.write(registers, indices), *reader.values(value, chunk))


def is_operand(role: RoleContext, variable: tree.Variable) -> bool:
    return role.plan.mma_waits is not None and variable in role.plan.mma_waits.operands


@lowers(tree.RegisterMma)
def multiply(role: RoleContext, operation: tree.RegisterMma) -> None:
    """A tile with other readers is first copied to the registers of operand `a`."""
    if wgmma.operand_key(role, operation) is operation:
        write_operand(role, operation, role.operands[operation])
    wgmma.multiply(role, operation)


def write_operand(role: RoleContext, operation: tree.Assign | tree.RegisterMma, registers: isa.Registers) -> None:
    """Copies a tile into the registers of operand `a`, which hold four bytes for every 16 of a row."""
    value = operation.value if isinstance(operation, tree.Assign) else operation.a
    assert not isinstance(value, tree.BufferRef)
    reader = TileReader(role)
    reader.prepare(value)
    rows = prepared_rows(role, reader, value, role.kernel.plan.row_maps[operation])
    for _, chunk in chunks_of(role, rows, registers.columns, 0, registers.columns):
        assert chunk.place is not None
        place, words = chunk.place, _OPERAND_WORDS[registers.dtype.bits](role, pairs_of(reader, value, chunk))
        first = place.groups.start * GROUP_COLUMNS * registers.dtype.bytes // _UNIT_BYTES
        indices = [registers.index(place.block, place.half, first + unit) for unit in range(len(words))]
        role.builder.issue(isa.write(registers, indices), *words)


def _words_of_halves(role: RoleContext, pairs: list[Value]) -> list[Value]:
    """16-bit elements have the same layout in operand A as in an accumulator."""
    return pairs


def _words_of_bytes(role: RoleContext, pairs: list[Value]) -> list[Value]:
    """Lane q of a row's four holds bytes 2q, 2q + 1 of every 8 and needs 4q .. 4q + 3 of every 16: half of those are q // 2 groups
    further, in lanes 2 (q % 2) and the next."""
    builder = role.builder
    source = _lane_of_row(role, builder.bits("shl", builder.bits("and", role.lane, 1), 1))
    shift = builder.bits("shl", builder.bits("and", role.lane, 2), 3)
    words = []
    for first in range(0, len(pairs), 2):
        low, high = (builder.cast("zext", pair, "i32") for pair in pairs[first : first + 2])
        both = builder.binary("or", low, builder.bits("shl", high, 16))
        parts = [
            builder.bits("and", builder.binary("lshr", from_lane(role, both, lane), shift), 0xFFFF)
            for lane in (source, builder.add(source, 1))
        ]
        words.append(builder.binary("or", parts[0], builder.bits("shl", parts[1], 16)))
    return words


def _words_of_words(role: RoleContext, pairs: list[Value]) -> list[Value]:
    """Lane q of a row's four holds columns 2q, 2q + 1 of every 8 and needs q and q + 4: they are in lanes q // 2 and q // 2 + 2."""
    builder = role.builder
    source = _lane_of_row(role, builder.bits("and", builder.bits("lshr", role.lane, 1), 1))
    odd = builder.compare("ne", builder.bits("and", role.lane, 1), integer(0))
    words = []
    for pair in pairs:
        columns = [builder.element(pair, index, "i32") for index in (0, 1)]
        for lane in (source, builder.add(source, 2)):
            even_one, odd_one = (from_lane(role, column, lane) for column in columns)
            words.append(builder.select(odd, odd_one, even_one))
    return words


def _lane_of_row(role: RoleContext, number: Value) -> Value:
    """The lane with this number among the four that share this lane's row."""
    return role.builder.binary("or", role.builder.bits("and", role.lane, 28), number)


def from_lane(role: RoleContext, word: Value, lane: Value) -> Value:
    return role.builder.call("shuffle.idx", FULL_WARP, word, lane, integer(31))


_UNIT_BYTES = 16
_OPERAND_WORDS = {8: _words_of_bytes, 16: _words_of_halves, 32: _words_of_words}
