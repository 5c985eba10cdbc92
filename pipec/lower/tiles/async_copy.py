"""Asynchronous copies by the role's own threads: cp.async, completed on the full barrier by cp.async.mbarrier.arrive.noinc."""

from pipec.lower.context import RoleContext
from pipec.lower.emit.memory import row_address
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.global_memory import element_inside, element_pointer, global_row
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation.pipelines import shared_tile
from pipec.lower.table import lowers
from pipec.sema import tree


@lowers(tree.CopyAsync)
def copy(role: RoleContext, operation: tree.CopyAsync) -> None:
    """The threads of the role copy the elements round-robin. Elements outside the tensor are filled with zeros (a source size of 0)."""
    builder = role.builder
    buffer, tensor = operation.destination.buffer, operation.source.tensor
    size = buffer.dtype.bytes
    origin = [scalar(role, coordinate) for coordinate in operation.source.coordinates]
    source = global_row(role, tensor, origin, None)
    tile = shared_tile(role, operation.destination)
    threads = role.plan.threads
    for first in range(0, buffer.columns, threads):
        index = builder.add(role.role_thread, first)
        mine = TRUE if first + threads <= buffer.columns else builder.compare("ult", index, integer(buffer.columns))
        inside = element_inside(role, source, index)
        present = builder.select(inside, integer(size), integer(0))
        pointer = builder.shared_pointer(_address(role, buffer, tile, index))
        builder.call(f"cp.async.{size}", pointer, element_pointer(role, source, index, tensor.dtype), present, mine)


def _address(role: RoleContext, buffer: tree.Buffer, tile: Value, index: Value) -> Value:
    """The address of an element in the tile's only row."""
    builder = role.builder
    layout = role.kernel.plan.layouts[buffer]
    position = builder.multiply(index, buffer.dtype.bytes)
    panel: Value | int = 0
    if layout.panels > 1:
        panel, position = builder.bits("udiv", position, layout.span_bytes), builder.bits("urem", position, layout.span_bytes)
    return builder.binary("xor", row_address(builder, layout, tile, panel, integer(0)), position)
