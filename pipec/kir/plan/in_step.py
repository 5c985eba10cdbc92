"""Rings that a role advances in lockstep: their stages and phases are equal, and need the registers and instructions of one.

LLVM would keep separate numbers, since it does not compare loop variables with each other.
"""

from pipec.kir import ir
from pipec.sema import tree
from pipec.sema.tree import Pipeline
from pipec.vocabulary import SIDES, Side


def plan_in_step(role: ir.Role) -> tuple[tuple[tuple[Pipeline, Side], ...], ...]:
    """Groups of two or more rings with the same number of stages on the same side, of which every block acquires and skips the same
    number."""
    counts: dict[tuple[Pipeline, Side], dict[int, int]] = {}
    for number, block in enumerate(role.blocks):
        for operation in block.operations:
            ring = _moved_on(operation)
            if ring is not None:
                by_block = counts.setdefault(ring, {})
                by_block[number] = by_block.get(number, 0) + 1
    groups: dict[tuple[object, ...], list[tuple[Pipeline, Side]]] = {}
    for side, pipelines in zip(SIDES, (role.produces, role.consumes), strict=True):
        for pipeline in pipelines:
            steps = tuple(counts.get((pipeline, side), {}).items())
            groups.setdefault((side, pipeline.stages, steps), []).append((pipeline, side))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _moved_on(operation: tree.Operation) -> tuple[Pipeline, Side] | None:
    match operation:
        case tree.Acquire(handle=handle, first=True):
            return handle.pipeline, handle.side
        case tree.Skip(pipeline=pipeline):
            return pipeline, "consumer"
        case _:
            return None
