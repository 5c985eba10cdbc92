"""Matrix multiply-accumulate into tensor memory."""

from pipec.kir import ir
from pipec.kir.plan.scales import kind_of, reads_packed
from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import FALSE, TRUE, Value, integer
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation.pipelines import accumulator_address
from pipec.lower.table import lowers
from pipec.lower.tensor_cores.addresses import descriptors
from pipec.lower.tensor_cores.descriptors import K_BYTES, MMA_KINDS, instruction_descriptor, operand_descriptor
from pipec.lower.tensor_cores.scaled_mma import Issue, scaled
from pipec.sema import tree

# Operand A is not kept in the collector buffer: the next MMA is determined at run time, and a stale `use` would be silently wrong.
_DISCARD_COLLECTOR = integer(0)


@lowers(tree.Mma)
def mma(role: RoleContext, operation: tree.Mma) -> None:
    """One instruction per 32 bytes of K; all but the first accumulate."""
    builder = role.builder
    d, a, b = operation.accumulator, operation.a, operation.b
    written = role.written[d.handle, d.buffer]
    accumulate = written.read() if operation.accumulate is None else _accumulates(role, operation, operation.accumulate)
    kind = kind_of(operation)
    first_row = None if operation.scale_b_row is None else scalar(role, operation.scale_b_row)
    with role.one_thread("mma"):
        if kind is None:
            issue = _plain(role, operation, accumulate)
        else:
            issue = scaled(role, operation, kind, first_row, _tail(role))
        at = role.targets.get((d.handle, d.buffer))
        place = accumulator_address(role, d.buffer, role.stage(d.handle)) if at is None else at.read()
        target = builder.tensor_pointer(place)
        packed = reads_packed(operation)
        firsts = _tensor_operand(role, a) if a.buffer.space == "tensor" else _descriptors(role, a, packed)
        for step, (first, second) in enumerate(zip(firsts, _descriptors(role, b, packed), strict=True)):
            issue(target, first, second, accumulate, step)
            # The steps along K form one product: only the first may overwrite the accumulator.
            accumulate = TRUE
    written.write(TRUE)


def counter_of_later(role: RoleContext, operation: tree.Mma) -> tree.Variable | None:
    """The counter of a loop from 0 in all turns of which but the first the MMA accumulates; None if it depends on something else."""
    match operation.accumulate:
        case tree.Binary(">" | "!=", tree.ReadVariable(counter), tree.Constant(0)):
            return counter if any(_counts_from_0(loop, counter) for loop in role.plan.role.loops) else None
        case _:
            return None


def _counts_from_0(loop: ir.Loop, counter: tree.Variable) -> bool:
    match loop:
        case ir.Loop(variable=variable, start=tree.Constant(0), step=int(step)):
            return variable is counter and step > 0
        case _:
            return False


def _accumulates(role: RoleContext, operation: tree.Mma, condition: tree.Expression) -> Value:
    """Rather whether the turn is the first one, which nobody has to compute (pipec.ptx.first_turns), than what its counter is."""
    counter = counter_of_later(role, operation)
    return scalar(role, condition) if counter is None else role.later[counter].read()


def _plain(role: RoleContext, operation: tree.Mma, accumulate: Value) -> Issue:
    d, a, b = operation.accumulator, operation.a, operation.b
    kind = integer(MMA_KINDS[a.buffer.dtype.mma_kind or ""])
    types = d.buffer.dtype, a.buffer.dtype, b.buffer.dtype
    rows = d.buffer.rows * role.kernel.plan.cta_group
    word = instruction_descriptor(*types, rows, d.buffer.columns, a_transposed=a.transposed, b_transposed=b.transposed)
    # ptxas assigns pairs of registers in the order of the text; if none is left for the shape, it moves the shape in each iteration. By
    # trial: the shape is best computed in front of the descriptors, but behind them if each iteration begins a new product.
    shapes = [] if accumulate == FALSE else [bases.constant(role, word)]
    instruction = "tcgen05.mma.tensor" if a.buffer.space == "tensor" else "tcgen05.mma"

    def issue(target: Value, first: Value, second: Value, accumulate: Value, step: int) -> None:
        if not shapes:
            shapes.append(bases.constant(role, word))
        role.builder.call(instruction, target, first, second, shapes[0], accumulate, kind, *_tail(role))

    return issue


def _tail(role: RoleContext) -> tuple[Value, Value]:
    return integer(role.kernel.plan.cta_group), _DISCARD_COLLECTOR


def _tensor_operand(role: RoleContext, operand: tree.BufferRef) -> list[Value]:
    """The address for each step along K: 32 bytes of a row are 8 columns (hardware.md 3.5)."""
    builder, buffer = role.builder, operand.buffer
    steps = range(0, buffer.columns * buffer.dtype.bytes // 4, K_BYTES // 4)
    if buffer.count == 1 and not bases.hides(role):
        first = role.kernel.plan.columns[buffer]
        return [builder.tensor_pointer(bases.tensor(role, first + step)) for step in steps]
    start = accumulator_address(role, buffer, role.stage(operand.handle))
    return [builder.tensor_pointer(builder.add(start, step)) for step in steps]


def _descriptors(role: RoleContext, operand: tree.BufferRef, packed: bool) -> list[Value]:
    """One per step along K: the address field counts 16 bytes."""
    buffer = operand.buffer
    k_extent = buffer.rows if operand.transposed else buffer.columns
    layout = role.kernel.plan.layouts[buffer]
    row = operand_descriptor(layout, k_extent, buffer.dtype, transposed=operand.transposed, packed=packed)
    return descriptors(role, operand, row.constant, row.steps)
