"""The named entities of a kernel: parameters, variables, pipelines with their buffers and stages, accumulators."""

from pipec.isa.dtypes import DType
from pipec.record import record
from pipec.sema.types import ScalarType, TileType, ValueType
from pipec.source import Span
from pipec.vocabulary import Form, PipelineKind, Scope, Side, Space


@record(eq=False)
class Variable:
    """A run-time variable of one role; assigned any number of times. Its type never changes.

    `in_registers` applies to tiles: a register-resident tile is evaluated when assigned and may be reassigned; any other tile variable is
    a name for its expression.
    """

    name: str
    type: ValueType
    span: Span
    in_registers: bool = False
    natural: bool = False  # never negative, though the ranges of what is assigned need not show it
    usual: int | None = None  # the power of two that it nearly always is, and uniformly over the threads

    @property
    def is_lazy(self) -> bool:
        """Whether it is a tile that is evaluated at its uses."""
        return isinstance(self.type, TileType) and not self.in_registers


@record
class TensorParameter:
    """A tensor in global memory, row-major; `shape` holds dimension names (bound at launch) or literal sizes, outermost first."""

    name: str
    dtype: DType
    shape: tuple[str | int, ...]
    span: Span


@record
class ScalarParameter:
    name: str
    type: ScalarType
    span: Span


@record(eq=False)
class Pipeline:
    """A staged hand-over between roles. `kind` is the name of its type on the seed pages (a row of the pipeline table).

    `stages` counts the units that have barriers: with a `k_group_size` above 1 these are group stages, each with that many tiles of every
    member. Each side completes one barrier per stage, or one per sub-stage. `cta_group` 2: shared by a pair of CTAs; `scope` "cluster":
    every CTA of the cluster fills its own stage, and all of them read all stages (see pipec.kir.clusters).
    """

    name: str
    kind: PipelineKind
    stages: int
    span: Span
    k_group_size: int = 1
    producer_sub_stages: int = 1
    consumer_sub_stages: int = 1
    cta_group: int = 1
    scope: Scope = "cta"

    def sub_stages(self, side: Side) -> int:
        """The barriers that a side completes per stage."""
        return self.producer_sub_stages if side == "producer" else self.consumer_sub_stages


@record(eq=False)
class Buffer:
    """`count` tiles of `rows` x `columns` elements in shared memory ("shared") or tensor memory ("tensor").

    `owner` is the pipeline whose payload it belongs to; None for buffers declared by the kernel (indexed by a stage's index()).
    """

    name: str
    space: Space
    dtype: DType
    rows: int
    columns: int
    count: int
    owner: Pipeline | None
    span: Span
    slot: int | None = None  # its place in a k group, if stages hold several tiles per payload member
    stride: int | None = None  # declared distance of tiles in tensor memory, in columns; at least a tile's width
    alias: "Buffer | None" = None  # the tile in tensor memory whose columns it reuses, from `alias_column` on
    alias_column: int = 0

    @property
    def folded(self) -> bool:
        """Whether the right half of the columns is placed below the left one: 64 rows of an M = 128 product of a CTA pair, the halves in
        lanes 0-63 and 64-127 (hardware.md 3.6, layout B)."""
        return self.space == "tensor" and self.rows == 64 and self.owner is not None and self.owner.cta_group == 2

    @property
    def width(self) -> int:
        """Columns of tensor memory that one tile occupies; each element takes one."""
        return self.columns // 2 if self.folded else self.columns

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory from the start of the first tile to the end of the last."""
        return (self.stride or self.width) * (self.count - 1) + self.width

    @property
    def member(self) -> str:
        """The name of the payload member: `a` for `a` and for `a[0]` alike."""
        return self.name if self.slot is None else self.name.removesuffix(f"[{self.slot}]")

    @property
    def label(self) -> str:
        """The name in the source: `input.a` for payload tiles."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name


@record(eq=False)
class Handle:
    """An acquired stage. `side` is "producer" or "consumer".

    `form` is "scoped" (with), "linear", "explicit" (consume_explicit), "stepped" (the stage between a wait and its step) or "token": not a
    stage yet, but the result of a peek, consumed by the wait that completes it.
    """

    name: str
    pipeline: Pipeline
    side: Side
    form: Form
    span: Span

    @property
    def label(self) -> str:
        """The name without characters that symbols cannot contain."""
        return self.name.removesuffix(".index()").removesuffix("()")


@record(eq=False)
class Accumulator:
    """A `wgmma` accumulator in a role's registers: `rows` x `columns`, the rows divided evenly among its warpgroups."""

    name: str
    dtype: DType
    rows: int
    columns: int
    span: Span

    @property
    def type(self) -> TileType:
        return TileType(self.dtype, self.rows, self.columns)


@record(eq=False)
class ReducedColumns:
    """What a role has reduced the columns of a tile to: a row in shared memory, which all its threads read."""

    name: str
    type: TileType
    span: Span
