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
