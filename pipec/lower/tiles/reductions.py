"""Reductions: the binary functions, and how the threads that share a row, or a column, combine their results."""

import functools
from collections.abc import Sequence

from pipec.isa.dtypes import DType
from pipec.isa.targets import WARP
from pipec.kir.plan.reductions import element_bytes
from pipec.kir.plan.types import RowMap
from pipec.lower.context import FULL_WARP, RoleContext
from pipec.lower.emit.arithmetic import binary, constant
from pipec.lower.emit.functions import call_function
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import TRUE, Value, floating, integer
from pipec.lower.tiles.chunks import Chunk
from pipec.sema.tree import ReducedColumns
from pipec.vocabulary import RowFunction

_VECTOR_WORDS = 4  # of one load from shared memory


def fold(builder: Builder, function: RowFunction, dtype: DType, pair: Sequence[Value]) -> Value:
    if function == "sum":
        return binary(builder, "+", dtype, *pair)
    return call_function(builder, function, dtype, pair)


def fold_tree(builder: Builder, function: RowFunction, dtype: DType, values: Sequence[Value], width: int = 2) -> Value:
    """As a tree of arity `width`: shorter chains and smaller rounding errors than left to right."""
    values = list(values)
    while len(values) > 1:
        groups = [values[index : index + width] for index in range(0, len(values), width)]
        values = [functools.reduce(lambda one, other: fold(builder, function, dtype, [one, other]), group) for group in groups]
    return values[0]


def identity(function: RowFunction, dtype: DType) -> Value:
    if function == "sum":
        return constant(0, dtype)
    least = function == "max"
    if dtype.is_float:
        return floating(float("-inf") if least else float("inf"), dtype.llvm)
    signed = dtype.family == "signed"
    low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if signed else (0, 2**dtype.bits - 1)
    return integer(low if least else high, dtype.llvm)


def shuffle(role: RoleContext, instruction: str, value: Value, dtype: DType, lane: Value) -> Value:
    """A shuffle of one element, 32 bits at a time."""
    builder = role.builder
    bits = builder.cast("bitcast", value, f"i{dtype.bits}")
    if dtype.bits == 64:
        pair = builder.cast("bitcast", bits, "<2 x i32>")
        words = [builder.element(pair, index, "i32") for index in (0, 1)]
        moved = [builder.call(instruction, FULL_WARP, word, lane, integer(WARP - 1)) for word in words]
        return builder.cast("bitcast", builder.vector(moved), dtype.llvm)
    # A shuffle moves 32 bits of any type.
    word = builder.call(instruction, FULL_WARP, builder.cast("zext", bits, "i32"), lane, integer(WARP - 1))
    return builder.cast("bitcast", builder.cast("trunc", word, f"i{dtype.bits}"), dtype.llvm)


def fold_lanes(role: RoleContext, function: RowFunction, dtype: DType, value: Value, lanes: int) -> Value:
    """Over this many neighbouring lanes, a power of two; all get the result."""
    distance = 1
    while distance < lanes:
        other = shuffle(role, "shuffle.bfly", value, dtype, integer(distance))
        value = fold(role.builder, function, dtype, [value, other])
        distance *= 2
    return value


def fold_warps(role: RoleContext, function: RowFunction, dtype: DType, value: Value, row_map: RowMap, row: Value) -> Value:
    """Over the warps that share a row: each writes its value to shared memory, and all of them read those of their row.

    Two buffers alternate, each of them large enough for the role's largest elements. A warp that writes to one has synchronised since the
    others read it: in the round of the other buffer.
    """
    builder, warps = role.builder, row_map.warps_of_row
    exchange = role.kernel.plan.exchanges[role.prefix]
    size = element_bytes(dtype)
    assert role.exchange_turn is not None
    turn = role.exchange_turn.read()
    role.exchange_turn.write(builder.bits("xor", turn, 1))
    base = builder.binary("add", role.kernel.shared_address(exchange.offset), builder.multiply(turn, exchange.stride))
    mine = builder.binary("add", base, builder.multiply(role.role_warp, size))
    # Every lane has the warp's value; one writes it, to avoid 32 writes to a bank.
    first = builder.compare("eq", role.lane, integer(0))
    store_word(builder, mine, value, dtype, first)
    role.synchronise()
    start = builder.binary("add", base, builder.multiply(row, warps * size))
    return fold_tree(builder, function, dtype, read_words(builder, start, warps, dtype))


