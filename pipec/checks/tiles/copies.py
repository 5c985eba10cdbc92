"""Copies between tiles, tensors and registers: shapes, types, alignment, and who may read the copied data (E07xx)."""

from math import gcd

from pipec.checks.summary import COPY, OPERAND, STORE, RoleSummary, Summary
from pipec.checks.tiles.scales import check_load
from pipec.checks.tiles.shapes import COPY_UNIT, too_tall
from pipec.diag.catalogue.grid import global_memory as global_messages
from pipec.diag.catalogue.tiles import copies as messages
from pipec.diag.catalogue.tiles import scaling as scaling_messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.dtypes import DType
from pipec.isa.reductions import ALLOWED
from pipec.isa.targets import WARP
from pipec.kir.lazy_tiles import lazy_tiles, reads_accumulator
from pipec.kir.plan.scales import unpacked_tiles
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.terms.residues import ANY, Residue
from pipec.vocabulary import StorePath

_ASYNC_READERS = {OPERAND: "an MMA", STORE: "a TMA store"}
_MATRIX_BITS, _MATRIX_ROWS = 16, 8  # of stmatrix (PTX ISA 9.7.14.5.16)
SMALLEST_COPY = 4  # bytes of a cp.async (PTX ISA 9.7.9.25.3)


