"""Register tiles: lazy expressions, evaluated for one row and a chunk of columns at a time.

A thread owns one row of each row block (see RowMap) and requests `count` consecutive elements of it. One-column expressions (per-row
vectors, row reductions) are computed once per row before the chunks, and scalars once per operation.
"""

from collections.abc import Sequence
from math import gcd
from typing import assert_never

from pipec.isa.dtypes import DTYPES, DType
from pipec.isa.targets import WARP
from pipec.kir import spread
from pipec.kir.plan.roles import register_tiles
from pipec.kir.plan.types import RowMap
from pipec.kir.spread import GROUP_COLUMNS, chunk_columns
from pipec.kir.walk import children
from pipec.lower.context import RoleContext, repeated
from pipec.lower.emit import packed
from pipec.lower.emit.arithmetic import binary, constant, convert, is_narrow_float
from pipec.lower.emit.functions import call_function
from pipec.lower.emit.memory import load_accumulator, load_packed, load_shared, unpack
from pipec.lower.emit.value import FALSE, TRUE, Value, integer
from pipec.lower.global_memory import counted_from, global_row, load_element
from pipec.lower.scalars import scalar, unary
from pipec.lower.synchronisation.pipelines import shared_tile, tensor_address
from pipec.lower.tensor_cores import wgmma
from pipec.lower.tiles import masks, striped
from pipec.lower.tiles.chunks import AccumulatorPart, Chunk, Found, Row
from pipec.lower.tiles.reductions import fold, fold_lanes, fold_tree, identity, read_reduced, shuffle
from pipec.lower.tiles.vectors import Vector, load_vectors
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of
from pipec.vocabulary import RowFunction

_F32 = DTYPES["f32"]
_WORD_BYTES = 4
# Nodes whose result depends on the element's position in the chunk.
_READ_AS_A_WHOLE = (
    tree.ReadBuffer, tree.ReadTensor, tree.ReadVariable, tree.ReadAccumulator, tree.Position, tree.Columns,
    tree.ReadReducedColumns,
)  # fmt: skip


