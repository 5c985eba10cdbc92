"""Kernel IR: one typed control-flow graph per role, one node per pipeline operation.

The nodes inside a block are the operations of `pipec.sema.tree`; expressions stay trees. A block records which threads of the role run
it (its `Participation`), and a loop its bounds, so that later passes need not rediscover either.
"""

from collections.abc import Iterator
from typing import TypeVar

from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Launch
from pipec.record import record
from pipec.sema.tree import (
    ONE_CTA,
    Assumption,
    Buffer,
    Cluster,
    Expression,
    For,
    Operation,
    Pipeline,
    ProgrammaticLaunch,
    ScalarParameter,
    Schedule,
    StatedCounts,
    StatedGrid,
    TensorAllocation,
    TensorParameter,
    Variable,
    While,
)
from pipec.source import Span
from pipec.vocabulary import Threads


@record
class Participation:
    """Which threads of the role run a block.

    `threads`: "all" (every thread of the role, converged), "one" (one elected thread of the role), "some" (those in `chosen`, by their
    numbers in the role, from a guard such as `lane_id() < 4`), "unknown" (a guard that differs between threads by more than their numbers).
    `guard` is the span of the guard.
    """

    threads: Threads
    chosen: frozenset[int] | None = None
    guard: Span | None = None


ALL_THREADS = Participation("all")


@record
class Jump:
    target: int


@record
class Branch:
    """`span` is the condition's."""

    condition: Expression
    then: int
    otherwise: int
    span: Span


@record
class ElectBranch:
    """One thread of the role goes to `then`, the others to `otherwise`."""

    then: int
    otherwise: int
    span: Span


@record
class Exit:
    """The role ends."""


Terminator = Jump | Branch | ElectBranch | Exit


@record
class Block:
    """Blocks are numbered by their index in Role.blocks; block 0 is the entry and has no predecessor."""

    operations: tuple[Operation, ...]
    terminator: Terminator
    participation: Participation


@record
class Loop:
    """A natural loop: `header` tests the condition; `blocks` holds header, body and latch.

    For `for`: variable, start, stop (evaluated once, before the loop) and step; for `while` they are None. `parent` is the index of the
    enclosing loop in Role.loops, `statement` is its source.
    """

    header: int
    blocks: frozenset[int]
    variable: Variable | None
    start: Expression | None
    stop: Expression | None
    step: int | None
    parent: int | None
    span: Span
    statement: For | While


@record
class Role:
    name: str
    warps: int
    registers: int | None
    produces: tuple[Pipeline, ...]
    consumes: tuple[Pipeline, ...]
    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    span: Span
    end: Span
    values: Values
    leader: bool = False  # runs only in the leader of each CTA pair


@record
class Kernel:
    name: str
    document: str
    tensors: tuple[TensorParameter, ...]
    scalars: tuple[ScalarParameter, ...]
    parameters: tuple[str, ...]
    constants: dict[str, object]
    grid: tuple[Expression, Expression, Expression]
    pipelines: tuple[Pipeline, ...]
    buffers: tuple[Buffer, ...]
    roles: tuple[Role, ...]
    span: Span
    launch: Launch
    cluster: Cluster = ONE_CTA
    stated: tuple[StatedCounts, ...] = ()
    allocations: tuple[TensorAllocation, ...] = ()
    programmatic: ProgrammaticLaunch | None = None
    schedule: Schedule | None = None
    stated_grid: StatedGrid | None = None
    assumptions: tuple[Assumption, ...] = ()


def successors(terminator: Terminator) -> tuple[int, ...]:
    match terminator:
        case Jump(target):
            return (target,)
        case Branch() | ElectBranch():
            return (terminator.then, terminator.otherwise)
        case Exit():
            return ()


_Kind = TypeVar("_Kind", bound=Operation)


def run_once(role: Role, kind: type[_Kind], *, elected: bool = False) -> Iterator[_Kind]:
    """The operations of a kind that every thread which reaches the role's end has executed exactly once: no path bypasses them, no loop
    repeats them. `elected`: or the elected thread has."""
    ways = [_elected(block.terminator) if elected else successors(block.terminator) for block in role.blocks]
    exits = {number for number, targets in enumerate(ways) if not targets}
    for number, block in enumerate(role.blocks):
        found = [operation for operation in block.operations if isinstance(operation, kind)]
        if found and not exits & reached(ways, 0, without=number) - {number} and number not in _behind(ways, number):
            yield from found


def in_every_turn(role: Role, loop: Loop, number: int) -> bool:
    """Whether every turn of the loop passes the block, which is in it."""
    ways = [successors(block.terminator) if at in loop.blocks else () for at, block in enumerate(role.blocks)]
    return number == loop.header or not any(loop.header in ways[at] for at in reached(ways, loop.header, without=number))


def comes_to(role: Role, number: int) -> bool:
    """Whether every path passes the block, but for loops that do not turn: nothing but loops decides how often it does."""
    around = sorted((loop for loop in role.loops if number in loop.blocks), key=lambda loop: len(loop.blocks))
    for loop in around:
        if not in_every_turn(role, loop, number):
            return False
        number = loop.header
    ways = [successors(block.terminator) for block in role.blocks]
    exits = {one for one, targets in enumerate(ways) if not targets}
    return not exits & reached(ways, 0, without=number) - {number}


def joins(role: Role, number: int) -> tuple[int, frozenset[int]] | None:
    """The join (immediate postdominator) of the paths from the end of a block, and the blocks in between; None if they end the role."""
    ways = [successors(block.terminator) for block in role.blocks]
    exits = {one for one, targets in enumerate(ways) if not targets}
    here = number
    seen: set[int] = set()
    while ways[here] and here not in seen:
        seen.add(here)
        # Every path to the end passes the join.
        here = next((one for one in ways[here] if one not in seen and reached(ways, one) & exits), here)
        between = set().union(*(reached(ways, one, without=here) for one in ways[number]))
        if here != number and not exits & between - {here}:
            return here, frozenset(between)
    return None


def _elected(terminator: Terminator) -> tuple[int, ...]:
    return (terminator.then,) if isinstance(terminator, ElectBranch) else successors(terminator)


def _behind(ways: list[tuple[int, ...]], number: int) -> set[int]:
    return set().union(*(reached(ways, one) for one in ways[number]))


def reached(ways: list[tuple[int, ...]], start: int, without: int | None = None) -> set[int]:
    """The blocks reachable from one, itself included, without passing `without`."""
    seen, stack = set[int](), [start]
    while stack:
        number = stack.pop()
        if number != without and number not in seen:
            seen.add(number)
            stack += ways[number]
    return seen
