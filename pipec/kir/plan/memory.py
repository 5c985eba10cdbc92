"""Memory layout: tiles in shared memory and their swizzle, staging buffers, barriers, tensor-memory columns."""

from collections.abc import Mapping
from operator import mul

from pipec.isa.dtypes import DType
from pipec.isa.targets import Target
from pipec.kir.ir import Kernel
from pipec.kir.plan.reductions import reduced_bytes
from pipec.kir.plan.roles import operations
from pipec.kir.plan.scales import scale_columns, scale_layout, stored_bits, unpacked_tiles
from pipec.kir.plan.striping import exchange_bytes
from pipec.kir.plan.together import bytes_in_turns
from pipec.kir.plan.types import (
    RESPONSE_BYTES,
    TILE_ALIGNMENT,
    Exchange,
    Panel,
    RolePlan,
    RowMap,
    SharedItem,
    Staging,
    TileLayout,
    ZeroFill,
    round_up,
)
from pipec.record import mutable, replace
from pipec.sema import tree
from pipec.sema.tree import Buffer, Expression, Pipeline
from pipec.vocabulary import BARRIER_SIDE, Side, Swizzle

# Bytes of a swizzle span -> the tensor map's swizzle mode, widest first (hardware.md 2.3).
_SPANS: tuple[tuple[int, Swizzle], ...] = ((128, "128B"), (64, "64B"), (32, "32B"), (16, "none"))
# Row sizes in bytes at which the only row of a tile is stored unswizzled: there are no other rows to cause bank conflicts, and one box can
# hold it, where panels would need a copy each. Powers of two up to the alignment of a tile, since offsets in a row are computed by XOR.
_SINGLE_ROWS = tuple(16 << shift for shift in range(7))
MOST_BOX_ELEMENTS = 256  # along one dimension: boxDim of a tensor map (hardware.md 2.1)
BARRIER_BYTES = 8
_EXCHANGED = 2  # buffers through which the warps of a row exchange partial reductions, in turn
_EXCHANGE_ALIGNMENT = 16  # of what a thread reads at once when it reads the partial reductions of a row's warps
_SMALLEST_ALLOCATION = 32  # tensor-memory columns


