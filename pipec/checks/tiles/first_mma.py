"""Whether the first MMA into a newly obtained accumulator overwrites it: the value of `accumulate` at that point.

One pass in block order per accumulator, without back edges, covers every first iteration. If an iteration may end with the accumulator
untouched, the next one is the first for it, so that loop may be in any iteration. (But where an MMA runs at all, so do the loops around
it: those that run equally often in all iterations of a loop further out have run in its first.)
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


@record
class FirstMma:
    """An MMA that may be the first, and whether it then accumulates: None if unknown."""

    mma: tree.Mma
    handle: tree.Handle
    adds: bool | None


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

    def first_mmas(self) -> Iterator[FirstMma]:
        ends = self._ends_untouched()
        for number, block in enumerate(self._role.role.blocks):
            untouched = self._begins_untouched(number, ends, {})
            for operation in block.operations:
                if (
                    isinstance(operation, tree.Mma)
                    and untouched
                    and operation.accumulate is not None
                    and self._is_meant(operation)
                ):
                    yield FirstMma(operation, self._handle, self._adds(number, operation.accumulate))
                untouched = self._after(operation, untouched)

    def _ends_untouched(self, run_at_all: frozenset[int] = frozenset()) -> list[bool]:
        """For each block whether the accumulator may be untouched at its end. `run_at_all`: loops that have an iteration."""
        loops = self._role.role.loops
        behind = {loops[index].header: self._latch(loops[index]) for index in run_at_all}
        ends: list[bool] = []
        for number, block in enumerate(self._role.role.blocks):
            untouched = self._begins_untouched(number, ends, behind)
            for operation in block.operations:
                untouched = self._after(operation, untouched)
            ends.append(untouched)
        return ends

    def _begins_untouched(self, number: int, ends: list[bool], behind: dict[int, int]) -> bool:
        # Forward edges only: a later iteration brings an accumulator that was written, or `_may_begin_later` asks for it.
        before = [block for block in self._role.predecessors[number] if block < number]
        # What follows a loop that has run follows its last iteration.
        from_ = (latch if (latch := behind.get(block, number)) < number else block for block in before)
        return any(ends[block] for block in from_) if before else self._returns

    def _after(self, operation: tree.Operation, untouched: bool) -> bool:
        match operation:
            case tree.Acquire(handle) if handle is self._handle and not self._returns:
                return True
            case tree.Mma() if self._is_meant(operation):
                return False
            case _:
                return untouched

    def _adds(self, block: int, accumulate: tree.Expression) -> bool | None:
        """The condition in the first iteration of the loops entered with an untouched accumulator; None if it varies."""
        first = [
            loop.statement
            for loop in self._role.role.loops
            if block in loop.blocks and not self._acquires_in(loop) and not self._may_begin_later(loop, block)
        ]
        values = self._role.role.values
        adds = values.in_first_iteration(first)(values.of(accumulate)).number
        return None if adds is None else bool(adds)

    def _may_begin_later(self, loop: ir.Loop, block: int) -> bool:
        """Whether an iteration of the loop may have ended with the accumulator untouched before one that runs the block."""
        run = frozenset(
            index
            for index, inner in enumerate(self._role.role.loops)
            if block in inner.blocks and inner.blocks < loop.blocks and self._runs_equally(inner)
        )
        return self._ends_untouched(run)[self._latch(loop)]

    def _runs_equally(self, loop: ir.Loop) -> bool:
        """Whether it has as many iterations whenever the role reaches it."""
        controls = self._role.role.values.controls[loop.statement]
        return loop.variable is not None and all(leaf.operator in _FIXED for term in controls for leaf in leaves(term))

    def _latch(self, loop: ir.Loop) -> int:
        """The block that ends an iteration."""
        return max(block for block in self._role.predecessors[loop.header] if block >= loop.header)

    def _is_meant(self, mma: tree.Mma) -> bool:
        handle = mma.accumulator.handle
        same = handle is self._handle or (self._returns and handle.pipeline is self._handle.pipeline)
        return same and mma.accumulator.buffer is self._buffer

    def _acquires_in(self, loop: ir.Loop) -> bool:
        return not self._returns and any(site.block in loop.blocks for site in self._role.handles[self._handle].acquires)
