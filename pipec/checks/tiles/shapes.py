"""Sizes and types of what a kernel declares and copies, against what the hardware takes (E07xx, E09xx)."""

from math import gcd

from pipec.checks.summary import COPY, OPERAND, STORE, RoleSummary, Summary
from pipec.checks.tiles.scales import check_load, scale_tile, whole_units
from pipec.diag.catalogue.grid import global_memory as global_messages
from pipec.diag.catalogue.language import target as target_messages
from pipec.diag.catalogue.tiles import resources as messages
from pipec.diag.catalogue.tiles import scaling as scaling_messages
from pipec.diag.message import Sink
from pipec.isa.dtypes import DType
from pipec.isa.reductions import ALLOWED
from pipec.isa.targets import WARP, Target
from pipec.kir import ir
from pipec.kir.plan.interface import box_rows
from pipec.kir.plan.memory import tile_layout
from pipec.kir.plan.scales import unpacked_tiles
from pipec.kir.plan.types import PANEL_ALIGNMENT as BOX_ALIGNMENT
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import StorePath

MOST_WARPS = 32
_ASYNC_READERS = {OPERAND: "an MMA", STORE: "a TMA store"}
SMALLEST_COPY = 4  # bytes of a cp.async (PTX ISA 9.7.9.25.3)
COPY_UNIT = 16  # bytes: box extents and strides of a tensor map (hardware.md 2.1)
REGISTER_STEP = 8  # setmaxnreg (hardware.md 7)
REGISTER_RANGE = (24, 256)


def check(summary: Summary, target: Target, sink: Sink) -> set[tree.Buffer]:
    """Returns the tiles that are wrong, so that what follows from them is not told again."""
    kernel = summary.kernel
    wrong = _buffers(summary, target, sink)
    for role in kernel.roles:
        _role(role, sink)
    return wrong


