"""E075x: OutputTilePipeline: statements about its accumulators, and the payload of blockwise FP8."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class StageStride(Message):
    """The accumulators of an OutputTilePipeline lie `stage_stride_cols` columns apart in tensor memory, stage i at
    base + i * stage_stride_cols. The stride is at least the number of columns of one accumulator, and that number by default."""

    code = "E0751"
    title = "the accumulators of `{pipeline}` lie {stride} columns apart, but each has {columns}"
    labels = (primary("at", "{stride} columns from one stage to the next"), secondary("declared", "{columns} columns"))
    note = "the MMAs of one tile would overwrite the accumulator that the epilogue is still reading"
    help = "write `stage_stride_cols={columns}`, or leave it out"
    pipeline: str
    stride: int
    columns: int
    at: Span
    declared: Span


class ScaleShape(Message):
    """The scales of a blockwise FP8 payload are a tile of one row: one f32 for each row of `a`, for a K block of 128. In the
    epilogue, `s.a_scales.T` is the same as a column, with a scale for each row of the accumulator."""

    code = "E0752"
    title = "the scales of `a` are a {found}"
    labels = (primary("at", "`a_scales` is one row of f32"), secondary("tile", "`a` has {rows} rows"))
    help = "write `a_scales=tile[f32, 1, {rows}]`"
    edits = (replace("at", "tile[f32, 1, {rows}]"),)
    found: str
    rows: int
    at: Span
    tile: Span


class BarrierCount(Message):
    """An OutputTilePipeline has a full and an empty barrier for each stage: `BarrierArray(2 * stages)`. If omitted, it is derived."""

    code = "E0753"
    title = "`{pipeline}` is given {count} barriers, but has {needed}"
    labels = (primary("at", "{count} barriers"),)
    note = "a full and an empty barrier for each of the stages ({stages})"
    help = "write `BarrierArray({needed})`, or leave it out"
    edits = (replace("at", "BarrierArray({needed})"),)
    pipeline: str
    count: int
    stages: int
    needed: int
    at: Span


class BarriersShared(Message):
    """An array of barriers belongs to one pipeline: its phases count that pipeline's stages."""

    code = "E0754"
    title = "the barriers of `{pipeline}` belong to another pipeline"
    labels = (primary("at", "used again here"), secondary("owner", "used here"), secondary("declared", "declared here"))
    note = "the arrivals of both would together complete phases that neither has finished"
    help = "declare another `BarrierArray`"
    pipeline: str
    at: Span
    owner: Span
    declared: Span


class AllocationColumns(Message):
    """Tensor memory is allocated in powers of two from 32 to 512 columns (PTX ISA 9.7.16.7, `tcgen05.alloc`)."""

    code = "E0755"
    title = "{columns} columns of tensor memory cannot be allocated"
    labels = (primary("at", "32, 64, 128, 256 or 512 columns"),)
    columns: int
    at: Span


class SecondAllocation(Message):
    """A kernel has one allocation of tensor memory, which contains all of its accumulators. It is allocated when the kernel starts and
    freed when it ends."""

    code = "E0756"
    title = "tensor memory is allocated twice"
    labels = (primary("at", "allocated again here"), secondary("first", "allocated here"))
    note = "two blocks on one multiprocessor that each hold one of their two allocations wait for each other for ever"
    help = "give all pipelines the first allocation"
    at: Span
    first: Span


class AllocationTooSmall(Message):
    """An explicit allocation of tensor memory must be large enough for all accumulators of the kernel."""

    code = "E0757"
    title = "{columns} columns of tensor memory are allocated, but {needed} are used"
    labels = (primary("at", "{columns} columns"), secondary("tiles", "lies in tensor memory"))
    note = "an access beyond the allocation faults, or hits the accumulators of another block"
    help = "write `TmemAllocation({fitting})`"
    edits = (replace("at", "TmemAllocation({fitting})"),)
    columns: int
    needed: int
    fitting: int
    at: Span
    tiles: tuple[Span, ...]


class AllocationUnused(Message):
    """A kernel must use the tensor memory that it allocates, because concurrent blocks cannot have those columns in the meantime."""

    code = "E0758"
    title = "{columns} columns of tensor memory are allocated, but nothing uses them"
    labels = (primary("at", "owned by the kernel until it ends"),)
    help = "remove the allocation"
    columns: int
    at: Span
