"""What the checks need to know about a kernel's roles, collected once: where each stage is obtained, used, signalled and released."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.kir.signalled import signalling_releases
from pipec.kir.walk import operands, subexpressions
from pipec.record import field, mutable, record, replace
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import DRAINING, FILLING, UseKind

LOAD: Final[UseKind] = "load"
COPY: Final[UseKind] = "copy"
WRITE: Final[UseKind] = "write"
ACCUMULATE: Final[UseKind] = "accumulate"
OPERAND: Final[UseKind] = "operand"
READ: Final[UseKind] = "read"
STORE: Final[UseKind] = "store"
INDEX: Final[UseKind] = "index"


@record
class Touch:
    """One use of a stage: `defined` is where the tile variable read at `span` as `variable` got its values."""

    kind: UseKind
    handle: tree.Handle
    buffer: tree.Buffer | None
    span: Span
    operation: tree.Operation | None
    variable: tree.Variable | None = None
    defined: Span | None = None
    sub_stage: int | None = None
    part: tuple[int, int] | None = None  # of the buffer's rows: the first, and how many


@record
class Site:
    """An operation and its block."""

    block: int
    operation: tree.Operation


@mutable
class StageSummary:
    handle: tree.Handle
    acquires: list[Site] = field(default_factory=list)
    releases: list[Site] = field(default_factory=list)
    signals: list[Site] = field(default_factory=list)
    touches: list[tuple[int, Touch]] = field(default_factory=list)

    def kinds(self) -> set[UseKind]:
        return {touch.kind for _, touch in self.touches} - {INDEX}


@mutable(caches=True)
class RoleSummary:
    """`touches[block][i]` belong to operation i of the block, `condition_touches[block]` to its terminator's condition."""

    role: ir.Role
    touches: list[list[tuple[Touch, ...]]]
    condition_touches: list[tuple[Touch, ...]]
    handles: dict[tree.Handle, StageSummary]
    tokens: dict[tree.Handle, StageSummary]  # peeks: "acquired" by the peek, "released" by the wait that consumes it
    carried: dict[tree.Variable, tree.Handle]  # those whose results come from several places, or go to another name; by result
    moves: list[tree.Move]
    predecessors: list[list[int]]
    dominators: list[int]  # immediate ones; block 0 is its own
    innermost: list[int | None]  # loop of each block

    def summary_of(self, handle: tree.Handle) -> StageSummary:
        return (self.tokens if handle.form == "token" else self.handles)[handle]

    @cached_property
    def stages(self) -> list[StageSummary]:
        """As `handles`, but with names that take over each other's stages as one: the signal that one of them gives covers the uses of
        all."""
        merged = dict(self.handles)
        for move in self.moves:
            one, other = merged[move.target], merged[move.source]
            if one is not other:
                both = StageSummary(
                    one.handle,
                    one.acquires + other.acquires,
                    one.releases + other.releases,
                    one.signals + other.signals,
                    one.touches + other.touches,
                )
                merged = {handle: both if found in (one, other) else found for handle, found in merged.items()}
        return list({found.handle: found for found in merged.values()}.values())

    @cached_property
    def signalling(self) -> frozenset[tree.Release]:
        """The releases that signal their stage, since nothing has before."""
        return signalling_releases(self.role)

    def narrows(self, block: int) -> bool:
        """Whether the branches after the block run with fewer threads than the block."""
        terminator = self.role.blocks[block].terminator
        if not isinstance(terminator, ir.Branch | ir.ElectBranch):
            return False
        return self.role.blocks[terminator.then].participation != self.role.blocks[block].participation

    def leads(self, first: int, block: int) -> bool:
        """Whether a path leads forward from one block to another, or they are the same."""
        found, stack = set[int](), [block]
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += [before for before in self.predecessors[number] if first <= before < number]
        return first in found

    def dominates(self, upper: int, block: int) -> bool:
        while block > upper:
            block = self.dominators[block]
        return block == upper