def tile_layout(rows: int, columns: int, dtype: DType, *, atom_32b: bool = False, bits: int | None = None) -> TileLayout:
    """The widest span that divides a row. `atom_32b`: the swizzle required by 32-bit MN-major operands (hardware.md 3.4).

    `bits` is the size of a stored element, if different from the type's.
    """
    row_bytes = columns * (bits or dtype.bits) // 8
    if rows == 1 and row_bytes in _SINGLE_ROWS and columns <= MOST_BOX_ELEMENTS:
        return TileLayout("none", row_bytes, 1, 1)
    for span, swizzle in _SPANS:
        # The widest first: it spreads the most rows of a box over different banks, and needs the fewest boxes per panel.
        if row_bytes % span == 0:
            mode = "128B_ATOM_32B" if atom_32b and span == 128 else swizzle
            return TileLayout(mode, span, row_bytes // span, rows)
    # Not a multiple of 16 bytes: TMA cannot copy it; the resource check reports that.
    return TileLayout("none", max(row_bytes, 1), 1, rows)


def tile_layouts(kernel: Kernel) -> dict[Buffer, TileLayout]:
    transposed = {
        operand.buffer
        for role in kernel.roles
        for operation in operations(role)
        if isinstance(operation, tree.Mma)
        for operand in (operation.a, operation.b)
        if operand.transposed and operand.buffer.dtype.bits == 32
    }
    unpacked = unpacked_tiles(kernel)
    layouts = {}
    for buffer in kernel.buffers:
        if buffer.space != "shared":
            continue
        bits = stored_bits(buffer, unpacked)
        plain = tile_layout(buffer.rows, buffer.columns, buffer.dtype, atom_32b=buffer in transposed, bits=bits)
        layouts[buffer] = scale_layout(buffer) if buffer.dtype.is_scale else plain
    return layouts


def packed_buffers(kernel: Kernel) -> frozenset[Buffer]:
    """Tiles in tensor memory that an MMA reads as its first operand: elements fill the 32-bit columns (hardware.md 3.5)."""
    return frozenset(
        operation.a.buffer
        for role in kernel.roles
        for operation in operations(role)
        if isinstance(operation, tree.Mma) and operation.a.buffer.space == "tensor"
    )


def tensor_width(buffer: Buffer, packed: frozenset[Buffer]) -> int:
    """The number of tensor-memory columns that one tile occupies."""
    return -(-buffer.columns * buffer.dtype.bits // 32) if buffer in packed else buffer.width


def plan_tensor(
    kernel: Kernel, packed: frozenset[Buffer]
) -> tuple[dict[Buffer, int], dict[Buffer, int], dict[tuple[str, Buffer], int], int]:
    """The first column of each tile, the stage stride of tiles, the first column of each scale tile by role, and the number of columns to
    allocate.

    Unless packed, an element occupies a 32-bit column.
    """
    first: dict[Buffer, int] = {}
    stride: dict[Buffer, int] = {}
    column = 0
    for buffer in kernel.buffers:
        if buffer.alias is not None:
            first[buffer], stride[buffer] = first[buffer.alias] + buffer.alias_column, tensor_width(buffer, packed)
        elif buffer.space == "tensor":
            columns = tensor_width(buffer, packed)
            first[buffer], stride[buffer] = column, buffer.stride or columns
            column += stride[buffer] * (buffer.count - 1) + columns
    # A declared allocation may be larger than required (pipec.checks.stages.stated_counts), not smaller.
    stated = max((allocation.columns for allocation in kernel.allocations), default=0)
    scales, taken = scale_columns(kernel, column)
    column += taken
    allocated = 0
    if column:
        # tcgen05.alloc accepts powers of two from 32 to 512.
        allocated = max(_SMALLEST_ALLOCATION, stated)
        while allocated < column:
            allocated *= 2
    return first, stride, scales, allocated


@mutable
class SharedPlan:
    buffer_offsets: dict[Buffer, int]
    buffer_strides: dict[Buffer, int]
    barrier_offsets: dict[tuple[Pipeline, Side], int]
    staging: dict[tree.Store, Staging]
    exchanges: dict[str, Exchange]
    reduced_offsets: dict[tree.ReducedColumns, int]
    zero_fills: dict[Buffer, ZeroFill]
    items: tuple[SharedItem, ...]
    bytes: int
    tensor_address_offset: int | None
    response_offset: int | None


class _Shared:
    """Allocates shared memory sequentially."""

    def __init__(self) -> None:
        self.items: list[SharedItem] = []
        self.offset = 0

    def take(self, name: str, size: int, alignment: int) -> int:
        offset = round_up(self.offset, alignment)
        self.items.append(SharedItem(name, offset, size))
        self.offset = offset + size
        return offset


def plan_shared(
    kernel: Kernel,
    target: Target,
    roles: tuple[RolePlan, ...],
    layouts: Mapping[Buffer, TileLayout],
    row_maps: Mapping[tree.Operation, RowMap],
    unwritten: Mapping[Buffer, tuple[Pipeline, Expression | None]],
    columns: int,
) -> SharedPlan:
    """Tiles first, each on a 1024-byte boundary, then staging, then small items. `columns`: of tensor memory."""
    shared = _Shared()
    # Each stage is on the boundary, not only the first: a descriptor's base offset is then 0 for all of them (hardware.md 3.3).
    strides = {buffer: round_up(layout.bytes, TILE_ALIGNMENT) for buffer, layout in layouts.items()}
    offsets = {buffer: shared.take(buffer.label, strides[buffer] * buffer.count, TILE_ALIGNMENT) for buffer in layouts}
    small = sum(
        pipeline.stages * (pipeline.producer_sub_stages + pipeline.consumer_sub_stages) * BARRIER_BYTES
        for pipeline in kernel.pipelines
    )
    small += sum(4 * buffer.count for buffer, (_, condition) in unwritten.items() if condition is None)
    responses = kernel.schedule.responses if kernel.schedule is not None else None
    response_bytes = RESPONSE_BYTES * responses.stages if responses is not None else 0
    reduced = {result: size for row in roles for result, size in reduced_bytes(row, row_maps).items()}
    exchanged = {row.role.name: _EXCHANGED * size for row in roles if (size := exchange_bytes(row, row_maps)) > 0}
    # Plus the address of tensor memory, and padding for barriers and responses.
    small = (
        round_up(small + 4 + 8, 16)
        + response_bytes
        + sum(round_up(size, _EXCHANGE_ALIGNMENT) for size in (*exchanged.values(), *reduced.values()))
    )
    staging = _plan_staging(shared, target, roles, row_maps, small)
    exchanges = {
        name: Exchange(shared.take(f"{name} row reductions", size, _EXCHANGE_ALIGNMENT), size // _EXCHANGED)
        for name, size in exchanged.items()
    }
    reduced_offsets = {
        result: shared.take(f"{result.name} of line {result.span.line}", size, _EXCHANGE_ALIGNMENT)
        for result, size in reduced.items()
    }
    answers = shared.take(f"{responses.name} responses", response_bytes, RESPONSE_BYTES) if responses is not None else None
    barriers: dict[tuple[Pipeline, Side], int] = {}
    for pipeline in kernel.pipelines:
        for side, name in BARRIER_SIDE.items():
            size = pipeline.stages * pipeline.sub_stages(side) * BARRIER_BYTES
            barriers[pipeline, side] = shared.take(f"{pipeline.name} {name} barriers", size, BARRIER_BYTES)
    # tcgen05.alloc writes the allocated address to shared memory, from where all warps read it.
    address = shared.take("tensor memory address", 4, 4) if columns else None
    zero_fills = {}
    for buffer, (pipeline, condition) in unwritten.items():
        flag = shared.take(f"{buffer.label} written flags", 4 * buffer.count, 4) if condition is None else None
        zero_fills[buffer] = ZeroFill(pipeline, condition, flag)
    size = round_up(shared.offset, 16)
    if size < (most := bytes_in_turns(kernel, target, columns)):
        shared.take("kept from other blocks", most - size, 16)
        size = most
    return SharedPlan(
        offsets,
        strides,
        barriers,
        staging,
        exchanges,
        reduced_offsets,
        zero_fills,
        tuple(shared.items),
        size,
        address,
        answers,
    )


def _fills(rows: int, columns: int, dtype: DType, *, widest: bool) -> tuple[tuple[Panel, ...], ...]:
    """A stored tile in panels, as buffers hold them one after the other: of the widest spans, so that copies are fewest, and what is left
    of a row beside each other in one buffer; or all of the widest span that divides the row, which takes the least memory."""
    plain = tile_layout(rows, columns, dtype)
    layouts = [replace(plain, panels=1)] * plain.panels
    row_bytes, (most, _), (least, _) = columns * dtype.bits // 8, _SPANS[0], _SPANS[-1]
    # Of a row that is no multiple of 16 bytes nothing can be copied; the resource check reports that.
    if widest and plain.span_bytes < min(row_bytes, most) and row_bytes % least == 0:
        counts = [(row_bytes if span == most else row_bytes % (2 * span)) // span for span, _ in _SPANS]
        layouts = [
            TileLayout(swizzle, span, 1, rows)
            for (span, swizzle), count in zip(_SPANS, counts, strict=True)
            for _ in range(count)
        ]
    fills: list[list[Panel]] = []
    first = 0
    for layout in layouts:
        used = sum(panel.layout.span_bytes for panel in fills[-1]) if fills else most
        if not widest or used + layout.span_bytes > most:
            fills.append([])
        aside = sum(round_up(panel.layout.bytes, TILE_ALIGNMENT) for panel in fills[-1])
        fills[-1].append(Panel(first, layout.span_bytes * 8 // dtype.bits, layout, aside))
        first += fills[-1][-1].columns
    return tuple(map(tuple, fills))


def _staged(row_map: RowMap, operation: tree.Store, *, widest: bool) -> tuple[tuple[Panel, ...], ...]:
    tile = operation.placed
    rows = tile.rows if operation.transposed else row_map.block_rows
    # A reduction reads its buffers slowly. Three equal panels leave one of four buffers free for the next tile; two panels, which take as
    # much memory, would leave none.
    widest = widest and not (operation.reduce is not None and tile_layout(rows, tile.columns, tile.dtype).panels == 3)
    if not row_map.folded:
        return _fills(rows, tile.columns, tile.dtype, widest=widest)
    # A panel must be in one half of a folded tile.
    left = _fills(rows, tile.columns // 2, tile.dtype, widest=widest)
    right = tuple(tuple(replace(panel, first=panel.first + tile.columns // 2) for panel in fill) for fill in left)
    return left + right


def _most_fills(row: RolePlan, fills: Mapping[tree.Store, tuple[tuple[Panel, ...], ...]]) -> int:
    """The largest number of buffers that a tile fills, stored by a role with accumulators in registers, if four suffice."""
    if row.mma_waits is None:
        return 0
    return max((count for count in map(len, fills.values()) if count <= 4), default=0)


def _stride(fills: Mapping[tree.Store, tuple[tuple[Panel, ...], ...]]) -> int:
    return max(round_up(fill[-1].aside + fill[-1].layout.bytes, TILE_ALIGNMENT) for stored in fills.values() for fill in stored)


def _plan_staging(
    shared: _Shared,
    target: Target,
    roles: tuple[RolePlan, ...],
    row_maps: Mapping[tree.Operation, RowMap],
    small: int,
) -> dict[tree.Store, Staging]:
    """Buffers per role, each as large as the most that it holds at a time: two if they fit, so that storing overlaps with converting. A
    role with accumulators in registers gets four for a tile that fills three or four, if they fit: it then synchronises once per tile."""
    stores = [
        (row, [operation for operation in operations(row.role) if isinstance(operation, tree.Store) and operation.path == "tma"])
        for row in roles
    ]
    # Items placed after staging are counted first, since staging takes the rest.
    free = target.shared_bytes - small - round_up(shared.offset, TILE_ALIGNMENT)
    for widest in (True, False):
        wanted = [
            (row, {operation: _staged(row_maps[operation], operation, widest=widest) for operation in stored})
            for row, stored in stores
            if stored
        ]
        strides = [_stride(fills) for _, fills in wanted]
        if sum(strides) <= free:
            break
    # The same for all roles, since it is unknown here which of them stores longest.
    counts = [2 if 2 * sum(strides) <= free else 1] * len(wanted)
    for index, ((row, fills), stride) in enumerate(zip(wanted, strides, strict=True)):
        extra = 2 * stride
        if _most_fills(row, fills) > 2 and counts[index] == 2 and sum(map(mul, counts, strides)) + extra <= free:
            counts[index] = 4
    staging: dict[tree.Store, Staging] = {}
    for (row, stored), stride, buffers in zip(wanted, strides, counts, strict=True):
        offset = shared.take(f"{row.role.name} staging", buffers * stride, TILE_ALIGNMENT)
        staging |= {operation: Staging(fills, buffers, offset, stride) for operation, fills in stored.items()}
    return staging
