"""Statements that hold others, roles, and the kernel as a whole."""

from pipec.record import record
from pipec.sema.tree.expressions import Expression
from pipec.sema.tree.operations import Operation
from pipec.sema.tree.symbols import Buffer, Pipeline, ScalarParameter, TensorParameter, Variable
from pipec.source import Span
from pipec.verify.terms import Formula
from pipec.vocabulary import ScheduleMode


@record(eq=False)
class If:
    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...]
    span: Span  # of the condition


@record(eq=False)
class Walk:
    """The loop takes `target` from `start` below `stop` in steps of `step`, which is known at launch: what its counter, from 0 to a
    quotient, stands for."""

    target: Variable
    start: Expression
    stop: Expression
    step: Expression


@record(eq=False)
class For:
    """`for variable in range(start, stop, step)`; the step is a non-zero constant."""

    variable: Variable
    start: Expression
    stop: Expression
    step: int
    body: tuple["Statement", ...]
    span: Span
    walk: Walk | None = None


@record(eq=False)
class While:
    """`tile` is the tile index of a loop over a scheduler's tiles: every role runs such a loop the same number of times, over the same
    tiles, and at least once."""

    condition: Expression
    body: tuple["Statement", ...]
    span: Span
    tile: Variable | None = None


@record(eq=False)
class Elect:
    """`with elect():` one thread of the role runs the body."""

    body: tuple["Statement", ...]
    span: Span


Statement = Operation | If | For | While | Elect


@record(eq=False)
class Role:
    name: str
    warps: int
    registers: int | None
    produces: tuple[Pipeline, ...]
    consumes: tuple[Pipeline, ...]
    body: tuple[Statement, ...]
    span: Span
    end: Span  # the last token of the body
    leader: bool = False  # runs only in the leader of each CTA pair


@record(eq=False)
class TensorAllocation:
    """`TmemAllocation(columns)`: explicitly declared tensor memory. The kernel owns it and frees it at its end."""

    name: str
    columns: int
    span: Span


@record(eq=False)
class Schedule:
    """`TileScheduler(x, y, z)`: the tiles of a kernel, each the work of one cluster, and how they are distributed.

    `mode` "static": worker w of n takes the tiles w, w + n, ...; at most `blocks` CTAs run (None: as many as the GPU has multiprocessors).
    "clc": one cluster per tile is launched, and a cluster that has finished takes over the tile of one that has not started; the
    hardware's responses arrive through the pipeline `responses`, and `throttle` limits the requests. `group`: the order of the tiles, see
    pipec.sema.declarations.scheduling.
    """

    name: str
    mode: ScheduleMode
    extents: tuple[Expression, Expression, Expression]
    blocks: int | None
    group: int | None
    span: Span
    responses: Pipeline | None = None
    throttle: Pipeline | None = None


@record
class Assumption:
    """`assume(condition)`: a formula over the names of dimensions and integer scalars that holds in every launch."""

    formula: Formula
    span: Span


@record
class StatedGrid:
    """`grid(x, y, z)` together with a scheduler, checked against the derived grid."""

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
    """`programmatic_launch(ready, ...)`: the kernel may start before the preceding grids have ended; they write none of `ready`.

    `named`: where the statement names each of them.
    """

    ready: tuple[TensorParameter, ...]
    named: tuple[Span, ...]
    span: Span


@record
class Tuning:
    """What `tune` lists: names of compile-time parameters, and the candidate combinations of their values.

    The first combination is the one that this kernel was analysed with. `combinations`: their number before `where`.
    """

    names: tuple[str, ...]
    candidates: tuple[tuple[object, ...], ...]
    combinations: int
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
    tuning: Tuning | None = None
    assumptions: tuple[Assumption, ...] = ()
