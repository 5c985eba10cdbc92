"""The typed tree: what a kernel means once names are resolved, types known and compile-time values folded.

Expressions are pure. Operations are the leaves that do something; `pipec.kir` puts them into control-flow graphs unchanged.
All integer division and remainder here follow Python (floor); lowering picks the machine form.
"""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record
from pipec.sema.types import ScalarType, TileType, ValueType, dtype_of
from pipec.source import Span

# ---------------------------------------------------------------------------------------------------------------- symbols


@record(eq=False)
class Variable:
    """A run-time variable of one role; assigned any number of times. Its type never changes.

    `kept` is about tiles: a kept tile stands in registers, is evaluated when it is assigned and may be assigned again; any other
    tile variable is a name for its expression.
    """

    name: str
    type: ValueType
    span: Span
    kept: bool = False

    @property
    def is_lazy(self) -> bool:
        """A tile that is evaluated where it is used."""
        return isinstance(self.type, TileType) and not self.kept


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

    `stages` counts what has barriers: with a `k_group_size` above 1 the group stages, each with that many tiles of every member.
    Each side completes a barrier per stage, or several: one for each of its sub-stages. `cta_group` 2: a pair of CTAs shares it;
    `scope` "cluster": every CTA of the cluster fills its own stage, and all of them read all (see pipec.kir.clusters).
    """

    name: str
    kind: str
    stages: int
    span: Span
    k_group_size: int = 1
    producer_sub_stages: int = 1
    consumer_sub_stages: int = 1
    cta_group: int = 1
    scope: str = "cta"

    def sub_stages(self, side: str) -> int:
        """The barriers that a side completes per stage."""
        return self.producer_sub_stages if side == "producer" else self.consumer_sub_stages


@record(eq=False)
class Buffer:
    """`count` tiles of `rows` x `columns` elements in shared memory ("shared") or tensor memory ("tensor").

    `owner` is the pipeline whose payload it is; None for buffers the kernel declares itself (indexed by a stage's index()).
    """

    name: str
    space: str
    dtype: DType
    rows: int
    columns: int
    count: int
    owner: Pipeline | None
    span: Span
    slot: int | None = None  # its place in a k group, of stages that hold several tiles of each payload member
    stride: int | None = None  # stated columns of tensor memory from one tile to the next; at least a tile's

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory from the start of the first tile to the end of the last."""
        return (self.stride or self.columns) * (self.count - 1) + self.columns

    @property
    def member(self) -> str:
        """The name of the payload member: `a` for `a` and for `a[0]` alike."""
        return self.name if self.slot is None else self.name.removesuffix(f"[{self.slot}]")

    @property
    def label(self) -> str:
        """The name a reader knows: `input.a` for payload tiles."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name


@record(eq=False)
class Handle:
    """An acquired stage. `side` is "producer" or "consumer".

    `form` is "scoped" (with), "linear", "explicit" (consume_explicit), "direct" (the stage between a wait and its step) or "token":
    no stage yet, but the result of a peek, which the wait that completes it takes up.
    """

    name: str
    pipeline: Pipeline
    side: str
    form: str
    span: Span

    @property
    def label(self) -> str:
        """The name without what no identifier has, for symbols."""
        return self.name.removesuffix("()")


@record(eq=False)
class Accumulator:
    """What a role adds up in its own registers (`wgmma`): `rows` x `columns`, the rows shared out evenly to its warpgroups."""

    name: str
    dtype: DType
    rows: int
    columns: int
    span: Span

    @property
    def type(self) -> TileType:
        return TileType(self.dtype, self.rows, self.columns)


@record
class BufferRef:
    """The tile of `buffer` that belongs to the stage of `handle`; `transposed` is the view `.T` (an MMA operand only).

    `sub_stage` says which sub-stage hands the tile over; None: it belongs to all of them.
    """

    buffer: Buffer
    handle: Handle
    transposed: bool
    span: Span
    sub_stage: int | None = None


@record
class TensorSlice:
    """The tile of `tensor` whose first element is at `coordinates` (i32, outermost first); the tile's size comes from its use."""

    tensor: TensorParameter
    coordinates: tuple["Expression", ...]
    span: Span


# ------------------------------------------------------------------------------------------------------------ expressions


@record
class Constant:
    value: int | float | bool
    type: ScalarType
    span: Span


@record
class ReadVariable:
    variable: Variable
    span: Span

    @property
    def type(self) -> ValueType:
        return self.variable.type


@record
class ReadDimension:
    """A launch-bound dimension, i32."""

    name: str
    type: ScalarType
    span: Span


@record
class ReadParameter:
    parameter: ScalarParameter
    span: Span

    @property
    def type(self) -> ScalarType:
        return self.parameter.type


@record
class Special:
    """A hardware value, i32: a row of `pipec.isa.specials`, or lane_id, role_thread, role_warp."""

    name: str
    type: ScalarType
    span: Span


@record
class StageIndex:
    """The stage number of a held handle, i32. `sub_stage`: what it indexes belongs to that sub-stage alone."""

    handle: Handle
    type: ScalarType
    span: Span
    sub_stage: int | None = None


@record
class ReadResponse:
    """The tile that a held response of a tile scheduler grants, i32; -1 when none is left."""

    handle: Handle
    type: ScalarType
    span: Span


@record
class Unary:
    """operator: "-", "not", "~"."""

    operator: str
    operand: "Expression"
    type: ValueType
    span: Span


@record
class Binary:
    """operator: + - * / // % & | ^ << >>, comparisons == != < <= > >= (type bool), "and", "or".

    Both operands have the same element type (conversions are explicit nodes); tiles broadcast over rows or columns of size 1.
    """

    operator: str
    left: "Expression"
    right: "Expression"
    type: ValueType
    span: Span


@record
class Convert:
    """To another element type (type's dtype): round to nearest even, saturating for e4m3 and e5m2; int from float truncates."""

    operand: "Expression"
    type: ValueType
    span: Span


@record
class Select:
    """`when_true if condition else when_false`, both evaluated."""

    condition: "Expression"
    when_true: "Expression"
    when_false: "Expression"
    type: ValueType
    span: Span


@record
class Call:
    """An elementwise function: a row of `pipec.sema.functions`."""

    function: str
    arguments: tuple["Expression", ...]
    type: ValueType
    span: Span


@record
class Splat:
    """A scalar as a tile."""

    operand: "Expression"
    type: TileType
    span: Span


@record
class ReadBuffer:
    """The values of a held stage's tile, as a register tile; read when used, so its handle must still be held there.

    With `first_column` (i32, the same in all threads) the type's columns from there on; None stands for the whole tile.
    """

    source: BufferRef
    type: TileType
    span: Span
    first_column: "Expression | None" = None


@record
class ReadTensor:
    """Values read straight from global memory; elements outside the tensor read as zero.

    A 1-D tensor gives a per-row (`axis` 0, columns == 1) or per-column (`axis` 1, rows == 1) vector; a 2-D tensor a whole tile
    (`axis` None).
    """

    source: TensorSlice
    axis: int | None
    type: TileType
    span: Span


@record
class Position:
    """Each element's row number (`axis` 0, columns == 1) or column number (`axis` 1, rows == 1) inside its tile, i32."""

    axis: int
    type: TileType
    span: Span


@record
class ReadAccumulator:
    """The values of an accumulator in registers, once every MMA into it is complete; read when used."""

    accumulator: Accumulator
    span: Span

    @property
    def type(self) -> TileType:
        return self.accumulator.type


@record
class Columns:
    """The columns from `first` on, as many as the type has. Both suit any chunk of columns a thread works on."""

    operand: "Expression"
    first: int
    type: TileType
    span: Span


@record
class RowReduce:
    """Reduces each row: function "sum", "max" or "min"; the result has one column."""

    function: str
    operand: "Expression"
    type: TileType
    span: Span


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
    | Select
    | Call
    | Splat
    | ReadBuffer
    | ReadTensor
    | Position
    | ReadAccumulator
    | Columns
    | RowReduce
)

