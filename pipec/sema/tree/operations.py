"""What a role does: the leaves of its body. `pipec.kir` puts them into control-flow graphs unchanged.

Each class declares its effects; nothing else says what an operation reads, writes, waits for or signals, and who takes part.
"""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record, replace
from pipec.sema.tree.effects import (
    ANY_THREADS,
    AllThreads,
    Effects,
    Event,
    GlobalAccess,
    OneThread,
    TileUse,
    WhoRuns,
    coordinates,
    given,
    stage_event,
)
from pipec.sema.tree.expressions import BufferRef, Expression, ReadVariable, TensorSlice
from pipec.sema.tree.symbols import Accumulator, Handle, Pipeline, Variable
from pipec.sema.tree.text import expression_text, reference_text, slice_text
from pipec.sema.types import dtype_of
from pipec.source import Span
from pipec.vocabulary import OTHER_SIDE, Axis, Reduction, SignalKind, StorePath

__all__ = [
    "OPERATIONS",
    "Acquire",
    "Assign",
    "AwaitGrids",
    "AwaitTurn",
    "ClearAccumulator",
    "CopyAsync",
    "Drain",
    "ExpectBytes",
    "LaunchDependents",
    "Mma",
    "Operation",
    "PassTurn",
    "Peek",
    "RegisterMma",
    "Release",
    "RequestTile",
    "Signal",
    "Store",
    "TmaLoad",
    "TmaStore",
    "Write",
    "WriteAccumulator",
]

OPERATIONS: dict[str, type["Operation"]] = {}
_NOT_WAITED = "the other threads do not wait: they go on before the stage is theirs, and their stage count falls behind"


