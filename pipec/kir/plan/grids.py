"""Where a kernel waits for preceding grids, and where it lets dependent grids start (PTX ISA 9.7.13.13, griddepcontrol).

A role that touches a tensor which a preceding grid may write waits at its start, unless its author placed the wait. Dependent grids
may start when the blocks have loaded what they need: at the end of the roles that only load. Whenever that is, they wait themselves for
this grid to end before they read what it wrote.
"""

from collections.abc import Iterator

from pipec.kir.ir import Kernel, Role
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
    """The role's author placed the wait."""
    return any(isinstance(operation, tree.AwaitGrids) for operation in operations(role))


def needs_wait(kernel: Kernel, role: Role) -> bool:
    assert kernel.programmatic is not None
    names = lazy_tiles(role)
    return any(early(kernel, operation, names) for operation in operations(role))


def early(kernel: Kernel, operation: tree.Operation, names: TileNames) -> tree.TensorParameter | None:
    """The first tensor that an operation touches and that may not be touched before the preceding grids have ended."""
    ready = kernel.programmatic.ready if kernel.programmatic is not None else ()
    for tensor, written in touched(operation, names):
        if written or tensor not in ready:
            return tensor
    return None


def touched(operation: tree.Operation, names: TileNames) -> Iterator[tuple[tree.TensorParameter, bool]]:
    """The tensors that an operation reads or writes in global memory, and whether it writes; tiles are read where they are evaluated."""
    if isinstance(operation, tree.Assign) and operation.variable in names:
        return
    memory = operation.effects.memory
    if memory is not None:
        # To wait for a counter is to rely on what this grid's blocks write there: it must be no grid's in front.
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