def check_copies(summary: Summary, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Copies between tiles, tensors and registers; those of `wrong` tiles are left out."""
    unpacked = unpacked_tiles(summary.kernel)
    for role in summary.roles:
        for block, block_touches in zip(role.role.blocks, role.touches, strict=True):
            for operation, touches in zip(block.operations, block_touches, strict=True):
                if isinstance(operation, tree.TmaLoad) and check_load(role, operation, unpacked, sink):
                    continue
                if wrong.isdisjoint(touch.buffer for touch in touches):
                    _operation(operation, sink)
                    _coordinates(role, operation, sink)
                    if isinstance(operation, tree.Store) and operation.path == "tma":
                        _tall_value(role, operation, sink)


def check_proxies(summary: Summary, sink: Sink) -> None:
    """What `cp.async` fills is not read by TMA or an MMA, which look through the async proxy."""
    filled = {
        touch.buffer: touch.span
        for _, handle in summary.handles()
        for _, touch in handle.touches
        if touch.kind == COPY and touch.buffer is not None
    }
    for _, handle in summary.handles():
        for _, touch in handle.touches:
            if touch.buffer in filled and touch.kind in _ASYNC_READERS:
                reader = _ASYNC_READERS[touch.kind]
                tile, at = touch.buffer.label, filled[touch.buffer]
                sink.report(messages.AsyncProxyOfCopy(tile=tile, reader=reader, at=touch.span, filled=at))


# --------------------------------------------------------------------------------------------------------- declarations


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
            if _shared_buffer(buffer, sink):
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
        elif buffer.rows not in (64, 128):
            sink.report(messages.AccumulatorRows(buffer=_owner_name(buffer), rows=buffer.rows, at=buffer.span))
            wrong.add(buffer)
        if buffer.owner is None:
            _slots(summary, buffer, sink)
    return wrong


def _owner_name(buffer: tree.Buffer) -> str:
    return buffer.owner.name if buffer.owner else buffer.name


def _shared_buffer(buffer: tree.Buffer, sink: Sink) -> bool:
    if buffer.dtype.is_scale:
        return not scale_tile(buffer, sink)
    row_bytes = buffer.columns * buffer.dtype.bits // 8
    if row_bytes % COPY_UNIT == 0:
        return _tall(buffer, sink)
    unit = COPY_UNIT * 8 // buffer.dtype.bits
    sink.report(
        messages.RowBytes(
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
    """A tile of more rows than one box takes is copied as equal boxes, each at an address that TMA can reach."""
    return _too_tall(
        f"tile `{buffer.label}`", TileType(buffer.dtype, buffer.rows, buffer.columns), buffer.rows, buffer.span, sink
    )


def _tall_value(role: RoleSummary, operation: tree.Store, sink: Sink) -> None:
    """The role's threads stage as many rows at a time as there are threads, and a copy takes those."""
    value, threads = operation.value.type, role.role.warps * WARP
    assert isinstance(value, TileType)
    rows = value.rows if value.rows <= threads else gcd(value.rows, threads)
    _too_tall("what is stored", value, rows, operation.value.span, sink)


def _too_tall(what: str, tile: TileType, rows: int, at: Span, sink: Sink) -> bool:
    span_bytes = tile_layout(rows, tile.columns, tile.dtype).span_bytes
    if box_rows(rows, span_bytes):
        return False
    fitting = next(more for more in range(rows, 2 * rows) if (box_rows(more, span_bytes) or 0) >= BOX_ALIGNMENT // COPY_UNIT)
    sink.report(
        messages.TileRows(
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
    """A buffer of the kernel's own holds a tile for every stage whose index picks one."""
    users = [touch for _, handle in summary.handles() for _, touch in handle.touches if touch.buffer is buffer]
    user = max(users, key=lambda touch: touch.handle.pipeline.stages, default=None)
    stages = user.handle.pipeline.stages if user else 1
    if buffer.count >= max(1, stages):
        return
    pipeline = user.handle.pipeline.name if user else None
    need = f"pipeline `{pipeline}` has {stages} stages" if user else "a buffer has at least one"
    sink.report(
        messages.EmptyBuffer(
            buffer=buffer.name,
            count=buffer.count,
            need=need,
            stages=stages,
            pipeline=pipeline,
            at=buffer.span,
            used=user.span if user else None,
        )
    )


def _role(role: ir.Role, sink: Sink) -> None:
    if not 1 <= role.warps <= MOST_WARPS:
        sink.report(messages.WarpCount(role=role.name, warps=role.warps, at=role.span))
    budget = role.registers
    low, high = REGISTER_RANGE
    if budget is not None and (budget % REGISTER_STEP or not low <= budget <= high):
        fitting = min(max(budget // REGISTER_STEP * REGISTER_STEP, low), high)  # more may not be there
        sink.report(messages.RegisterBudget(role=role.name, registers=budget, fitting=fitting, at=role.span))


# --------------------------------------------------------------------------------------------------------------- copies


def _operation(operation: tree.Operation, sink: Sink) -> None:
    match operation:
        case tree.TmaLoad(destination, source):
            _copy("tma.load", source, destination, sink)
        case tree.TmaStore(source=source) if source.buffer.dtype.is_opaque:
            dtype = source.buffer.dtype.name
            sink.report(scaling_messages.MmaOnly(dtype=dtype, use=f"stores a tile of {dtype}", at=operation.span))
        case tree.TmaStore(destination, source):
            _copy("tma.store", destination, source, sink)
            _reduction(operation, "tma", sink)
        case tree.CopyAsync():
            _copy_async(operation, sink)
        case tree.Store():
            _store(operation, sink)
        case tree.Write():
            _write(operation, sink)
        case _:
            pass


def _copy(name: str, tensor_slice: tree.TensorSlice, tile: tree.BufferRef, sink: Sink) -> None:
    tensor, buffer = tensor_slice.tensor, tile.buffer
    if not _same_bytes(tensor.dtype, buffer.dtype):
        sink.report(
            messages.CopyType(
                operation=name,
                tile=buffer.dtype.name,
                tensor=tensor.dtype.name,
                hint=f"declare the tile as `tile[{tensor.dtype}, {buffer.rows}, {buffer.columns}]`",
                at=tile.span,
                slice=tensor_slice.span,
                declared=buffer.span,
            )
        )
    _rank(name, tensor, buffer.rows, tile.span, sink)
    _stride(tensor, tensor_slice.span, sink)


def _same_bytes(tensor: DType, tile: DType) -> bool:
    """tf32 is how an MMA reads f32: the bytes in memory are the same."""
    return tensor is tile or {tensor.name, tile.name} == {"f32", "tf32"}


def _rank(name: str, tensor: tree.TensorParameter, rows: int, at: Span, sink: Sink) -> None:
    if len(tensor.shape) == 1 and rows > 1:
        sink.report(messages.CopyRank(operation=name, rows=rows, tensor=tensor.name, at=at, declared=tensor.span))


def _stride(tensor: tree.TensorParameter, use: Span, sink: Sink) -> None:
    inner = tensor.shape[-1]
    if len(tensor.shape) < 2 or not isinstance(inner, int) or inner * tensor.dtype.bits // 8 % COPY_UNIT == 0:
        return
    sink.report(
        messages.TensorStride(
            tensor=tensor.name,
            bytes=inner * tensor.dtype.bits // 8,
            columns=inner,
            dtype=tensor.dtype.name,
            at=tensor.span,
            use=use,
        )
    )


def _coordinates(role: RoleSummary, operation: tree.Operation, sink: Sink) -> None:
    """TMA reaches memory in units of 16 bytes: where a box starts in its row (hardware.md 2.4)."""
    match operation:
        case tree.TmaLoad(source=place) | tree.TmaStore(destination=place):
            pass
        case tree.Store(destination=place) if operation.path == "tma":
            pass
        case _:
            return
    coordinate, dtype = place.coordinates[-1], place.tensor.dtype
    unit = COPY_UNIT * 8 // dtype.bits
    if not role.role.values.is_multiple(coordinate, unit):
        sink.report(
            messages.CopyStart(
                tensor=place.tensor.name,
                unit=unit,
                dtype=dtype.name,
                at=coordinate.span,
                hint="write `store.direct(...)`" if isinstance(operation, tree.Store) else None,
            )
        )
    if isinstance(operation, tree.TmaLoad):
        return
    for coordinate in place.coordinates:
        if isinstance(coordinate, tree.Constant) and coordinate.value < 0:
            sink.report(messages.StoreBefore(tensor=place.tensor.name, at=coordinate.span))


def _copy_async(operation: tree.CopyAsync, sink: Sink) -> None:
    tensor, buffer = operation.source.tensor, operation.destination.buffer
    if len(tensor.shape) != 1 or buffer.rows != 1:
        sink.report(
            messages.AsyncCopyShape(
                tile=str(TileType(buffer.dtype, buffer.rows, buffer.columns)),
                tensor=tensor.name,
                dimensions="1 dimension" if len(tensor.shape) == 1 else f"{len(tensor.shape)} dimensions",
                at=operation.span,
                declared=tensor.span,
            )
        )
    elif not _same_bytes(tensor.dtype, buffer.dtype):
        _copy("cp.async", operation.source, operation.destination, sink)
    elif buffer.dtype.bytes < SMALLEST_COPY:
        bytes_ = "1 byte" if buffer.dtype.bytes == 1 else f"{buffer.dtype.bytes} bytes"
        sink.report(messages.AsyncCopyElement(dtype=buffer.dtype.name, bytes=bytes_, at=operation.span, declared=tensor.span))


def _store(operation: tree.Store, sink: Sink) -> None:
    value, tensor = operation.value.type, operation.destination.tensor
    assert isinstance(value, TileType)
    name = "store" if operation.path == "tma" else "store.direct"
    if not _same_bytes(tensor.dtype, value.dtype):
        sink.report(
            messages.CopyType(
                operation=name,
                tile=value.dtype.name,
                tensor=tensor.dtype.name,
                hint=f"write `cast[{tensor.dtype}]({operation.value.span.text()})`",
                at=operation.value.span,
                slice=operation.destination.span,
                declared=tensor.span,
            )
        )
    if operation.path == "tma" or value.columns > 1:  # threads store a value for each row wherever they are told to
        _rank(name, tensor, value.rows, operation.value.span, sink)
    _reduction(operation, operation.path if operation.rows is None else "direct", sink)
    if operation.path != "tma":
        return
    _stride(tensor, operation.destination.span, sink)
    row_bytes = value.columns * value.dtype.bits // 8
    if row_bytes % COPY_UNIT:
        sink.report(
            messages.StoreRowBytes(bytes=row_bytes, columns=value.columns, dtype=value.dtype.name, at=operation.value.span)
        )


def _reduction(operation: tree.Store | tree.TmaStore, path: StorePath, sink: Sink) -> None:
    tensor, reduce = operation.destination.tensor, operation.reduce  # some rows of a tile are stored by threads
    if reduce is None or tensor.dtype.name in ALLOWED[path][reduce]:
        return
    other = path == "tma" and isinstance(operation, tree.Store) and tensor.dtype.name in ALLOWED["direct"][reduce]
    sink.report(
        global_messages.ReductionType(
            reduce=reduce,
            dtype=tensor.dtype.name,
            unit="TMA" if path == "tma" else "a thread",
            allowed=", ".join(ALLOWED[path][reduce]),
            hint="write `store.direct(...)`" if other else None,
            at=operation.span,
            declared=tensor.span,
        )
    )


def _write(operation: tree.Write, sink: Sink) -> None:
    buffer, value = operation.destination.buffer, operation.value.type
    tile = TileType(buffer.dtype, buffer.rows, buffer.columns)
    if value == tile:
        return
    assert isinstance(value, TileType)
    same_shape = (value.rows, value.columns) == (tile.rows, tile.columns)
    sink.report(
        messages.WriteShape(
            value=str(value),
            destination=str(tile),
            hint=f"write `cast[{buffer.dtype}]({operation.value.span.text()})`" if same_shape else None,
            at=operation.value.span,
            target=operation.destination.span,
        )
    )
