"""The effects of an operation, declared once on its class: checks, walkers, plan and report query them here instead of listing classes."""

from typing import Literal

from pipec.record import record
from pipec.sema.tree.expressions import BufferRef, Expression, TensorSlice
from pipec.sema.tree.symbols import Handle, Pipeline
from pipec.vocabulary import FILLING, Completion, Reduction, UseKind


@record
class OneThread:
    """One thread issues the operation. `otherwise`: what the hardware does if every thread of the role issues it."""

    name: str
    otherwise: str


@record
class AllThreads:
    """All threads of the role participate, converged. `doing` names the action in messages; `otherwise`: what happens if threads are
    missing."""

    doing: str
    otherwise: str = "each thread holds a part of the tile: the parts of the other threads are missing"


@record
class AnyThreads:
    """Correct with any subset of the threads."""


ANY_THREADS = AnyThreads()
WhoRuns = OneThread | AllThreads | AnyThreads


@record(eq=False)
class TileUse:
    """How the tile of a stage is used. `completes`: how a role with this use completes a phase of its own side's barrier."""

    kind: UseKind
    tile: BufferRef
    completes: Completion


# What moves the bytes between global memory and the CTA: loads and stores of the threads, TMA, or cp.async; or the counter of a semaphore,
# whose turns order its own accesses.
Engine = Literal["threads", "bulk", "copies", "semaphore"]


@record(eq=False)
class GlobalAccess:
    """An access to global memory by the operation itself; reads inside expressions are not included."""

    place: TensorSlice
    engine: Engine
    writes: bool
    reduce: Reduction | None = None


@record(eq=False)
class Effects:
    """The declaration of one operation.

    `evaluates`: the expressions it computes; references to stages are not among them. `tile`: the one of them that the role's threads
    compute element by element. `shared`: values that must be uniform over the participating threads, each with its name in messages.
    `uses`: the tiles of stages that are its direct operands. `hands_over`: the stage that it obtains, signals or releases, or the pipeline
    that it drains: it synchronises with the roles at the other end. `fills`: the stage whose barrier it completes without a tile of its
    own, and how.
    """

    threads: WhoRuns
    evaluates: tuple[Expression, ...] = ()
    tile: Expression | None = None
    shared: tuple[tuple[str, Expression], ...] = ()
    uses: tuple[TileUse, ...] = ()
    memory: GlobalAccess | None = None
    hands_over: Handle | Pipeline | None = None
    fills: tuple[Handle, Completion] | None = None

    @property
    def filling(self) -> tuple[TileUse, ...]:
        """The uses that write the tile of a stage."""
        return tuple(use for use in self.uses if use.kind in FILLING)


def coordinates(place: TensorSlice) -> tuple[tuple[str, Expression], ...]:
    """As shared values: the address of a tile must not depend on the thread."""
    return tuple(("a coordinate", coordinate) for coordinate in place.coordinates)


def given(*values: Expression | None) -> tuple[Expression, ...]:
    """The values that are not None."""
    return tuple(value for value in values if value is not None)
