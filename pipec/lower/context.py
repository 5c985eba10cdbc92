"""The state of the lowering: the kernel being emitted and, inside it, the role."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipec.isa.wgmma import Registers
from pipec.kir.ir import ALL_THREADS, Participation
from pipec.kir.plan.types import Plan, RolePlan, Twin
from pipec.kir.spread import Threads
from pipec.lower.emit.debug import Metadata
from pipec.lower.emit.llvm import Actions, Builder
from pipec.lower.emit.value import FALSE, SHARED, TRUE, Value, integer
from pipec.lower.emit.variables import Slot
from pipec.lower.synchronisation.cursors import Cursor
from pipec.record import field, mutable
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import CachePolicy, Side

# No name of the language contains a dollar, so this cannot clash with a kernel.
SHARED_SYMBOL = "@$shared"
FULL_WARP = integer(-1)


@mutable
class Alarm:
    """The values passed to the block that reports an expired wait (pipec.lower.synchronisation.watchdog)."""

    label: str
    started: Slot
    barrier: Slot
    parity: Slot
    iteration: Slot
    line: Slot
    column: Slot
    used: bool = False
    polls: bool = False  # used by a wait for an element of global memory, which has no barrier to report


@mutable
class KernelContext:
    """`warp` is uniform over the lanes; `tensor_base` is the address from tcgen05.alloc, if it is read in front of the roles (see
    pipec.lower.bases); `alarm` exists with a watchdog."""

    plan: Plan
    builder: Builder
    metadata: Metadata
    function: int
    thread: Value
    warp: Value
    tensor_base: Value | None = None
    copied_warp: Value | None = None  # see pipec.lower.bases
    accumulators: int = 0  # register accumulators numbered so far
    operands: int = 0  # likewise
    alarm: Alarm | None = None
    marks: dict[tree.Operation, int] | None = None  # with time stamps: the operations at which the clock is recorded
    place: Span | None = None
    walks: dict[tree.Variable, tree.Walk] = field(default_factory=dict)  # by counter, target and bound: see pipec.lower.walks
    crowded: bool = False  # see pipec.lower.scalars
    counts_by_place: bool = False  # likewise

    def at(self, span: Span) -> None:
        """Sets the source location of the following instructions."""
        self.place = span
        self.builder.location = self.metadata.location(span, self.function)

    def shared_address(self, offset: int) -> Value:
        """The 32-bit address of a byte of dynamic shared memory."""
        pointer = self.shared_pointer(offset)
        return Value("i32", f"ptrtoint ({pointer} to i32)")

    def shared_pointer(self, offset: int) -> Value:
        if offset == 0:
            return Value(SHARED, SHARED_SYMBOL)
        return Value(SHARED, f"getelementptr (i8, {SHARED} {SHARED_SYMBOL}, i32 {offset})")

    def parameter(self, kind: str, name: str, axis: int = 0) -> str:
        return f"%{self.plan.symbols[kind, name, axis]}"


# A register-resident tile: the slots of each row that a thread has, by row block.
RegisterTile = list[list[Slot]]


@mutable
class RoleContext:
    """`leader` is true in the one thread of the role that issues one-thread operations."""

    kernel: KernelContext
    plan: RolePlan
    leader: Value = TRUE
    lane: Value = field(default_factory=lambda: integer(0))
    role_thread: Value = field(default_factory=lambda: integer(0))
    role_warp: Value = field(default_factory=lambda: integer(0))
    named_barrier: Value = field(default_factory=lambda: integer(0))  # synchronises its threads, if it has several warps
    twins: tuple[Twin, ...] = ()  # the roles that share its code: see pipec.lower.twins
    numbers: dict[tree.Expression, Value] = field(default_factory=dict)  # likewise, the numbers in which they differ
    participation: Participation = ALL_THREADS
    signalled: frozenset[tree.Handle] = frozenset()  # handles that have been signalled on the way to the current operation
    variables: dict[tree.Variable, Slot] = field(default_factory=dict)
    lets: dict[tree.Variable, tree.Expression] = field(default_factory=dict)
    register_tiles: dict[tree.Variable, RegisterTile] = field(default_factory=dict)
    invariants: dict[tree.Expression, Value] = field(default_factory=dict)  # computed before the loops being emitted
    captured: dict[tree.Expression, list[Slot]] = field(default_factory=dict)  # a node's scalars at its `let`
    captured_tiles: dict[tree.Expression, RegisterTile] = field(
        default_factory=dict
    )  # likewise for nodes that read a register-resident tile
    cursors: dict[tuple[tree.Pipeline, Side], Cursor] = field(default_factory=dict)
    stages: dict[tree.Handle, Slot] = field(default_factory=dict)
    parities: dict[tree.Handle, Slot] = field(default_factory=dict)  # if more waits for the same stage may follow
    # Whether an MMA wrote the accumulator of a held stage.
    written: dict[tuple[tree.Handle, tree.Buffer], Slot] = field(default_factory=dict)
    # Whether none did, where several roles read it.
    unwritten: dict[tuple[tree.Handle, tree.Buffer], Slot] = field(default_factory=dict)
    # Its address, computed at the acquire, before the loop that multiplies into it.
    targets: dict[tuple[tree.Handle, tree.Buffer], Slot] = field(default_factory=dict)
    # By counter of a loop, whether a turn is not the first one: for MMAs that accumulate from the second on.
    later: dict[tree.Variable, Slot] = field(default_factory=dict)
    # The first columns of B's scale factors in tensor memory, by word: see pipec.lower.tensor_cores.scaled_mma.
    scale_columns: dict[tree.Mma, tuple[Value, ...]] = field(default_factory=dict)
    masks: dict[tuple[tree.Pipeline, Side], Value] = field(default_factory=dict)  # the CTAs that receive a side's signals
    policies: dict[CachePolicy, Value] = field(default_factory=dict)
    staging_turn: Slot | None = None
    exchange_turn: Slot | None = None  # which of two buffers the warps of the row use next (pipec.lower.tiles.reductions)
    accumulators: dict[tree.Accumulator, Registers] = field(default_factory=dict)
    operands: dict[tree.Variable | tree.RegisterMma, Registers] = field(default_factory=dict)  # by tile, or by the MMA of a copy
    # By variable, whether it has its usual value; and by dividend, quotient and remainder by such a variable (pipec.lower.scalars).
    usual: dict[tree.Variable, Value] = field(default_factory=dict)
    quotients: dict[Value, tuple[Slot, Slot]] = field(default_factory=dict)
    turns: dict[tuple[tree.Pipeline, Side] | tree.Handle, Slot] = field(
        default_factory=dict
    )  # with a watchdog: number of waits so far
    stamps: Slot | None = None  # the number of time stamps that the role has recorded
    late: dict[tree.Pipeline, Slot] = field(
        default_factory=dict
    )  # the barrier of the stage to be released at the next release, or 0: see MmaWaits.lagging
    bases: dict[tuple[int, int], Value] = field(default_factory=dict)  # addresses in shared memory: see pipec.lower.bases
    # Coordinates of copies, by copy, axis and the offset of the box: see pipec.lower.tiles.tma.
    coordinates: dict[tuple[tree.TmaLoad, int, int], Value] = field(default_factory=dict)
    constants: dict[int, list[Value]] = field(
        default_factory=dict
    )  # likewise, the registers for the uses of a constant, taken in turn
    maps: dict[str, Value] = field(default_factory=dict)  # addresses of tensor maps, likewise
    columns: dict[int, Value] = field(default_factory=dict)  # of tensor memory, likewise
    tensor_base: Value | None = None  # the address from tcgen05.alloc, once the role has read it
    zeros: int = 0  # the number created
    waits_next: bool = False  # the next operation is a wait
    met: int = -1  # the builder's effect count at the last reconvergence
    # In a role that runs in a whole warp: the pending instructions of the elected thread, to be emitted before the lanes continue
    # together, and whether more are being added.
    actions: Actions = field(default_factory=Actions)
    acting: bool = False

    @property
    def builder(self) -> Builder:
        return self.kernel.builder

    @property
    def prefix(self) -> str:
        return self.plan.role.name

    @property
    def alone(self) -> bool:
        """Whether only one thread runs the code being emitted."""
        if self.plan.whole_warp:
            return self.acting
        return self.plan.single_thread or self.participation.threads == "one"

    @property
    def whole(self) -> bool:
        """Whether all threads of the role run the current block."""
        return not self.plan.single_thread and self.participation.threads == "all"

    @property
    def threads(self) -> Threads[Value]:
        """The running thread, to compute its elements of a tile."""
        return Threads(self.role_thread, self.role_warp, self.lane, self.plan.role.warps)

    def cache_policy(self, cache: CachePolicy | None) -> tuple[Value, Value]:
        """The L2 cache-policy operands of a copy: a policy, and whether there is one."""
        return (integer(0, "i64"), FALSE) if cache is None else (self.policies[cache], TRUE)

    def stage(self, handle: tree.Handle, *, by_threads: bool = False) -> Value:
        return self.cursors[handle.pipeline, handle.side].kept(self.stages[handle], by_threads=by_threads)

    def reconverge(self) -> None:
        """Reconverges a warp whose lanes may have diverged, before anything that requires convergence."""
        self.rejoin()
        if (self.whole or self.plan.whole_warp) and self.met != self.builder.effects:
            self.builder.call("barrier.warp", FULL_WARP)
            self.met = self.builder.effects

    def rejoin(self) -> None:
        """Emits the section of the elected thread, if it has anything to do. No reconvergence is needed after it: the next wait
        reconverges the lanes."""
        lines, told = self.actions.taken()
        if not lines:
            return
        builder = self.builder
        builder.use(told)
        inside, after = builder.label(f"{self.prefix}.act"), builder.label(f"{self.prefix}.acted")
        builder.branch(self.leader, inside, after)
        builder.place(inside)
        builder.lines += lines
        builder.jump(after)
        builder.place(after)

    def synchronise(self) -> None:
        """Synchronises all threads of the role."""
        if self.plan.named_barrier is None:
            self.reconverge()
            return
        self.builder.call("barrier.named", self.named_barrier, integer(self.plan.threads))

    @contextmanager
    def one_thread(self, hint: str, *, rejoin: bool = True) -> Iterator[None]:
        """Emits code that runs in the role's elected thread."""
        if self.alone:
            yield
            return
        builder = self.builder
        if self.plan.whole_warp:
            # Only instructions with effects are in the section, and short sections become predicated: addresses are uniform over the
            # lanes.
            self.acting = True
            with builder.deferring(self.actions):
                yield
            self.acting = False
            return
        inside, after = builder.label(f"{self.prefix}.{hint}"), builder.label(f"{self.prefix}.{hint}.done")
        builder.branch(self.leader, inside, after)
        builder.place(inside)
        yield
        builder.jump(after)
        builder.place(after)
        if rejoin:
            self.reconverge()

    @contextmanager
    def only_if(self, condition: Value | None, hint: str) -> Iterator[None]:
        """Emits code that runs if the condition holds, which is uniform over the threads here; None means always."""
        if condition is None:
            yield
            return
        builder = self.builder
        if self.acting:
            yield from self._act_if(condition)
            return
        inside, after = builder.label(f"{self.prefix}.{hint}"), builder.label(f"{self.prefix}.{hint}.done")
        builder.branch(condition, inside, after)
        builder.place(inside)
        yield
        builder.jump(after)
        builder.place(after)

    def _act_if(self, condition: Value) -> Iterator[None]:
        """A section of its own: the condition is uniform over the lanes."""
        self.rejoin()
        yield
        leader, self.leader = self.leader, self.builder.binary("and", self.leader, condition)
        self.rejoin()
        self.leader = leader


def repeated(kernel: KernelContext, count: int, hint: str, *, written_out: bool) -> Iterator[tuple[Value, int | None]]:
    """The index 0 .. count - 1 for the code in the loop's body, and its value as a number if the loop is unrolled."""
    if written_out:
        yield from ((integer(index), index) for index in range(count))
        return
    with counted_loop(kernel, count, hint) as index:
        yield index, None


@contextmanager
def counted_loop(kernel: KernelContext, count: int, hint: str) -> Iterator[Value]:
    """Runs the code inside `count` times with the index 0 .. count - 1; a run-time loop unless it runs once."""
    assert count >= 1, "a loop over nothing: what it was to store would be lost"
    builder = kernel.builder
    if count == 1:
        yield integer(0)
        return
    slot = builder.variable("i32", hint)
    slot.write(integer(0))
    body, after = builder.label(hint), builder.label(f"{hint}.done")
    builder.jump(body)
    builder.place(body, head=True)
    yield slot.read()
    advanced = builder.add(slot.read(), 1)
    slot.write(advanced)
    more = builder.compare("ult", advanced, integer(count))
    builder.branch(more, body, after, kernel.metadata.rolled_loop())
    builder.place(after)
