"""Loops whose step is known at launch alone: over a block's tiles, in steps of the number of blocks.

The tree counts their turns, from 0 to a quotient. Here the target itself takes the steps, without a sign: nobody divides, and as neither
the step nor what the target is compared with needs the highest bit, no step of a number below the bound wraps around.
"""

from collections.abc import Iterable, Iterator

from pipec.kir import ir
from pipec.kir.walk import nodes, subexpressions
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.scalars import scalar
from pipec.sema import tree
from pipec.sema.types import dtype_of
from pipec.terms.term import LAUNCH, Atom, Operator
from pipec.terms.walk import leaves


def find(kernel: ir.Kernel) -> dict[tree.Variable, tree.Walk]:
    """The loops that are walked, by each of the variables that their assignments name: all of a kernel or none. None is if a role divides
    by the number of blocks itself: the checker finds two quotients equal more easily than one and the number of somebody's steps. Inside
    other loops there are too many ways on which the target may have come."""
    found: dict[tree.Variable, tree.Walk] = {}
    for role in kernel.roles:
        for loop in role.loops:
            walk = loop.statement.walk if isinstance(loop.statement, tree.For) else None
            end = role.blocks[loop.header].terminator
            if walk is None or not isinstance(end, ir.Branch):
                continue
            if loop.parent is not None or not _steps_forward(role, walk):
                return {}
            match end.condition:
                case tree.Binary("<", tree.ReadVariable(counter), tree.ReadVariable(bound)):
                    found |= dict.fromkeys((counter, bound, walk.target), walk)
                case _:
                    return {}
    return {} if found and any(_shares_out(role, found) for role in kernel.roles) else found


def _steps_forward(role: ir.Role, walk: tree.Walk) -> bool:
    """By the number of blocks, not by a multiple of it, of which another role may count the parts."""
    return isinstance(walk.step, tree.Special) and role.values.of(walk.start).least >= 0 and role.values.of(walk.step).least > 0


def _shares_out(role: ir.Role, walks: dict[tree.Variable, tree.Walk]) -> bool:
    """Whether something is divided by the number of blocks, or of clusters, but the turns of walks."""
    return any(_of_blocks(tuple(leaves(role.values.of(divisor)))) for divisor in _divisors(role, walks))


def _of_blocks(parts: tuple[Atom, ...]) -> bool:
    """Whether a number is made of that of the blocks, and of nothing that only one of them knows."""
    shared = [atom.operator is Operator.SPECIAL and str(atom.operands[0]).startswith(("grid.", "clusters.")) for atom in parts]
    return any(shared) and all(one or atom.operator in LAUNCH for one, atom in zip(shared, parts, strict=True))


def _divisors(role: ir.Role, walks: dict[tree.Variable, tree.Walk]) -> Iterator[tree.Expression]:
    for block in role.blocks:
        for operation in block.operations:
            if not (isinstance(operation, tree.Assign) and operation.variable in walks):
                yield from _below(nodes(operation))
        if isinstance(block.terminator, ir.Branch):
            yield from _below(subexpressions(block.terminator.condition))


def _below(expressions: Iterable[tree.Expression]) -> Iterator[tree.Expression]:
    for one in expressions:
        match one:
            case tree.Binary("//" | "%", _, divisor) | tree.Call("ceildiv", (_, divisor)) if dtype_of(one.type).is_integer:
                yield divisor
            case _:
                pass


def assign(role: RoleContext, operation: tree.Assign) -> bool:
    """Whether the assignment is one of a walk, and emitted."""
    builder, variable = role.builder, operation.variable
    walk = role.kernel.walks.get(variable)
    if walk is None:
        return False
    target = role.variables[walk.target]
    match operation.value:
        case _ if variable is walk.target:
            pass  # it has taken its step
        case tree.Constant():
            target.write(scalar(role, walk.start))
        case tree.Binary("+", tree.ReadVariable(counter)) if counter is variable:
            target.write(builder.binary("add", target.read(), scalar(role, walk.step)))
        case _:
            role.variables[variable].write(_bound(role, walk))
    return True


def _bound(role: RoleContext, walk: tree.Walk) -> Value:
    """Without a sign: 0 if the bound is below it."""
    stop = scalar(role, walk.stop)
    if role.plan.role.values.of(walk.stop).least >= 0:
        return stop
    return role.builder.select(role.builder.compare("slt", stop, integer(0)), integer(0), stop)


def goes_on(role: RoleContext, condition: tree.Expression) -> Value | None:
    """Whether a walk has a turn more; None if the condition is of no walk."""
    match condition:
        case tree.Binary("<", tree.ReadVariable(counter), tree.ReadVariable(bound)) if counter in role.kernel.walks:
            target = role.variables[role.kernel.walks[counter].target]
            return role.builder.compare("ult", target.read(), role.variables[bound].read())
        case _:
            return None
