"""The state of the analysis: names in scope, statements emitted so far, and reporting."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NoReturn, TypeVar

from pipec.budgets import Meter
from pipec.diag.catalogue.grid import scheduling
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import placement as placement_messages
from pipec.diag.catalogue.language import syntax as syntax_messages
from pipec.diag.catalogue.stages import linear
from pipec.diag.message import Message, Reports, Sink
from pipec.isa.targets import Target
from pipec.record import field, mutable, record, replace
from pipec.sema import tree
from pipec.sema.language.other_names import OTHER_MEMBERS, OtherName, other_name
from pipec.sema.meanings import BarrierArray, LeftBehind, Meaning, OfEachRole, Poison, Reported, Token
from pipec.sema.scope import BlockKind, Scope, closest
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import Side

MOST_MEMBERS = 12  # listed in one message

Result = TypeVar("Result")

# For each kind of block: its keyword, and why a name assigned in it is undefined after it.
_ENDED: dict[BlockKind, tuple[str, str]] = {
    "with": ("`with`", "what a `with` holds is given back at its end"),
    "turn": ("turn", "what is obtained in a turn is given back in it"),
    "elected": ("`with elect()`", "only one thread has run the block"),
    "loop": ("loop", "each iteration has its own names, and a loop may run none"),
    "branch": ("branch", "on the other path it would be whatever was left in the register"),
}


@mutable
class Walks:
    """A kernel's tile scheduler, the loop over it in each role, and the role that throttles its requests.

    `declared`: there is one, even if invalid. `targets`: the spans of the tile variables of the loops.
    """

    declared: bool = False
    schedule: tree.Schedule | None = None
    targets: set[Span] = field(default_factory=set)
    loops: dict[str, Span] = field(default_factory=dict)
    throttling: str | None = None


@record
class Checkpoint:
    """State at the start of an attempt: the number of statements, the current and open stages, and what was reported."""

    statements: int
    current: dict[tuple[tree.Pipeline, Side], tree.Handle]
    open_stages: set[tree.Handle]
    reported: Reports


@record
class Recursion:
    """Ties the recursion: expressions contain calls, inlined calls contain statements, and statements contain expressions."""

    elaborate: "Callable[[Context, ast.Expression], Meaning]"
    call: "Callable[[Context, ast.Call], Meaning]"
    run_body: "Callable[[Context, tuple[ast.Statement, ...]], None]"


@mutable
class Context:
    """`place` is "file", "kernel" or "role"; `current` maps (pipeline, side) to the stage acquired last in this role.

    `stage_numbers` are the variables that hold a stage's number; those in `picked` have selected a slot or barrier.
    """

    sink: Sink
    scope: Scope
    place: Literal["file", "kernel", "role"]
    target: Target
    recursion: Recursion
    meter: Meter
    statements: list[tree.Statement] = field(default_factory=list)
    kernel_scope: Scope | None = None  # names an inlined helper sees besides its parameters
    inlining: tuple[str, ...] = ()
    current: dict[tuple[tree.Pipeline, Side], tree.Handle] = field(default_factory=dict)
    stage_numbers: dict[tree.Variable, tree.Handle] = field(default_factory=dict)
    picked: set[tree.Variable] = field(default_factory=set)
    conditions: dict[tree.Variable, Token] = field(default_factory=dict)  # those that stand for the results of peeks
    dimensions: set[str] = field(default_factory=set)  # bound by the launch
    buffers: dict[tree.Pipeline, tuple[tree.Buffer, ...]] = field(default_factory=dict)  # the tiles each pipeline's stages hold
    stated: list[tree.StatedCounts] = field(default_factory=list)
    allocations: list[tree.TensorAllocation] = field(default_factory=list)
    barrier_arrays: dict[BarrierArray, Span] = field(default_factory=dict)  # those that have an owner, and where
    ranges: dict[tree.Variable, range] = field(default_factory=dict)  # of variables of loops with constant bounds
    unrollable: frozenset[tree.Variable] = frozenset()  # variables of enclosing loops with constant bounds
    given_away: set[tree.Handle] = field(default_factory=set)  # whose stage another name has taken over: their names may take one
    open_stages: set[tree.Handle] = field(default_factory=set)  # of RolePipelines: obtained, not stepped past yet
    assumptions: list[tree.Assumption] = field(default_factory=list)  # stated so far
    programmatic: list[tree.ProgrammaticLaunch] = field(default_factory=list)  # the statement, if any
    turn: Span | None = None  # the enclosing `with semaphore(...)`
    walks: Walks = field(default_factory=Walks)
    cluster: tree.Cluster = tree.ONE_CTA
    grid: tuple[tree.Expression, tree.Expression, tree.Expression] | None = None  # as the kernel states it, if it does
    on_host: bool = False  # what is read now is computed for a launch, by the host that makes it
    role: ast.Role | None = None
    own: dict[OfEachRole, tree.Variable] = field(default_factory=dict)  # what this role has read of the kernel's values in memory
    inside: Span | None = None  # the statement that this block belongs to

    @contextmanager
    def for_launch(self) -> Iterator[None]:
        """Inside, expressions may have what only the host knows."""
        self.on_host = True
        try:
            yield
        finally:
            self.on_host = False

    def fail(self, message: Message) -> NoReturn:
        self.sink.report(message)
        raise Reported

    def accept(self, result: Result | Message) -> Result:
        """Passes on a result of arithmetic.py; reports it if it is a message."""
        if isinstance(result, Message):
            self.fail(result)
        return result

    def elaborate(self, node: ast.Expression) -> Meaning:
        """What an expression of any kind stands for."""
        return self.recursion.elaborate(self, node)

    def call(self, node: ast.Call) -> Meaning:
        """The result of a call; its operations are emitted."""
        return self.recursion.call(self, node)

    def run_body(self, body: tuple[ast.Statement, ...]) -> None:
        """Analyses statements; an error abandons only its own statement."""
        self.recursion.run_body(self, body)

    def emit(self, statement: tree.Statement) -> None:
        self.in_a_role("a statement that runs", statement.span)
        self.spend(statement.span)
        self.statements.append(statement)

    def in_a_role(self, what: str, at: Span) -> None:
        """Reports what stands outside of roles, as in a helper that is called there: no thread would run it."""
        if self.place != "role":
            self.fail(placement_messages.Misplaced(what=what, where="outside a role", to="into a role", at=at))

    def spend(self, span: Span, count: int = 1) -> None:
        """Raises BudgetEnded, which ends the analysis of the kernel: an enclosing loop must not continue."""
        self.meter.spend(count, span)

    def bind(self, name: str, meaning: Meaning, span: Span | None) -> None:
        self.scope.bind(name, meaning, span)

    def bind_again(self, name: str, meaning: Meaning, span: Span) -> None:
        """Binds a name for this block alone: the next iteration, and what follows, must not read what it stands for outside."""
        scope = self.scope
        outer = None if name in scope.names else scope.find(name)
        if outer is not None and not isinstance(outer.meaning, Poison):
            for one in scope.up_to(name):
                if one.kind == "loop" and name in one.used:
                    self.fail(messages.LostMeaning(name=name, at=one.used[name], again=span))
            scope.again[name] = span
        self.bind(name, meaning, span)

    def leave_behind(self, name: str, stage: tree.Handle, span: Span) -> None:
        """The stage's name stands for another stage from here on. Other names of the first one, and of its tiles, have no meaning any more,
        here and in the next iteration."""
        for scope in self.scope.outwards():
            for other, binding in (*scope.names.items(), *scope.outlasting.items()):
                if other == name or not self._belongs(binding.meaning, stage):
                    continue
                for one in self.scope.up_to(other):
                    if one.kind == "loop" and other in one.used:
                        self.fail(linear.NameOfOldStage(name=other, stage=name, at=one.used[other], moved=span))
                binding.meaning = LeftBehind(name, span)

    def _belongs(self, meaning: Meaning, stage: tree.Handle) -> bool:
        """Whether the name stands for something of the stage that is found when it is used. (Tiles that are computed from it: E0298.)"""
        if isinstance(meaning, tree.Variable):
            return self.stage_numbers.get(meaning) is stage
        if isinstance(meaning, tree.ReadBuffer):
            return meaning.source.handle is stage
        return stage in (
            meaning,
            getattr(meaning, "handle", None),
            getattr(meaning, "input", None),
            getattr(meaning, "output", None),
        )

    def define(self, name: ast.Name, meaning: Meaning) -> None:
        """Binds a kernel-level or file-level name, which is defined once."""
        earlier = self.scope.names.get(name.name)
        if earlier is not None:
            self.fail(messages.Redefined(name=name.name, at=name.span, first=earlier.span))
        self.bind_again(name.name, meaning, name.span)

    def look_up(self, name: ast.Name, extra: tuple[str, ...] = ()) -> Meaning:
        binding, again = self.scope.read(name.name, name.span)
        if binding is None:
            ended = self.scope.ended_at(name.name)
            if ended is not None and ended.span in self.walks.targets:
                self.fail(scheduling.TileOutsideLoop(tile=name.name, at=name.span, loop=ended.span))
            # The name did exist: saying so helps more than suggesting a similar spelling.
            if ended is not None:
                block, why = _ENDED[ended.kind]
                more = f", or give `{name.name}` a first value before it" if ended.value and not ended.tile else ""
                more += f", or keep the tile's values by `{name.name} = registers(...)`" if ended.tile else ""
                if ended.kind == "turn" and ended.value:
                    why = "it stands for its expression, and after the turn other blocks change what that reads"
                elif ended.kind == "with":
                    more += ", or obtain the stage without `with` and release it by hand"
                self.bind(name.name, Poison(), name.span)  # one mistake, however often the name is used
                self.fail(messages.OutOfBlock(name=name.name, block=block, why=why, more=more, at=name.span, assigned=ended.span))
            self.refuse_other(name.name, other_name(name.name), name.span)
            self.fail(messages.UnknownName(name=name.name, close=self.scope.close_to(name.name, extra), at=name.span))
        # The error in its definition has been reported; any use is wrong only because of that.
        if isinstance(binding.meaning, Poison):
            raise Reported
        if isinstance(binding.meaning, LeftBehind):
            left = binding.meaning
            self.fail(linear.NameOfOldStage(name=name.name, stage=left.stage, at=name.span, moved=left.span))
        if again is not None:
            self.bind(name.name, Poison(), name.span)
            self.fail(messages.LostMeaning(name=name.name, at=name.span, again=again))
        return binding.meaning

    def of_this_role(self, read: OfEachRole, span: Span) -> tree.Expression:
        """What a value that the kernel reads from memory stands for: in a role its variable, elsewhere the expression."""
        if self.place != "role":
            return read.value
        if read not in self.own:
            self.own[read] = tree.Variable(read.name, read.value.type, read.span)
        return tree.ReadVariable(self.own[read], span)

    def refuse_other(self, name: str, other: OtherName | None, at: Span) -> None:
        """Rejects a name that belongs to another language."""
        if other is not None:
            self.fail(syntax_messages.OtherForm(what=f"`{name}`", why=other.why, instead=other.instead, edit=other.edit, at=at))

    def no_member(self, owner: str, member: str, members: tuple[str, ...], at: Span) -> NoReturn:
        shown = [f"`{name}`" for name in members[:MOST_MEMBERS]]
        if len(members) > MOST_MEMBERS:
            shown.append(f"{len(members) - MOST_MEMBERS} more")
        listed = ", ".join(shown) or None
        close = closest(member, members)
        hint = f"did you mean `{close}`?" if close else OTHER_MEMBERS.get(member)
        word = at.source.span(at.end_line, at.end_column - len(member), at.end_line, at.end_column)
        self.fail(
            messages.NoSuchMember(
                owner=owner,
                member=member,
                members=listed,
                hint=hint,
                close=close,
                at=at,
                word=word if word.text() == member else None,
            )
        )

    def misplaced_return(self, at: Span) -> NoReturn:
        """Rejects a `return` that is not the last statement of a helper."""
        if self.inlining:
            where, why = "inside a helper", "a helper is expanded where it is called, so there is nothing to jump out of"
            instead = "assign the value to a variable, and return that in the last line"
        elif self.place == "role":
            where, why = (
                "in a role",
                "a role that ends early would take fewer stages than the roles beside it, which then wait for ever",
            )
            instead = "remove it, and put what must not run then under `if`"
        else:
            where, why = "in a kernel", "a kernel returns nothing: it stores into the tensors that it was given"
            instead = "remove it"
        self.fail(placement_messages.MisplacedReturn(where=where, why=why, instead=instead, at=at))

    def checkpoint(self) -> Checkpoint:
        """What `take_back` needs to undo an attempt that emitted its statements into an inner block."""
        return Checkpoint(len(self.statements), dict(self.current), set(self.open_stages), self.sink.checkpoint())

    def take_back(self, checkpoint: Checkpoint) -> None:
        del self.statements[checkpoint.statements :]
        self.current.clear()
        self.current.update(checkpoint.current)
        # In place, since the contexts of inner blocks share the set.
        self.open_stages.intersection_update(checkpoint.open_stages)
        self.open_stages.update(checkpoint.open_stages)
        self.sink.take_back(checkpoint.reported)

    @contextmanager
    def block(self, inside: Span, kind: BlockKind = "loop") -> Iterator["Context"]:
        """An inner block of the statement at `inside`, with its own names and statements."""
        # Everything else is shared with the outer block, including mutable state: stages, budgets and declarations belong to the role or
        # the kernel.
        inner = replace(self, scope=self.scope.inner(kind), statements=[], inside=inside)
        yield inner
        self.scope.end(inner.scope, kind)