# ------------------------------------------------------------------------------------------------------------- operations


@record
class Assign:
    """A lazy tile variable holds its expression, evaluated where it is used (a `let`), and is assigned once; a kept tile gets the
    values that its expression has now."""

    variable: Variable
    value: Expression
    span: Span


@record
class Acquire:
    """Waits for the other side, then holds the stage. All forms are one operation.

    `sub_stage` is one of the other side's. `first` is the wait that obtains the stage; the others wait for more of it. `token` is the
    peek that this wait completes: it waits only if that found the stage not ready.
    """

    handle: Handle
    span: Span
    sub_stage: int = 0
    first: bool = True
    token: Handle | None = None


@record
class Peek:
    """Looks, without waiting, whether the stage that the next acquire takes is ready; `ready` (bool) is told."""

    token: Handle
    ready: Variable
    span: Span


@record
class Signal:
    """A signal on the handle's own barrier: how "arrive" (each calling thread), "commit" (when prior MMAs finish) or "own".

    "own" is what the use of the stage asks for, as at a release: an MMA commit, an arrival of the threads, or the copy's bytes.
    `sub_stage` is one of the handle's own side.
    """

    handle: Handle
    how: str
    span: Span
    sub_stage: int = 0


@record
class Release:
    """Gives the stage up and steps. It signals when nothing signalled before, unless `signals` is False (release_without_signal)."""

    handle: Handle
    signals: bool
    span: Span


