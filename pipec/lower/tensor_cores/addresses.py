"""Descriptors of the tiles of a stage: a part known before the stage is, and an offset."""

from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.synchronisation.pipelines import shared_tile
from pipec.lower.tensor_cores.descriptors import ADDRESS_FIELD, start_descriptor
from pipec.sema import tree

_LOW = (1 << 32) - 1


def descriptors(
    role: RoleContext, operand: tree.BufferRef, constant: int, steps: tuple[int, ...], registers: int | None = None
) -> list[Value]:
    """One descriptor per step, at this many bytes after the start of the tile: the address field counts 16 bytes.

    In a role of several warps the address is computed for each tile. If one thread or warp issues, the lower halves are sums with a
    value computed before the loops: there is no carry into the upper halves, which are constants.

    `registers`: the number of registers for the upper half, which is common to all; one per descriptor if omitted.
    """
    builder = role.builder
    if not bases.hides(role) and not role.plan.single_thread:
        start = start_descriptor(builder, shared_tile(role, operand), constant)
        return [builder.add(start, step >> 4) for step in steps]
    lower = lower_half(role, operand, constant, integer(0))
    found = []
    for step in steps:
        upper = bases.constant(role, constant >> 32) if registers is None else bases.in_turn(role, constant >> 32, registers)
        halves = builder.vector([builder.add(lower, step >> 4), upper])
        found.append(builder.emit("i64", f"bitcast {halves} to i64"))
    return found


def lower_half(role: RoleContext, operand: tree.BufferRef, constant: int, offset: Value) -> Value:
    """The lower half of the first descriptor, `offset` bytes after the tile's start, which is known before the role's loops. No tile
    exceeds the range of the address field, so additions stay within it."""
    builder, plan, buffer = role.builder, role.kernel.plan, operand.buffer
    base = bases.shared(role, plan.buffer_offsets[buffer])
    with builder.early():
        start = builder.binary("add", base, offset)
        field = builder.bits("and", builder.bits("lshr", start, 4), ADDRESS_FIELD)
        first = builder.add(field, integer(constant & _LOW))
    if buffer.count == 1:
        return first
    place, ahead = builder.multiple(role.stage(operand.handle), plan.buffer_strides[buffer] >> 4)
    with builder.early():
        first = builder.add(first, ahead)
    return builder.binary("add", first, place)
