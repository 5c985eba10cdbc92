"""Loop-invariant code motion of scalar expressions.

LLVM does not hoist them: it would read the block index, and divide a tile's number, in every K iteration. This lists such expressions by
the preheader of the loop, outermost loops first; the lowering computes them there.
"""

from collections.abc import Iterator

from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import Invariants
from pipec.kir.walk import children, evaluated_tile, operands, subexpressions
from pipec.sema import tree
from pipec.sema.types import TileType

_DIVISIONS = frozenset({"//", "%"})
_DIVIDING_CALLS = frozenset({"ceildiv"})


def plan_invariants(role: ir.Role) -> tuple[Invariants, ...]:
    """The invariants of each loop that has any; an expression is hoisted out of the outermost loop in which it is invariant."""
    # Registers are scarce where threads hold tiles: there only divisions are worth one.
    cheap_ones_too = all(evaluated_tile(operation) is None for operation in operations(role))
    moved: dict[int | None, frozenset[tree.Expression]] = {None: frozenset()}  # by loop, including those of enclosing loops
    found = []
    for number, loop in enumerate(role.loops):  # outer loops precede those inside them
        changed, before = _changed(role, loop), moved[loop.parent]
        nodes = (node for root in _evaluated(role, loop) for node in _largest(root, changed, before))
        chosen = tuple(dict.fromkeys(node for node in nodes if cheap_ones_too or _divides(node)))
        moved[number] = before | frozenset(chosen)
        if chosen:
            found.append(Invariants(_before(role, loop), loop.blocks, chosen))
    return tuple(found)


def _before(role: ir.Role, loop: ir.Loop) -> int:
    (entry,) = (
        number
        for number, block in enumerate(role.blocks)
        if number not in loop.blocks and loop.header in ir.successors(block.terminator)
    )
    return entry


def _changed(role: ir.Role, loop: ir.Loop) -> frozenset[tree.Variable]:
    changed: set[tree.Variable] = set()
    for number in loop.blocks:
        for operation in role.blocks[number].operations:
            match operation:
                case tree.Assign(variable) | tree.Peek(ready=variable) | tree.Vote(result=variable):
                    changed.add(variable)
                case _:
                    pass
    return frozenset(changed)


def _evaluated(role: ir.Role, loop: ir.Loop) -> Iterator[tree.Expression]:
    for number in sorted(loop.blocks):
        block = role.blocks[number]
        for operation in block.operations:
            yield from operands(operation)
        if isinstance(block.terminator, ir.Branch):
            yield block.terminator.condition


def _largest(
    root: tree.Expression, changed: frozenset[tree.Variable], moved: frozenset[tree.Expression]
) -> Iterator[tree.Expression]:
    """The maximal invariant scalar expressions below `root`, possibly itself."""
    stack, seen = [root], set[tree.Expression]()
    while stack:
        node = stack.pop()
        if node in seen or node in moved:
            continue
        seen.add(node)
        if children(node) and not isinstance(node.type, TileType) and _stays(node, changed):
            yield node
        else:
            stack.extend(reversed(children(node)))


def _stays(node: tree.Expression, changed: frozenset[tree.Variable]) -> bool:
    """Whether the expression can be hoisted: none of its operands change in the loop, and it has no side effects."""
    for part in subexpressions(node):
        match part:
            case tree.ReadVariable(variable):
                if variable in changed:
                    return False
            case (
                tree.Constant() | tree.ReadDimension() | tree.ReadParameter() | tree.Special()
                | tree.Unary() | tree.Binary() | tree.Convert() | tree.Bitcast() | tree.Select() | tree.Call()
            ):  # fmt: skip
                pass
            case _:  # memory, a response of the hardware, a stage's number
                return False
    return True


def _divides(node: tree.Expression) -> bool:
    return any(
        (isinstance(part, tree.Binary) and part.operator in _DIVISIONS)
        or (isinstance(part, tree.Call) and part.function in _DIVIDING_CALLS)
        for part in subexpressions(node)
    )
