"""Where analysis stands: the names in sight, the statements produced so far, and how to report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from pipec.diag.catalogue import names as messages
from pipec.diag.catalogue import scheduling
from pipec.diag.message import Message, Sink
from pipec.isa.targets import Target
from pipec.sema import tree
from pipec.sema.entities import BarrierArray, Entity, Poison, Reported
from pipec.sema.scope import Scope, closest
from pipec.source import Span
from pipec.syntax import ast

# More operations than this in one kernel come from runaway helpers; it also bounds the time any input can take.
MOST_OPERATIONS = 20_000
MOST_MEMBERS = 12  # named in one message

Result = TypeVar("Result")


@dataclass(slots=True)
class Budget:
    left: int = MOST_OPERATIONS


@dataclass(slots=True)
class Walks:
    """A kernel's tile scheduler, the loop over it in each role, and the role that holds its requests back.

    `declared`: there is one, though maybe a wrong one. `targets`: where the loops name their tile.
    """

    declared: bool = False
    schedule: tree.Schedule | None = None
    targets: set[Span] = field(default_factory=set)
    loops: dict[str, Span] = field(default_factory=dict)
    throttling: str | None = None


@dataclass(slots=True)
class Context:
    """`place` is "file", "kernel" or "role"; `current` maps (pipeline, side) to the stage acquired last in this role.

    `stage_numbers` are the variables that hold a stage's number; those in `picked` chose a slot or barrier by it.
    """

    sink: Sink
    scope: Scope
    place: str
    target: Target
    statements: list[tree.Statement] = field(default_factory=list)
    kernel_scope: Scope | None = None  # what an inlined helper sees besides its parameters
    inlining: tuple[str, ...] = ()
    current: dict[tuple[tree.Pipeline, str], tree.Handle] = field(default_factory=dict)
    stage_numbers: dict[tree.Variable, tree.Handle] = field(default_factory=dict)
    picked: set[tree.Variable] = field(default_factory=set)
    dimensions: dict[str, Span] = field(default_factory=dict)
    buffers: dict[tree.Pipeline, tuple[tree.Buffer, ...]] = field(default_factory=dict)  # the tiles each pipeline's stages hold
    budget: Budget = field(default_factory=Budget)
    stated: list[tree.StatedCounts] = field(default_factory=list)
    allocations: list[tree.TensorAllocation] = field(default_factory=list)
    barrier_arrays: dict[BarrierArray, Span] = field(default_factory=dict)  # those that have an owner, with the place
    ranges: dict[tree.Variable, range] = field(default_factory=dict)  # of variables of loops with constant bounds
    unrollable: frozenset[tree.Variable] = frozenset()  # variables of the loops around that have constant bounds
    open_stages: set[tree.Handle] = field(default_factory=set)  # of RolePipelines: obtained, and not stepped over yet
    programmatic: list[tree.ProgrammaticLaunch] = field(default_factory=list)  # the statement, once it was made
    turn: Span | None = None  # the `with semaphore(...)` around the statement
    walks: Walks = field(default_factory=Walks)
    cluster: tree.Cluster = tree.ONE_CTA
    role: ast.Role | None = None
    inside: Span | None = None  # the statement whose block this is

    def fail(self, message: Message) -> NoReturn:
        self.sink.report(message)
        raise Reported

    def accept(self, result: Result | Message) -> Result:
        """A result of arithmetic.py: reports it when it is a message."""
        if isinstance(result, Message):
            self.fail(result)
        return result

    def emit(self, statement: tree.Statement) -> None:
        self.spend(statement.span)
        self.statements.append(statement)

    def spend(self, span: Span) -> None:
        self.budget.left -= 1
        if self.budget.left == -1:
            self.fail(messages.TooManyInlined(limit=MOST_OPERATIONS, at=span))
        if self.budget.left < 0:
            raise Reported  # said once; what still unwinds says nothing more

    def bind(self, name: str, entity: Entity, span: Span | None) -> None:
        self.scope.bind(name, entity, span)

    def define(self, name: ast.Name, entity: Entity) -> None:
        """Binds a kernel-level or file-level name, which is defined once."""
        earlier = self.scope.names.get(name.name)
        if earlier is not None:
            self.fail(messages.Redefined(name=name.name, at=name.span, first=earlier.span))
        self.scope.bind(name.name, entity, name.span)

    def look_up(self, name: ast.Name, extra: tuple[str, ...] = ()) -> Entity:
        binding = self.scope.find(name.name)
        if binding is None:
            ended = self.scope.ended_at(name.name)
            if ended in self.walks.targets:
                self.fail(scheduling.TileOutsideLoop(tile=name.name, at=name.span, loop=ended))
            if ended is not None:
                self.fail(messages.OutOfBlock(name=name.name, at=name.span, assigned=ended))
            self.fail(messages.UnknownName(name=name.name, close=self.scope.close_to(name.name, extra), at=name.span))
        if isinstance(binding.entity, Poison):
            raise Reported
        return binding.entity

    def no_member(self, owner: str, member: str, members: tuple[str, ...], at: Span) -> NoReturn:
        shown = [f"`{name}`" for name in members[:MOST_MEMBERS]]
        if len(members) > MOST_MEMBERS:
            shown.append(f"{len(members) - MOST_MEMBERS} more")
        listed = ", ".join(shown) or None
        self.fail(messages.NoSuchMember(owner=owner, member=member, members=listed, close=closest(member, members), at=at))

    def checkpoint(self) -> tuple[int, dict, set, dict]:
        """What `take_back` needs to undo an attempt whose statements went into an inner block."""
        return len(self.statements), dict(self.current), set(self.open_stages), self.sink.checkpoint()

    def take_back(self, checkpoint: tuple[int, dict, set, dict]) -> None:
        statements, current, open_stages, diagnostics = checkpoint
        del self.statements[statements:]
        self.current.clear()
        self.current.update(current)
        self.open_stages.intersection_update(open_stages)
        self.open_stages.update(open_stages)
        self.sink.take_back(diagnostics)

    @contextmanager
    def block(self, inside: Span) -> Iterator["Context"]:
        """An inner block of the statement at `inside`: its own names and statements."""
        inner = replace(self, scope=self.scope.inner(), statements=[], inside=inside)
        yield inner
        self.scope.end(inner.scope)
