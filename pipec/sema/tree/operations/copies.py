"""Copies and stores of tiles, and values kept in registers."""

from pipec.record import record
from pipec.sema.tree.effects import (
    ANY_THREADS,
    AllThreads,
    Effects,
    GlobalAccess,
    OneThread,
    TileUse,
    coordinates,
    given,
)
from pipec.sema.tree.expressions import BufferRef, Expression, TensorSlice
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.symbols import Variable
from pipec.sema.tree.text import expression_text, reference_text, slice_text
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import Axis, CachePolicy, Reduction, StorePath


@record(eq=False)
class Assign(Operation):
    """A lazy tile variable holds its expression, evaluated at each use (a `let`), and is assigned once; a register-resident tile takes the
    current values of its expression."""

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
class TmaLoad(Operation):
    """Global to shared memory; its bytes complete on the full barrier of the destination's handle. One thread.

    `multicast`: the axis of the cluster along which CTAs share the tile; each loads some of the rows for all. `mask`: explicit destination
    CTAs, one bit per rank. `cache`: the L2 eviction policy.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span
    multicast: Axis | None = None
    mask: Expression | None = None
    cache: CachePolicy | None = None

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
            hands_over=self.destination.handle,
        )

    def text(self) -> str:
        return f"tma.load {reference_text(self.destination)} <- {slice_text(self.source)}{_cache_text(self.cache)}"


@record(eq=False)
class CopyAsync(Operation):
    """A run of a 1-D tensor into a one-row tile, by cp.async: every thread of the role copies its share and continues.

    Each thread arrives on the full barrier of the destination's handle once its copies have landed.
    """

    destination: BufferRef
    source: TensorSlice
    span: Span

    def declared(self) -> Effects:
        return Effects(
            # Every thread arrives when its own copies have landed (cp.async.mbarrier.arrive.noinc): a missing thread leaves the count
            # incomplete.
            AllThreads("`cp.async`"),
            evaluates=self.source.coordinates,
            shared=coordinates(self.source),
            uses=(TileUse("copy", self.destination, "copies"),),
            memory=GlobalAccess(self.source, "copies", writes=False),
            hands_over=self.destination.handle,
        )

    def text(self) -> str:
        return f"cp.async {reference_text(self.destination)} <- {slice_text(self.source)}"


@record(eq=False)
class TmaStore(Operation):
    """Shared to global memory, asynchronous; the source must not be overwritten until the handle's release has waited for the read. One
    thread.

    `reduce` as in Store, `cache` as in TmaLoad.
    """

    destination: TensorSlice
    source: BufferRef
    span: Span
    reduce: Reduction | None = None
    cache: CachePolicy | None = None

    def declared(self) -> Effects:
        return Effects(
            OneThread("tma.store", "the tile is stored once per thread"),
            evaluates=self.destination.coordinates,
            shared=coordinates(self.destination),
            # "read": the slot is free once TMA has read it (cp.async.bulk.wait_group.read), long before the writes become visible to
            # others.
            uses=(TileUse("store", self.source, "read"),),
            memory=GlobalAccess(self.destination, "bulk", writes=True, reduce=self.reduce),
        )

    def text(self) -> str:
        stored = f"{slice_text(self.destination)} {_arrow(self.reduce)} {reference_text(self.source)}"
        return f"tma.store {stored}{_cache_text(self.cache)}"


@record(eq=False)
class Store(Operation):
    """A register tile to global memory: path "tma" (swizzled shared memory, then bulk store) or "direct" (one store per element run).

    `reduce`: "add", "min" or "max" with the existing value, atomic per element; None overwrites it. `rows` (i32, uniform): the number of
    rows of the tile to store. `cache` as in TmaLoad, for TMA stores. `transposed`: the value's rows are columns of the stored tile.
    """

    destination: TensorSlice
    value: Expression
    path: StorePath
    span: Span
    reduce: Reduction | None = None
    rows: Expression | None = None
    cache: CachePolicy | None = None
    transposed: bool = False

    @property
    def placed(self) -> TileType:
        """The tile type as laid out in the tensor."""
        tile = self.value.type
        assert isinstance(tile, TileType)
        return TileType(tile.dtype, tile.columns, tile.rows) if self.transposed else tile

    def declared(self) -> Effects:
        rows = () if self.rows is None else (("the number of rows", self.rows),)
        return Effects(
            AllThreads("`store`" if self.path == "tma" else "`store.direct`"),
            evaluates=(*self.destination.coordinates, self.value, *given(self.rows)),
            tile=self.value,
            shared=(*coordinates(self.destination), *rows),
            memory=GlobalAccess(self.destination, "bulk" if self.path == "tma" else "threads", writes=True, reduce=self.reduce),
        )

    def text(self) -> str:
        rows = "" if self.rows is None else f", {expression_text(self.rows)} rows"
        turned = ".T" if self.transposed else ""
        stored = f"{slice_text(self.destination)} {_arrow(self.reduce)} {expression_text(self.value)}{turned}"
        return f"store.{self.path} {stored}{rows}{_cache_text(self.cache)}"


@record(eq=False)
class Write(Operation):
    """A register tile into the tile of a held producer stage, in shared or tensor memory.

    A consumer may write to tensor memory that a RolePipeline returns to its producer.
    """

    destination: BufferRef
    value: Expression
    span: Span

    def declared(self) -> Effects:
        use = TileUse("write", self.destination, "threads")
        return Effects(AllThreads("`write`"), evaluates=(self.value,), tile=self.value, uses=(use,))

    def text(self) -> str:
        return f"write {reference_text(self.destination)} <- {expression_text(self.value)}"


def _cache_text(cache: CachePolicy | None) -> str:
    return "" if cache is None else f", {cache}"


def _arrow(reduce: Reduction | None) -> str:
    return "<-" if reduce is None else f"<-{reduce}-"