@mutable(caches=True)
class Summary:
    kernel: ir.Kernel
    roles: list[RoleSummary]
    carriers: set[tree.Pipeline]  # pipelines that hand over tiles (others only synchronise)

    def handles(self) -> Iterator[tuple[RoleSummary, StageSummary]]:
        for role in self.roles:
            for handle in role.handles.values():
                yield role, handle

    @cached_property
    def touches(self) -> dict[tree.Buffer, list[Touch]]:
        """By buffer, once for all checks: each of them queries every buffer."""
        found: dict[tree.Buffer, list[Touch]] = {}
        for _, summary in self.handles():
            for _, touch in summary.touches:
                if touch.buffer is not None:
                    found.setdefault(touch.buffer, []).append(touch)
        return found

    @cached_property
    def handed_over(self) -> dict[tree.Pipeline, list[tree.Buffer]]:
        """What a stage of a pipeline hands to its consumers: its payload, and the kernel's own buffers selected by its index."""
        found: dict[tree.Pipeline, list[tree.Buffer]] = {pipeline: [] for pipeline in self.kernel.pipelines}
        for buffer in self.kernel.buffers:
            picking = (touch.handle.pipeline for touch in self.touches.get(buffer, ()))
            for pipeline in dict.fromkeys(picking if buffer.owner is None else (buffer.owner,)):
                found[pipeline].append(buffer)
        return found

    @cached_property
    def filled_by(self) -> dict[tree.Buffer, list[RoleSummary]]:
        """By buffer, the roles that fill it as producers."""
        found: dict[tree.Buffer, list[RoleSummary]] = {}
        for role in self.roles:
            filling = (touch for summary in role.handles.values() for _, touch in summary.touches if touch.kind in FILLING)
            for buffer in {touch.buffer: None for touch in filling if touch.handle.side == "producer"}:
                if buffer is not None:
                    found.setdefault(buffer, []).append(role)
        return found

    @cached_property
    def consumers_in_turn(self) -> frozenset[tree.Pipeline]:
        """The pipelines of which each stage is taken by one consumer, and skipped by the others."""
        return frozenset(one.pipeline for role in self.roles for one in operations(role.role) if isinstance(one, tree.Skip))

    def read_by_others(self, role: RoleSummary, pipeline: tree.Pipeline) -> bool:
        """Whether other roles that are given the same stages read every tile."""
        if pipeline in self.consumers_in_turn:
            return False
        read = {
            touch.buffer
            for other in self.roles
            if other is not role
            for handle, summary in other.handles.items()
            if handle.pipeline is pipeline and handle.side == "consumer"
            for _, touch in summary.touches
            if touch.kind in DRAINING
        }
        return read.issuperset(self.handed_over[pipeline])


def collect(kernel: ir.Kernel) -> Summary:
    roles = [_Collector(role).collect() for role in kernel.roles]
    carriers = {buffer.owner for buffer in kernel.buffers if buffer.owner is not None}
    for role in roles:
        carriers.update(handle.pipeline for handle, summary in role.handles.items() if summary.kinds())
    return Summary(kernel, roles, carriers)


