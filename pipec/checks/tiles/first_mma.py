"""Whether the first MMA into a newly obtained accumulator overwrites it: the value of `accumulate` at that point.

One pass in block order per accumulator, without back edges, covers every first iteration. If an iteration may end with the accumulator
untouched, the next one is the first for it, so that loop may be in any iteration. (But where an MMA runs at all, so do the loops around
it: those that run equally often in all iterations of a loop further out have run in its first; and conditions that are the same in all of
them held in its first.)
"""

from collections.abc import Iterator

from pipec.checks.summary import RoleSummary
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.terms.term import LAUNCH, Operator
from pipec.terms.walk import leaves

# What is the same number as long as a thread runs.
_FIXED = frozenset({*LAUNCH, Operator.SPECIAL})
_Edge = tuple[int, int]


@record
class FirstMma:
    """An MMA that may be the first, and whether it then accumulates: None if unknown."""

    mma: tree.Mma
    handle: tree.Handle
    adds: bool | None


def runs_equally(role: RoleSummary, loop: ir.Loop) -> bool:
    """Whether it has as many iterations whenever the role reaches it."""
    controls = role.role.values.controls[loop.statement]
    return loop.variable is not None and all(leaf.operator in _FIXED for term in controls for leaf in leaves(term))


def first_mmas(role: RoleSummary) -> Iterator[FirstMma]:
    """The MMAs with an explicit `accumulate` that may be the first after the acquire."""
    keys: dict[tuple[tree.Handle, tree.Buffer], None] = {}
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.Mma) and operation.accumulate is not None:
                keys[operation.accumulator.handle, operation.accumulator.buffer] = None
    for handle, buffer in keys:
        yield from _Accumulator(role, handle, buffer).first_mmas()


