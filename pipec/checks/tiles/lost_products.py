"""Products that an MMA with an explicit `accumulate` overwrites before anything has read them.

Two cases are decided: MMAs one behind the other in the first iteration of the loops around them, and an MMA that a loop repeats while the
accumulator stays with the role, in the first two iterations. Reported is only what is certain to happen once the loops have as many.
"""

from collections.abc import Iterator

from pipec.checks.summary import ACCUMULATE, RoleSummary
from pipec.checks.tiles.first_mma import runs_equally
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree


@record
class Lost:
    """`mma` overwrites the products of `earlier`; of itself, in the iteration of `loop` before, where the two are the same."""

    mma: tree.Mma
    earlier: tree.Mma
    loop: ir.Loop | None


def lost_products(role: RoleSummary) -> Iterator[Lost]:
    for number, block in enumerate(role.role.blocks):
        for index, operation in enumerate(block.operations):
            if isinstance(operation, tree.Mma) and operation.accumulate is not None:
                yield from _lost(role, number, index, operation, operation.accumulate)


def _lost(role: RoleSummary, block: int, index: int, mma: tree.Mma, accumulate: tree.Expression) -> Iterator[Lost]:
    around = [loop for loop in role.role.loops if block in loop.blocks]
    # Of no loop around it, there is no pair; the last loop has none inside it.
    always = [_in_every_iteration(role, loop, inner, block) for loop, inner in zip(around, [*around[1:], None], strict=False)]
    values = role.role.values
    condition = values.of(accumulate)
    earlier = _before(role, block, index, mma)
    if earlier is not None and all(always):
        if values.in_first_iteration([loop.statement for loop in around])(condition).number == 0:
            yield Lost(mma, earlier, None)
        return
    for depth, loop in enumerate(around):
        if all(always[depth:]) and _repeats(role, loop) and not _is_read_in(role, loop, mma):
            # In the first iteration of those around it, it may have fewer, unless it always has as many.
            others = [other.statement for other in (around if runs_equally(role, loop) else around[depth:]) if other is not loop]
            if values.in_second_iteration(loop.statement, others)(condition).number == 0:
                yield Lost(mma, mma, loop)


def _before(role: RoleSummary, block: int, index: int, mma: tree.Mma) -> tree.Mma | None:
    """The MMA into the same accumulator in front of it in its block, if nothing else is done with the accumulator in between."""
    for place in reversed(range(index)):
        operation = role.role.blocks[block].operations[place]
        if isinstance(operation, tree.Mma):
            if _same(operation, mma):
                return operation
        elif isinstance(operation, tree.Acquire | tree.Release | tree.Signal | tree.Move) or _touched(role, block, place, mma):
            return None
    return None


def _same(one: tree.Mma, other: tree.Mma) -> bool:
    return (one.accumulator.handle, one.accumulator.buffer) == (other.accumulator.handle, other.accumulator.buffer)


def _touched(role: RoleSummary, block: int, place: int, mma: tree.Mma) -> bool:
    """Whether the operation does more with the stage of the accumulator than adding to it."""
    return any(touch.handle is mma.accumulator.handle and touch.kind != ACCUMULATE for touch in role.touches[block][place])


def _is_read_in(role: RoleSummary, loop: ir.Loop, mma: tree.Mma) -> bool:
    """Whether an iteration may read the accumulator, hand it over, or take another stage for it."""
    pipeline = mma.accumulator.handle.pipeline
    for handle, summary in role.handles.items():
        if handle.pipeline is pipeline:
            sites = (*summary.acquires, *summary.releases, *summary.signals)
            if any(site.block in loop.blocks for site in sites):
                return True
            if any(block in loop.blocks and touch.kind != ACCUMULATE for block, touch in summary.touches):
                return True
    return any(handle.pipeline is pipeline for move in role.moves for handle in (move.target, move.source))


def _in_every_iteration(role: RoleSummary, loop: ir.Loop, inner: ir.Loop | None, block: int) -> bool:
    """Whether each iteration of the loop reaches the block; of the loop inside it that has the block, as many iterations each time."""
    if inner is not None and not runs_equally(role, inner):
        return False
    reached = block if inner is None else inner.header
    return all(role.dominates(reached, latch) for latch in role.predecessors[loop.header] if latch in loop.blocks)


def _repeats(role: RoleSummary, loop: ir.Loop) -> bool:
    """Whether it may have a second iteration."""
    if loop.variable is None or loop.step is None:
        return True
    start, stop = role.role.values.controls[loop.statement]
    return ((stop - start) if loop.step > 0 else (start - stop)).largest > abs(loop.step)
