"""What all runs of a role have in common, computed once: the sites of its accesses, the joins of its branches, and the loops that a run
may skip.

A loop over dimension K has thousands of iterations, none of which affects which elements a tile has.
"""

from collections.abc import Iterator

from pipec.isa.dtypes import DType
from pipec.kir import ir
from pipec.kir.global_memory.accesses import Access, RoleAccesses
from pipec.kir.global_memory.scalars import Rules
from pipec.kir.walk import operands, subexpressions
from pipec.record import record
from pipec.sema import tree

_HANDS_OVER = (tree.Acquire, tree.Signal, tree.Release, tree.Move, tree.Drain, tree.Skip)
_TURNS = (tree.AwaitTurn, tree.PassTurn)


def is_scalar(variable: tree.Variable) -> bool:
    """Whether coordinates and conditions may depend on it."""
    return isinstance(variable.type, DType) and not variable.type.is_float


@record
class AccessPoint:
    """The accesses of one operation, or of the block's condition."""

    site: int
    accesses: tuple[Access, ...]
    operation: tree.Operation | None


@record
class SkippedLoop:
    """A loop without anything that a run records: it counts as in `condition`, and the role continues at block `behind`."""

    condition: tree.Binary
    step: int
    behind: int
    changed: frozenset[tree.Variable]


class Course:
    """`idle`: the loops that runs skip, by header; with them, hand-overs are not recorded."""

    def __init__(self, row: RoleAccesses, idle: dict[int, SkippedLoop] | None = None) -> None:
        self.role = row.role
        self.idle = idle or {}
        self.rules: Rules = {}
        self._followed = _TURNS if idle is not None else (*_TURNS, *_HANDS_OVER)
        self._at: dict[int, dict[int, list[Access]]] = {}
        self._stops: dict[int, tuple[AccessPoint, ...]] = {}
        self._joins: dict[int, tuple[int, tuple[tree.Operation, ...]] | None] = {}
        for access in row.accesses:
            self._at.setdefault(access.block, {}).setdefault(access.site, []).append(access)

    def stops(self, number: int) -> tuple[AccessPoint, ...]:
        """The sites of a block at which a run records something."""
        if number not in self._stops:
            at, operations = self._at.get(number, {}), self.role.blocks[number].operations
            sites = sorted({*at, *(site for site, one in enumerate(operations) if self._is_followed(one))})
            self._stops[number] = tuple(
                AccessPoint(site, tuple(at.get(site, ())), operations[site] if site < len(operations) else None) for site in sites
            )
        return self._stops[number]

    def _is_followed(self, operation: tree.Operation) -> bool:
        return isinstance(operation, self._followed) or any(map(is_scalar, _set_by(operation)))

    def joins(self, number: int) -> tuple[int, tuple[tree.Operation, ...]] | None:
        """The join of the paths from the end of a block, and the operations in between."""
        if number not in self._joins:
            found = ir.joins(self.role, number)
            between = (operation for block in found[1] for operation in self.role.blocks[block].operations) if found else ()
            self._joins[number] = (found[0], tuple(between)) if found else None
        return self._joins[number]


def short_course(kernel: ir.Kernel, row: RoleAccesses) -> Course:
    """For runs that record accesses and turns, but no hand-overs."""
    return Course(row, dict(_idle_loops(kernel, row)))


def _idle_loops(kernel: ir.Kernel, row: RoleAccesses) -> Iterator[tuple[int, SkippedLoop]]:
    blocks = row.role.blocks
    busy = {access.block for access in row.accesses}
    busy |= {number for number, block in enumerate(blocks) if any(isinstance(one, _TURNS) for one in block.operations)}
    readers: dict[tree.Variable, set[int]] | None = None
    passed: set[int] = set()
    for place, loop in enumerate(row.role.loops):
        if loop.parent in passed:
            passed.add(place)
            continue
        if busy & loop.blocks or not _regular(kernel, row.role, loop):
            continue
        readers = _readers(row.role) if readers is None else readers
        changed = frozenset(
            variable
            for number in loop.blocks
            for operation in blocks[number].operations
            for variable in _set_by(operation)
            if is_scalar(variable)
        )
        end = blocks[loop.header].terminator
        if all(readers.get(one, loop.blocks) <= loop.blocks for one in changed) and isinstance(end, ir.Branch):
            assert loop.step is not None and isinstance(end.condition, tree.Binary)
            passed.add(place)
            yield loop.header, SkippedLoop(end.condition, loop.step, end.otherwise, changed)


def _regular(kernel: ir.Kernel, role: ir.Role, loop: ir.Loop) -> bool:
    """Whether a counted loop is left only at its header, and, if CTAs may wait for each other, whether all its iterations have the same
    length: then the CTAs of a cluster are at the same point after the same number of steps."""
    if not isinstance(loop.statement, tree.For):
        return False
    inside = [role.blocks[number] for number in loop.blocks - {loop.header}]
    if any(
        not loop.blocks.issuperset(ir.successors(block.terminator)) or isinstance(block.terminator, ir.Exit) for block in inside
    ):
        return False
    waits = any(isinstance(one, _HANDS_OVER) for block in inside for one in block.operations)
    return kernel.cluster.size == 1 or not waits or not any(isinstance(block.terminator, ir.Branch) for block in inside)


def _set_by(operation: tree.Operation) -> tuple[tree.Variable, ...]:
    match operation:
        case tree.Assign(variable=variable) | tree.Peek(ready=variable):
            return (variable,)
        case _:
            return ()


def _readers(role: ir.Role) -> dict[tree.Variable, set[int]]:
    """The blocks that read each variable."""
    found: dict[tree.Variable, set[int]] = {}
    for number, block in enumerate(role.blocks):
        asked = [one for operation in block.operations for one in operands(operation)]
        if isinstance(block.terminator, ir.Branch):
            asked.append(block.terminator.condition)
        for node in (node for one in asked for node in subexpressions(one)):
            if isinstance(node, tree.ReadVariable):
                found.setdefault(node.variable, set()).add(number)
    return found