class _Accumulator:
    def __init__(self, role: RoleSummary, handle: tree.Handle, buffer: tree.Buffer) -> None:
        self._role, self._handle, self._buffer = role, handle, buffer
        # With one stage the returned accumulator is the one that was handed over: only the role's first MMA meets an empty one.
        self._returns = handle.pipeline.kind == ROLE and handle.pipeline.stages == 1
        self._always = frozenset(index for index, loop in enumerate(role.role.loops) if self._runs_always(loop))

    def first_mmas(self) -> Iterator[FirstMma]:
        behind, ends = self._behind(frozenset()), self._ends_untouched()
        for number, block in enumerate(self._role.role.blocks):
            untouched = self._begins_untouched(number, ends, behind, frozenset())
            for operation in block.operations:
                if (
                    isinstance(operation, tree.Mma)
                    and untouched
                    and operation.accumulate is not None
                    and self._is_meant(operation)
                ):
                    yield from self._first(number, operation, operation.accumulate)
                untouched = self._after(operation, untouched)

    def _first(self, block: int, mma: tree.Mma, accumulate: tree.Expression) -> Iterator[FirstMma]:
        """The condition in the first iteration of the loops entered with an untouched accumulator; None if it varies. Nothing if these
        iterations go another way, as where `if k == 0` has an MMA of its own."""
        loops = [
            loop
            for loop in self._role.role.loops
            if block in loop.blocks and not self._acquires_in(loop) and not self._may_begin_later(loop, block)
        ]
        closed = frozenset(self._not_taken(loops))
        untouched = self._begins_untouched(block, self._ends_untouched(closed=closed), self._behind(frozenset()), closed)
        operations = self._role.role.blocks[block].operations
        for operation in operations[: operations.index(mma)]:
            untouched = self._after(operation, untouched)
        if untouched:
            adds = self._in_first(loops, accumulate)
            yield FirstMma(mma, self._handle, None if adds is None else bool(adds))

    def _not_taken(self, loops: list[ir.Loop]) -> Iterator[_Edge]:
        """The edges that are not taken in the first iteration of the loops."""
        for number, block in enumerate(self._role.role.blocks):
            branch = block.terminator
            around = [loop for loop in loops if number in loop.blocks]
            if isinstance(branch, ir.Branch) and around and (taken := self._in_first(around, branch.condition)) is not None:
                yield number, branch.otherwise if taken else branch.then

    def _in_first(self, loops: list[ir.Loop], expression: tree.Expression) -> int | None:
        values = self._role.role.values
        return values.in_first_iteration([loop.statement for loop in loops])(values.of(expression)).number

    def _ends_untouched(self, run_at_all: frozenset[int] = frozenset(), closed: frozenset[_Edge] = frozenset()) -> list[bool]:
        """For each block whether the accumulator may be untouched at its end. `run_at_all`: loops that have an iteration; `closed`: edges
        that are not taken."""
        behind = self._behind(run_at_all)
        ends: list[bool] = []
        for number, block in enumerate(self._role.role.blocks):
            untouched = self._begins_untouched(number, ends, behind, closed)
            for operation in block.operations:
                untouched = self._after(operation, untouched)
            ends.append(untouched)
        return ends

    def _behind(self, run_at_all: frozenset[int]) -> dict[int, int]:
        """By header the latch of each loop that has an iteration, these and those that always have one."""
        loops = self._role.role.loops
        return {loops[index].header: self._latch(loops[index]) for index in run_at_all | self._always}

    def _begins_untouched(self, number: int, ends: list[bool], behind: dict[int, int], closed: frozenset[_Edge]) -> bool:
        if number == 0:
            return self._returns
        # Forward edges only: a later iteration brings an accumulator that was written, or `_may_begin_later` asks for it.
        before = [block for block in self._role.predecessors[number] if block < number and (block, number) not in closed]
        # What follows a loop that has run follows its last iteration.
        from_ = (latch if (latch := behind.get(block, number)) < number else block for block in before)
        return any(ends[block] for block in from_)

    def _after(self, operation: tree.Operation, untouched: bool) -> bool:
        match operation:
            case tree.Acquire(handle) if handle is self._handle and not self._returns:
                return True
            case tree.Mma() if self._is_meant(operation):
                return False
            case _:
                return untouched

    def _may_begin_later(self, loop: ir.Loop, block: int) -> bool:
        """Whether an iteration of the loop may have ended with the accumulator untouched before one that runs the block."""
        run = frozenset(
            index
            for index, inner in enumerate(self._role.role.loops)
            if block in inner.blocks and inner.blocks < loop.blocks and runs_equally(self._role, inner)
        )
        return self._ends_untouched(run, frozenset(self._never_taken(block)))[self._latch(loop)]

    def _never_taken(self, block: int) -> Iterator[_Edge]:
        """The edges that lead past the block on conditions that do not change."""
        for number, other in enumerate(self._role.role.blocks):
            branch = other.terminator
            if not isinstance(branch, ir.Branch) or number >= block or not self._is_fixed(branch.condition):
                continue
            for taken, other_way in ((branch.then, branch.otherwise), (branch.otherwise, branch.then)):
                if (
                    number < taken != other_way
                    and self._role.dominates(taken, block)
                    and self._role.predecessors[taken] == [number]
                ):
                    yield number, other_way

    def _is_fixed(self, expression: tree.Expression) -> bool:
        return all(leaf.operator in _FIXED for leaf in leaves(self._role.role.values.of(expression)))

    def _runs_always(self, loop: ir.Loop) -> bool:
        """Whether it has an iteration, whatever the sizes are."""
        if loop.variable is None or loop.step is None:
            return False
        start, stop = self._role.role.values.controls[loop.statement]
        return ((stop - start) if loop.step > 0 else (start - stop)).least > 0

    def _latch(self, loop: ir.Loop) -> int:
        """The block that ends an iteration."""
        return max(block for block in self._role.predecessors[loop.header] if block >= loop.header)

    def _is_meant(self, mma: tree.Mma) -> bool:
        handle = mma.accumulator.handle
        same = handle is self._handle or (self._returns and handle.pipeline is self._handle.pipeline)
        return same and mma.accumulator.buffer is self._buffer

    def _acquires_in(self, loop: ir.Loop) -> bool:
        return not self._returns and any(site.block in loop.blocks for site in self._role.handles[self._handle].acquires)
