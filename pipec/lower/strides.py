"""Loops over blocks of so many elements, `for k in range(ceildiv(K, 64))`: counted in elements.

The tree counts blocks. Here the counter takes steps of a block's elements as long as it is below their number, compared without a sign, as
the last step may lead beyond an `i32`. Nobody divides that number, in front of the loop, and the coordinate of a copy, `k * 64`, is the
counter itself.
"""

from collections.abc import Iterator

from pipec.kir import ir
from pipec.kir.walk import children, operands
from pipec.lower.context import RoleContext, Stride
from pipec.lower.emit.value import Value, integer
from pipec.lower.scalars import COMPARED, scalar
from pipec.sema import tree
from pipec.sema.types import dtype_of

# In kernels with these, loops are counted in blocks: where several warps multiply in registers, as the loop is one of a register more, and
# where roles go past stages that are for others, as the search for a proof then takes too long.
_KEPT = (tree.RegisterMma, tree.Skip)


def find(kernel: ir.Kernel) -> dict[tree.Variable, Stride]:
    """The loops that are counted so, by their counters and the variables that have their bounds."""
    if any(isinstance(one, _KEPT) for role in kernel.roles for block in role.blocks for one in block.operations):
        return {}
    found: dict[tree.Variable, Stride] = {}
    for role in kernel.roles:
        for loop in role.loops:
            stride = _stride(role, loop)
            match role.blocks[loop.header].terminator:
                case ir.Branch(tree.Binary("<", _, tree.ReadVariable(bound)) as condition) if stride is not None:
                    evaluated = _evaluated(role, stride.counter, condition)
                    if all(_in_elements(one, stride.counter, stride.elements) for one in evaluated):
                        found |= dict.fromkeys((stride.counter, bound), stride)
                case _:
                    pass
    return found


def _stride(role: ir.Role, loop: ir.Loop) -> Stride | None:
    """Of a loop over as many blocks as there are for so many elements. (With blocks of other than 2 ** n elements, ptxas runs out of
    registers of the warp in gemm_k_group_linear, which then has three instructions more.)"""
    match loop.statement:
        case tree.For(counter, tree.Constant(0), tree.Call("ceildiv", (extent, tree.Constant(int(elements)))), 1, walk=None):
            whole = elements > 1 and elements & (elements - 1) == 0 and dtype_of(counter.type).name == "i32"
            return Stride(counter, elements, extent) if whole and role.values.of(extent).least >= 0 else None
        case _:
            return None


def _evaluated(role: ir.Role, counter: tree.Variable, condition: tree.Expression) -> Iterator[tree.Expression]:
    """What the role computes, but for the steps of the counter and its comparison with the bound."""
    for block in role.blocks:
        for operation in block.operations:
            if not (isinstance(operation, tree.Assign) and operation.variable is counter):
                yield from operands(operation)
        if isinstance(block.terminator, ir.Branch) and block.terminator.condition is not condition:
            yield block.terminator.condition


def _in_elements(expression: tree.Expression, counter: tree.Variable, elements: int) -> bool:
    """Whether the counter is read as multiples of a block only, or compared with 0."""
    match expression:
        case tree.ReadVariable(variable):
            return variable is not counter
        case tree.Binary("*", tree.ReadVariable(variable), tree.Constant(number)) if variable is counter:
            return number % elements == 0
        case tree.Binary(operator, tree.ReadVariable(variable), tree.Constant(0)) if variable is counter and operator in COMPARED:
            return True
        case _:
            return all(_in_elements(one, counter, elements) for one in children(expression))


def assign(role: RoleContext, operation: tree.Assign) -> bool:
    """Whether the assignment is one of such a loop, and emitted."""
    variable = operation.variable
    stride = role.kernel.strides.get(variable)
    if stride is None:
        return False
    slot = role.variables[variable]
    if variable is not stride.counter:
        slot.write(scalar(role, stride.extent))
    elif isinstance(operation.value, tree.Constant):
        slot.write(scalar(role, operation.value))
    else:
        slot.write(role.builder.binary("add", slot.read(), integer(stride.elements)))
    return True


def goes_on(role: RoleContext, condition: tree.Expression) -> Value | None:
    """Whether there is a block more; None if the condition is of no such loop."""
    match condition:
        case tree.Binary("<", tree.ReadVariable(counter), tree.ReadVariable(bound)) if bound in role.kernel.strides:
            return role.builder.compare("ult", role.variables[counter].read(), role.variables[bound].read())
        case _:
            return None
