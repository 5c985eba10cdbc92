"""Block-scaled MMAs: the scale factors from shared to tensor memory, and the instructions that read them there."""

from collections.abc import Callable

from pipec.isa.scaling import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_SCALES, ROWS_PER_COLUMN, ScaledKind
from pipec.kir.plan.scales import chunks
from pipec.lower.context import RoleContext
from pipec.lower.emit.llvm import Value, integer
from pipec.lower.synchronisation.pipelines import shared_tile
from pipec.lower.tensor_cores.descriptors import CHUNK_DESCRIPTOR, scaled_instruction_descriptor, start_descriptor
from pipec.sema import tree

# Issues MMA number `step`: (accumulator, first operand, second operand, accumulate, step).
Issue = Callable[[Value, Value, Value, Value, int], None]


def scaled(role: RoleContext, operation: tree.Mma, kind: ScaledKind, first_row: Value | None, tail: tuple[Value, ...]) -> Issue:
    """Copies the scale factors to tensor memory, which the MMAs that follow in this thread find there (hardware.md 3.8)."""
    a_scales, b_scales = (_copy(role, scale) for scale in operation.scales)
    if first_row is not None:
        b_scales = role.builder.binary("add", b_scales, role.builder.bits("lshr", first_row, ROWS_PER_COLUMN.bit_length() - 1))

    def issue(target: Value, a: Value, b: Value, accumulate: Value, step: int) -> None:
        # A word holds the factors of four blocks along K (hardware.md 3.7). An MMA that
        # needs fewer says in its descriptor which of them it takes.
        word, place = divmod(step * kind.scales, CHUNK_SCALES)
        shape = integer(scaled_instruction_descriptor(operation, kind, place, role.kernel.plan.cta_group))
        scales = [
            role.builder.tensor_pointer(role.builder.add(first, word * chunks(tile.buffer)[0] * CHUNK_COLUMNS))
            for first, tile in zip((a_scales, b_scales), operation.scales, strict=True)
        ]
        role.builder.call(kind.instruction, target, a, b, shape, accumulate, *scales, *tail)

    return issue


def _copy(role: RoleContext, scale: tree.BufferRef) -> Value:
    """One copy per chunk of 128 rows and 4 blocks; the chunks of one group of blocks side by side. Gives the first column's address."""
    builder, group = role.builder, role.kernel.plan.cta_group
    assert role.kernel.tensor_base is not None
    first = builder.add(role.kernel.tensor_base, role.kernel.plan.columns[scale.buffer])
    start = start_descriptor(builder, shared_tile(role, scale), CHUNK_DESCRIPTOR)
    along_rows, along_k = chunks(scale.buffer)
    for row in range(along_rows):
        for word in range(along_k):
            column = (word * along_rows + row) * CHUNK_COLUMNS
            chunk = builder.add(start, (row * along_k + word) * CHUNK_BYTES >> 4)
            builder.call(f"tcgen05.cp.32x128b.warpx4.cg{group}", builder.tensor_pointer(builder.add(first, column)), chunk)
    return first
