"""E08xx: what memory holds when it is read."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class AccumulatorNeverWritten(Message):
    """An accumulator is read, but no `mma` of the kernel writes it.

    Tensor memory is not cleared: whatever an earlier kernel left there would be read.
    """

    code = "E0801"
    title = "accumulator `{buffer}` is read, but no `mma` writes it"
    labels = (primary("at", "read here"), secondary("declared", "declared here"))
    note = "tensor memory holds whatever an earlier kernel left there"
    buffer: str
    at: Span
    declared: Span


class StaleAccumulator(Message):
    """Every `mma` into a freshly obtained accumulator adds to what is there.

    The accumulator still holds the previous tile (or, for the first one, anything). The first `mma` must overwrite: leave
    `accumulate` out, and the compiler does so, or write `accumulate=k > 0`.
    """

    code = "E0802"
    title = "the first `mma` into `{stage}` adds to an accumulator that was never cleared"
    labels = (primary("at", "always adds"), secondary("obtained", "the accumulator obtained here still holds an older tile"))
    note = "the result is the sum of this tile and whatever the accumulator held before"
    help = "remove `accumulate={condition}`"
    stage: str
    condition: str
    at: Span
    obtained: Span | None