class Operation:
    """What all operations have: a place in the source, their declaration, and a line of text for `--emit kir`.

    To add one, write its class here, with `declared` and `text`; it is then in `OPERATIONS`, which the lowering's table is compared with.
    """

    __slots__ = ("_effects",)

    def __init_subclass__(cls) -> None:
        OPERATIONS[cls.__name__] = cls  # `record` makes a class twice: the finished one comes last

    @property
    def span(self) -> Span:
        raise NotImplementedError

    def declared(self) -> Effects:
        """What `effects` returns, made at the first question."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    @property
    def effects(self) -> Effects:
        found: Effects | None = getattr(self, "_effects", None)
        if found is None:
            found = self.declared()
            object.__setattr__(self, "_effects", found)  # records refuse assignment; this is no field of theirs
        return found


@record(eq=False)
class Assign(Operation):
    """A lazy tile variable holds its expression, evaluated where it is used (a `let`), and is assigned once; a resident tile gets the
    values that its expression has now."""

    variable: Variable
    value: Expression
    span: Span

    def declared(self) -> Effects:
        threads = AllThreads(f"assigning the tile `{self.variable.name}`") if self.variable.in_registers else ANY_THREADS
        return Effects(threads, evaluates=(self.value,), tile=self.value if self.variable.in_registers else None)

    def text(self) -> str:
        value = expression_text(self.value)
        if self.variable.in_registers:
            return f"{self.variable.name} = registers({value})"
        return f"{self.variable.name} {':=' if self.variable.is_lazy else '='} {value}"


@record(eq=False)
class Acquire(Operation):
    """Waits for the other side, then holds the stage. All forms are one operation.

    `sub_stage` is one of the other side's. `first` is the wait that obtains the stage; the others wait for more of it. `token` is the
    peek that this wait completes: it waits only if that found the stage not ready.
    """

    handle: Handle
    span: Span
    sub_stage: int = 0
    first: bool = True
    token: Handle | None = None

    def declared(self) -> Effects:
        wait = replace(stage_event(self.handle, "wait", self.span, self.sub_stage), first=self.first)
        return Effects(AllThreads(f"obtaining stage `{self.handle.name}`", _NOT_WAITED), event=wait)

    def text(self) -> str:
        handle = self.handle
        if not self.first:
            return f"wait for {handle.name} sub-stage {self.sub_stage}"
        how = handle.form + (f", peeked {self.token.name}" if self.token else "")
        part = _sub_stage(self.sub_stage, handle.pipeline.sub_stages(OTHER_SIDE[handle.side]))
        return f"{handle.name} = acquire {handle.pipeline.name} as {handle.side} ({how}){part}"


@record(eq=False)
class Peek(Operation):
    """Looks, without waiting, whether the stage that the next acquire takes is ready; `ready` (bool) is told."""

    token: Handle
    ready: Variable
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not look, and wait for a stage by a result they never got"
        return Effects(AllThreads(f"looking at `{self.token.pipeline.name}`", otherwise))

    def text(self) -> str:
        return f"{self.ready.name} = peek {self.token.pipeline.name} as {self.token.side}"


@record(eq=False)
class Signal(Operation):
    """A signal on the handle's own barrier: how "arrive" (each calling thread), "commit" (when prior MMAs finish) or "own".

    "own" is what the use of the stage asks for, as at a release: an MMA commit, an arrival of the threads, or the copy's bytes.
    `sub_stage` is one of the handle's own side.
    """

    handle: Handle
    how: SignalKind
    span: Span
    sub_stage: int = 0

    def declared(self) -> Effects:
        threads: WhoRuns = AllThreads(
            f"arriving on `{self.handle.name}`", "the barrier waits for the arrivals of the other threads for ever"
        )
        if self.how == "commit":
            threads = OneThread(
                "mma.commit", "the barrier receives one arrival per thread and completes phases that nothing filled"
            )
        return Effects(threads, event=stage_event(self.handle, "signal", self.span, self.sub_stage))

    def text(self) -> str:
        part = _sub_stage(self.sub_stage, self.handle.pipeline.sub_stages(self.handle.side))
        return f"signal {self.handle.name}{part} by {self.how}"


@record(eq=False)
class Release(Operation):
    """Gives the stage up and steps. It signals when nothing signalled before, unless `signals` is False (release_without_signal)."""

    handle: Handle
    signals: bool
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not step on: from here on they wait for another stage than this one"
        release = replace(stage_event(self.handle, "release", self.span), signals=self.signals)
        return Effects(AllThreads(f"releasing stage `{self.handle.name}`", otherwise), event=release)

    def text(self) -> str:
        return f"release {self.handle.name}" + ("" if self.signals else " without signal")


@record(eq=False)
class Drain(Operation):
    """The producer waits until every stage it filled was given back."""

    pipeline: Pipeline
    span: Span

    def declared(self) -> Effects:
        drain = Event("drain", self.pipeline, "producer", None, self.span)
        return Effects(AllThreads(f"draining `{self.pipeline.name}`", _NOT_WAITED), event=drain)

    def text(self) -> str:
        return f"drain {self.pipeline.name}"


@record(eq=False)
class ExpectBytes(Operation):
    """The author states how many bytes the loads into a producer's stage bring; checked against what is derived."""

    handle: Handle
    bytes: int
    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS)

    def text(self) -> str:
        return f"expect {self.handle.name} {self.bytes} bytes"


@record(eq=False)
class RequestTile(Operation):
    """Asks for the tile of a cluster that has not started. The answer's bytes complete on the full barrier of the handle. One thread."""

    handle: Handle
    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS, event=stage_event(self.handle, "signal", self.span), fills=(self.handle, "tma"))

    def text(self) -> str:
        return f"request a tile into {self.handle.name}"


