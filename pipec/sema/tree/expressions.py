"""Values: pure, typed, with the tiles of stages and tensors that they read.

All integer division and remainder here follow Python (floor); lowering picks the machine form.
"""

from pipec.record import record
from pipec.sema.tree.symbols import Accumulator, Buffer, Handle, ReducedColumns, ScalarParameter, TensorParameter, Variable
from pipec.sema.types import ScalarType, TileType, ValueType
from pipec.source import Span
from pipec.vocabulary import BinaryOperator, RowFunction, UnaryOperator


@record(eq=False)
class BufferRef:
    """The tile of `buffer` that belongs to the stage of `handle`; `transposed` is the view `.T` (an MMA operand only).

    `sub_stage` is the sub-stage that hands the tile over; None: all of them. `cta` (i32): the rank of the CTA in the cluster whose tile it
    is; None: this CTA. `part`: the first row and the number of rows of `rows(tile, first, count)`, which a load fills; None: all of them.
    """

    buffer: Buffer
    handle: Handle
    transposed: bool
    span: Span
    sub_stage: int | None = None
    cta: "Expression | None" = None
    part: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        return self.buffer.rows if self.part is None else self.part[1]


@record(eq=False)
class TensorSlice:
    """The tile of `tensor` whose first element is at `coordinates` (i32, outermost first); the tile's size comes from its use."""

    tensor: TensorParameter
    coordinates: tuple["Expression", ...]
    span: Span


@record(eq=False)
class Constant:
    value: int | float | bool
    type: ScalarType
    span: Span


@record(eq=False)
class ReadVariable:
    variable: Variable
    span: Span

    @property
    def type(self) -> ValueType:
        return self.variable.type


@record(eq=False)
class ReadDimension:
    """A launch-bound dimension, i32."""

    name: str
    type: ScalarType
    span: Span


@record(eq=False)
class ReadParameter:
    parameter: ScalarParameter
    span: Span

    @property
    def type(self) -> ScalarType:
        return self.parameter.type


@record(eq=False)
class Special:
    """A hardware value, i32: a row of `pipec.isa.specials`, or lane_id, role_thread, role_warp."""

    name: str
    type: ScalarType
    span: Span


@record(eq=False)
class StageIndex:
    """The stage number of a held handle, i32. `sub_stage`: the tiles that it indexes belong to that sub-stage alone."""

    handle: Handle
    type: ScalarType
    span: Span
    sub_stage: int | None = None


@record(eq=False)
class ReadResponse:
    """The tile that a held response of a tile scheduler grants, i32; -1 when none is left."""

    handle: Handle
    type: ScalarType
    span: Span


@record(eq=False)
class Unary:
    """operator: "-", "not", "~"."""

    operator: UnaryOperator
    operand: "Expression"
    type: ValueType
    span: Span


@record(eq=False)
class Binary:
    """operator: + - * / // % & | ^ << >>, comparisons == != < <= > >= (type bool), "and", "or".

    Both operands have the same element type (conversions are explicit nodes); tiles broadcast over rows or columns of size 1.
    """

    operator: BinaryOperator
    left: "Expression"
    right: "Expression"
    type: ValueType
    span: Span


@record(eq=False)
class Bitcast:
    """Reinterprets the bits as another element type of the same width."""

    operand: "Expression"
    type: ValueType
    span: Span


@record(eq=False)
class Convert:
    """To another element type (type's dtype): rounds to nearest even, saturating for e4m3 and e5m2; float to int truncates."""

    operand: "Expression"
    type: ValueType
    span: Span


@record(eq=False)
class Select:
    """`when_true if condition else when_false`, both evaluated."""

    condition: "Expression"
    when_true: "Expression"
    when_false: "Expression"
    type: ValueType
    span: Span


@record(eq=False)
class Call:
    """An elementwise function: a row of `pipec.sema.language.functions`."""

    function: str
    arguments: tuple["Expression", ...]
    type: ValueType
    span: Span


@record(eq=False)
class Splat:
    """A scalar as a tile."""

    operand: "Expression"
    type: TileType
    span: Span


@record(eq=False)
class ReadBuffer:
    """The values of a held stage's tile, as a register tile; read when used, so its handle must still be held at that point.

    `first_column` (i32, uniform over the threads): the first of the type's columns; None: the whole tile.
    """

    source: BufferRef
    type: TileType
    span: Span
    first_column: "Expression | None" = None


@record(eq=False)
class ReadTensor:
    """Values read straight from global memory; elements outside the tensor read as zero.

    A 1-D tensor gives a per-row (`axis` 0, columns == 1) or per-column (`axis` 1, rows == 1) vector; a 2-D tensor a whole tile
    (`axis` None). `at`: of such a tile, how many rows below the slice's first each row is; they are consecutive if omitted.
    """

    source: TensorSlice
    axis: int | None
    type: TileType
    span: Span
    at: "Expression | None" = None


@record(eq=False)
class ReadElement:
    """One element of a tensor, the same for every thread that reads the same index; 0 outside the tensor."""

    source: TensorSlice
    type: ScalarType
    span: Span


@record(eq=False)
class Position:
    """Each element's row number (`axis` 0, columns == 1) or column number (`axis` 1, rows == 1) inside its tile, i32."""

    axis: int
    type: TileType
    span: Span


@record(eq=False)
class Scattered:
    """The tile of a store, and for each of its rows how far below the store's first row it goes (`at`: i32, one column)."""

    operand: "Expression"
    at: "Expression"
    type: TileType
    span: Span


@record(eq=False)
class ReadAccumulator:
    """The values of an accumulator in registers, once every MMA into it is complete; read when used."""

    accumulator: Accumulator
    span: Span

    @property
    def type(self) -> TileType:
        return self.accumulator.type


@record(eq=False)
class Columns:
    """The columns from `first` on, as many as the type has. Both are aligned to any chunk of columns that a thread processes."""

    operand: "Expression"
    first: int
    type: TileType
    span: Span


@record(eq=False)
class RowReduce:
    """Reduces each row: function "sum", "max" or "min"; the result has one column."""

    function: RowFunction
    operand: "Expression"
    type: TileType
    span: Span


@record(eq=False)
class ReadReducedColumns:
    """One value for each column, as `ReduceColumns` last left them; read when used."""

    reduced: ReducedColumns
    span: Span

    @property
    def type(self) -> TileType:
        return self.reduced.type


Expression = (
    Constant
    | ReadVariable
    | ReadDimension
    | ReadParameter
    | Special
    | StageIndex
    | ReadResponse
    | Unary
    | Binary
    | Convert
    | Bitcast
    | Select
    | Call
    | Splat
    | ReadBuffer
    | ReadTensor
    | ReadElement
    | Position
    | Scattered
    | ReadAccumulator
    | Columns
    | RowReduce
    | ReadReducedColumns
)
