"""Matrix multiply-accumulate in registers (sm_90a): each warpgroup of the role has its share of the rows.

The multiplication is asynchronous. `pipec.kir.plan.mma_waits` determines where it must be complete.
"""

from pipec.isa import wgmma as isa
from pipec.isa.targets import WARPGROUP_WARPS
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.scalars import scalar
from pipec.lower.table import lowers
from pipec.lower.tensor_cores.addresses import lower_half
from pipec.lower.tensor_cores.descriptors import operand_descriptor
from pipec.sema import tree
from pipec.sema.types import TileType

BLOCK_ROWS = 64  # M of one instruction


def warpgroups(role: RoleContext) -> int:
    return role.plan.role.warps // WARPGROUP_WARPS


def declare(role: RoleContext, accumulator: tree.Accumulator) -> None:
    if accumulator in role.accumulators:
        return
    # Registers are declared in PTX, for the whole kernel: LLVM must not move registers in use by an MMA (hardware.md 8), so it never sees
    # them.
    role.kernel.accumulators += 1
    blocks = accumulator.rows // (BLOCK_ROWS * warpgroups(role))
    prefix = f"%acc{role.kernel.accumulators}_"
    role.accumulators[accumulator] = isa.Registers(prefix, accumulator.dtype, blocks, accumulator.columns)
    role.builder.declare(isa.declare(role.accumulators[accumulator]))


def declare_operand(role: RoleContext, mma: tree.RegisterMma) -> None:
    """The registers of a register operand `a`: the tile's own, or the MMA's own for a tile with other readers."""
    key = operand_key(role, mma)
    if key is None or key in role.operands:
        return
    role.kernel.operands += 1
    assert isinstance(mma.a, tree.ReadVariable) and isinstance(mma.a.type, TileType)
    tile = mma.a.type
    blocks = tile.rows // (BLOCK_ROWS * warpgroups(role))
    role.operands[key] = isa.Registers(f"%op{role.kernel.operands}_", mma.a_dtype, blocks, tile.columns, operand=True)
    role.builder.declare(isa.declare(role.operands[key]))


def operand_key(role: RoleContext, mma: tree.RegisterMma) -> tree.Variable | tree.RegisterMma | None:
    if isinstance(mma.a, tree.BufferRef):
        return None
    assert role.plan.mma_waits is not None
    return mma.a.variable if mma.a.variable in role.plan.mma_waits.operands else mma


@lowers(tree.ClearAccumulator)
def clear(role: RoleContext, operation: tree.ClearAccumulator) -> None:
    role.builder.issue(isa.clear(role.accumulators[operation.accumulator]))


def read(role: RoleContext, accumulator: tree.Accumulator, block: int, half: int, groups: range) -> list[Value]:
    """This thread's two columns of each group of eight, in order, as elements."""
    builder, registers = role.builder, role.accumulators[accumulator]
    wide = registers.dtype.bits == 32
    firsts = [registers.index(block, half, group) for group in groups]
    indices = [index for first in firsts for index in ((first, first + 1) if wide else (first,))]
    row = isa.read(registers, indices)
    words = builder.elements(builder.issue(row), len(indices), "float" if registers.dtype.name == "f32" else "i32")
    if wide:
        return words
    values = []
    for word in words:
        # Two columns share a 32-bit register (hardware.md 8, accumulator of 16 bits).
        pair = builder.cast("bitcast", word, "<2 x half>")
        values += [builder.element(pair, index, "half") for index in (0, 1)]
    return values


# -------------------------------------------------------------------------------------------------------- multiplication


def multiply(role: RoleContext, operation: tree.RegisterMma) -> None:
    """Each MMA is a group of its own (see pipec.kir.plan.mma_waits)."""
    b, registers = operation.b, role.accumulators[operation.accumulator]
    accumulate = TRUE if operation.accumulate is None else scalar(role, operation.accumulate)
    key = operand_key(role, operation)
    if key is not None:
        b_descriptors = _descriptors(role, b, integer(0))
        row = isa.multiply(registers, role.operands[key], b.buffer.dtype, len(b_descriptors), False, b.transposed)
        role.builder.issue(row, *b_descriptors, accumulate)
    else:
        _multiply_shared(role, operation, registers, accumulate)
    # One group per MMA, so that a wait can specify how many of the latest may stay in flight.
    role.builder.call("wgmma.commit_group")


def _multiply_shared(role: RoleContext, operation: tree.RegisterMma, registers: isa.Registers, accumulate: Value) -> None:
    a, b = operation.a, operation.b
    assert isinstance(a, tree.BufferRef)
    # All warpgroups read B; of A each reads its own rows.
    with role.builder.early():
        group = role.builder.bits("lshr", role.role_warp, 2)
    a_descriptors = [
        descriptor
        for block in range(registers.blocks)
        for descriptor in _descriptors(role, a, _row_offset(role, a, group, registers.blocks, block))
    ]
    b_descriptors = _descriptors(role, b, integer(0))
    row = isa.multiply(registers, a.buffer.dtype, b.buffer.dtype, len(b_descriptors), a.transposed, b.transposed)
    role.builder.issue(row, *a_descriptors, *b_descriptors, accumulate)


def _row_offset(role: RoleContext, a: tree.BufferRef, group: Value, blocks: int, block: int) -> Value:
    """Bytes from the start of the tile to this warpgroup's rows. With M innermost, a panel holds the 64 columns of a block."""
    layout = role.kernel.plan.layouts[a.buffer]
    block_bytes = layout.panel_bytes if a.transposed else BLOCK_ROWS * layout.span_bytes
    if warpgroups(role) == 1:
        return integer(block * block_bytes)
    with role.builder.early():
        return role.builder.add(role.builder.multiply(group, blocks * block_bytes), block * block_bytes)


def _descriptors(role: RoleContext, operand: tree.BufferRef, offset: Value) -> list[Value]:
    """One per step along K: the address field counts 16 bytes. Each is one 64-bit addition, as long as LLVM cannot see that the upper
    half is constant: otherwise it would use an `or`, and ptxas two additions with a carry."""
    builder, buffer = role.builder, operand.buffer
    k_extent = buffer.rows if operand.transposed else buffer.columns
    layout = role.kernel.plan.layouts[buffer]
    row = operand_descriptor(layout, k_extent, buffer.dtype, transposed=operand.transposed, version=0)
    with builder.early():
        upper = builder.call("copy", integer(row.constant >> 32))
    halves = builder.vector([lower_half(role, operand, row.constant, offset), upper])
    first = builder.emit("i64", f"bitcast {halves} to i64")
    return [builder.add(first, step >> 4) for step in row.steps]