@record
class Drain:
    """The producer waits until every stage it filled was given back."""

    pipeline: Pipeline
    span: Span


@record
class ExpectBytes:
    """The author states how many bytes the loads into a producer's stage bring; checked against what is derived."""

    handle: Handle
    bytes: int
    span: Span


@record
class RequestTile:
    """Asks for the tile of a cluster that has not started. The answer's bytes complete on the full barrier of the handle. One thread."""

    handle: Handle
    span: Span


@record
class TmaLoad:
    """Global to shared memory; its bytes complete on the full barrier of the destination's handle. One thread.

    `multicast`: the axis of the cluster along which CTAs share the tile; each loads a part of its rows for all. `mask`: the CTAs it
    goes to, stated by hand, one bit for each rank.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span
    multicast: str | None = None
    mask: Expression | None = None


@record
class CopyAsync:
    """A run of a 1-D tensor into a tile of one row, by cp.async: every thread of the role copies its share and goes on.

    The full barrier of the destination's handle gets an arrival of each thread once its copies have landed.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span


@record
class TmaStore:
    """Shared to global memory, asynchronous; the source must stay untouched until the handle's release waited for the read. One thread.

    `reduce` as in Store.
    """

    destination: TensorSlice
    source: BufferRef
    span: Span
    reduce: str | None = None


@record
class Mma:
    """accumulator[M, N] (+)= a[M, K] @ b[N, K].T, asynchronous. One thread.

    `accumulate` None: the first after the acquire overwrites, the following ones add. With scale tiles, rows of both operands are
    multiplied block by block along K with their factors; row `scale_b_row` of `scale_b` (0 when None) belongs to the first row of b.
    """

    accumulator: BufferRef
    a: BufferRef
    b: BufferRef
    accumulate: Expression | None
    span: Span
    scale_a: BufferRef | None = None
    scale_b: BufferRef | None = None
    scale_b_row: Expression | None = None

    @property
    def scales(self) -> tuple[BufferRef, ...]:
        return tuple(scale for scale in (self.scale_a, self.scale_b) if scale is not None)


@record
class ClearAccumulator:
    """The accumulator becomes zero. All threads of the role."""

    accumulator: Accumulator
    span: Span


@record
class RegisterMma:
    """accumulator[M, N] (+)= a[M, K] @ b[N, K].T in registers, asynchronous. All threads of the role.

    `accumulate` None: adds (a fresh accumulator is zero). Operand `a` stands in shared memory or is a kept tile.
    """

    accumulator: Accumulator
    a: BufferRef | ReadVariable
    b: BufferRef
    accumulate: Expression | None
    span: Span

    @property
    def tiles(self) -> tuple[BufferRef, ...]:
        """The operands in shared memory."""
        return (self.b,) if isinstance(self.a, ReadVariable) else (self.a, self.b)

    @property
    def a_dtype(self) -> DType:
        """f32 in registers is read as tf32."""
        if isinstance(self.a, BufferRef):
            return self.a.buffer.dtype
        dtype = dtype_of(self.a.type)
        return DTYPES["tf32"] if dtype.name == "f32" else dtype


@record
class WriteAccumulator:
    """An accumulator in registers gets the values that a tile has now. All threads of the role."""

    accumulator: Accumulator
    value: Expression
    span: Span


@record
class Store:
    """A register tile to global memory: path "tma" (swizzled shared memory, then bulk store) or "direct" (one store per element run).

    `reduce`: "add", "min" or "max" with what stands there, atomic for each element; None overwrites it.
    """

    destination: TensorSlice
    value: Expression
    path: str
    span: Span
    reduce: str | None = None


@record
class Write:
    """A register tile into the tile of a held producer stage, in shared or tensor memory.

    A consumer may write to tensor memory that a RolePipeline brings back to its producer.
    """

    destination: BufferRef
    value: Expression
    span: Span


@record
class AwaitTurn:
    """Waits until the i32 element `counter` in global memory is `turn`, of `turns`; what the blocks of earlier turns wrote is seen from
    here on. All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    turns: Expression
    span: Span


@record
class PassTurn:
    """Makes the element `counter` become `turn`, once everything that the role's threads and copies wrote is seen by who waits for it.

    All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    span: Span


@record
class AwaitGrids:
    """`griddepcontrol.wait`: the grids in front have ended and what they wrote is seen. All threads of the role."""

    span: Span


@record
class LaunchDependents:
    """`griddepcontrol.launch_dependents`: the grids behind may start once every block did this, or ended. Any thread."""

    span: Span


