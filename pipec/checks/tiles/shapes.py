"""Sizes and types of the tiles and roles that a kernel declares, against hardware limits (E07xx, E09xx)."""

from pipec.checks.summary import READ, WRITE, Summary
from pipec.checks.tiles.scales import scale_tile, whole_units
from pipec.diag.catalogue.language import target as target_messages
from pipec.diag.catalogue.tiles import copies as copies_messages
from pipec.diag.catalogue.tiles import multiplications as multiplications_messages
from pipec.diag.catalogue.tiles import resources as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import MOST_THREADS, REGISTER_RANGE, REGISTER_STEP, WARP, Target
from pipec.kir import ir
from pipec.kir.plan.interface import box_rows
from pipec.kir.plan.memory import tile_layout
from pipec.kir.plan.types import PANEL_ALIGNMENT as BOX_ALIGNMENT
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span

_WORD_BITS = 32
COPY_UNIT = 16  # bytes: box extents and strides of a tensor map (hardware.md 2.1)


def check(summary: Summary, target: Target, sink: Sink) -> set[tree.Buffer]:
    """Returns the invalid tiles, so that consequences are not reported again."""
    kernel = summary.kernel
    wrong = _buffers(summary, target, sink)
    # (Where they have tiles in tensor memory, that has been told.)
    if target.tensor_columns == 0 and all(buffer.space == "shared" for buffer in kernel.buffers):
        for pipeline in kernel.pipelines:
            if pipeline.cta_group == 2:
                sink.report(target_messages.NoPairs(target=target.name, pipeline=pipeline.name, at=pipeline.span))
    for role in kernel.roles:
        _role(role, sink)
    return wrong


def _buffers(summary: Summary, target: Target, sink: Sink) -> set[tree.Buffer]:
    wrong: set[tree.Buffer] = set()
    mmas: dict[tree.Buffer, list[Span]] = {}
    for role in summary.kernel.roles:
        for block in role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Mma):
                    mmas.setdefault(operation.accumulator.buffer, []).append(operation.span)
    for buffer in summary.kernel.buffers:
        if buffer.space == "shared":
            if not _of_threads(summary, buffer) and _shared_buffer(buffer, sink):
                wrong.add(buffer)
        elif target.tensor_columns == 0:
            uses = tuple(mmas.get(buffer, ()))
            sink.report(
                target_messages.NoTensorMemory(
                    target=target.name,
                    buffer=buffer.label,
                    dtype=buffer.dtype.name,
                    rows=buffer.rows,
                    columns=buffer.columns,
                    at=buffer.span,
                    uses=uses,
                )
            )
        # M of one CTA's part of an MMA (hardware.md 3.1); a pair has two such parts.
        elif buffer.rows not in (64, 128):
            sink.report(multiplications_messages.AccumulatorRows(buffer=_owner_name(buffer), rows=buffer.rows, at=buffer.span))
            wrong.add(buffer)
        if buffer.owner is None:
            _slots(summary, buffer, sink)
    return wrong


def _owner_name(buffer: tree.Buffer) -> str:
    return buffer.owner.name if buffer.owner else buffer.name


def _of_threads(summary: Summary, buffer: tree.Buffer) -> bool:
    """Whether a tile is a 32-bit value per row that only threads write and read: no copy or MMA uses it."""
    touches = {touch.kind for touch in summary.touches.get(buffer, ())}
    return buffer.columns == 1 and buffer.dtype.bits == _WORD_BITS and touches <= {WRITE, READ}


def _shared_buffer(buffer: tree.Buffer, sink: Sink) -> bool:
    if buffer.dtype.is_scale:
        return not scale_tile(buffer, sink)
    row_bytes = buffer.columns * buffer.dtype.bits // 8
    if row_bytes % COPY_UNIT == 0:
        return _tall(buffer, sink)
    unit = COPY_UNIT * 8 // buffer.dtype.bits
    sink.report(
        copies_messages.RowBytes(
            tile=buffer.label,
            bytes=row_bytes,
            columns=buffer.columns,
            dtype=buffer.dtype.name,
            fitting=whole_units(buffer.columns, unit),
            at=buffer.span,
        )
    )
    return True


def _tall(buffer: tree.Buffer, sink: Sink) -> bool:
    """A tile with more rows than a box allows is copied as equal boxes, each at an address that TMA can access."""
    return too_tall(f"tile `{buffer.label}`", TileType(buffer.dtype, buffer.rows, buffer.columns), buffer.rows, buffer.span, sink)


def too_tall(what: str, tile: TileType, rows: int, at: Span, sink: Sink) -> bool:
    span_bytes = tile_layout(rows, tile.columns, tile.dtype).span_bytes
    if box_rows(rows, span_bytes):
        return False
    # Doubling the rows always gives boxes of equal size, so the search ends.
    fitting = next(more for more in range(rows, 2 * rows) if (box_rows(more, span_bytes) or 0) >= BOX_ALIGNMENT // COPY_UNIT)
    sink.report(
        copies_messages.TileRows(
            tile=what,
            rows=rows,
            columns=tile.columns,
            dtype=tile.dtype.name,
            step=BOX_ALIGNMENT // span_bytes,
            fitting=fitting,
            at=at,
        )
    )
    return True


def _slots(summary: Summary, buffer: tree.Buffer, sink: Sink) -> None:
    """A buffer declared by the kernel must hold a tile for every stage whose index selects one."""
    user = max(summary.touches.get(buffer, ()), key=lambda touch: touch.handle.pipeline.stages, default=None)
    stages = user.handle.pipeline.stages if user else 1
    if buffer.count >= max(1, stages):
        return
    pipeline = user.handle.pipeline.name if user else None
    need = f"pipeline `{pipeline}` has {stages} stages" if user else "a buffer has at least one"
    sink.report(
        messages.EmptyBuffer(
            buffer=buffer.name,
            count=counted(buffer.count, "tile"),
            need=need,
            stages=stages,
            pipeline=pipeline,
            at=buffer.span,
            used=user.span if user else None,
        )
    )


def _role(role: ir.Role, sink: Sink) -> None:
    if not 1 <= role.warps <= MOST_THREADS // WARP:
        sink.report(messages.WarpCount(role=role.name, warps=role.warps, at=role.span))
    budget = role.registers
    low, high = REGISTER_RANGE
    if budget is not None and (budget % REGISTER_STEP or not low <= budget <= high):
        fitting = min(max(budget // REGISTER_STEP * REGISTER_STEP, low), high)  # more may not be available
        sink.report(messages.RegisterBudget(role=role.name, registers=budget, fitting=fitting, at=role.span))
