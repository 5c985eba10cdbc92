"""Tile variables that hold their expression, which is evaluated where they are used."""

from pipec.kir.ir import Role
from pipec.kir.walk import subexpressions
from pipec.sema import tree

TileNames = dict[tree.Variable, tree.Expression]


def lazy_tiles(role: Role) -> TileNames:
    """What the names of tiles that are evaluated where they are used stand for."""
    return {
        operation.variable: operation.value
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Assign) and operation.variable.is_lazy
    }


def reads_accumulator(value: tree.Expression, names: TileNames) -> bool:
    """Whether an expression has elements of an accumulator in registers in it."""
    return any(isinstance(node, tree.ReadAccumulator) for node in subexpressions(value, names))
