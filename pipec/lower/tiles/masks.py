"""Selections by the column: an element is kept if its column is in front of a bound that the row has in common.

A comparison for each element would cost as much as the selection. Instead the bits of a word say which of 32 columns are in front of the
bound, and ptxas moves 7 of them into predicates by one instruction (`R2P`). Where a thread has two of eight neighbouring columns, as in an
accumulator of wgmma, the bits are those of its elements.
"""

from pipec.isa.choices import CHOSEN, choose_by_bits
from pipec.kir.spread import GROUP_COLUMNS
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value
from pipec.lower.tiles.chunks import Chunk, Reader
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of
from pipec.vocabulary import BinaryOperator

_WORD = 32
# Columns of a thread for which a word is worth its making. In an accumulator of wgmma it takes five instructions more: gradients of
# attention with 12 columns a thread became 3 to 4 % slower by it on an H200, with 16 columns 2 to 5 % faster.
_FEWEST, _FEWEST_OF_GROUPS = 8, 16
_LARGEST = 2**31 - 1

# column OPERATOR bound: whether the column that equals the bound counts as in front, and whether those in front are chosen.
_KINDS: dict[BinaryOperator, tuple[bool, bool]] = {
    "<": (False, True),
    "<=": (True, True),
    ">": (True, False),
    ">=": (False, False),
}
_MIRRORED: dict[BinaryOperator, BinaryOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@record
class Bound:
    """`value`, i32, is the same for all elements of a chunk; the column that equals it is in front of it if it is `included`."""

    value: Value
    included: bool
    chosen: bool  # whether the condition is true for the columns in front, or for the others


def bound(reader: Reader, node: tree.Select, chunk: Chunk) -> Bound | None:
    """What the condition compares the columns of the chunk with; None if it is no such comparison, or elements are not 32 bits wide."""
    condition = reader.resolve(node.condition)
    if not isinstance(condition, tree.Binary) or condition.operator not in _KINDS:
        return None
    if not _in_a_run(chunk) or dtype_of(node.type).llvm not in CHOSEN:
        return None
    operator, left, right = condition.operator, reader.resolve(condition.left), reader.resolve(condition.right)
    if _is_column(right):
        operator, left, right = _MIRRORED[operator], right, left
    if not _is_column(left) or dtype_of(right.type).name != "i32":
        return None
    first, *others = reader.values(right, chunk)
    if first.name.isdigit() or any(value is not first for value in others):
        return None  # a known bound is compared here, and only one side of each element computed
    return Bound(first, *_KINDS[operator])


def select(builder: Builder, chunk: Chunk, limit: Bound, when_true: list[Value], when_false: list[Value]) -> list[Value]:
    """An element of the one list or of the other, for each column."""
    if not limit.chosen:
        when_true, when_false = when_false, when_true
    count = _columns_in_front(builder, chunk, limit)
    if chunk.place is not None:
        count = _of_groups(builder, count)
    chosen = list[Value]()
    for first in range(0, chunk.count, _WORD):
        left = _at_least(builder, builder.add(count, -first), 0)
        word = builder.call("bits.lowest", left)
        chosen += _by_bits(builder, word, when_true[first : first + _WORD], when_false[first : first + _WORD])
    return chosen


def _by_bits(builder: Builder, word: Value, if_set: list[Value], if_clear: list[Value]) -> list[Value]:
    """Of elements that become others, which usually have one value in common, the different ones are kept in place."""
    keeps = len({*if_set}) >= len({*if_clear})
    kept, others = (if_set, if_clear) if keeps else (if_clear, if_set)
    different = [*dict.fromkeys(others)]
    row = choose_by_bits(kept[0].type, tuple(map(different.index, others)), keeps)
    return builder.elements(builder.issue(row, word, *kept, *different), len(kept), kept[0].type)


def _in_a_run(chunk: Chunk) -> bool:
    fewest = _FEWEST if chunk.place is None else _FEWEST_OF_GROUPS
    return chunk.end is None and chunk.whole is None and not chunk.row.map.vector and chunk.count >= fewest


def _is_column(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Position) and expression.axis == 1 and isinstance(expression.type, TileType)


def _columns_in_front(builder: Builder, chunk: Chunk, limit: Bound) -> Value:
    """Of the chunk's first column on; too large or negative where all are in front, or none. Bounded first, so that nothing overflows."""
    value = limit.value
    if limit.included:
        value = builder.add(builder.emit("i32", f"call i32 @llvm.smin.i32({value}, i32 {_LARGEST - 1})"), 1)
    return builder.binary("sub", _at_least(builder, value, 0), chunk.column)


def _of_groups(builder: Builder, columns: Value) -> Value:
    """How many elements of an accumulator are in so many columns from the thread's first one on: it has the first two of each group."""
    whole = builder.bits("shl", builder.bits("ashr", columns, GROUP_COLUMNS.bit_length() - 1), 1)
    rest = builder.bits("and", columns, GROUP_COLUMNS - 1)
    return builder.binary("add", whole, builder.emit("i32", f"call i32 @llvm.smin.i32({rest}, i32 2)"))


def _at_least(builder: Builder, value: Value, least: int) -> Value:
    return builder.emit("i32", f"call i32 @llvm.smax.i32({value}, i32 {least})")
