"""Typed tree to kernel IR: control flow becomes blocks annotated with the threads that run them.

The source language is structured (no break, no early return), so the graphs are reducible by construction, every block is reachable, and
a block's number is larger than that of its immediate dominator. A branch on a compile-time constant keeps only the side that is taken.
"""

from typing import assert_never

from pipec.isa.dtypes import DTYPES
from pipec.kir import ir
from pipec.kir.participation import restrict, unknown
from pipec.kir.statements import statements
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Launch
from pipec.kir.values.sameness import of_threads
from pipec.record import field, mutable
from pipec.sema import tree
from pipec.sema.types import dtype_of
from pipec.source import Span
from pipec.terms.machine import range_of

_BOOL = DTYPES["bool"]


def build(kernel: tree.Kernel) -> ir.Kernel:
    launch = Launch(kernel)
    return ir.Kernel(
        name=kernel.name,
        document=kernel.document,
        tensors=kernel.tensors,
        scalars=kernel.scalars,
        parameters=kernel.parameters,
        constants=kernel.constants,
        grid=kernel.grid,
        pipelines=kernel.pipelines,
        buffers=kernel.buffers,
        roles=tuple(build_role(role, launch) for role in kernel.roles),
        span=kernel.span,
        cluster=kernel.cluster,
        stated=kernel.stated,
        allocations=kernel.allocations,
        programmatic=kernel.programmatic,
        schedule=kernel.schedule,
        stated_grid=kernel.stated_grid,
        launch=launch,
        assumptions=kernel.assumptions,
    )


def build_role(role: tree.Role, launch: Launch) -> ir.Role:
    values = Values(role, launch)
    builder = _Builder(values)
    builder.statements(role.body)
    builder.finish(ir.Exit())
    return ir.Role(
        name=role.name,
        warps=role.warps,
        registers=role.registers,
        produces=role.produces,
        consumes=role.consumes,
        blocks=tuple(builder.blocks()),
        loops=tuple(builder.loops()),
        span=role.span,
        end=role.end,
        values=values,
        leader=role.leader,
    )


@mutable
class _OpenBlock:
    participation: ir.Participation
    operations: list[tree.Operation] = field(default_factory=list)
    terminator: ir.Terminator | None = None


@mutable
class _OpenLoop:
    statement: tree.For | tree.While
    parent: int | None
    span: Span
    variable: tree.Variable | None = None
    start: tree.Expression | None = None
    stop: tree.Expression | None = None
    step: int | None = None
    header: int = -1
    end: int = -1  # the blocks of a loop are numbered header .. end - 1