class TileReader:
    """Evaluates the tile expressions of one operation."""

    def __init__(self, role: RoleContext) -> None:
        self.role = role
        self.builder = role.builder
        self.target = role.kernel.plan.target
        self.scalars: dict[tree.Expression, list[Value]] = {}
        self.prepared: set[tree.Expression] = set()  # expressions share subexpressions

    # ------------------------------------------------------------------------------------------- before the loops

    def resolve(self, expression: tree.Expression) -> tree.Expression:
        """Expands lazy tile variables."""
        while isinstance(expression, tree.ReadVariable) and expression.variable in self.role.lets:
            expression = self.role.lets[expression.variable]
        return expression

    def prepare(self, expression: tree.Expression) -> None:
        """Computes the scalars in the expression."""
        expression = self.resolve(expression)
        if expression in self.prepared:
            return
        self.prepared.add(expression)
        match expression:
            case tree.Splat(operand):
                self._scalars(expression, (operand,))
            case tree.ReadTensor(source, at=at):
                self._scalars(expression, source.coordinates)
                if at is not None:
                    self.prepare(at)
            case tree.ReadBuffer() if children(expression):
                self._scalars(expression, children(expression))
            case _ if not isinstance(expression.type, TileType):
                self._scalars(expression, (expression,))
            case _:
                for child in children(expression):
                    self.prepare(child)

    def _scalars(self, node: tree.Expression, expressions: Sequence[tree.Expression]) -> None:
        if node in self.role.captured:
            self.scalars[node] = [slot.read() for slot in self.role.captured[node]]
        else:
            self.scalars[node] = [scalar(self.role, expression) for expression in expressions]

    def row(self, row_map: RowMap, block: Value, number: int | None = None) -> Row:
        """This thread's row in a row block; `number` is the block, if known."""
        at = spread.place(self.builder, row_map, self.role.threads, block)
        return Row(row_map, at.index, at.part, at.uniform_part, at.working, number, half=at.half)

    def prepare_row(self, expression: tree.Expression, row: Row) -> None:
        """Computes one-column expressions: per-row vectors and row reductions."""
        expression = self.resolve(expression)
        if not isinstance(expression.type, TileType):
            return
        if expression.type.columns == 1:
            if expression not in row.values:
                row.values[expression] = self._row_value(expression, row)
            return
        if expression in row.prepared:
            return
        row.prepared.add(expression)
        for child in children(expression):
            self.prepare_row(child, row)

    def _row_value(self, expression: tree.Expression, row: Row) -> Value:
        if isinstance(expression, tree.RowReduce):
            return self._reduce(expression, row)
        for child in children(expression):
            self.prepare_row(child, row)
        chunk = Chunk(row, integer(0), integer(0), 0, 1, 0)
        return self._node(expression, chunk)[0]

    # ------------------------------------------------------------------------------------------------- evaluation

    def values(self, expression: tree.Expression, chunk: Chunk) -> list[Value]:
        """The chunk's elements; one-column values repeat."""
        expression = self.resolve(expression)
        if isinstance(expression.type, TileType) and expression.type.columns == 1:
            return [chunk.row.values[expression]] * chunk.count
        if expression not in chunk.cache:
            whole = chunk.whole
            if whole is not None and (expression in whole.cache or isinstance(expression, _READ_AS_A_WHOLE)):
                values = self.values(expression, whole)
                chunk.cache[expression] = [values[index] for index in chunk.chosen]
            else:
                chunk.cache[expression] = self._node(expression, chunk)
        return chunk.cache[expression]

    def _node(self, expression: tree.Expression, chunk: Chunk) -> list[Value]:  # noqa: C901 - a case for each kind of expression
        role, builder = self.role, self.builder
        match expression:
            case _ if not isinstance(expression.type, TileType):
                return self.scalars[expression] * chunk.count
            case tree.Splat():
                return self.scalars[expression] * chunk.count
            case tree.Unary(operator, operand, type_):
                return [unary(role, operator, dtype_of(type_), value) for value in self.values(operand, chunk)]
            case tree.Binary(operator, left, right):
                dtype = dtype_of(left.type)
                sides = self.values(left, chunk), self.values(right, chunk)
                if operator in packed.OPERATORS and packed.applies(self.target, dtype, sides):
                    return packed.elementwise(builder, packed.OPERATORS[operator], sides)
                return [binary(builder, operator, dtype, a, b) for a, b in zip(*sides, strict=True)]
            case tree.Convert(operand, type_):
                return convert(builder, self.values(operand, chunk), dtype_of(operand.type), dtype_of(type_))
            case tree.Bitcast(operand, type_):
                return [builder.cast("bitcast", value, dtype_of(type_).llvm) for value in self.values(operand, chunk)]
            case tree.Select():
                return self._select(expression, chunk)
            case tree.Call(function, arguments):
                dtype = dtype_of(arguments[0].type)
                columns = [self.values(argument, chunk) for argument in arguments]
                if function == "fma" and packed.applies(self.target, dtype, columns):
                    return packed.elementwise(builder, "fma", columns)
                return [call_function(builder, function, dtype, column) for column in zip(*columns, strict=True)]
            case tree.ReadBuffer():
                return self._read_buffer(expression, chunk)
            case tree.ReadTensor():
                return self._read_tensor(expression, chunk)
            case tree.Position(0):
                return [chunk.row.index] * chunk.count
            case tree.Position():
                return [chunk.position(builder, index) for index in range(chunk.count)]
            case tree.Scattered(operand):
                return self.values(operand, chunk)
            case tree.Columns(operand, first):
                return self.values(operand, chunk.moved(builder, first))
            case tree.ReadVariable() if expression.variable.in_registers:
                return self._read_registers(expression, chunk)
            case tree.ReadAccumulator() | tree.ReadReducedColumns():
                return self._read_result(expression, chunk)
            case tree.RowReduce():
                return [chunk.row.values[expression]] * chunk.count
            case (
                tree.Constant() | tree.ReadVariable() | tree.ReadDimension() | tree.ReadParameter() | tree.Special() | tree.StageIndex()
                | tree.ReadResponse()
            ):  # fmt: skip
                raise AssertionError("a scalar that is typed as a tile")
            case _:
                assert_never(expression)

    def _select(self, node: tree.Select, chunk: Chunk) -> list[Value]:
        """If the side of an element is known, the other side is not computed."""
        limit = masks.bound(self, node, chunk)
        if limit is not None:
            return masks.select(
                self.builder, chunk, limit, self.values(node.when_true, chunk), self.values(node.when_false, chunk)
            )
        conditions = self.values(node.condition, chunk)
        if any(one not in (TRUE, FALSE) for one in conditions):
            choices = zip(conditions, self.values(node.when_true, chunk), self.values(node.when_false, chunk), strict=True)
            return [self.builder.select(*choice) for choice in choices]
        values: dict[int, Value] = {}
        for side, condition in ((node.when_true, TRUE), (node.when_false, FALSE)):
            chosen = [index for index, one in enumerate(conditions) if one == condition]
            if chosen:
                values |= zip(chosen, self.values(side, chunk.part(chosen)), strict=True)
        return [values[index] for index in range(chunk.count)]

    def _read_registers(self, node: tree.ReadVariable, chunk: Chunk) -> list[Value]:
        assert chunk.row.number is not None and chunk.register is not None
        rows = self.role.captured_tiles.get(node) or self.role.register_tiles[node.variable]
        number = chunk.row.number if len(rows) > 1 else 0  # a single value is used with tiles of more rows than threads
        dtype = dtype_of(node.type)
        if chunk.row.map.packed(dtype) and isinstance(node.type, TileType) and node.type.columns > 1:
            first, count = (number_of * dtype.bytes // _WORD_BYTES for number_of in (chunk.register, chunk.count))
            # Fresh: otherwise LLVM would keep the unpacked values, and derived ones, live until the next statement that reads the tile.
            words = [self.builder.call("fresh", slot.read()) for slot in rows[number][first : first + count]]
            return unpack(self.builder, words, dtype)
        slots = rows[number][chunk.register : chunk.register + chunk.count]
        assert len(slots) == chunk.count
        return [slot.read() for slot in slots]

    def _read_result(self, node: tree.ReadAccumulator | tree.ReadReducedColumns, chunk: Chunk) -> list[Value]:
        if isinstance(node, tree.ReadAccumulator):
            assert chunk.place is not None
            return wgmma.read(self.role, node.accumulator, chunk.place.block, chunk.place.half, chunk.place.groups)
        if node not in chunk.columns:
            chunk.columns[node] = read_reduced(self.role, node.reduced, chunk)
        return chunk.columns[node]

    def _read_buffer(self, node: tree.ReadBuffer, chunk: Chunk) -> list[Value]:
        source, builder = node.source, self.builder
        key = (source.buffer, source.handle, source.transposed, node if children(node) else None)
        cache = chunk.columns if node.type.rows == 1 else chunk.cache
        if key in cache:
            return cache[key]
        place = chunk
        if node.first_column is not None:
            first = self.scalars[node][0]
            column, uniform = (builder.binary("add", start, first) for start in (chunk.column, chunk.uniform_column))
            place = replace(chunk, column=column, uniform_column=uniform)
        read = self._read_tensor_memory if source.buffer.space == "tensor" else self._read_shared
        cache[key] = read(node, place)
        return cache[key]

    def _read_tensor_memory(self, node: tree.ReadBuffer, chunk: Chunk) -> list[Value]:
        role, builder, source, type_ = self.role, self.builder, node.source, node.type
        column = chunk.uniform_column
        if source.buffer.folded:
            column = builder.bits("urem", column, source.buffer.width)
        address = tensor_address(role, source, column)
        if source.buffer in role.kernel.plan.packed:
            return load_packed(builder, address, type_.dtype, chunk.count)
        split = chunk.split if chunk.row.map.half_warps else None
        unwritten = role.unwritten.get((source.handle, source.buffer))
        if unwritten is None:
            return load_accumulator(builder, address, type_.dtype, chunk.count, split)
        found = [builder.variable(type_.dtype.llvm, f"{role.prefix}.read") for _ in range(chunk.count)]
        for one in found:
            one.write(constant(0, type_.dtype))
        load, done = builder.label(f"{role.prefix}.written"), builder.label(f"{role.prefix}.read")
        builder.branch(unwritten.read(), done, load)
        builder.place(load)
        for one, loaded in zip(found, load_accumulator(builder, address, type_.dtype, chunk.count, split), strict=True):
            one.write(loaded)
        builder.jump(done)
        builder.place(done)
        return [one.read() for one in found]

    def _read_shared(self, node: tree.ReadBuffer, chunk: Chunk) -> list[Value]:
        source, type_ = node.source, node.type
        row, column = (chunk.row.index if type_.rows > 1 else integer(0)), chunk.column
        if source.transposed:  # a one-row tile, as a column
            row, column = integer(0), chunk.row.index
        layout = self.role.kernel.plan.layouts[source.buffer]
        tile, pointer = shared_tile(self.role, source, by_threads=True), self.builder.shared_pointer
        if source.cta is not None:
            mapped = self.builder.call("mapa", pointer(tile), self.scalars[node][-1])
            tile, pointer = self.builder.cast("ptrtoint", mapped, "i32"), self.builder.cluster_pointer
        if chunk.place is None or source.transposed:
            return load_shared(self.builder, layout, tile, type_.dtype, row, column, chunk.count, pointer)
        run = 1 if type_.dtype.bytes == 1 or type_.columns % 2 else 2  # at least a word, if pairs start at even columns
        firsts = (chunk.position(self.builder, index) for index in range(0, chunk.count, run))
        return [
            value for first in firsts for value in load_shared(self.builder, layout, tile, type_.dtype, row, first, run, pointer)
        ]

    def _read_tensor(self, node: tree.ReadTensor, chunk: Chunk) -> list[Value]:
        """Directly from global memory; a per-column vector is loaded once per warp and distributed by shuffles."""
        if chunk.row.map.vector and node.type.columns > 1:
            raise AssertionError("a batch of vectors is loaded before it is used")
        origin = self.scalars[node]
        dtype = node.type.dtype
        if node.axis == 0:
            origin_row = global_row(self.role, node.source.tensor, origin, None)
            return [load_element(self.role, origin_row, chunk.row.index, dtype)] * chunk.count
        if node.axis == 1 and chunk.place is not None:
            if node not in chunk.columns:
                chunk.columns[node] = self._pairs_of_columns(node, origin, chunk)
            return chunk.columns[node]
        if node.axis == 1 and chunk.row.map.block_rows > 1:
            return self._shared_columns(node, origin, chunk)
        target = global_row(self.role, node.source.tensor, origin, self.row_in_memory(node, chunk.row))
        return [load_element(self.role, target, chunk.position(self.builder, index), dtype) for index in range(chunk.count)]

    def row_in_memory(self, node: tree.ReadTensor, row: Row) -> Value | None:
        """How far below the first row of its source a row of a tile is; None for a vector along the columns."""
        if node.at is not None:
            first = node.source.coordinates[-2]
            may_lie_before = self.role.plan.role.values.of(first).least < 0
            number = row.values[self.resolve(node.at)]
            return counted_from(self.builder, self.scalars[node][-2], number) if may_lie_before else number
        return None if node.axis == 1 else row.index if node.type.rows > 1 else integer(0)

    def row_stored(self, operation: tree.Store, origin: Sequence[Value], row: Row) -> Value:
        """How far below the first row of the store a row of the tile goes; of one dimension, how far after the first element."""
        if not isinstance(operation.value, tree.Scattered):
            return row.index
        axis = -min(2, len(origin))
        number = row.values[self.resolve(operation.value.at)]
        may_lie_before = self.role.plan.role.values.of(operation.destination.coordinates[axis]).least < 0
        return counted_from(self.builder, origin[axis], number) if may_lie_before else number

    def _pairs_of_columns(self, node: tree.ReadTensor, origin: list[Value], chunk: Chunk) -> list[Value]:
        """Two adjacent columns of each group of eight: a vector, if the tile has whole groups."""
        role, dtype = self.role, node.type.dtype
        target = global_row(role, node.source.tensor, origin, None)
        if chunk.end is not None:
            return [load_element(role, target, chunk.position(self.builder, index), dtype) for index in range(chunk.count)]
        firsts = (chunk.position(self.builder, index) for index in range(0, chunk.count, 2))
        vectors = [Vector(target, first, 2, dtype, None) for first in firsts]
        return [value for pair in load_vectors(role, vectors) for value in pair]

    def _shared_columns(self, node: tree.ReadTensor, origin: list[Value], chunk: Chunk) -> list[Value]:
        """Threads with the same columns form groups of lanes: each loads one element, and shuffles distribute them."""
        role, builder = self.role, self.builder
        row_map = chunk.row.map
        group = 16 if row_map.half_warps else gcd(WARP, row_map.block_rows)
        dtype = node.type.dtype
        target = global_row(role, node.source.tensor, origin, None)
        inside = builder.bits("and", role.lane, group - 1)
        first_lane = builder.bits("and", role.lane, WARP - group)
        values: list[Value] = []
        for first in range(0, chunk.count, group):
            column = builder.add(builder.binary("add", chunk.column, inside), first)
            mine = load_element(role, target, column, dtype)
            for index in range(min(group, chunk.count - first)):
                lane = builder.add(first_lane, index)
                values.append(shuffle(role, "shuffle.idx", mine, dtype, lane))
        return values

    # ------------------------------------------------------------------------------------------------- reductions

    def _reduce(self, node: tree.RowReduce, row: Row) -> Value:
        """Over all columns: every thread reads the whole row, except that the halves of a warp each read theirs and then combine."""
        operand = self.resolve(node.operand)
        assert isinstance(operand.type, TileType)
        self.prepare_row(operand, row)
        if operand.type.columns == 1:
            return convert(self.builder, [row.values[operand]], operand.type.dtype, node.type.dtype)[0]
        if row.map.vector:
            return striped.reduce(self, node, operand, row)
        if row.fragment is not None:
            return self._reduce_fragment(node, operand, operand.type, row, row.fragment)
        role, builder = self.role, self.builder
        dtype = _F32 if is_narrow_float(operand.type.dtype) else operand.type.dtype
        halves = 2 if row.map.half_warps else 1
        shared = operand.type.columns - operand.type.columns % halves
        count = row.map.half_run(shared) if row.map.in_registers and halves == 2 else 0
        count = count or chunk_columns(shared // halves)
        written_out = row.map.in_registers and any(register_tiles(operand, role.lets))
        total = builder.variable(dtype.llvm, f"{role.prefix}.reduced")
        total.write(identity(node.function, dtype))
        steps = shared // (count * halves)
        for index, number in repeated(role.kernel, steps, f"{role.prefix}.reduce", written_out=written_out):
            uniform = builder.multiply(index, count * halves)
            column = uniform
            if halves == 2:
                column = builder.binary("add", uniform, builder.multiply(builder.bits("lshr", role.lane, 4), count))
            register = None if number is None else number * count
            chunk = Chunk(row, column, uniform, count if halves == 2 else 0, count, register)
            values = convert(builder, self.values(operand, chunk), operand.type.dtype, dtype)
            total.write(fold(builder, node.function, dtype, [total.read(), self._fold_chunk(node.function, dtype, values)]))
        result = total.read()
        if halves == 2:
            other = shuffle(role, "shuffle.bfly", result, dtype, integer(16))
            result = fold(builder, node.function, dtype, [result, other])
        if shared < operand.type.columns:
            last = integer(shared)
            values = convert(builder, self.values(operand, Chunk(row, last, last, 0, 1, 0)), operand.type.dtype, dtype)
            result = fold(builder, node.function, dtype, [result, *values])
        return convert(builder, [result], dtype, node.type.dtype)[0]

    def _fold_chunk(self, function: RowFunction, dtype: DType, values: list[Value]) -> Value:
        """One thread's elements: sums by pairs; sm_100 computes the minimum or maximum of three with one instruction."""
        if not packed.applies(self.target, dtype, [values]):
            return fold_tree(self.builder, function, dtype, values)
        if function == "sum":
            return packed.total(self.builder, values)
        return fold_tree(self.builder, function, dtype, values, width=3)

    def _reduce_fragment(
        self, node: tree.RowReduce, operand: tree.Expression, tile: TileType, row: Row, place: AccumulatorPart
    ) -> Value:
        """Four neighbouring lanes share a row of an accumulator in registers."""
        dtype = _F32 if is_narrow_float(tile.dtype) else tile.dtype
        chunk = fragment_chunk(self.role, row, place, spread.fragment_groups(0, tile.columns), tile.columns)
        values = convert(self.builder, self.values(operand, chunk), tile.dtype, dtype)
        for index, value in enumerate(values):
            inside = chunk.inside(self.builder, index)
            if inside is not None:
                values[index] = self.builder.select(inside, value, identity(node.function, dtype))
        result = fold_tree(self.builder, node.function, dtype, values)
        result = fold_lanes(self.role, node.function, dtype, result, 4)
        return convert(self.builder, [result], dtype, node.type.dtype)[0]


def fragment_chunk(
    role: RoleContext,
    row: Row,
    place: AccumulatorPart,
    groups: range,
    columns: int,
    shared: Found | None = None,
) -> Chunk:
    """This thread's columns of some groups of eight of a tile with this many columns. `shared`: Chunk.columns of these groups."""
    first = spread.fragment_column(role.builder, role.lane, groups.start)
    uniform = integer(groups.start * GROUP_COLUMNS)
    end = columns if columns % GROUP_COLUMNS else None
    columns_read = {} if shared is None else shared
    place = replace(place, groups=groups)
    return Chunk(row, first, uniform, 0, 2 * len(groups), 2 * groups.start, place=place, end=end, columns=columns_read)
