"""Where a kernel waits for preceding grids, and where it lets dependent grids start (PTX ISA 9.7.13.13, griddepcontrol).

A role that accesses a tensor which a preceding grid may write waits at its start, unless the author placed the wait. Dependent grids may
start once the blocks have loaded their inputs: at the end of the roles that only load. This is always safe, since dependent grids wait
for this grid to end before they read its results.
"""

from collections.abc import Iterator

from pipec.kir.ir import Block, Branch, Kernel, Role
from pipec.kir.lazy_tiles import TileNames, lazy_tiles
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import RolePlan
from pipec.kir.walk import operands, subexpressions
from pipec.record import replace
from pipec.sema import tree


def plan_grids(kernel: Kernel, roles: tuple[RolePlan, ...]) -> tuple[RolePlan, ...]:
    if kernel.programmatic is None:
        return roles
    stated = any(isinstance(operation, tree.LaunchDependents) for row in roles for operation in operations(row.role))
    return tuple(
        replace(
            row,
            awaits_grids=needs_wait(kernel, row.role) and not waits(row.role),
            launches_dependents=not stated and _only_loads(row.role),
        )
        for row in roles
    )


def waits(role: Role) -> bool:
    """Whether the author placed the wait."""
    return any(isinstance(operation, tree.AwaitGrids) for operation in operations(role))


def needs_wait(kernel: Kernel, role: Role) -> bool:
    names = lazy_tiles(role)
    if any(early(kernel, operation, names) for operation in operations(role)):
        return True
    return any(early_in_condition(kernel, block, names) for block in role.blocks)


def early(kernel: Kernel, operation: tree.Operation, names: TileNames) -> tree.TensorParameter | None:
    """The first tensor of an operation that must not be accessed before the preceding grids have ended."""
    ready = _ready(kernel)
    return next((tensor for tensor, written in touched(operation, names) if written or tensor not in ready), None)


def early_in_condition(kernel: Kernel, block: Block, names: TileNames) -> tree.TensorParameter | None:
    """The same of the condition that ends a block."""
    if not isinstance(block.terminator, Branch):
        return None
    ready = _ready(kernel)
    return next((tensor for tensor in tensors_read(block.terminator.condition, names) if tensor not in ready), None)


def _ready(kernel: Kernel) -> tuple[tree.TensorParameter, ...]:
    assert kernel.programmatic is not None
    return kernel.programmatic.ready


def touched(operation: tree.Operation, names: TileNames) -> Iterator[tuple[tree.TensorParameter, bool]]:
    """The tensors in global memory that an operation reads or writes, and whether it writes; lazy tiles are read at their uses."""
    if isinstance(operation, tree.Assign) and operation.variable in names:
        return
    memory = operation.effects.memory
    if memory is not None:
        # Waiting for a counter relies on the writes of this grid's blocks, so no preceding grid may write it.
        yield memory.place.tensor, memory.writes or memory.engine == "semaphore"
    for value in operands(operation):
        yield from ((tensor, False) for tensor in tensors_read(value, names))


def tensors_read(value: tree.Expression, names: TileNames) -> Iterator[tree.TensorParameter]:
    for node in subexpressions(value, names):
        if isinstance(node, tree.ReadTensor | tree.ReadElement):
            yield node.source.tensor


def _only_loads(role: Role) -> bool:
    names = lazy_tiles(role)
    touches = [written for operation in operations(role) for _, written in touched(operation, names)]
    return bool(touches) and not any(touches)