class _Builder:
    """Appends to the block `current`; a terminator closes it."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._threads = of_threads(values)
        self._blocks = [_OpenBlock(ir.ALL_THREADS)]
        self._loops: list[_OpenLoop] = []
        self._current = 0
        self._loop: int | None = None

    def blocks(self) -> list[ir.Block]:
        return [ir.Block(tuple(block.operations), _closed(block), block.participation) for block in self._blocks]

    def loops(self) -> list[ir.Loop]:
        return [
            ir.Loop(
                header=loop.header,
                blocks=frozenset(range(loop.header, loop.end)),
                variable=loop.variable,
                start=loop.start,
                stop=loop.stop,
                step=loop.step,
                parent=loop.parent,
                span=loop.span,
                statement=loop.statement,
            )
            for loop in self._loops
        ]

    def statements(self, statements: tuple[tree.Statement, ...]) -> None:
        for statement in statements:
            match statement:
                case tree.If():
                    self._if(statement)
                case tree.For():
                    self._for(statement)
                case tree.While():
                    self._while(statement)
                case tree.Elect():
                    self._elect(statement)
                case tree.Operation():
                    self._append(statement)
                case _:
                    assert_never(statement)

    def finish(self, terminator: ir.Terminator) -> None:
        block = self._blocks[self._current]
        assert block.terminator is None
        block.terminator = terminator

    def _append(self, operation: tree.Operation) -> None:
        self._blocks[self._current].operations.append(operation)

    @property
    def _participation(self) -> ir.Participation:
        return self._blocks[self._current].participation

    def _open(self, participation: ir.Participation) -> int:
        self._blocks.append(_OpenBlock(participation))
        return len(self._blocks) - 1

    def _if(self, statement: tree.If) -> None:
        if isinstance(statement.condition, tree.Constant):
            # Compile-time parameters select whole variants of a kernel. A variant that is not selected need not be valid: it may not even
            # have stages to hold.
            self.statements(statement.then if statement.condition.value else statement.otherwise)
            return
        outer = self._participation
        differs = self._threads.differs(statement.condition)
        then, otherwise = restrict(outer, statement.condition, self._values, differs=differs)
        head = self._blocks[self._current]
        then_block, then_end = self._branch(then, statement.then)
        otherwise_block, otherwise_end = self._branch(otherwise, statement.otherwise) if statement.otherwise else (None, None)
        join = self._open(outer)
        head.terminator = ir.Branch(
            statement.condition, then_block, join if otherwise_block is None else otherwise_block, statement.span
        )
        for end in (then_end, otherwise_end):
            if end is not None:
                self._blocks[end].terminator = ir.Jump(join)
        self._current = join

    def _elect(self, statement: tree.Elect) -> None:
        outer = self._participation
        # Reported by pipec.checks.stages.participation; the graph is built anyway, so that other errors are found as well.
        one = outer if outer.threads == "one" else ir.Participation("one", None, statement.span)
        head = self._blocks[self._current]
        body, end = self._branch(one, statement.body)
        join = self._open(outer)
        head.terminator = ir.ElectBranch(body, join, statement.span)
        self._blocks[end].terminator = ir.Jump(join)
        self._current = join

    def _branch(self, participation: ir.Participation, body: tuple[tree.Statement, ...]) -> tuple[int, int]:
        """The first and last block of a branch; the last one is still open."""
        first = self._current = self._open(participation)
        self.statements(body)
        return first, self._current

    def _for(self, statement: tree.For) -> None:
        variable, span = statement.variable, statement.span
        stop = statement.stop
        self._append(tree.Assign(variable, statement.start, span))
        if not isinstance(stop, tree.Constant):
            # Python evaluates the bounds once; the body may change their operands.
            hidden = tree.Variable(f"{variable.name}.stop", stop.type, stop.span)
            self._append(tree.Assign(hidden, stop, stop.span))
            stop = tree.ReadVariable(hidden, stop.span)
        read = tree.ReadVariable(variable, span)
        condition = tree.Binary("<" if statement.step > 0 else ">", read, stop, _BOOL, span)
        step = tree.Constant(statement.step, dtype_of(variable.type), span)
        # The variable is assigned like any other, so that analysis and lowering need no special case for loop variables.
        advance = tree.Assign(variable, tree.Binary("+", self._held_back(statement), step, variable.type, span), span)
        loop = _OpenLoop(statement, self._loop, span, variable, statement.start, statement.stop, statement.step)
        self._loop_blocks(loop, condition, statement.body, advance)

    def _held_back(self, statement: tree.For) -> tree.Expression:
        """What the step is added to. Behind the last turn the sum may leave its type and come back at the other end; from a number that is
        held back by the step it comes to the end of the type at most, where the loop ends. A loop that hands stages over is not held back:
        where its counter may wrap, the proof asks for a condition on sizes."""
        variable, span = statement.variable, statement.span
        read = tree.ReadVariable(variable, span)
        if not self._values.may_wrap(statement) or _hands_over(statement.body):
            return read
        dtype = dtype_of(variable.type)
        least, largest = range_of(dtype)
        last = largest - statement.step if statement.step > 0 else least - statement.step
        limit = tree.Constant(last, dtype, span)
        return tree.Call("min" if statement.step > 0 else "max", (read, limit), dtype, span)

    def _while(self, statement: tree.While) -> None:
        self._loop_blocks(_OpenLoop(statement, self._loop, statement.span), statement.condition, statement.body, None)

    def _loop_blocks(
        self, loop: _OpenLoop, condition: tree.Expression, body: tuple[tree.Statement, ...], advance: tree.Assign | None
    ) -> None:
        outer = self._participation
        # If threads leave the loop at different times, its body does not run in all threads of the role.
        narrows = outer.threads in ("all", "some") and self._threads.repeats_differ(loop.statement)
        inside = unknown(condition.span) if narrows else outer
        header = loop.header = self._open(inside)
        self.finish(ir.Jump(header))
        self._loop = len(self._loops)
        self._loops.append(loop)
        first, _ = self._branch(inside, body)
        if advance is not None:
            self._append(advance)
        self.finish(ir.Jump(header))
        loop.end = len(self._blocks)
        self._loop = loop.parent
        after = self._current = self._open(outer)
        self._blocks[header].terminator = ir.Branch(condition, first, after, loop.span)


def _hands_over(body: tuple[tree.Statement, ...]) -> bool:
    return any(isinstance(one, tree.Operation) and one.effects.hands_over is not None for one in statements(body))


def _closed(block: _OpenBlock) -> ir.Terminator:
    assert block.terminator is not None
    return block.terminator
