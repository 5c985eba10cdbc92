"""E08xx: what memory holds when it is read."""

from pipec.diag.message import Message, primary, remove_argument, secondary
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


class NothingAdded(Message):
    """An accumulator in registers to which no `mma` of its role adds stays zero, and its registers are lost to the role."""

    code = "E0841"
    title = "no `mma` adds to accumulator `{accumulator}`"
    labels = (primary("at", "stays zero"),)
    note = "its registers are wasted"
    accumulator: str
    at: Span


class StaleAccumulator(Message):
    """The first `mma` into a freshly obtained accumulator adds to what is there.

    The accumulator still holds the previous tile (or anything at all, the first time). The first `mma` must overwrite it: omit
    `accumulate`, and the compiler takes care of this, or write `accumulate=k > 0`.
    """

    code = "E0802"
    title = "the first `mma` into `{stage}` adds to an accumulator that was never cleared"
    labels = (
        primary("at", "also true for the first `mma`"),
        secondary("obtained", "the accumulator obtained here still holds an older tile"),
    )
    note = "the result is the sum of this tile and whatever the accumulator held before"
    help = "remove `accumulate={condition}`"
    edits = (remove_argument("at"),)
    stage: str
    condition: str
    at: Span
    obtained: Span | None


class MaybeStaleAccumulator(Message):
    """Nothing shows that the first `mma` into a freshly obtained accumulator overwrites it.

    The accumulator still holds the previous tile. `accumulate=` must be false for the first `mma` after the acquire, and the
    compiler must be able to see that it is, for example because a loop variable is compared with the loop's start. Without
    `accumulate=`, the compiler keeps track by itself.

        for k in range(n):
            mma(acc, s.a, s.b, accumulate=k > 0)    # right: false in the first iteration
            mma(acc, s.a, s.b, accumulate=n > 0)    # wrong
    """

    code = "E0803"
    title = "the first `mma` into `{stage}` may add to an accumulator that was never cleared"
    labels = (
        primary("at", "not known to be false for the first `mma`"),
        secondary("obtained", "the accumulator obtained here still holds an older tile"),
    )
    note = "where it is true, the result is the sum of this tile and whatever the accumulator held before"
    help = "remove `accumulate={condition}`: the first `mma` then overwrites, the others add"
    edits = (remove_argument("at"),)
    stage: str
    condition: str
    at: Span
    obtained: Span | None


class LostProduct(Message):
    """An `mma` overwrites products that nothing has read.

    Where `accumulate` is false, the product replaces what is in the accumulator. That is right for the first `mma` after the acquire;
    for a later one, everything that was added up until then is lost.

        for k in range(n):
            mma(acc, s.a, s.b, accumulate=k > 0)    # right: false in the first iteration alone
            mma(acc, s.a, s.b, accumulate=k > 1)    # wrong: the second iteration overwrites the product of the first
    """

    code = "E0804"
    title = "an `mma` into `{stage}` overwrites products that nothing has read"
    labels = (primary("at", "false {when}"), secondary("earlier", "{lost}"))
    note = "the products are computed and are missing from the result"
    help = "remove `accumulate={condition}`: the first `mma` then overwrites, the others add"
    edits = (remove_argument("at"),)
    stage: str
    condition: str
    when: str
    lost: str
    at: Span
    earlier: Span
