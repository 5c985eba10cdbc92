"""E076x: stores that combine with what stands in global memory."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class ReductionType(Message):
    """A store with `reduce` combines each element with the one that stands in global memory, where the memory system does the
    arithmetic. TMA adds i32, u32, u64, f16, bf16 and f32, and takes the minimum or maximum of i32, u32, i64, u64, f16 and bf16; the
    reductions of threads (`store.direct`) add i64 and f64 as well, and have minima and maxima of integers only."""

    code = "E0761"
    title = "{unit} has no `{reduce}` of {dtype} in global memory"
    labels = (primary("at", 'reduces by "{reduce}"'), secondary("declared", "elements of {dtype}"))
    note = 'for "{reduce}" there are {allowed}'
    help = "{hint}"
    unit: str
    reduce: str
    dtype: str
    allowed: str
    hint: str | None
    at: Span
    declared: Span
