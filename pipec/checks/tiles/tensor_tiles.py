"""Tiles in tensor memory besides accumulators: written by threads, or read by an MMA as operand `a` (E0736 to E0738)."""

from pipec.checks.summary import ACCUMULATE, OPERAND, WRITE, Summary, Touch
from pipec.diag.catalogue.tiles import tensor_tiles as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.plan.roles import operations, tensor_tiles
from pipec.kir.walk import evaluated_tile, subexpressions
from pipec.sema import tree
from pipec.source import Span

_LANES = 128
# An element occupies a column, a 16-bit one its lower half (hardware.md 3.6); only operand `a` of an MMA is packed (3.5).
_WHOLE_COLUMNS = (16, 32)
_USES = {WRITE: "written by threads", OPERAND: "operand `a` of an MMA"}


def check(summary: Summary, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Ignores the tiles in `wrong`."""
    first: dict[tuple[tree.Buffer, str], Touch] = {}
    for _, handle in summary.handles():
        for _, touch in handle.touches:
            if touch.buffer is not None and touch.buffer.space == "tensor" and touch.buffer not in wrong:
                first.setdefault((touch.buffer, touch.kind), touch)
    for role in summary.kernel.roles:
        _folded(role, sink)
    told: set[tree.Buffer] = set()
    for (buffer, kind), touch in first.items():
        if kind not in _USES or buffer in told:
            continue
        if buffer.rows != _LANES:
            told.add(buffer)
            sink.report(
                messages.TensorTileRows(
                    buffer=buffer.label, rows=buffer.rows, use=_USES[kind], at=touch.span, declared=buffer.span
                )
            )
        elif kind == WRITE and (buffer, OPERAND) not in first and buffer.dtype.bits not in _WHOLE_COLUMNS:
            dtype = buffer.dtype
            sink.report(
                messages.TensorTileType(
                    buffer=buffer.label, dtype=dtype.name, bits=dtype.bits, at=touch.span, declared=buffer.span
                )
            )
        # Accumulators hold 32-bit sums, one per column; operand `a` holds packed elements (hardware.md 3.5, 3.6). The same bytes cannot be
        # both.
        elif kind == OPERAND and (buffer, ACCUMULATE) in first:
            accumulator = first[buffer, ACCUMULATE].span
            sink.report(
                messages.OperandAndAccumulator(buffer=buffer.label, at=touch.span, accumulator=accumulator, declared=buffer.span)
            )


def _folded(role: ir.Role, sink: Sink) -> None:
    """The two halves of a folded accumulator's columns belong to different warps: it can only be converted and stored."""
    lets = lazy_tiles(role)
    for operation in operations(role):
        if isinstance(operation, tree.Mma):
            _folded_elsewhere(operation, sink)
        value = evaluated_tile(operation)
        buffer = None if value is None else next((tile for tile in tensor_tiles(value, lets) if tile.folded), None)
        if value is None or buffer is None:
            continue
        problem, at = _beyond_storing(value, lets)
        if isinstance(operation, tree.ReduceColumns):
            problem, at = "reduced along its columns", operation.span
        elif not isinstance(operation, tree.Store):
            problem, at = "kept in registers or written to a tile", operation.span
        if problem is not None:
            sink.report(
                messages.FoldedAccumulator(buffer=buffer.label, use=problem, columns=buffer.columns, at=at, declared=buffer.span)
            )


def _beyond_storing(value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> tuple[str | None, Span]:
    for node in subexpressions(value, lets):
        match node:
            case tree.RowReduce():
                return "reduced along its rows", node.span
            case tree.Columns():
                return "read from another column on", node.span
            case tree.ReadBuffer(first_column=first) if first is not None:
                return "read from another column on", node.span
            case _:
                pass
    return None, value.span


def _folded_elsewhere(mma: tree.Mma, sink: Sink) -> None:
    """The column positions of a folded tile follow from its pipeline."""
    buffer = mma.accumulator.buffer
    if mma.accumulator.handle.pipeline.cta_group == 2 and buffer.rows == 64 and not buffer.folded:
        sink.report(
            messages.FoldedAccumulator(
                buffer=buffer.label,
                use="a buffer of the kernel's own",
                columns=buffer.columns,
                at=mma.accumulator.span,
                declared=buffer.span,
            )
        )