@record(eq=False)
class TmaLoad(Operation):
    """Global to shared memory; its bytes complete on the full barrier of the destination's handle. One thread.

    `multicast`: the axis of the cluster along which CTAs share the tile; each loads a part of its rows for all. `mask`: the CTAs it
    goes to, stated by hand, one bit for each rank.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span
    multicast: Axis | None = None
    mask: Expression | None = None

    def declared(self) -> Effects:
        otherwise = (
            "each thread copies the tile again: more bytes arrive than the full barrier expects, and it completes out of step"
        )
        return Effects(
            OneThread("tma.load", otherwise),
            evaluates=self.source.coordinates,
            shared=coordinates(self.source),
            uses=(TileUse("load", self.destination, "tma"),),
            memory=GlobalAccess(self.source, "bulk", writes=False),
            event=stage_event(self.destination.handle, "signal", self.span, self.destination.sub_stage or 0),
        )

    def text(self) -> str:
        return f"tma.load {reference_text(self.destination)} <- {slice_text(self.source)}"


@record(eq=False)
class CopyAsync(Operation):
    """A run of a 1-D tensor into a tile of one row, by cp.async: every thread of the role copies its share and goes on.

    The full barrier of the destination's handle gets an arrival of each thread once its copies have landed.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span

    def declared(self) -> Effects:
        return Effects(
            AllThreads("`cp.async`"),
            evaluates=self.source.coordinates,
            shared=coordinates(self.source),
            uses=(TileUse("copy", self.destination, "copies"),),
            memory=GlobalAccess(self.source, "copies", writes=False),
            event=stage_event(self.destination.handle, "signal", self.span, self.destination.sub_stage or 0),
        )

    def text(self) -> str:
        return f"cp.async {reference_text(self.destination)} <- {slice_text(self.source)}"


@record(eq=False)
class TmaStore(Operation):
    """Shared to global memory, asynchronous; the source must stay untouched until the handle's release waited for the read. One thread.

    `reduce` as in Store.
    """

    destination: TensorSlice
    source: BufferRef
    span: Span
    reduce: Reduction | None = None

    def declared(self) -> Effects:
        return Effects(
            OneThread("tma.store", "the tile is stored once per thread"),
            evaluates=self.destination.coordinates,
            shared=coordinates(self.destination),
            uses=(TileUse("store", self.source, "read"),),
            memory=GlobalAccess(self.destination, "bulk", writes=True, reduce=self.reduce),
        )

    def text(self) -> str:
        return f"tma.store {slice_text(self.destination)} {_arrow(self.reduce)} {reference_text(self.source)}"


@record(eq=False)
class Mma(Operation):
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

    def declared(self) -> Effects:
        read = (self.a, self.b, *self.scales)
        return Effects(
            OneThread("mma", "each thread adds the product to the accumulator again"),
            evaluates=given(self.accumulate, self.scale_b_row),
            shared=(*_accumulate(self.accumulate), *((("`sfb_row`", self.scale_b_row),) if self.scale_b_row is not None else ())),
            uses=(TileUse("accumulate", self.accumulator, "commit"), *(TileUse("operand", tile, "commit") for tile in read)),
        )

    def text(self) -> str:
        tiles = ", ".join(reference_text(tile) for tile in (self.accumulator, self.a, self.b, *self.scales))
        row = "" if self.scale_b_row is None else f" sfb_row={expression_text(self.scale_b_row)}"
        return f"mma {tiles}{row}{_accumulate_text(self.accumulate)}"


@record(eq=False)
class ClearAccumulator(Operation):
    """The accumulator becomes zero. All threads of the role."""

    accumulator: Accumulator
    span: Span

    def declared(self) -> Effects:
        return Effects(AllThreads(f"clearing the accumulator `{self.accumulator.name}`"))

    def text(self) -> str:
        return f"{self.accumulator.name} = accumulator {self.accumulator.type}"


