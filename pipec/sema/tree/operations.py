"""What a role does: the leaves of its body. `pipec.kir` puts them into control-flow graphs unchanged."""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record
from pipec.sema.tree.expressions import BufferRef, Expression, ReadVariable, TensorSlice
from pipec.sema.tree.symbols import Accumulator, Handle, Pipeline, Variable
from pipec.sema.types import dtype_of
from pipec.source import Span
from pipec.vocabulary import Axis, Reduction, SignalKind, StorePath


@record(eq=False)
class Assign:
    """A lazy tile variable holds its expression, evaluated where it is used (a `let`), and is assigned once; a kept tile gets the
    values that its expression has now."""

    variable: Variable
    value: Expression
    span: Span


@record(eq=False)
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


@record(eq=False)
class Peek:
    """Looks, without waiting, whether the stage that the next acquire takes is ready; `ready` (bool) is told."""

    token: Handle
    ready: Variable
    span: Span


@record(eq=False)
class Signal:
    """A signal on the handle's own barrier: how "arrive" (each calling thread), "commit" (when prior MMAs finish) or "own".

    "own" is what the use of the stage asks for, as at a release: an MMA commit, an arrival of the threads, or the copy's bytes.
    `sub_stage` is one of the handle's own side.
    """

    handle: Handle
    how: SignalKind
    span: Span
    sub_stage: int = 0


@record(eq=False)
class Release:
    """Gives the stage up and steps. It signals when nothing signalled before, unless `signals` is False (release_without_signal)."""

    handle: Handle
    signals: bool
    span: Span


@record(eq=False)
class Drain:
    """The producer waits until every stage it filled was given back."""

    pipeline: Pipeline
    span: Span


@record(eq=False)
class ExpectBytes:
    """The author states how many bytes the loads into a producer's stage bring; checked against what is derived."""

    handle: Handle
    bytes: int
    span: Span


@record(eq=False)
class RequestTile:
    """Asks for the tile of a cluster that has not started. The answer's bytes complete on the full barrier of the handle. One thread."""

    handle: Handle
    span: Span


@record(eq=False)
class TmaLoad:
    """Global to shared memory; its bytes complete on the full barrier of the destination's handle. One thread.

    `multicast`: the axis of the cluster along which CTAs share the tile; each loads a part of its rows for all. `mask`: the CTAs it
    goes to, stated by hand, one bit for each rank.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span
    multicast: Axis | None = None
    mask: Expression | None = None


@record(eq=False)
class CopyAsync:
    """A run of a 1-D tensor into a tile of one row, by cp.async: every thread of the role copies its share and goes on.

    The full barrier of the destination's handle gets an arrival of each thread once its copies have landed.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span


@record(eq=False)
class TmaStore:
    """Shared to global memory, asynchronous; the source must stay untouched until the handle's release waited for the read. One thread.

    `reduce` as in Store.
    """

    destination: TensorSlice
    source: BufferRef
    span: Span
    reduce: Reduction | None = None


@record(eq=False)
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


@record(eq=False)
class ClearAccumulator:
    """The accumulator becomes zero. All threads of the role."""

    accumulator: Accumulator
    span: Span


@record(eq=False)
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


@record(eq=False)
class WriteAccumulator:
    """An accumulator in registers gets the values that a tile has now. All threads of the role."""

    accumulator: Accumulator
    value: Expression
    span: Span


@record(eq=False)
class Store:
    """A register tile to global memory: path "tma" (swizzled shared memory, then bulk store) or "direct" (one store per element run).

    `reduce`: "add", "min" or "max" with what stands there, atomic for each element; None overwrites it. `rows` (i32, the same in all
    threads): only so many of the tile's rows are stored.
    """

    destination: TensorSlice
    value: Expression
    path: StorePath
    span: Span
    reduce: Reduction | None = None
    rows: Expression | None = None


@record(eq=False)
class Write:
    """A register tile into the tile of a held producer stage, in shared or tensor memory.

    A consumer may write to tensor memory that a RolePipeline brings back to its producer.
    """

    destination: BufferRef
    value: Expression
    span: Span


@record(eq=False)
class AwaitTurn:
    """Waits until the i32 element `counter` in global memory is `turn`, of `turns`; what the blocks of earlier turns wrote is seen from
    here on. All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    turns: Expression
    span: Span


@record(eq=False)
class PassTurn:
    """Makes the element `counter` become `turn`, once everything that the role's threads and copies wrote is seen by who waits for it.

    All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    span: Span


@record(eq=False)
class AwaitGrids:
    """`griddepcontrol.wait`: the grids in front have ended and what they wrote is seen. All threads of the role."""

    span: Span


@record(eq=False)
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
