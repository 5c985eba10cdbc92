"""Accumulators that no MMA wrote must read as zero (K = 0): whether that can happen, and how to detect it.

For each accumulator that may reach its consumer unwritten, this gives a condition over launch values that is true exactly if no MMA ran,
or None if no such condition exists and the MMA role has to record it at run time. The consumer evaluates the condition. If a pair of
CTAs shares the accumulator, the MMAs run only in the leader: then the condition must be the same in both.

The value analysis decides whether the condition depends only on launch values. The condition itself is built from the expressions of the
source, since the lowering emits expressions: a term has no types, no source location for debug information, and no unique expression.
"""

from functools import cached_property

from pipec.kir.ir import Kernel, Loop, Role, successors
from pipec.kir.plan.roles import operations
from pipec.kir.values.sameness import Sameness, of_ctas
from pipec.kir.walk import children, subexpressions, with_children
from pipec.sema import tree
from pipec.sema.tree import Buffer, Expression, Handle, Pipeline
from pipec.sema.types import BOOL
from pipec.terms.term import LAUNCH, Atom, Operator
from pipec.terms.walk import leaves
from pipec.vocabulary import BinaryOperator

_LAUNCH_SPECIALS = ("block.x", "block.y", "block.z", "grid.x", "grid.y", "grid.z")
_DEEPEST = 8  # length of a chain of variables


def plan_zero(kernel: Kernel) -> dict[Buffer, tuple[Pipeline, Expression | None]]:
    """Accumulators that may need a zero fill, with the pipeline that hands each over; the others are omitted."""
    found: dict[Buffer, tuple[Pipeline, Expression | None]] = {}
    for role in kernel.roles:
        analysis = _Analysis(role)
        for buffer, pipeline in _accumulators(role):
            held = [
                operation.handle
                for operation in operations(role)
                if isinstance(operation, tree.Acquire) and operation.first and operation.handle.side == "producer"
                if operation.handle.pipeline is pipeline
            ]
            unsure = [handle for handle in held if not analysis.always_written(handle, buffer)]
            if unsure:
                # With several acquires, whose conditions may differ, only a run-time flag covers all.
                condition = analysis.unwritten_condition(held[0], buffer) if len(held) == 1 else None
                found[buffer] = pipeline, condition
    return found


def _accumulators(role: Role) -> dict[tuple[Buffer, Pipeline], None]:
    return {
        (operation.accumulator.buffer, operation.accumulator.handle.pipeline): None
        for operation in operations(role)
        if isinstance(operation, tree.Mma)
    }