def check_copies(summary: Summary, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Copies between tiles, tensors and registers; those of `wrong` tiles are left out."""
    unpacked = unpacked_tiles(summary.kernel)
    for role in summary.roles:
        for block, block_touches in zip(role.role.blocks, role.touches, strict=True):
            for operation, touches in zip(block.operations, block_touches, strict=True):
                # If the load unpacks a narrow tile, the byte rules below do not apply to what TMA transfers.
                if isinstance(operation, tree.TmaLoad) and check_load(role, operation, unpacked, sink):
                    continue
                if wrong.isdisjoint(touch.buffer for touch in touches):
                    _operation(operation, sink)
                    _coordinates(role, operation, sink)
                    if isinstance(operation, tree.Store) and operation.transposed:
                        _transposed(role, operation, sink)
                    elif isinstance(operation, tree.Store) and operation.path == "tma":
                        _tall_value(role, operation, sink)


def check_proxies(summary: Summary, sink: Sink) -> None:
    """Data filled by `cp.async` must not be read by TMA or an MMA, which use the async proxy."""
    # cp.async stores through the generic proxy (hardware.md 4). Each copying thread would have to fence after its copies have landed, when
    # the role has long continued.
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


def _tall_value(role: RoleSummary, operation: tree.Store, sink: Sink) -> None:
    """The role's threads stage as many rows at a time as there are threads, and a copy transfers those."""
    value, threads = operation.value.type, role.role.warps * WARP
    assert isinstance(value, TileType)
    # All threads write the staging buffer at once, and each part of it must be a box of its own: the largest that divides both.
    rows = value.rows if value.rows <= threads else gcd(value.rows, threads)
    too_tall("what is stored", value, rows, operation.value.span, sink)


def _transposed(role: RoleSummary, operation: tree.Store, sink: Sink) -> None:
    """TMA stores what warps transpose with `stmatrix`: matrices of 8 x 8 16-bit elements, as accumulators in registers hold them."""
    tile = operation.placed
    problem = None
    if operation.rows is not None:
        problem = "`rows` of a tile that is turned"
    elif operation.path == "tma" and not reads_accumulator(operation.value, lazy_tiles(role.role)):
        problem = "only what is computed from an accumulator in registers is turned on its way to TMA"
    elif operation.path == "tma" and tile.dtype.bits != _MATRIX_BITS:
        problem = f"elements of {tile.dtype.bits} bits; only those of {_MATRIX_BITS} are turned on their way to TMA"
    elif operation.path == "tma" and tile.rows % _MATRIX_ROWS:
        problem = f"{tile.rows} columns; those that are turned on their way to TMA come in groups of {_MATRIX_ROWS}"
    if problem is not None:
        hint = None if operation.rows is not None else "write `store.direct(...)`"
        sink.report(messages.TransposedStore(problem=problem, hint=hint, at=operation.value.span))


def _operation(operation: tree.Operation, sink: Sink) -> None:
    match operation:
        case tree.TmaLoad(destination, source):
            _copy("tma.load", source, destination, sink)
        case tree.TmaStore(source=source) if source.buffer.dtype.is_opaque:
            dtype = source.buffer.dtype.name
            sink.report(scaling_messages.MmaOnly(dtype=dtype, use=f"stores a tile of {dtype}", at=operation.span))
        case tree.TmaStore(destination, source):
            _copy("tma.store", destination, source, sink)
            _reduction(operation, ("tma",), sink)
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
    # A size known only at launch is checked there, when the tensor map is encoded.
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
    """TMA addresses memory in units of 16 bytes: this limits where a box starts in its row (hardware.md 2.4)."""
    match operation:
        case tree.TmaLoad(source=place, destination=tile) | tree.TmaStore(destination=place, source=tile):
            columns = tile.buffer.columns
        case tree.Store(destination=place) if operation.path == "tma":
            columns = operation.placed.columns
        case _:
            return
    coordinate, dtype = place.coordinates[-1], place.tensor.dtype
    unit = COPY_UNIT * 8 // dtype.bits
    values = role.role.values
    if not values.is_multiple(coordinate, unit):
        sink.report(
            messages.CopyStart(
                tensor=place.tensor.name,
                unit=unit,
                dtype=dtype.name,
                at=coordinate.span,
                hint=_aligned(operation, coordinate, columns, values.residue(coordinate, unit), unit),
            )
        )
    # Loads fill elements before the tensor with zeros as they do beyond its end; stores do not accept negative coordinates (hardware.md
    # 2.4).
    if isinstance(operation, tree.TmaLoad):
        return
    for coordinate in place.coordinates:
        if isinstance(coordinate, tree.Constant) and coordinate.value < 0:
            sink.report(messages.StoreBefore(tensor=place.tensor.name, at=coordinate.span))


def _aligned(
    operation: tree.Operation, coordinate: tree.Expression, columns: int, residue: Residue | None, unit: int
) -> str | None:
    """What to write instead of this coordinate. The number of a block or of a loop's turn, of which nothing else is known, stands for the
    number of a tile."""
    step, rest = residue or ANY
    if isinstance(coordinate, tree.Special | tree.ReadVariable) and (step, rest) == ANY:
        return f"a coordinate counts elements, not tiles: write `{coordinate.span.text()} * {columns}`"
    more = [f"it is always {rest % unit} more than a multiple of {unit}"] if step % unit == 0 else []
    direct = ["write `store.direct(...)`"] if isinstance(operation, tree.Store) else []
    return ": ".join(more + direct) or None


def _copy_async(operation: tree.CopyAsync, sink: Sink) -> None:
    tensor, buffer = operation.source.tensor, operation.destination.buffer
    if len(tensor.shape) != 1 or buffer.rows != 1:
        sink.report(
            messages.AsyncCopyShape(
                tile=str(TileType(buffer.dtype, buffer.rows, buffer.columns)),
                tensor=tensor.name,
                dimensions=counted(len(tensor.shape), "dimension"),
                at=operation.span,
                declared=tensor.span,
            )
        )
    elif not _same_bytes(tensor.dtype, buffer.dtype):
        _copy("cp.async", operation.source, operation.destination, sink)
    elif buffer.dtype.bytes < SMALLEST_COPY:
        bytes_ = counted(buffer.dtype.bytes, "byte")
        sink.report(messages.AsyncCopyElement(dtype=buffer.dtype.name, bytes=bytes_, at=operation.span, declared=tensor.span))


def _store(operation: tree.Store, sink: Sink) -> None:
    value, tensor = operation.placed, operation.destination.tensor
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
    if operation.path == "tma" or value.columns > 1:  # threads can store a value per row at any address
        _rank(name, tensor, value.rows, operation.value.span, sink)
    _reduction(operation, (operation.path,) if operation.rows is None else (operation.path, "direct"), sink)
    if operation.path != "tma":
        return
    _stride(tensor, operation.destination.span, sink)
    row_bytes = value.columns * value.dtype.bits // 8
    if row_bytes % COPY_UNIT:
        sink.report(
            messages.StoreRowBytes(bytes=row_bytes, columns=value.columns, dtype=value.dtype.name, at=operation.value.span)
        )


def _reduction(operation: tree.Store | tree.TmaStore, paths: tuple[StorePath, ...], sink: Sink) -> None:
    """`paths`: the ways that the elements take; with `rows=`, whole tiles go one way and some rows of a tile another."""
    tensor, reduce = operation.destination.tensor, operation.reduce
    lacking = () if reduce is None else tuple(path for path in paths if tensor.dtype.name not in ALLOWED[path][reduce])
    if reduce is None or not lacking:
        return
    path = lacking[0]
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
    assert isinstance(value, TileType)
    same_shape = (value.rows, value.columns) == (tile.rows, tile.columns)
    if same_shape and _same_bytes(value.dtype, tile.dtype):
        return
    sink.report(
        messages.WriteShape(
            value=str(value),
            destination=str(tile),
            hint=f"write `cast[{'f32' if tile.dtype.name == 'tf32' else tile.dtype}]({operation.value.span.text()})`"
            if same_shape
            else None,
            at=operation.value.span,
            target=operation.destination.span,
        )
    )
