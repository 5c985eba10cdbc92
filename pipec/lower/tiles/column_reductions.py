"""Reductions over the rows of a tile, which the threads of a role have between them.

Each thread has some columns of some rows. The lanes with the same columns reduce them by shuffles, after which each has its share of the
columns; each warp (or the warps that share a row) writes a row of parts to shared memory; and after the role has synchronised, each thread
reduces the parts of its columns to the first of these rows, which all read (`read_reduced`).
"""

from collections.abc import Iterator, Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.kir.plan.reductions import element_bytes, parts_of
from pipec.kir.plan.roles import register_tiles, with_split
from pipec.kir.plan.types import RowMap
from pipec.kir.spread import GROUP_COLUMNS, chunk_columns, first_part, fragment_groups
from pipec.lower.context import RoleContext, repeated
from pipec.lower.emit.arithmetic import convert, is_narrow_float
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.table import lowers
from pipec.lower.tiles import fragments, striped
from pipec.lower.tiles.chunks import Chunk, Found
from pipec.lower.tiles.reader import TileReader, fragment_chunk
from pipec.lower.tiles.reductions import fold, fold_across, fold_tree, identity, read_words, store_word
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType

_F32 = DTYPES["f32"]
_FRAGMENT_GROUPS = 4  # whose two columns each are as many as the lanes that have them: eight
_FRAGMENT_LANES = (4, 8, 16)  # distances of lanes with the same columns


@lowers(tree.ReduceColumns)
def reduce_columns(role: RoleContext, operation: tree.ReduceColumns) -> None:
    row_map, operand = role.kernel.plan.row_maps[operation], operation.operand
    reader = TileReader(role)
    reader.prepare(operand)
    parts = _Parts(role, operation)
    role.synchronise()  # all have read what was reduced here before
    if row_map.fragment:
        _of_fragments(parts, reader, row_map)
    elif row_map.vector:
        _of_stripes(parts, reader, row_map)
    else:
        _of_rows(parts, reader, row_map)
    role.synchronise()
    if parts.rows > 1:
        parts.reduce()
        role.synchronise()


@record
class _Parts:
    """The rows of parts in shared memory."""

    role: RoleContext
    operation: tree.ReduceColumns

    @property
    def tile(self) -> TileType:
        assert isinstance(self.operation.operand.type, TileType)
        return self.operation.operand.type

    @property
    def dtype(self) -> DType:
        """In which values are reduced."""
        return _F32 if is_narrow_float(self.tile.dtype) else self.tile.dtype

    @property
    def rows(self) -> int:
        return parts_of(self.role.kernel.plan.row_maps[self.operation], self.role.plan.role.warps)

    def _address(self, row: Value, column: Value) -> Value:
        builder, size = self.role.builder, element_bytes(self.tile.dtype)
        start = self.role.kernel.shared_address(self.role.kernel.plan.reduced_offsets[self.operation.result])
        start = builder.binary("add", start, builder.multiply(row, self.tile.columns * size))
        return builder.binary("add", start, builder.multiply(column, size))

    def neutral(self) -> Value:
        return identity(self.operation.function, self.dtype)

    def read(self, reader: TileReader, chunk: Chunk, inside: Value | None) -> list[Value]:
        """A thread's elements; neutral where they are not `inside`."""
        values = convert(self.role.builder, reader.values(self.operation.operand, chunk), self.tile.dtype, self.dtype)
        return values if inside is None else [self.role.builder.select(inside, value, self.neutral()) for value in values]

    def add(self, values: list[Value], lanes: Sequence[int], chunk: Chunk) -> None:
        """The warp's part of some columns, once the lanes at these distances have reduced theirs."""
        role, builder, operation = self.role, self.role.builder, self.operation
        kept, start, owner = fold_across(role, operation.function, self.dtype, values, lanes)
        row = role.role_warp
        if role.kernel.plan.row_maps[operation].warps_of_row > 1:
            row = builder.bits("udiv", row, role.kernel.plan.row_maps[operation].warps_of_row)
        for number, value in enumerate(kept):
            column = _column(role, chunk, builder.add(start, number))
            allowed = owner if chunk.present is None else _both(role, owner, chunk.present)
            if chunk.end is not None:
                there = builder.compare("ult", column, integer(chunk.end))
                allowed, column = _both(role, allowed, there), builder.select(there, column, integer(0))
            address = self._address(row if self.rows > 1 else integer(0), column)
            store_word(builder, address, value, self.dtype, allowed)

    def reduce(self) -> None:
        """The parts of each column to its first; each thread has the columns at its distance."""
        role, builder = self.role, self.role.builder
        for begin in range(0, self.tile.columns, role.plan.threads):
            column, mine = builder.add(role.role_thread, begin), None
            if begin + role.plan.threads > self.tile.columns:
                mine = builder.compare("ult", column, integer(self.tile.columns))
            with role.only_if(mine, "total"):
                places = [self._address(integer(row), column) for row in range(self.rows)]
                found = [read_words(builder, place, 1, self.dtype)[0] for place in places]
                store_word(builder, places[0], fold_tree(builder, self.operation.function, self.dtype, found), self.dtype, TRUE)
            if mine is not None:
                role.reconverge()