def store_word(builder: Builder, address: Value, value: Value, dtype: DType, allowed: Value) -> None:
    """An element to shared memory, in one word or two."""
    bits = 8 * element_bytes(dtype)
    builder.call(f"store.shared.if.{bits}", builder.shared_pointer(address), _word(builder, value, dtype), allowed)


def _word(builder: Builder, value: Value, dtype: DType) -> Value:
    bits = builder.cast("bitcast", value, f"i{dtype.bits}")
    return bits if dtype.bits == 64 else builder.cast("zext", bits, "i32")


def fold_across(
    role: RoleContext, function: RowFunction, dtype: DType, values: list[Value], distances: Sequence[int]
) -> tuple[list[Value], Value, Value]:
    """A power of two of values, each over the lanes at these distances. Lanes share out the values: at each distance, a lane passes on one
    half of what it has left, and reduces the other. What is left, the number of the first of it, and whether this lane is the one to use it
    (of several that have the same)."""
    assert len(values) & (len(values) - 1) == 0, "lanes could not share out the values evenly"
    builder, start, owner = role.builder, integer(0), TRUE
    for distance in sorted(distances, reverse=True):
        upper = builder.compare("ne", builder.bits("and", role.lane, distance), integer(0))
        if len(values) == 1:
            others = [shuffle(role, "shuffle.bfly", values[0], dtype, integer(distance))]
            lower = builder.compare("eq", builder.bits("and", role.lane, distance), integer(0))
            owner = lower if owner is TRUE else builder.binary("and", owner, lower)
        else:
            half = len(values) // 2
            pairs = list(zip(values[:half], values[half:], strict=True))
            passed = [builder.select(upper, low, high) for low, high in pairs]
            values = [builder.select(upper, high, low) for low, high in pairs]
            others = [shuffle(role, "shuffle.bfly", value, dtype, integer(distance)) for value in passed]
            start = builder.binary("add", start, builder.select(upper, integer(half), integer(0)))
        values = [fold(builder, function, dtype, pair) for pair in zip(values, others, strict=True)]
    return values, start, owner


def read_reduced(role: RoleContext, reduced: ReducedColumns, chunk: Chunk) -> list[Value]:
    """The columns of a chunk of what `ReduceColumns` left in shared memory."""
    builder, dtype = role.builder, reduced.type.dtype
    size = element_bytes(dtype)
    start = role.kernel.shared_address(role.kernel.plan.reduced_offsets[reduced])

    def run(column: Value, count: int) -> list[Value]:
        return read_words(builder, builder.binary("add", start, builder.multiply(column, size)), count, dtype)

    if chunk.place is None:
        return run(chunk.column, chunk.count)
    together = 1 if chunk.end is not None else 2
    firsts = [chunk.position(builder, index) for index in range(0, chunk.count, together)]
    return [value for first in firsts for value in run(first, together)]


def read_words(builder: Builder, start: Value, count: int, dtype: DType) -> list[Value]:
    """Consecutive elements, each in one or two words; as many per load as alignment allows."""
    word, size = ("i64", 8) if dtype.bits == 64 else ("i32", 4)
    together = min(_VECTOR_WORDS * 4 // size, count & -count)
    values: list[Value] = []
    for first in range(0, count, together):
        pointer = builder.shared_pointer(builder.add(start, first * size))
        if together == 1:
            values.append(builder.load(word, pointer, size))
            continue
        vector = builder.load(f"<{together} x {word}>", pointer, size * together)
        values += [builder.element(vector, index, word) for index in range(together)]
    return [builder.cast("bitcast", builder.cast("trunc", one, f"i{dtype.bits}"), dtype.llvm) for one in values]
