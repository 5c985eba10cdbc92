"""E075x: OutputTilePipeline: what is stated about its accumulators, and the payload of blockwise FP8."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class StageStride(Message):
    """The accumulators of an OutputTilePipeline stand in tensor memory `stage_stride_cols` columns apart, stage i at
    base + i * stage_stride_cols. That is at least the columns of one accumulator; without it, exactly those."""

    code = "E0751"
    title = "the accumulators of `{pipeline}` stand {stride} columns apart, but each has {columns}"
    labels = (primary("at", "{stride} columns from one stage to the next"), secondary("declared", "{columns} columns"))
    note = "the MMAs of one tile would overwrite the accumulator that the epilogue is still reading"
    help = "write `stage_stride_cols={columns}`, or leave it out"
    pipeline: str
    stride: int
    columns: int
    at: Span
    declared: Span


class ScaleShape(Message):
    """The scales of a blockwise FP8 payload are one f32 for each row of `a`, for one K block of 128: a tile of one row. In the
    epilogue `s.a_scales.T` is the column of them, a scale for each row of the accumulator."""

    code = "E0752"
    title = "the scales of `a` are a {found}"
    labels = (primary("at", "`a_scales` is one row of f32"), secondary("tile", "`a` has {rows} rows"))
    help = "write `a_scales=tile[f32, 1, {rows}]`"
    found: str
    rows: int
    at: Span
    tile: Span