def _both(role: RoleContext, one: Value, other: Value) -> Value:
    return other if one is TRUE else role.builder.binary("and", one, other)


def _column(role: RoleContext, chunk: Chunk, index: Value) -> Value:
    """Of an element of a chunk, whose number each lane knows for itself."""
    builder = role.builder
    if chunk.place is not None:
        group = builder.multiply(builder.bits("lshr", index, 1), GROUP_COLUMNS)
        index = builder.binary("add", group, builder.bits("and", index, 1))
    return builder.binary("add", chunk.column, index)


# ---------------------------------------------------------------------------------------------------------- distributions


def _of_fragments(parts: _Parts, reader: TileReader, row_map: RowMap) -> None:
    """The thread's rows first, then the eight lanes with the same columns of other rows."""
    role, builder, columns = parts.role, parts.role.builder, parts.tile.columns
    rows = fragments.prepared_rows(role, reader, parts.operation.operand, row_map)
    for groups in _runs(fragment_groups(0, columns)):
        shared, each = Found(), list[list[Value]]()
        for row in rows:
            assert row.fragment is not None
            chunk = fragment_chunk(role, row, row.fragment, groups, columns, shared)
            values = parts.read(reader, chunk, None)
            for index, value in enumerate(values):
                inside = chunk.inside(builder, index)
                values[index] = value if inside is None else builder.select(inside, value, parts.neutral())
            each.append(values)
        folded = [fold_tree(builder, parts.operation.function, parts.dtype, column) for column in zip(*each, strict=True)]
        parts.add(folded, _FRAGMENT_LANES, chunk)


def _runs(groups: range) -> Iterator[range]:
    """Powers of two of them, so that lanes can share out their columns."""
    start = groups.start
    while start < groups.stop:
        count = chunk_columns(1 << ((groups.stop - start).bit_length() - 1), _FRAGMENT_GROUPS)
        yield range(start, start + count)
        start += count


def _of_stripes(parts: _Parts, reader: TileReader, row_map: RowMap) -> None:
    """Lanes at multiples of the row's threads have the same columns of other rows; a row of whole warps is the only one of its warps."""
    role, operand = parts.role, parts.operation.operand
    lanes = [distance for distance in (1, 2, 4, 8, 16) if distance >= row_map.split]
    row = reader.row(row_map, integer(0), 0)
    reader.prepare_row(operand, row)
    if parts.tile.columns == 1:
        # All threads of a row have its only element; the first of them passes it on.
        first = first_part(role.builder, row_map, row.part, None)
        column = Chunk(row, integer(0), integer(0), 0, 1, 0, present=first)
        parts.add(parts.read(reader, column, row.working), lanes, column)
        return
    written_out = row_map.in_registers and any(register_tiles(operand, role.lets))
    for chunks in striped.batches(reader, operand, [row], parts.tile.columns, written_out=written_out):
        for chunk in chunks:
            parts.add(parts.read(reader, chunk, row.working), lanes, chunk)


def _of_rows(parts: _Parts, reader: TileReader, row_map: RowMap) -> None:
    """A row in each thread, or one in each block of rows, whose lanes share out the columns; the halves of a warp have different columns of
    the same rows."""
    role, builder, operation = parts.role, parts.role.builder, parts.operation
    halves = 2 if row_map.half_warps else 1
    whole = with_split(row_map, halves) if row_map.split != halves else row_map
    lanes = (1, 2, 4, 8, 16)[: 5 if halves == 1 else 4]
    for run in _runs_of_columns(role, row_map, parts.tile.columns, halves):
        totals = [builder.variable(parts.dtype.llvm, f"{role.prefix}.column") for _ in range(run.count)]
        for total in totals:
            total.write(parts.neutral())
        for block, number in repeated(role.kernel, row_map.blocks, f"{role.prefix}.rows", written_out=row_map.in_registers):
            row = reader.row(whole, block, number)
            reader.prepare_row(operation.operand, row)
            chunk = Chunk(row, run.column, run.uniform, run.split, run.count, run.register)
            for total, value in zip(totals, parts.read(reader, chunk, row.working), strict=True):
                total.write(fold(builder, operation.function, parts.dtype, [total.read(), value]))
        parts.add([total.read() for total in totals], lanes, chunk)


@record
class _Run:
    """Columns that a thread reduces at a time, as of a Chunk."""

    column: Value
    uniform: Value
    split: int
    count: int
    register: int | None


def _runs_of_columns(role: RoleContext, row_map: RowMap, columns: int, halves: int) -> Iterator[_Run]:
    """All columns, those of the halves of a warp apart from each other; both have the last one of an odd number."""
    builder, shared = role.builder, columns - columns % halves
    if shared:
        count = row_map.half_run(shared) if row_map.in_registers and halves == 2 else chunk_columns(shared // halves)
        steps = shared // (count * halves)
        for index, number in repeated(role.kernel, steps, f"{role.prefix}.reduce", written_out=row_map.in_registers):
            column = uniform = builder.multiply(index, count * halves)
            if halves == 2:
                column = builder.binary("add", uniform, builder.multiply(builder.bits("lshr", role.lane, 4), count))
            yield _Run(column, uniform, count if halves == 2 else 0, count, None if number is None else number * count)
    if shared < columns:
        yield _Run(integer(shared), integer(shared), 0, 1, 0)
