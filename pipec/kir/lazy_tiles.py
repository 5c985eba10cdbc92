"""Tile variables that stand for an expression, which is evaluated at each use."""

from pipec.kir.ir import Role
from pipec.kir.walk import subexpressions
from pipec.sema import tree

TileNames = dict[tree.Variable, tree.Expression]


def lazy_tiles(role: Role) -> TileNames:
    """The expressions of lazy tile variables."""
    return {
        operation.variable: operation.value
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Assign) and operation.variable.is_lazy
    }


def reads_accumulator(value: tree.Expression, names: TileNames) -> bool:
    """Whether an expression contains elements of an accumulator in registers."""
    return any(isinstance(node, tree.ReadAccumulator) for node in subexpressions(value, names))