class _Collector:
    def __init__(self, role: ir.Role) -> None:
        self._role = role
        self._lets: dict[tree.Variable, tuple[Touch, ...]] = {}
        self._handles: dict[tree.Handle, StageSummary] = {}
        self._tokens: dict[tree.Handle, StageSummary] = {}
        self._moves: list[tree.Move] = []
        self._results: dict[tree.Variable, tree.Handle] = {}

    def collect(self) -> RoleSummary:
        role = self._role
        touches = [
            [self._operation(number, operation) for operation in block.operations] for number, block in enumerate(role.blocks)
        ]
        conditions = []
        for number, block in enumerate(role.blocks):
            condition = block.terminator.condition if isinstance(block.terminator, ir.Branch) else None
            found = () if condition is None else tuple(self._read(condition, None))
            self._note(number, found)
            conditions.append(found)
        before = predecessors(role)
        return RoleSummary(
            role,
            touches,
            conditions,
            self._handles,
            self._tokens,
            self._carried() if self._results else {},
            self._moves,
            before,
            dominators(before),
            _innermost(role),
        )

    def _carried(self) -> dict[tree.Variable, tree.Handle]:
        found: set[tree.Variable] = set()
        for block in self._role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Assign) and operation.variable in self._results:
                    found.add(operation.variable)
                    if isinstance(operation.value, tree.ReadVariable):
                        found.add(operation.value.variable)
        return {
            ready: token for ready, token in self._results.items() if ready in found or len(self._tokens[token].acquires) != 1
        }

    def _handle(self, handle: tree.Handle) -> StageSummary:
        return self._handles.setdefault(handle, StageSummary(handle))

    def _token(self, token: tree.Handle) -> StageSummary:
        return self._tokens.setdefault(token, StageSummary(token))

    def _note(self, block: int, touches: tuple[Touch, ...]) -> None:
        for touch in touches:
            self._handle(touch.handle).touches.append((block, touch))

    def _operation(self, block: int, operation: tree.Operation) -> tuple[Touch, ...]:
        site = Site(block, operation)
        match operation:
            case tree.Acquire():
                self._handle(operation.handle).acquires.append(site)
                if operation.token is not None and operation.ready is not None:
                    self._token(operation.token).releases.append(site)
                    self._results[operation.ready] = operation.token
                return ()
            # A peek obliges to a wait as an acquire obliges to a release, so one analysis covers both.
            case tree.Peek():
                self._token(operation.token).acquires.append(site)
                self._results[operation.ready] = operation.token
                return ()
            case tree.Release():
                self._handle(operation.handle).releases.append(site)
                return ()
            case tree.Signal():
                self._handle(operation.handle).signals.append(site)
                return ()
            case tree.Move():
                self._moves.append(operation)
                return ()
            # Reading at the definition would let a kernel release the stage between definition and use, and store what the producer has
            # written meanwhile.
            case tree.Assign() if operation.variable.is_lazy:
                # A lazy tile variable is read at its uses, not at its definition.
                self._lets[operation.variable] = self._let(operation)
                return ()
            case _:
                found = tuple(self._touches(operation))
                self._note(block, found)
                return found

    def _touches(self, operation: tree.Operation) -> Iterator[Touch]:
        if isinstance(operation, tree.ExpectBytes):
            yield Touch(INDEX, operation.handle, None, operation.span, operation)
        for use in operation.effects.uses:
            tile = use.tile
            yield Touch(use.kind, tile.handle, tile.buffer, tile.span, operation, sub_stage=tile.sub_stage, part=tile.part)
        for value in operands(operation):
            yield from self._read(value, operation)

    def _let(self, operation: tree.Assign) -> tuple[Touch, ...]:
        """One touch per stage tile that the variable's expression reads, however often."""
        found: dict[tuple[object, ...], Touch] = {}
        for touch in self._read(operation.value, operation):
            found.setdefault((touch.kind, touch.handle, touch.buffer, touch.sub_stage), touch)
        return tuple(found.values())

    def _read(self, value: tree.Expression, operation: tree.Operation | None) -> Iterator[Touch]:
        for node in subexpressions(value):
            match node:
                case tree.ReadBuffer():
                    source = node.source
                    yield Touch(READ, source.handle, source.buffer, node.span, operation, sub_stage=source.sub_stage)
                case tree.StageIndex() | tree.ReadResponse():
                    yield Touch(INDEX, node.handle, None, node.span, operation)
                case tree.ReadVariable():
                    for touch in self._lets.get(node.variable, ()):
                        defined = touch.defined or touch.span
                        yield replace(touch, span=node.span, operation=operation, variable=node.variable, defined=defined)
                case _:
                    pass


def predecessors(role: ir.Role, *, elected: bool = False) -> list[list[int]]:
    """The predecessors of each block; `elected`: on the paths of the elected thread."""
    before: list[list[int]] = [[] for _ in role.blocks]
    for number, block in enumerate(role.blocks):
        end = block.terminator
        for target in (end.then,) if elected and isinstance(end, ir.ElectBranch) else ir.successors(end):
            before[target].append(number)
    return before


# The dominator algorithm of Cooper, Harvey and Kennedy. With gotos it would have to be iterated to a fixed point; the language has none.
def dominators(before: list[list[int]]) -> list[int]:
    """Blocks are numbered so that only loops jump backwards: one pass in order suffices."""
    found = [0]
    for number in range(1, len(before)):
        first, *others = [block for block in before[number] if block < number]
        for other in others:
            while first != other:
                first, other = (found[first], other) if first > other else (first, found[other])
        found.append(first)
    return found


def _innermost(role: ir.Role) -> list[int | None]:
    innermost: list[int | None] = [None] * len(role.blocks)
    for index, loop in enumerate(role.loops):  # parents come first
        for block in loop.blocks:
            innermost[block] = index
    return innermost
