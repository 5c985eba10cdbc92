"""Stores of register tiles: through swizzled staging buffers and TMA, directly to global memory, or into a held stage."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pipec.isa.dtypes import DType
from pipec.isa.instructions import INSTRUCTIONS
from pipec.kir import spread
from pipec.kir.plan.roles import expressions, tensor_tiles
from pipec.kir.plan.types import TILE_ALIGNMENT, Panel, TileLayout
from pipec.kir.spread import MOST_COLUMNS, Share, direct_share, first_part, panel_share, with_parts
from pipec.lower.context import RegisterTile, RoleContext, counted_loop, repeated
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.memory import pack, pack_converted, row_address, store_tensor, store_words
from pipec.lower.emit.value import Value, integer
from pipec.lower.global_memory import GlobalRow, element_pointer, first_rows, global_row, store_element
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation.pipelines import meet_at_tensor_memory, shared_tile, shares_tensor_lanes, tensor_address
from pipec.lower.table import lowers
from pipec.lower.tiles import fragment_stores, fragments, striped_stores
from pipec.lower.tiles.chunks import Chunk, Row
from pipec.lower.tiles.reader import TileReader
from pipec.lower.tiles.staging import staged_fill
from pipec.lower.tiles.tma import coordinates
from pipec.lower.tiles.vectors import store_columns
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of
from pipec.vocabulary import Reduction, StorePath

_UNROLLED_CHUNKS = 2  # chunks of a panel that are unrolled; more run in a loop
_VECTOR_BYTES = 16
_WIDE_COLUMNS = 64  # of tensor memory that one instruction loads, if a role's registers are not budgeted


@lowers(tree.Store)
def store(role: RoleContext, operation: tree.Store) -> None:
    if operation.rows is None:
        _store_by(role, operation, operation.path, None)
        return
    rows = scalar(role, operation.rows)
    if operation.path == "direct":
        _store_by(role, operation, "direct", rows)
        return
    # A box has a fixed number of rows: TMA stores whole tiles, threads store partial ones.
    builder = role.builder
    assert isinstance(operation.value.type, TileType)
    whole, part, done = (builder.label(f"{role.prefix}.rows.{hint}") for hint in ("whole", "part", "done"))
    builder.branch(builder.compare("sge", rows, integer(operation.value.type.rows)), whole, part)
    ways: tuple[tuple[str, StorePath, Value | None], ...] = ((whole, "tma", None), (part, "direct", rows))
    for label, path, limit in ways:
        builder.place(label)
        role.reconverge()
        _store_by(role, operation, path, limit)
        builder.jump(done)
    builder.place(done)
    role.reconverge()


def _store_by(role: RoleContext, operation: tree.Store, path: StorePath, rows: Value | None) -> None:
    row_map, tile = role.kernel.plan.row_maps[operation], operation.value.type
    assert isinstance(tile, TileType)
    if row_map.fragment and path == "tma":
        fragments.store(role, operation)
    elif row_map.fragment:
        fragment_stores.store_direct(role, operation, rows)
    elif row_map.vector and path == "tma":
        striped_stores.store_tma(role, operation)
    elif row_map.vector and tile.columns > 1 and operation.transposed:
        striped_stores.store_transposed(role, operation)
    elif row_map.vector and tile.columns > 1:
        striped_stores.store_direct(role, operation, rows)
    elif path == "tma":
        _store_tma(role, operation)
    else:
        _store_direct(role, operation, rows)


@record
class _First:
    """The first column of a panel: `index` steps of `step` columns, and `before`. `known`: the index, if it is a number."""

    index: Value
    known: int | None
    step: int
    before: int = 0

    def column(self, builder: Builder) -> Value:
        return builder.add(builder.multiply(self.index, self.step), self.before)


_FIRST = _First(integer(0), 0, 0)


def _chunks(role: RoleContext, row: Row, first: _First, share: Share) -> Iterator[tuple[Chunk, Value]]:
    """This thread's share of a panel, chunk by chunk, with the first column of each inside the panel."""
    builder = role.builder
    start = first.column(builder)
    if row.half is not None:
        row.working = spread.half_working(builder, share, row.half, start)
    # Registers cannot be indexed, so a register-resident tile is fully unrolled.
    inner = share.chunks if share.chunks > _UNROLLED_CHUNKS and not row.map.in_registers else 1
    for unrolled in range(share.chunks // inner):
        with counted_loop(role.kernel, inner, f"{role.prefix}.chunk") as index:
            step = builder.add(builder.multiply(index, share.step), unrolled * share.step)
            inside = spread.inside_panel(builder, share, row.part, step)
            uniform = spread.inside_panel(builder, share, row.uniform_part, step)
            split = share.part_step if row.map.half_warps else 0
            register = None
            if first.known is not None:
                register = (first.known * first.step + first.before) // share.parts + unrolled * share.count
            columns = builder.binary("add", start, inside), builder.binary("add", start, uniform)
            yield Chunk(row, *columns, split, share.count, register), inside


def _words(reader: TileReader, expression: tree.Expression, chunk: Chunk) -> list[Value]:
    """The chunk as packed words; a conversion at the root packs as it rounds."""
    expression = reader.resolve(expression)
    dtype = dtype_of(expression.type)
    one_column = isinstance(expression.type, TileType) and expression.type.columns == 1
    # The hardware converts two floats into one packed register; converting them one by one would round identically but need extra packing.
    if isinstance(expression, tree.Convert) and not one_column:
        values = reader.values(expression.operand, chunk)
        return pack_converted(reader.builder, values, dtype_of(expression.operand.type), dtype)
    return pack(reader.builder, reader.values(expression, chunk), dtype)


def _panel_words(
    role: RoleContext, reader: TileReader, value: tree.Expression, row: Row, first: _First, share: Share
) -> Iterator[tuple[Value, list[Value]]]:
    """This thread's share of one panel: chunk by chunk its first column inside the panel, and its words."""
    for chunk, inside in _chunks(role, row, first, share):
        yield inside, _words(reader, value, chunk)


def _write_panel(
    role: RoleContext, chunks: Iterable[tuple[Value, list[Value]]], dtype: DType, row: Row,
    layout: TileLayout, start: Value, number: Value,
) -> None:  # fmt: skip
    """The chunks into shared memory: the panel's address, and the number of the thread's row in it."""
    builder = role.builder
    aligned = layout.panel_bytes % TILE_ALIGNMENT == 0  # then the swizzle pattern begins at `start`
    place = row_address(builder, layout, integer(0) if aligned else start, 0, number)
    for inside, words in chunks:
        with _where_working(role, row):
            store_words(builder, place, builder.multiply(inside, dtype.bytes), words, start if aligned else None)


def _store_tma(role: RoleContext, operation: tree.Store) -> None:
    """Panel by panel through a staging buffer."""
    plan = role.kernel.plan
    row_map = plan.row_maps[operation]
    reader = TileReader(role)
    reader.prepare(operation.value)
    origin = coordinates(role, operation.destination)
    for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
        for run in plan.staging[operation].runs:
            _store_run(role, operation, reader, origin, run, (block, number))


def _store_run(
    role: RoleContext, operation: tree.Store, reader: TileReader, origin: list[Value], run: list[tuple[Panel, ...]],
    block: tuple[Value, int | None],
) -> None:  # fmt: skip
    """Fills of a staging buffer that are alike but for their columns."""
    builder, row_map, value_type = role.builder, role.kernel.plan.row_maps[operation], operation.value.type
    assert isinstance(value_type, TileType)
    # A load of tensor memory is waited for as a whole: loading all columns of a panel at once costs its latency once.
    wide = role.plan.registers is None and len(list(tensor_tiles(operation.value, role.lets))) == 1
    most = _WIDE_COLUMNS if wide else MOST_COLUMNS
    shares = [panel_share(row_map, value_type, panel.columns, most, panels=1) for panel in run[0]]
    # A narrow panel has fewer threads for each row.
    rows = {share.parts: reader.row(with_parts(row_map, share), *block) for share in shares}
    inside = {
        parts: builder.bits("urem", row.index, row_map.block_rows) if row_map.blocks > 1 else row.index
        for parts, row in rows.items()
    }
    for row in rows.values():
        reader.prepare_row(operation.value, row)
    step = sum(panel.columns for panel in run[0])
    for at, number in repeated(role.kernel, len(run), f"{role.prefix}.panel", written_out=row_map.in_registers):
        filled: list[tuple[Panel, Share, Iterable[tuple[Value, list[Value]]]]] = []
        for panel, share in zip(run[0], shares, strict=True):
            first = _First(at, number, step, panel.first)
            words: Iterable[tuple[Value, list[Value]]] = _panel_words(
                role, reader, operation.value, rows[share.parts], first, share
            )
            if wide and share.chunks == 1:
                # While the staging buffer becomes free. Several chunks would take more registers.
                words = list(words)
            filled.append((panel, share, words))
        with staged_fill(role, operation, origin, (block[0], row_map.block_rows), run[0], (at, step)) as buffer:
            for panel, share, words in filled:
                target, row = builder.add(buffer, panel.aside), rows[share.parts]
                _write_panel(role, words, value_type.dtype, row, panel.layout, target, inside[share.parts])


@lowers(tree.Write)
def write(role: RoleContext, operation: tree.Write) -> None:
    """The fence and the arrival that hand the stage over are part of its signal."""
    builder, plan = role.builder, role.kernel.plan
    value_type = operation.value.type
    assert isinstance(value_type, TileType)
    in_tensor = operation.destination.buffer.space == "tensor"
    if operation in role.plan.rewrites:
        if in_tensor:
            meet_at_tensor_memory(role)
        else:
            role.synchronise()
    if in_tensor:
        _write_tensor(role, operation, value_type)
        return
    if plan.row_maps[operation].fragment:
        fragments.write(role, operation)
        return
    if plan.row_maps[operation].vector:
        striped_stores.write(role, operation)
        return
    layout = plan.layouts[operation.destination.buffer]
    panel_columns = layout.span_bytes // value_type.dtype.bytes
    row_map = plan.row_maps[operation]
    share = panel_share(row_map, value_type, panel_columns)
    reader = TileReader(role)
    reader.prepare(operation.value)
    tile = shared_tile(role, operation.destination, by_threads=True)
    for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
        row = reader.row(with_parts(row_map, share), block, number)
        reader.prepare_row(operation.value, row)
        for panel, place in repeated(role.kernel, share.panels, f"{role.prefix}.panel", written_out=row_map.in_registers):
            start = builder.binary("add", tile, builder.multiply(panel, layout.panel_bytes))
            words = _panel_words(role, reader, operation.value, row, _First(panel, place, panel_columns), share)
            _write_panel(role, words, dtype_of(operation.value.type), row, layout, start, row.index)


def _write_tensor(role: RoleContext, operation: tree.Write, value_type: TileType) -> None:
    """Each thread writes its lane of the tile; the wait completes the writes before the signal."""
    builder, destination = role.builder, operation.destination
    packed = destination.buffer in role.kernel.plan.packed
    row_map = role.kernel.plan.row_maps[operation]
    share = panel_share(row_map, value_type, value_type.columns)
    # Of threads that share a row each writes some of its columns, and may read all; idle ones read, too.
    reads = shares_tensor_lanes(role) and any(
        isinstance(node, tree.ReadBuffer) and node.source.buffer is destination.buffer for node in expressions(role.plan.role)
    )
    reader = TileReader(role)
    reader.prepare(operation.value)
    for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
        row = reader.row(with_parts(row_map, share), block, number)
        reader.prepare_row(operation.value, row)
        for chunk, _ in _chunks(role, row, _FIRST, share):
            words = _words(reader, operation.value, chunk) if packed else _wide(reader, operation.value, chunk)
            address = tensor_address(role, destination, chunk.uniform_column)
            if reads:
                meet_at_tensor_memory(role)
            with _where_working(role, row):
                store_tensor(builder, address, words)
    builder.call("tcgen05.wait.st")
    if reads:
        meet_at_tensor_memory(role)


def _wide(reader: TileReader, value: tree.Expression, chunk: Chunk) -> list[Value]:
    """A word per element: 16-bit ones are in the low half."""
    builder, bits = reader.builder, dtype_of(value.type).bits
    return [builder.cast("zext", builder.cast("bitcast", one, f"i{bits}"), "i32") for one in reader.values(value, chunk)]


@contextmanager
def _where_working(role: RoleContext, row: Row) -> Iterator[None]:
    """Runs the code inside only in threads with a row of the tile; this is uniform over a warp."""
    if row.working is None:
        yield
        return
    builder = role.builder
    write, skip = builder.label(f"{role.prefix}.write"), builder.label(f"{role.prefix}.skip")
    builder.branch(row.working, write, skip)
    builder.place(write)
    yield
    builder.jump(skip)
    builder.place(skip)
    role.reconverge()


# ----------------------------------------------------------------------------------------------------------------- direct


def _store_direct(role: RoleContext, operation: tree.Store, rows: Value | None) -> None:
    """Every thread stores its own elements with bounds checks: any stride, any size."""
    plan = role.kernel.plan
    value_type = operation.value.type
    assert isinstance(value_type, TileType)
    tensor = operation.destination.tensor
    row_map = plan.row_maps[operation]
    reader = TileReader(role)
    reader.prepare(operation.value)
    origin = [scalar_value for scalar_value in coordinates(role, operation.destination)][-len(tensor.shape) :]
    share = direct_share(row_map, value_type) if value_type.columns > 1 else None
    for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
        row = reader.row(with_parts(row_map, share) if share else row_map, block, number)
        reader.prepare_row(operation.value, row)
        placed = reader.row_stored(operation, origin, row)
        target = first_rows(role, global_row(role, tensor, origin, placed), row.index, rows)
        if share is None:
            if operation.transposed:
                target = global_row(role, tensor, origin, integer(0))
            only = placed if len(tensor.shape) == 1 or operation.transposed else integer(0)
            _store_once(role, reader, operation, target, Chunk(row, integer(0), integer(0), 0, 1, 0), only)
            continue
        for panel, place in repeated(role.kernel, share.panels, f"{role.prefix}.columns", written_out=row_map.in_registers):
            for chunk, _ in _chunks(role, row, _First(panel, place, share.columns), share):
                if operation.transposed:
                    store_columns(role, operation, origin, chunk, reader.values(operation.value, chunk), row.working)
                else:
                    _store_chunk(role, reader, operation, target, row, chunk)
        if share.tail:
            last = integer(value_type.columns - 1)
            turned = operation.transposed
            target = global_row(role, tensor, origin, last) if turned else target
            _store_once(role, reader, operation, target, Chunk(row, last, last, 0, 1), row.index if turned else last)


def _store_once(
    role: RoleContext, reader: TileReader, operation: tree.Store, target: GlobalRow, chunk: Chunk, column: Value
) -> None:
    """Stores an element that all threads of a row have computed."""
    value, row = reader.values(operation.value, chunk)[0], chunk.row
    allowed = first_part(role.builder, row.map, row.part, row.working)
    store_element(role, target, column, value, dtype_of(operation.value.type), allowed, operation.reduce)


def _store_chunk(role: RoleContext, reader: TileReader, operation: tree.Store, target: GlobalRow, row: Row, chunk: Chunk) -> None:
    """16 bytes at a time if the warp's whole chunk is in bounds and aligned, else element by element."""
    builder, reduce = role.builder, operation.reduce
    dtype = dtype_of(operation.value.type)
    allowed = row.working
    values = reader.values(operation.value, chunk)
    vector = "store.global.v4" if reduce is None else f"reduce.global.{reduce}.{dtype}.v4"
    if dtype.bits == 1 or chunk.count * dtype.bytes % _VECTOR_BYTES or vector not in INSTRUCTIONS:
        _store_elements(role, target, chunk, values, dtype, allowed, reduce)
        return
    fast, slow, done = (builder.label(f"{role.prefix}.{hint}") for hint in ("vectors", "elements", "stored"))
    builder.branch(_whole(role, target, chunk, dtype), fast, slow)
    builder.place(fast)
    inside = target.inside if allowed is None else builder.binary("and", target.inside, allowed)
    words = pack(builder, values, dtype)
    per_vector = _VECTOR_BYTES // dtype.bytes
    for index in range(0, len(words), 4):
        pointer = element_pointer(role, target, builder.add(chunk.column, index // 4 * per_vector), dtype)
        builder.call(vector, pointer, *words[index : index + 4], inside)
    builder.jump(done)
    builder.place(slow)
    _store_elements(role, target, chunk, values, dtype, allowed, reduce)
    builder.jump(done)
    builder.place(done)
    role.reconverge()


def _store_elements(
    role: RoleContext,
    target: GlobalRow,
    chunk: Chunk,
    values: list[Value],
    dtype: DType,
    allowed: Value | None,
    reduce: Reduction | None,
) -> None:
    for index, element in enumerate(values):
        store_element(role, target, role.builder.add(chunk.column, index), element, dtype, allowed, reduce)


def _whole(role: RoleContext, target: GlobalRow, chunk: Chunk, dtype: DType) -> Value:
    """Whether the chunk is inside the row and 16-byte aligned."""
    builder = role.builder
    address = builder.binary("add", target.start, builder.multiply(builder.cast("sext", chunk.column, "i64"), dtype.bytes))
    aligned = builder.compare("eq", builder.bits("and", address, _VECTOR_BYTES - 1), integer(0, "i64"))
    first = builder.binary("add", target.first, chunk.column)
    starts = builder.compare("sge", first, integer(0))
    ends = builder.compare("sle", builder.add(first, chunk.count), target.size)
    return builder.binary("and", builder.binary("and", aligned, starts), ends)


# ----------------------------------------------------------------------------------------------------- tiles in registers


def new_tile(role: RoleContext, operation: tree.Assign) -> RegisterTile:
    """Registers for the tile that the operation assigns."""
    builder, name = role.builder, f"{role.prefix}.{operation.variable.name}"
    tile = operation.variable.type
    assert isinstance(tile, TileType)
    row_map = role.kernel.plan.row_maps[operation]
    if row_map.packed(tile.dtype) and tile.columns > 1:
        words = row_map.registers_of_thread(tile.columns, tile.dtype)
        return [[builder.variable("i32", name) for _ in range(words)] for _ in range(row_map.blocks)]
    columns = row_map.columns_of_thread(tile.columns)
    return [[builder.variable(tile.dtype.llvm, name) for _ in range(columns)] for _ in range(row_map.blocks)]


def keep(role: RoleContext, operation: tree.Assign) -> None:
    """Chunk by chunk: an element of the new tile depends only on the same one of the old tile, and on values of its whole row."""
    value_type = operation.value.type
    assert isinstance(value_type, TileType)
    row_map = role.kernel.plan.row_maps[operation]
    if row_map.fragment:
        fragments.keep(role, operation)
        return
    if row_map.vector:
        striped_stores.keep(role, operation)
        return
    reader = TileReader(role)
    reader.prepare(operation.value)
    for number, registers in enumerate(role.register_tiles[operation.variable]):
        row = reader.row(row_map, integer(number), number)
        reader.prepare_row(operation.value, row)
        if value_type.columns == 1:
            registers[0].write(reader.values(operation.value, Chunk(row, integer(0), integer(0), 0, 1, 0))[0])
            continue
        share = panel_share(row_map, value_type, value_type.columns)
        for chunk, _ in _chunks(role, row, _FIRST, share):
            assert chunk.register is not None
            for slot, element in zip(registers[chunk.register :], reader.values(operation.value, chunk), strict=False):
                slot.write(element)