@record(eq=False)
class RegisterMma(Operation):
    """accumulator[M, N] (+)= a[M, K] @ b[N, K].T in registers, asynchronous. All threads of the role.

    `accumulate` None: adds (a fresh accumulator is zero). Operand `a` stands in shared memory or is a register-resident tile.
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

    def declared(self) -> Effects:
        otherwise = "the four warps of a warpgroup multiply together: one that comes alone waits for ever or computes nonsense"
        operand = self.a if isinstance(self.a, ReadVariable) else None
        return Effects(
            AllThreads("`mma` in registers", otherwise),
            evaluates=given(operand, self.accumulate),
            tile=operand,
            shared=_accumulate(self.accumulate),
            uses=tuple(TileUse("operand", tile, "warps") for tile in self.tiles),
        )

    def text(self) -> str:
        a = expression_text(self.a) if isinstance(self.a, ReadVariable) else reference_text(self.a)
        return f"mma {self.accumulator.name}, {a}, {reference_text(self.b)}{_accumulate_text(self.accumulate)}"


@record(eq=False)
class WriteAccumulator(Operation):
    """An accumulator in registers gets the values that a tile has now. All threads of the role."""

    accumulator: Accumulator
    value: Expression
    span: Span

    def declared(self) -> Effects:
        return Effects(AllThreads(f"writing the accumulator `{self.accumulator.name}`"), evaluates=(self.value,), tile=self.value)

    def text(self) -> str:
        return f"write {self.accumulator.name} <- {expression_text(self.value)}"


@record(eq=False)
class Store(Operation):
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

    def declared(self) -> Effects:
        rows = () if self.rows is None else (("the number of rows", self.rows),)
        return Effects(
            AllThreads("`store`"),
            evaluates=(*self.destination.coordinates, self.value, *given(self.rows)),
            tile=self.value,
            shared=(*coordinates(self.destination), *rows),
            memory=GlobalAccess(self.destination, "bulk" if self.path == "tma" else "threads", writes=True, reduce=self.reduce),
        )

    def text(self) -> str:
        rows = "" if self.rows is None else f", {expression_text(self.rows)} rows"
        return f"store.{self.path} {slice_text(self.destination)} {_arrow(self.reduce)} {expression_text(self.value)}{rows}"


@record(eq=False)
class Write(Operation):
    """A register tile into the tile of a held producer stage, in shared or tensor memory.

    A consumer may write to tensor memory that a RolePipeline brings back to its producer.
    """

    destination: BufferRef
    value: Expression
    span: Span

    def declared(self) -> Effects:
        use = TileUse("write", self.destination, "threads")
        return Effects(AllThreads("`write`"), evaluates=(self.value,), tile=self.value, uses=(use,))

    def text(self) -> str:
        return f"write {reference_text(self.destination)} <- {expression_text(self.value)}"


@record(eq=False)
class AwaitTurn(Operation):
    """Waits until the i32 element `counter` in global memory is `turn`, of `turns`; what the blocks of earlier turns wrote is seen from
    here on. All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    turns: Expression
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not wait: they read and write what another block has not finished"
        return Effects(
            AllThreads("taking a turn", otherwise),
            evaluates=(*self.counter.coordinates, self.turn, self.turns),
            shared=(*coordinates(self.counter), ("a turn", self.turn), ("a turn", self.turns)),
            memory=GlobalAccess(self.counter, "semaphore", writes=False),
        )

    def text(self) -> str:
        return f"await {slice_text(self.counter)} == {expression_text(self.turn)}"


@record(eq=False)
class PassTurn(Operation):
    """Makes the element `counter` become `turn`, once everything that the role's threads and copies wrote is seen by who waits for it.

    All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    span: Span

    def declared(self) -> Effects:
        # Derived from the wait of the same `with`, which was asked whether its threads agree.
        return Effects(
            ANY_THREADS,
            evaluates=(*self.counter.coordinates, self.turn),
            memory=GlobalAccess(self.counter, "semaphore", writes=True),
        )

    def text(self) -> str:
        return f"pass {slice_text(self.counter)} <- {expression_text(self.turn)}"


@record(eq=False)
class AwaitGrids(Operation):
    """`griddepcontrol.wait`: the preceding grids have ended and what they wrote is seen. All threads of the role."""

    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not wait: they may read what the preceding grids have not written yet"
        return Effects(AllThreads("`griddepcontrol.wait`", otherwise))

    def text(self) -> str:
        return "griddepcontrol.wait"


@record(eq=False)
class LaunchDependents(Operation):
    """`griddepcontrol.launch_dependents`: dependent grids may start once every block did this, or ended. Any thread."""

    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS)

    def text(self) -> str:
        return "griddepcontrol.launch_dependents"


def _accumulate(condition: Expression | None) -> tuple[tuple[str, Expression], ...]:
    return () if condition is None else (("`accumulate`", condition),)


def _accumulate_text(condition: Expression | None) -> str:
    return "" if condition is None else f" accumulate={expression_text(condition)}"


def _arrow(reduce: Reduction | None) -> str:
    return "<-" if reduce is None else f"<-{reduce}-"


def _sub_stage(number: int, of: int) -> str:
    return f" sub-stage {number}" if of != 1 else ""
