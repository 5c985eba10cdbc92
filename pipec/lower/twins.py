"""Differences between roles that share code: numbers known at their start (pipec.kir.plan.twins).

They are selected by warp number, before everything else in the roles. A memory access adds a constant to the selected base, so the
shared code has no more instructions than that of one role.
"""

from collections.abc import Sequence

from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.scalars import scalar
from pipec.sema import tree
from pipec.vocabulary import Side


def chosen(role: RoleContext, values: Sequence[Value]) -> Value:
    """The first value is the role's own, then those of its twins, in warp order."""
    builder, found = role.builder, values[0]
    for twin, value in zip(role.twins, values[1:], strict=True):
        if value != found:
            here = builder.compare("uge", role.kernel.warp, integer(twin.row.first_warp))
            found = builder.select(here, value, found)
    return found


def number(role: RoleContext, *values: int) -> Value:
    return chosen(role, tuple(map(integer, values)))


def keep_numbers(role: RoleContext) -> None:
    """Computes the expressions in which the roles differ, at their start."""
    asked = dict.fromkeys(one for twin in role.twins for one in twin.numbers)
    role.numbers = {
        one: chosen(role, [scalar(role, one), *(scalar(role, twin.numbers.get(one, one)) for twin in role.twins)])
        for one in asked
    }


def barrier(role: RoleContext, pipeline: tree.Pipeline, side: Side, offset: int) -> Value:
    """The barrier at this byte offset from the first one that the side completes, as a pointer."""
    builder, offsets = role.builder, role.kernel.plan.barrier_offsets
    own = offsets[pipeline, side]
    moved = _distance(role, own, [offsets[twin.pipelines.get(pipeline, pipeline), side] for twin in role.twins])
    if moved is None:
        return role.kernel.shared_pointer(own + offset)
    return builder.offset_pointer(_moved(role, moved), integer(own + offset))


def shared(role: RoleContext, buffer: tree.Buffer) -> Value:
    """The address (i32) of the first tile of a buffer in shared memory."""
    builder, offsets = role.builder, role.kernel.plan.buffer_offsets
    own = offsets[buffer]
    moved = _distance(role, own, [offsets[twin.buffers.get(buffer, buffer)] for twin in role.twins])
    if moved is None:
        return role.kernel.shared_address(own)
    with builder.early():
        base = builder.cast("ptrtoint", _moved(role, moved), "i32")
    return builder.add(base, own)


def tensor_base(role: RoleContext, buffer: tree.Buffer) -> Value:
    """The address (i32) of tensor memory from which a buffer's column is counted."""
    base, columns = bases.tensor_base(role), role.kernel.plan.columns
    moved = _distance(role, columns[buffer], [columns[twin.buffers.get(buffer, buffer)] for twin in role.twins])
    if moved is None:
        return base
    with role.builder.early():
        return role.builder.binary("add", base, moved)


def _distance(role: RoleContext, own: int, others: Sequence[int]) -> Value | None:
    """The offset from the role's own value to that of the running role; None if all are equal."""
    if all(other == own for other in others):
        return None
    with role.builder.early():
        return number(role, 0, *(other - own for other in others))


def _moved(role: RoleContext, distance: Value) -> Value:
    """The base of shared memory, shifted such that the role's own offsets are right for the running role."""
    with role.builder.early():
        return role.builder.offset_pointer(role.kernel.shared_pointer(0), distance)
