"""What an operation does, declared once on its class: every check, walker, plan and report asks here instead of listing classes."""

from typing import Literal

from pipec.record import record
from pipec.sema.tree.expressions import BufferRef, Expression, TensorSlice
from pipec.sema.tree.symbols import Handle, Pipeline
from pipec.vocabulary import Completion, Reduction, UseKind


@record
class OneThread:
    """One thread issues the operation. `otherwise`: what the hardware does when every thread of the role does."""

    name: str
    otherwise: str


@record
class AllThreads:
    """All threads of the role take part, converged. `doing` names it in messages; `otherwise`: what happens without the others."""

    doing: str
    otherwise: str = "each thread holds a part of the tile: the parts of the other threads are missing"


@record
class AnyThreads:
    """Right in whichever threads come by."""


ANY_THREADS = AnyThreads()
WhoRuns = OneThread | AllThreads | AnyThreads


@record(eq=False)
class TileUse:
    """What happens to the tile of a stage. `completes`: how a role that uses it so completes a phase of its own side's barrier."""

    kind: UseKind
    tile: BufferRef
    completes: Completion


# Who moves the bytes between global memory and the CTA: the role's own loads and stores, TMA, cp.async; or a counter that blocks take
# turns by, whose order the turns themselves keep.
Engine = Literal["threads", "bulk", "copies", "semaphore"]


@record(eq=False)
class GlobalAccess:
    """An access to a tensor in global memory that the operation names itself; reads inside expressions are not among them."""

    place: TensorSlice
    engine: Engine
    writes: bool
    reduce: Reduction | None = None


@record(eq=False)
class Effects:
    """The declaration of one operation.

    `evaluates`: the expressions it computes; references to stages are not among them. `tile`: that of them which the role's threads
    compute element by element. `shared`: values that have to be the same in all threads that run it, each with its name in messages.
    `uses`: the tiles of stages that it names itself. `hands_over`: the stage that it obtains, signals or gives up, or the pipeline that it
    drains: roles at the other end wait for it, or it for them. `fills`: the stage whose barrier it completes without a tile of its own,
    and how.
    """

    threads: WhoRuns
    evaluates: tuple[Expression, ...] = ()
    tile: Expression | None = None
    shared: tuple[tuple[str, Expression], ...] = ()
    uses: tuple[TileUse, ...] = ()
    memory: GlobalAccess | None = None
    hands_over: Handle | Pipeline | None = None
    fills: tuple[Handle, Completion] | None = None


def coordinates(place: TensorSlice) -> tuple[tuple[str, Expression], ...]:
    """As shared values: where a tile lies cannot depend on which thread asks."""
    return tuple(("a coordinate", coordinate) for coordinate in place.coordinates)


def given(*values: Expression | None) -> tuple[Expression, ...]:
    """Those that are there."""
    return tuple(value for value in values if value is not None)