Operation = (
    Assign
    | Acquire
    | Peek
    | Signal
    | Release
    | Drain
    | ExpectBytes
    | RequestTile
    | TmaLoad
    | CopyAsync
    | TmaStore
    | Mma
    | ClearAccumulator
    | RegisterMma
    | WriteAccumulator
    | Store
    | Write
    | AwaitTurn
    | PassTurn
    | AwaitGrids
    | LaunchDependents
)

# ------------------------------------------------------------------------------------------------- statements and kernels


@record
class If:
    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]
    span: Span  # of the condition


@record
class For:
    """`for variable in range(start, stop, step)`; the step is a non-zero constant."""

    variable: Variable
    start: Expression
    stop: Expression
    step: int
    body: tuple["Statement", ...]
    span: Span


@record
class While:
    """`tile` is the index in a loop over tiles that a scheduler hands out: every role runs such a loop equally often, over the same tiles,
    and at least once."""

    condition: Expression
    body: tuple["Statement", ...]
    span: Span
    tile: Variable | None = None


@record
class Elect:
    """`with elect():` one thread of the role runs the body."""

    body: tuple["Statement", ...]
    span: Span


Statement = Operation | If | For | While | Elect


@record
class Role:
    name: str
    warps: int
    registers: int | None
    produces: tuple[Pipeline, ...]
    consumes: tuple[Pipeline, ...]
    body: tuple[Statement, ...]
    span: Span
    end: Span  # the last token of the body
    leader: bool = False  # it runs in the leader of each pair of CTAs only


@record(eq=False)
class TensorAllocation:
    """`TmemAllocation(columns)`: the kernel's tensor memory, stated by hand. It is owned by the kernel and given back when it ends."""

    name: str
    columns: int
    span: Span


@record(eq=False)
class Schedule:
    """`TileScheduler(x, y, z)`: the tiles of a kernel, of which each is the work of one cluster, and how they are shared out.

    `mode` "static": worker w of n takes the tiles w, w + n, ...; at most `blocks` CTAs run (None: as many as the GPU has
    multiprocessors). "clc": a cluster for each tile is launched, and one that is done takes over the tile of one that has not started;
    the answers of the hardware come through the pipeline `responses`, requests are held back by `throttle`. `group`: the order of
    the tiles, see pipec.sema.scheduling.
    """

    name: str
    mode: str
    extents: tuple[Expression, Expression, Expression]
    blocks: int | None
    group: int | None
    span: Span
    responses: Pipeline | None = None
    throttle: Pipeline | None = None


@record
class StatedGrid:
    """`grid(x, y, z)` beside a scheduler, checked against the grid derived."""

    extents: tuple[Expression, Expression, Expression]
    span: Span


@record
class StatedCounts:
    """`init_barriers(producer, consumer)`: the arrival counts the author expects, checked against those derived."""

    pipeline: Pipeline
    producer: int
    consumer: int
    span: Span


@record
class Cluster:
    """The CTAs that run together and reach each other's shared memory, along x, y and z; the rank counts x first (PTX ISA 10).

    `span` is that of the `cluster(...)` statement; None where there is none.
    """

    shape: tuple[int, int, int]
    span: Span | None = None

    @property
    def size(self) -> int:
        x, y, z = self.shape
        return x * y * z

    def rank(self, place: tuple[int, int, int]) -> int:
        width, height, _ = self.shape
        return place[0] + width * (place[1] + height * place[2])

    def places(self) -> tuple[tuple[int, int, int], ...]:
        """The place of each CTA, by rank."""
        x, y, z = (range(extent) for extent in self.shape)
        return tuple((i, j, k) for k in z for j in y for i in x)


ONE_CTA = Cluster((1, 1, 1))


@record
class ProgrammaticLaunch:
    """`programmatic_launch(ready, ...)`: the kernel may start before the grids in front have ended, which write none of `ready`."""

    ready: tuple[TensorParameter, ...]
    span: Span


@record
class Kernel:
    name: str
    document: str
    tensors: tuple[TensorParameter, ...]
    scalars: tuple[ScalarParameter, ...]
    constants: dict[str, object]
    grid: tuple[Expression, Expression, Expression]
    pipelines: tuple[Pipeline, ...]
    buffers: tuple[Buffer, ...]
    roles: tuple[Role, ...]
    span: Span
    cluster: Cluster = ONE_CTA
    parameters: tuple[str, ...] = ()  # tensor and scalar names in the order the caller passes them
    stated: tuple[StatedCounts, ...] = ()
    allocations: tuple[TensorAllocation, ...] = ()
    programmatic: ProgrammaticLaunch | None = None
    schedule: Schedule | None = None
    stated_grid: StatedGrid | None = None
