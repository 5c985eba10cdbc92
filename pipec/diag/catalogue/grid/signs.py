"""E0273, E0274: numbers with a sign that no launch makes sense of."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class DivisorNeverPositive(Message):
    """Whatever the sizes of a launch are, this divisor is 0 or negative.

    Sizes, places and numbers of blocks are not negative, so a divisor made of them is negative only because of a compile-time parameter:
    `t // (GROUP * columns)` with `GROUP=-4`. Rounding is then towards the other side, and remainders are negative: some tiles are computed
    twice and others never, although no role waits for ever. `static_assert(GROUP > 0, "...")` says what a parameter may be.
    """

    code = "E0273"
    title = "a divisor that is never positive"
    labels = (primary("at", "at most {most} in every launch"),)
    note = "quotients and remainders then have the other sign: tiles are left out, and none of the barriers notices"
    help = "give the parameter that makes it negative a positive value"
    most: int
    at: Span


class NoBlocksEver(Message):
    """`grid(...)` says how many blocks run along each axis: at least one. The launcher refuses a grid without blocks; where no sizes give
    it one, the kernel can never run."""

    code = "E0274"
    title = "the grid has no blocks along {axis} in any launch"
    labels = (primary("at", "at most {most} blocks"),)
    note = "the driver starts no grid without blocks: every launch is refused"
    axis: str
    most: int
    at: Span
