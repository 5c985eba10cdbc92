"""Block-scaled MMAs: the scale factors from shared to tensor memory, and the instructions that read them there."""

from collections.abc import Callable

from pipec.isa.scaling import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_SCALES, ROWS_PER_COLUMN, ScaledKind
from pipec.kir.plan.scales import chunks
from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.llvm import Value
from pipec.lower.tensor_cores.addresses import descriptors
from pipec.lower.tensor_cores.descriptors import CHUNK_DESCRIPTOR, scaled_instruction_descriptor
from pipec.sema import tree

# Issues MMA number `step`: (accumulator, first operand, second operand, accumulate, step).
Issue = Callable[[Value, Value, Value, Value, int], None]


def scaled(role: RoleContext, operation: tree.Mma, kind: ScaledKind, first_row: Value | None, tail: tuple[Value, ...]) -> Issue:
    """Copies the scale factors to tensor memory, which the MMAs that follow in this thread find there (hardware.md 3.8)."""
    builder, plan = role.builder, role.kernel.plan
    for scale in operation.scales:
        _copy(role, scale)
    shapes: dict[int, Value] = {}  # by place: MMAs that take theirs from the same place have one register for it
    skipped = None if first_row is None else builder.bits("lshr", first_row, ROWS_PER_COLUMN.bit_length() - 1)

    def issue(target: Value, a: Value, b: Value, accumulate: Value, step: int) -> None:
        # A word holds the factors of four blocks along K (hardware.md 3.7). An MMA that
        # needs fewer says in its descriptor which of them it takes.
        word, place = divmod(step * kind.scales, CHUNK_SCALES)
        if place not in shapes:
            shapes[place] = bases.constant(role, scaled_instruction_descriptor(operation, kind, place, plan.cta_group))
        a_scales, b_scales = (_column(role, scale, word * chunks(scale.buffer)[0]) for scale in operation.scales)
        if skipped is not None:
            b_scales = builder.binary("add", b_scales, skipped)
        scales = [builder.tensor_pointer(address) for address in (a_scales, b_scales)]
        builder.call(kind.instruction, target, a, b, shapes[place], accumulate, *scales, *tail)

    return issue


def _column(role: RoleContext, scale: tree.BufferRef, chunk: int) -> Value:
    """The tensor-memory address of a chunk of the factors."""
    return bases.tensor(role, role.kernel.plan.columns[scale.buffer] + chunk * CHUNK_COLUMNS)


def _copy(role: RoleContext, scale: tree.BufferRef) -> None:
    """One copy per chunk of 128 rows and 4 blocks; the chunks of one group of blocks side by side."""
    base = role.kernel.tensor_base
    assert base is not None
    along_rows, along_k = chunks(scale.buffer)
    places = [(row, word) for row in range(along_rows) for word in range(along_k)]
    steps = tuple((row * along_k + word) * CHUNK_BYTES for row, word in places)
    for (row, word), chunk in zip(places, descriptors(role, scale, CHUNK_DESCRIPTOR, steps), strict=True):
        column = role.kernel.plan.columns[scale.buffer] + (word * along_rows + row) * CHUNK_COLUMNS
        # The instruction adds a constant by itself.
        target = role.builder.tensor_pointer(role.builder.add(base, column))
        role.builder.call(f"tcgen05.cp.32x128b.warpx4.cg{role.kernel.plan.cta_group}", target, chunk)