class _Analysis:
    def __init__(self, role: Role) -> None:
        self.role = role
        self.edges = [successors(block.terminator) for block in role.blocks]
        self.assigned: dict[tree.Variable, list[Expression]] = {}
        for operation in operations(role):
            if isinstance(operation, tree.Assign):
                self.assigned.setdefault(operation.variable, []).append(operation.value)

    def blocks_with(self, wanted: type[tree.Acquire] | type[tree.Release], handle: Handle) -> list[int]:
        return [
            number
            for number, block in enumerate(self.role.blocks)
            if any(
                isinstance(operation, wanted) and operation.handle is handle and getattr(operation, "first", True)
                for operation in block.operations
            )
        ]

    def blocks_writing(self, handle: Handle, buffer: Buffer) -> list[int]:
        return [
            number
            for number, block in enumerate(self.role.blocks)
            for operation in block.operations
            if isinstance(operation, tree.Mma)
            and operation.accumulator.handle is handle
            and operation.accumulator.buffer is buffer
        ]

    def reaches(self, start: int, goal: int, without: int) -> bool:
        """Whether control can flow from the end of block `start` to `goal` without passing through `without`."""
        seen = {without}
        stack = list(self.edges[start])
        while stack:
            block = stack.pop()
            if block in seen:
                continue
            if block == goal:
                return True
            seen.add(block)
            stack.extend(self.edges[block])
        return False

    def always_written(self, handle: Handle, buffer: Buffer) -> bool:
        return any(self.on_all_paths(handle, number) for number in self.blocks_writing(handle, buffer))

    def on_all_paths(self, handle: Handle, block: int) -> bool:
        """Whether every path from the handle's acquire to its release runs the block.

        In the block of the acquire or of the release the operation is between them, as the linearity check ensures.
        """
        for start in self.blocks_with(tree.Acquire, handle):
            for end in self.blocks_with(tree.Release, handle):
                if block in (start, end):
                    continue
                if start == end or self.reaches(start, end, block):
                    return False
        return True

    def unwritten_condition(self, handle: Handle, buffer: Buffer) -> Expression | None:
        """True iff no MMA into the buffer runs; None if launch values alone do not determine it."""
        acquired = self.blocks_with(tree.Acquire, handle)[0]
        parts: list[Expression] = []
        for block in self.blocks_writing(handle, buffer):
            skipped = self.skipped_condition(handle, block, acquired)
            if skipped is None:
                return None
            parts.append(skipped)
        return _combine("and", parts) if parts else None

    def skipped_condition(self, handle: Handle, block: int, acquired: int) -> Expression | None:
        """True iff the loops around the block, within the handle's lifetime, run no iteration that reaches it."""
        loops = [loop for loop in self.role.loops if block in loop.blocks and acquired not in loop.blocks]
        loops.sort(key=lambda loop: len(loop.blocks), reverse=True)
        if not loops or not self.on_all_paths(handle, loops[0].header):
            return None
        for outer, inner in zip(loops, [*loops[1:], None], strict=True):
            if not self.each_iteration_runs(outer, block if inner is None else inner.header):
                return None
        empties = [self.empty_condition(loop, handle.pipeline) for loop in loops]
        known = [empty for empty in empties if empty is not None]
        return _combine("or", known) if len(known) == len(empties) else None

    def each_iteration_runs(self, loop: Loop, block: int) -> bool:
        inside = [next_ for next_ in self.edges[loop.header] if next_ in loop.blocks]
        return all(first == block or not self.reaches_within(loop, first, block) for first in inside)

    def reaches_within(self, loop: Loop, first: int, without: int) -> bool:
        seen = {without}
        stack = [first]
        while stack:
            block = stack.pop()
            if block == loop.header:
                return True
            if block in seen or block not in loop.blocks:
                continue
            seen.add(block)
            stack.extend(self.edges[block])
        return False

    def empty_condition(self, loop: Loop, pipeline: Pipeline) -> Expression | None:
        if loop.start is None or loop.stop is None or loop.step is None:
            return None
        if pipeline.cta_group == 2 and any(self.differs_in_pairs(bound) for bound in (loop.start, loop.stop)):
            return None
        start, stop = self.resolved(loop.start), self.resolved(loop.stop)
        if start is None or stop is None:
            return None
        match start, stop:
            case tree.Constant(0), tree.Call("ceildiv", (elements, tree.Constant(each))) if loop.step > 0 and each > 0:
                stop = elements  # no blocks if there are no elements: nobody has to divide
            case _:
                pass
        return tree.Binary(">=" if loop.step > 0 else "<=", start, stop, BOOL, loop.span)

    def differs_in_pairs(self, expression: Expression) -> bool:
        """Whether the value may differ between the CTAs of a pair."""
        return any(self.ctas.differs(expression, (rank, rank + 1)) for rank in range(0, self.role.values.launch.cluster.size, 2))

    @cached_property
    def ctas(self) -> Sameness:
        return of_ctas(self.role.values)

    def resolved(self, expression: Expression) -> Expression | None:
        """The expression over launch values only: variables assigned once are replaced by their values."""
        known = all(_is_launch_value(atom) for atom in leaves(self.role.values.of(expression)))
        return self.written_out(expression, _DEEPEST) if known else None

    def written_out(self, expression: Expression, depth: int) -> Expression | None:
        if not any(isinstance(node, tree.ReadVariable) for node in subexpressions(expression)):
            return expression
        if isinstance(expression, tree.ReadVariable):
            values = self.assigned.get(expression.variable, [])
            return self.written_out(values[0], depth - 1) if len(values) == 1 and depth else None
        inner = {child: self.written_out(child, depth) for child in children(expression)}
        known = {child: written for child, written in inner.items() if written is not None}
        return with_children(expression, known) if len(known) == len(inner) else None


def _is_launch_value(atom: Atom) -> bool:
    return atom.operator in LAUNCH or (atom.operator is Operator.SPECIAL and atom.operands[0] in _LAUNCH_SPECIALS)


def _combine(operator: BinaryOperator, parts: list[Expression]) -> Expression:
    combined = parts[0]
    for part in parts[1:]:
        combined = tree.Binary(operator, combined, part, BOOL, part.span)
    return combined
