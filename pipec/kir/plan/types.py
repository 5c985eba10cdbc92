"""The parts of a plan: what the compiler derived for one kernel, as plain data. `pipec.kir.plan.derive` fills them in."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from pipec.interface import KernelInterface
from pipec.isa.dtypes import DType
from pipec.isa.targets import WARP, Target
from pipec.kir.clusters import Line, Sharing
from pipec.kir.global_memory.access_pairs import Answer
from pipec.kir.global_memory.accesses import RoleAccesses
from pipec.kir.ir import Kernel, Role
from pipec.record import field, record
from pipec.sema.tree import Buffer, Expression, Handle, Operation, Pipeline, ReducedColumns, Store, TmaLoad, TmaStore, Variable
from pipec.vocabulary import Completion, Side, Swizzle

PANEL_ALIGNMENT = 128  # alignment of a shared address required by TMA, in bytes (hardware.md 2.2)
RESPONSE_BYTES = 16  # of a response to clusterlaunchcontrol.try_cancel, and its alignment (hardware.md 6)
TILE_ALIGNMENT = 1024  # the period of the 128-byte swizzle (hardware.md 2.3)

_WORD_BYTES = 4  # of a register
_LONGEST_HALF_RUN = 8  # columns: half of the narrowest panel that a row with this many columns can have (16 elements of 8 bytes)


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@record
class MmaWait:
    """At most the `pending` latest MMAs of the role stay in flight; `gives_back`: the pipelines whose late stages are released then."""

    pending: int
    gives_back: tuple[Pipeline, ...]


@record
class MmaWaits:
    """When a role waits for the MMAs it has in flight (wgmma): each is a group of its own.

    `waits`: by the operation that the wait precedes; `at_end`: all must be complete when the role ends. `lagging`: the pipelines whose
    stages are released one release late, so that MMAs stay in flight; `late`: the operations that would signal such a stage. `operands`:
    the resident tiles that only MMAs read, in the register layout of operand `a`.
    """

    waits: dict[Operation, MmaWait]
    at_end: bool
    lagging: tuple[Pipeline, ...]
    late: frozenset[Operation]
    operands: frozenset[Variable]


@record
class GlobalOrder:
    """How a role orders its accesses to global memory that the kernel writes and reads (pipec.kir.global_memory.order).

    The threads synchronise before the operations `before`, and before the branches that end the blocks `at_end`; `waits`: after waiting
    for earlier bulk stores; `fences`: with a fence between the proxies. `hand_over_waits` and `hand_over_fences` require the same before
    a stage is handed over. `taken`: tensors of which the role is taken to store different elements each time, and whether that is shown;
    `beside`: the same of the stores of another role, by its name and the tensor.
    """

    before: frozenset[Operation] = frozenset()
    at_end: frozenset[int] = frozenset()
    waits: bool = False
    fences: bool = False
    hand_over: bool = False  # another role accesses the same data
    hand_over_waits: bool = False
    hand_over_fences: bool = False
    taken: Mapping[str, Answer] = field(default_factory=dict)
    beside: Mapping[tuple[str, str], Answer] = field(default_factory=dict)


@record
class Invariants:
    """Scalar `expressions` that are invariant in the loop of `blocks`: computed once, at the end of block `before`."""

    before: int
    blocks: frozenset[int]
    expressions: tuple[Expression, ...]


@record
class RolePlan:
    """`single_thread`: a one-warp role in which every operation is a one-thread operation; its body runs in one elected thread.

    `whole_warp`: all lanes of such a role take every branch and wait, and one-thread operations are in elected sections. The assembler
    then knows that addresses and descriptors are warp-uniform, and computes them once for all lanes.

    `named_barrier` is the hardware barrier that synchronises the role's threads; None for one-warp roles (bar.warp.sync). `uses_tensor`:
    the role issues tcgen05 operations. `stores_bulk`: it issues bulk stores and must wait for them before it ends.
    """

    role: Role
    first_warp: int
    single_thread: bool
    named_barrier: int | None
    registers: int | None
    uses_tensor: bool = False
    stores_bulk: bool = False
    proxied: frozenset[Pipeline] = frozenset()  # whose tiles in shared memory its threads share with the async proxy
    tensor_stages: frozenset[Pipeline] = frozenset()  # hand over tensor memory: waits and arrivals need tcgen05 fences
    mma_waits: MmaWaits | None = None  # of roles with register MMAs
    drains: tuple[Pipeline, ...] = ()  # waited for before the role ends: commits still arrive on their barriers
    global_order: GlobalOrder = GlobalOrder()
    meets: frozenset[tuple[Pipeline, Side]] = frozenset()  # its warps synchronise after waiting: one thread signals for all
    rewrites: frozenset[Operation] = frozenset()  # writes over what other threads of the role have written: all meet before them
    awaits_grids: bool = False  # griddepcontrol.wait at its start
    launches_dependents: bool = False  # griddepcontrol.launch_dependents at its end
    invariants: tuple[Invariants, ...] = ()  # outer loops first
    whole_warp: bool = False
    # Sides of pipelines that the role advances in lockstep: the same number of stages, acquired equally often in every block.
    in_step: tuple[tuple[tuple[Pipeline, Side], ...], ...] = ()

    @property
    def threads(self) -> int:
        return self.role.warps * WARP


@record
class Twin:
    """A role that shares the code of another one (pipec.kir.plan.twins): its counterparts of the other's pipelines, tiles, and numbers
    known when a role starts; what is not in `numbers` is the same."""

    row: RolePlan
    pipelines: dict[Pipeline, Pipeline]
    buffers: dict[Buffer, Buffer]
    numbers: dict[Expression, Expression]


@record
class RegisterGroup:
    """Whole warpgroups that set one register budget together; `registers` None keeps the count at launch."""

    first_warp: int
    warps: int
    registers: int | None


@record
class SideSignals:
    """How one side of a pipeline signals.

    `how` per role. `count` is the arrival count of the barrier, `counts` each role's contribution. `transaction_bytes` are the bytes
    expected per stage. `in_turn`: each stage is taken by one of the roles, which skip those of others.
    """

    how: dict[str, tuple[Completion, ...]]
    count: int
    transaction_bytes: int
    counts: dict[str, int]
    in_turn: bool = False


@record
class TileLayout:
    """A tile in shared memory: rows of `span_bytes` (one swizzle span), panels side by side along the inner dimension.

    Element (r, c) is in panel c * bytes // span_bytes at row r; the panel is `rows * span_bytes` long, rounded up to TMA's address
    granularity; the address bits are then swizzled (PTX ISA 5.5.7). `swizzle` is a name of TensorMapParameter.
    """

    swizzle: Swizzle
    span_bytes: int
    panels: int
    rows: int

    @property
    def panel_bytes(self) -> int:
        return round_up(self.rows * self.span_bytes, PANEL_ALIGNMENT)

    @property
    def bytes(self) -> int:
        return self.panels * self.panel_bytes


@record
class TmaPlan:
    """One TMA operation: `row_boxes` boxes of `box_rows` rows for each panel of `layout`, through tensor map `symbol`.

    A row of a panel has `inner` elements. With a `line` each of its CTAs copies `row_boxes` boxes of an equal part of the rows for all.
    `first_row`: the row of the panel at which the first box begins.
    """

    symbol: str
    layout: TileLayout
    box_rows: int
    row_boxes: int
    inner: int
    line: Line | None = None
    first_row: int = 0


@record
class RowMap:
    """Which row of a register tile a thread of the role owns, and which of its columns.

    Threads work on `block_rows` rows at a time (`blocks` times). `half_warps`: the rows of an M = 64 accumulator, 16 per warp (layout F
    of tensor memory), with lanes 16-31 holding the other half of the columns. `split` threads share a row's columns.

    `vector`: a row is shared by neighbouring lanes, up to a warp, or by whole warps (`split` threads in all), striped: thread l has the
    vectors l, l + split, l + 2 * split ..., each with this many elements. All tiles of a role with the same number of rows then have
    this distribution. There are several blocks of rows only where tiles are brought from global to shared memory (pipec.kir.plan.striping).

    `in_registers`: register-resident tiles are involved. All such operations on tiles with the same number of rows agree on the elements
    of each thread, and their loops are unrolled, since registers cannot be indexed. With `half_warps`, runs of `half_run` columns
    alternate between the halves.
    """

    block_rows: int
    blocks: int
    split: int
    half_warps: bool
    idle: bool  # there are more threads than rows * split
    in_registers: bool = False
    fragment: bool = False  # wgmma's distribution of an accumulator: see pipec.lower.tiles.fragments
    folded: bool = False  # a 64-row accumulator of a CTA pair: threads 64-127 have the right half of the columns
    vector: int = 0

    @property
    def warps_of_row(self) -> int:
        """The warps that share a row of a striped tile; 1 if a warp has several rows."""
        return max(1, self.split // WARP)

    def half_run(self, columns: int) -> int:
        """Small enough to divide half of every panel in which a row is stored."""
        return min(_LONGEST_HALF_RUN, (columns & -columns) // 2)

    def packed(self, dtype: DType) -> bool:
        """Whether register-resident elements are packed, several per register: those of a vector are always used together."""
        return self.vector * dtype.bytes >= _WORD_BYTES and dtype.bits in (8, 16)

    def registers_of_thread(self, columns: int, dtype: DType) -> int:
        """The number of 32-bit registers for the thread's part of a row of a register-resident tile."""
        elements = self.columns_of_thread(columns)
        if columns > 1 and self.packed(dtype):
            return elements * dtype.bytes // _WORD_BYTES
        return elements * max(1, dtype.bytes // _WORD_BYTES)

    def columns_of_thread(self, columns: int) -> int:
        """The number of columns that a thread has of its row of a register-resident tile; one-column values are in all threads of the
        row."""
        if self.vector:
            return -(-columns // (self.vector * self.split)) * self.vector if columns > 1 else 1
        sharing = 4 if self.fragment else 2 if self.half_warps else 1
        return columns // sharing if columns > 1 else columns


@record
class Panel:
    """Part of a stored tile that is copied in boxes as wide as one swizzle span: `columns` from `first` on, staged in a buffer `aside`
    bytes after its beginning."""

    first: int
    columns: int
    layout: TileLayout
    aside: int = 0


@record
class Staging:
    """Shared memory through which a role's TMA stores pass: `buffers`, used in turn, `stride` bytes apart. `fills`: the tile in order, as
    the panels that one buffer holds at a time; a buffer holds more than one where they are narrow."""

    fills: tuple[tuple[Panel, ...], ...]
    buffers: int
    offset: int
    stride: int

    @property
    def panels(self) -> Iterator[Panel]:
        return (panel for fill in self.fills for panel in fill)

    @property
    def runs(self) -> list[list[tuple[Panel, ...]]]:
        """Consecutive fills that differ in nothing but their columns, so that a loop covers them."""
        return [list(alike) for _, alike in groupby(self.fills, lambda fill: [(panel.layout, panel.aside) for panel in fill])]


@record
class ZeroFill:
    """Makes an accumulator that no MMA wrote read as zero, for the consumers of `pipeline`, which hands it over.

    `condition`: no MMA ran iff it is true (an expression over launch values). If none can be derived, the MMA role records at run time
    whether one ran, in the 32-bit word of each stage at `flag_offset`, and arrives once more on the full barrier.
    """

    pipeline: Pipeline
    condition: Expression | None
    flag_offset: int | None


@record
class Exchange:
    """Shared memory through which the warps that share rows exchange partial reductions: two buffers, `stride` bytes apart."""

    offset: int
    stride: int


@record
class SharedItem:
    """One region of dynamic shared memory, for the report and the resource messages."""

    name: str
    offset: int
    bytes: int


# setmaxnreg would take 256 (hardware.md 7), but an instruction names at most 255 registers.
MOST_OF_A_THREAD = 255


@record
class Plan:
    kernel: Kernel
    target: Target
    roles: tuple[RolePlan, ...]  # by first warp
    threads: int
    register_groups: tuple[RegisterGroup, ...]  # empty if no role has a budget, or all the same
    launch_registers: int | None  # per thread, if budgets require a fixed number
    sharing: dict[Pipeline, Sharing]  # how the CTAs of the cluster share it
    all_arrived: bool  # when all roles have ended, no signal to another CTA is on its way
    tensor_only: frozenset[Pipeline]  # hand over only tensor memory
    cta_group: int  # CTAs that one MMA works on
    left_filled: frozenset[Pipeline]  # their stage may be full when a CTA ends
    signals: dict[tuple[Pipeline, Side], SideSignals]  # side: "producer" completes full, "consumer" completes empty
    expected_bytes: dict[Handle, int]  # bytes that TMA loads complete in one use of a producer's handle
    layouts: dict[Buffer, TileLayout]  # of shared-memory buffers
    buffer_offsets: dict[Buffer, int]  # byte offset of stage 0 in dynamic shared memory
    buffer_strides: dict[Buffer, int]  # bytes from one stage to the next
    barrier_offsets: dict[tuple[Pipeline, Side], int]  # "producer" -> full barriers, "consumer" -> empty barriers
    response_offset: int | None  # where the responses to a tile scheduler's requests arrive, one after the other
    staging: dict[Store, Staging]  # for stores by path "tma"
    stored: dict[Store, dict[TileLayout, TmaPlan]]  # for the same: how their panels are copied, by layout
    exchanges: dict[str, Exchange]  # for roles in which several warps share a row: shared memory for reductions
    reduced_offsets: dict[ReducedColumns, int]  # where the columns of tiles are reduced
    row_maps: dict[Operation, RowMap]  # of each operation that evaluates a tile
    zero_fills: dict[Buffer, ZeroFill]  # of accumulators that may stay unwritten
    shared_items: tuple[SharedItem, ...]
    shared_bytes: int
    columns: dict[Buffer, int]  # first tensor-memory column of an accumulator's stage 0
    column_stride: dict[Buffer, int]  # columns from one stage to the next
    scale_columns: dict[
        tuple[str, Buffer], int
    ]  # first tensor-memory column of a scale tile, by the name of the role that multiplies
    packed: frozenset[Buffer]  # tensor-memory tiles with packed elements; in others each element takes a column
    allocated_columns: int  # a power of two from 32, or 0
    allocating_warp: int
    tensor_address_offset: int | None  # where tcgen05.alloc writes the address
    tma: dict[TmaLoad | TmaStore, TmaPlan]
    accesses: tuple[RoleAccesses, ...]  # to tensors that the kernel writes
    symbols: dict[
        tuple[str, str, int], str
    ]  # (kind, name, axis) -> parameter symbol; kind "pointer" "stride" "dimension" "scalar"
    interface: KernelInterface
    twins: dict[str, tuple[Twin, ...]]  # by the name of the role whose code they share

    @property
    def crosses_ctas(self) -> bool:
        """Whether a CTA accesses the memory of another: the tensor memory of a pair is allocated, and freed, in both."""
        paired = self.cta_group == 2 and self.allocated_columns > 0
        return paired or any(not sharing.local for sharing in self.sharing.values())

    @property
    def start_registers(self) -> int:
        """Registers of a thread before any setmaxnreg: without budgets, an equal share of the multiprocessor's registers."""
        return self.launch_registers or self.target.registers_per_thread(self.threads)

    def registers_of(self, row: RolePlan) -> int:
        """Of a thread of the role."""
        for group in self.register_groups:
            if group.first_warp <= row.first_warp < group.first_warp + group.warps:
                return min(MOST_OF_A_THREAD, group.registers or self.launch_registers or 0)
        return min(MOST_OF_A_THREAD, self.start_registers)
