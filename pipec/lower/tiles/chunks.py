"""The unit of work of a thread: a row of a register tile, and a chunk of its columns."""

from collections.abc import Sequence
from typing import Protocol

from pipec.kir import spread
from pipec.kir.plan.types import RowMap
from pipec.kir.spread import GROUP_COLUMNS
from pipec.lower.context import RoleContext
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value, integer
from pipec.record import field, mutable, record, replace
from pipec.sema import tree

# What the result of reading a stage's tile depends on: the tile, the stage, whether it is transposed, and the node if its columns move.
_Read = tuple[tree.Buffer, tree.Handle, bool, tree.Expression | None]
Found = dict[tree.Expression | _Read, list[Value]]


@mutable
class Row:
    """A row of the tile that this thread works on: its position (see pipec.kir.spread.RowShare), and values that are constant along it."""

    map: RowMap
    index: Value
    part: Value
    uniform_part: Value
    working: Value | None
    number: int | None = None  # of the row block, if known (`map.in_registers`)
    values: dict[tree.Expression, Value] = field(default_factory=dict)  # of one-column expressions
    prepared: set[tree.Expression] = field(default_factory=set)  # expressions whose one-column parts are among the values
    fragment: "AccumulatorPart | None" = None
    half: Value | None = None  # the half of a folded tile's columns that this thread has


@record
class AccumulatorPart:
    """The registers of an accumulator for a row and its columns: block of 64 rows, half of 16 rows, groups of 8 columns."""

    block: int
    half: int
    groups: range


@mutable
class Chunk:
    """`count` columns of a row from `column` on; `uniform_column` is that of the first lane, `split` the offset of lanes 16-31.

    `register` is the index of the first register of a register-resident tile that holds them, if known (`row.map.in_registers`). With a
    `place`, two columns of each of its groups: `column` is the first, element i is i // 2 groups further. `end` is the number of columns
    of a tile whose last group is partial: some lanes have no element of that group.

    Chunks of the same columns in other rows of a thread may share their `columns`: what does not depend on the row is read once.

    A `part` has some of the elements of its `whole`, the `chosen` ones; the other fields are those of the whole.
    """

    row: Row
    column: Value
    uniform_column: Value
    split: int
    count: int
    register: int | None = None
    cache: Found = field(default_factory=dict)
    columns: Found = field(default_factory=dict)  # values shared with other rows in the same columns
    place: AccumulatorPart | None = None
    others: dict[int, "Chunk"] = field(default_factory=dict)  # by distance in columns
    end: int | None = None
    present: Value | None = None  # whether the tile has these columns (None: always); holds for all of a chunk or none
    whole: "Chunk | None" = None
    chosen: tuple[int, ...] = ()

    def position(self, builder: Builder, index: int) -> Value:
        """The column of an element; for one outside the tile, some column inside it."""
        if self.place is None:
            return builder.add(self.column, index)
        column = builder.add(self.column, spread.fragment_offset(index))
        inside = self.inside(builder, index)
        if inside is None or self.end is None:
            return column
        return builder.select(inside, column, integer(min(index % 2, self.end - 1)))

    def inside(self, builder: Builder, index: int) -> Value | None:
        """Whether the element is inside the tile; None if it is for every lane."""
        if self.place is None or self.end is None:
            return None
        column = builder.add(self.column, spread.fragment_offset(index))
        return spread.fragment_inside(builder, column, self.place.groups[index // 2], self.end)

    def part(self, chosen: Sequence[int]) -> "Chunk":
        """A sub-chunk with these elements."""
        if len(chosen) == self.count:
            return self
        return replace(self, count=len(chosen), cache={}, others={}, whole=self, chosen=tuple(chosen))

    def moved(self, builder: Builder, columns: int) -> "Chunk":
        """The chunk this many columns further; if the halves of a warp share a row, each holds every second run."""
        if columns not in self.others:
            registers, place = columns // 2 if self.row.map.half_warps else columns, self.place
            if self.row.map.vector:
                registers = columns // self.row.map.split
            if place is not None:
                groups, registers = columns // GROUP_COLUMNS, 2 * columns // GROUP_COLUMNS
                place = replace(place, groups=range(place.groups.start + groups, place.groups.stop + groups))
            register = None if self.register is None else self.register + registers
            places = builder.add(self.column, columns), builder.add(self.uniform_column, columns)
            self.others[columns] = Chunk(self.row, *places, self.split, self.count, register, place=place, present=self.present)
        return self.others[columns]


class Reader(Protocol):
    """Evaluates the tile expressions of one operation (pipec.lower.tiles.reader)."""

    role: RoleContext
    scalars: dict[tree.Expression, list[Value]]

    def resolve(self, expression: tree.Expression) -> tree.Expression: ...

    def prepare_row(self, expression: tree.Expression, row: Row) -> None: ...

    def values(self, expression: tree.Expression, chunk: Chunk) -> list[Value]: ...

    def row_in_memory(self, node: tree.ReadTensor, row: Row) -> Value | None: ...
