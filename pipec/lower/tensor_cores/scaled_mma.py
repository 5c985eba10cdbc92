"""Block-scaled MMAs: copies of the scale factors from shared to tensor memory, and the instructions that use them."""

from collections.abc import Callable

from pipec.isa.scaling import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_SCALES, ROWS_PER_COLUMN, ScaledKind
from pipec.kir.plan.scales import chunks
from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value
from pipec.lower.scalars import scalar
from pipec.lower.tensor_cores.addresses import descriptors
from pipec.lower.tensor_cores.descriptors import CHUNK_DESCRIPTOR, scaled_instruction_descriptor
from pipec.sema import tree

# For the upper halves of the descriptors of all copies. With one for each of the 12 copies of a pair's factors, ptxas runs out of uniform
# registers, and moves whole descriptors: 79 instructions instead of 60 (docs/blackwell.md).
_COPY_REGISTERS = 6

# Issues MMA number `step`: (accumulator, first operand, second operand, accumulate, step).
Issue = Callable[[Value, Value, Value, Value, int], None]


def scaled(role: RoleContext, operation: tree.Mma, kind: ScaledKind, first_row: Value | None, tail: tuple[Value, ...]) -> Issue:
    """Copies the scale factors to tensor memory, in order with the following MMAs of this thread (hardware.md 3.8)."""
    builder, plan = role.builder, role.kernel.plan
    for scale in operation.scales:
        _copy(role, scale)
    shapes: dict[int, Value] = {}  # by offset: MMAs with the same offset share a register
    factors_a, factors_b = operation.scales
    kept = role.scale_columns.get(operation) or _columns_from_row(role, operation, first_row)

    def issue(target: Value, a: Value, b: Value, accumulate: Value, step: int) -> None:
        # A word holds the factors of four blocks along K (hardware.md 3.7). An MMA that needs fewer selects them in its descriptor.
        word, place = divmod(step * kind.scales, CHUNK_SCALES)
        if place not in shapes:
            shapes[place] = bases.constant(role, scaled_instruction_descriptor(operation, kind, place, plan.cta_group))
        a_scales = _column(role, factors_a, word)
        b_scales = kept[word] if kept else _column(role, factors_b, word)
        scales = [builder.tensor_pointer(address) for address in (a_scales, b_scales)]
        builder.call(kind.instruction, target, a, b, shapes[place], accumulate, *scales, *tail)

    return issue


def keep_columns(role: RoleContext, operation: tree.Mma) -> None:
    """Computes the start of B's factors before a loop in which their first row is invariant."""
    assert operation.scale_b_row is not None
    role.scale_columns[operation] = _columns_from_row(role, operation, scalar(role, operation.scale_b_row))


def _first_column(role: RoleContext, scale: tree.BufferRef) -> int:
    return role.kernel.plan.scale_columns[role.plan.role.name, scale.buffer]


def _column(role: RoleContext, scale: tree.BufferRef, word: int) -> Value:
    """The tensor-memory address of the factors of 4 blocks along K."""
    return bases.tensor(role, _first_column(role, scale) + word * chunks(scale.buffer)[0] * CHUNK_COLUMNS)


def _columns_from_row(role: RoleContext, operation: tree.Mma, row: Value | None) -> tuple[Value, ...]:
    """Likewise, of all words, from a row of B on that is known at run time."""
    builder, scale = role.builder, operation.scale_b
    if row is None:
        return ()
    assert scale is not None
    along_rows, along_k = chunks(scale.buffer)
    skipped = builder.bits("lshr", row, ROWS_PER_COLUMN.bit_length() - 1)
    first = builder.binary("add", builder.add(bases.tensor_base(role), _first_column(role, scale)), skipped)
    return tuple(builder.add(first, word * along_rows * CHUNK_COLUMNS) for word in range(along_k))


def _copy(role: RoleContext, scale: tree.BufferRef) -> None:
    """One copy per chunk of 128 rows and 4 blocks; the chunks of one group of blocks are adjacent."""
    base = bases.tensor_base(role)
    along_rows, along_k = chunks(scale.buffer)
    places = [(row, word) for row in range(along_rows) for word in range(along_k)]
    steps = tuple((row * along_k + word) * CHUNK_BYTES for row, word in places)
    for (row, word), chunk in zip(places, descriptors(role, scale, CHUNK_DESCRIPTOR, steps, _COPY_REGISTERS), strict=True):
        column = _first_column(role, scale) + (word * along_rows + row) * CHUNK_COLUMNS
        # The instruction can add a constant by itself.
        target = role.builder.tensor_pointer(role.builder.add(base, column))
        role.builder.call(f"tcgen05.cp.32x128b.warpx4.cg{role.kernel.plan.cta_group}", target, chunk)
