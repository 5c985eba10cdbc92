"""Matrix multiply-accumulate into tensor memory."""

from pipec.lower.context import RoleContext
from pipec.lower.descriptors import K_BYTES, MMA_KINDS, instruction_descriptor, operand_descriptor
from pipec.lower.llvm import TRUE, Value, integer
from pipec.lower.pipelines import accumulator_address, shared_tile
from pipec.lower.scalars import scalar
from pipec.sema import tree

_CTA_GROUP = integer(1)
_DISCARD_COLLECTOR = integer(0)


def mma(role: RoleContext, operation: tree.Mma) -> None:
    """One instruction per 32 bytes of K; all but the first add to what the first one leaves."""
    builder = role.builder
    d, a, b = operation.accumulator, operation.a, operation.b
    written = role.written[d.handle, d.buffer]
    accumulate = written.read() if operation.accumulate is None else scalar(role, operation.accumulate)
    kind = integer(MMA_KINDS[a.buffer.dtype.mma_kind or ""])
    shape = integer(
        instruction_descriptor(
            d.buffer.dtype,
            a.buffer.dtype,
            b.buffer.dtype,
            d.buffer.rows,
            d.buffer.columns,
            a_transposed=a.transposed,
            b_transposed=b.transposed,
        )
    )
    with role.one_thread("mma"):
        target = builder.tensor_pointer(accumulator_address(role, d.buffer, role.stage(d.handle)))
        in_tensor = a.buffer.space == "tensor"
        instruction = "tcgen05.mma.tensor" if in_tensor else "tcgen05.mma"
        firsts = _tensor_operand(role, a) if in_tensor else _descriptors(role, a)
        for first, b_descriptor in zip(firsts, _descriptors(role, b), strict=True):
            builder.call(instruction, target, first, b_descriptor, shape, accumulate, kind, _CTA_GROUP, _DISCARD_COLLECTOR)
            accumulate = TRUE
    written.write(TRUE)


def _tensor_operand(role: RoleContext, operand: tree.BufferRef) -> list[Value]:
    """The address of each step along K: 32 bytes of a row are 8 columns (SM100.md 3.8)."""
    builder = role.builder
    start = accumulator_address(role, operand.buffer, role.stage(operand.handle))
    steps = operand.buffer.columns * operand.buffer.dtype.bytes // K_BYTES
    return [builder.tensor_pointer(builder.add(start, step * K_BYTES // 4)) for step in range(steps)]


def _descriptors(role: RoleContext, operand: tree.BufferRef) -> list[Value]:
    """One per step along K: the address field counts 16 bytes."""
    builder = role.builder
    buffer = operand.buffer
    k_extent = buffer.rows if operand.transposed else buffer.columns
    row = operand_descriptor(role.kernel.plan.layouts[buffer], k_extent, buffer.dtype, transposed=operand.transposed)
    address = builder.bits("and", builder.bits("lshr", shared_tile(role, operand), 4), 0x3FFF)
    start = builder.binary("or", builder.cast("zext", address, "i64"), integer(row.constant, "i64"))
    return [builder.add(start, step >> 4) for step in row.steps]
