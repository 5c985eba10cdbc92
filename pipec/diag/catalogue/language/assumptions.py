"""E0293 and E0294: `assume`, conditions on what a kernel is launched with."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class NeverHolds(Message):
    """`assume(condition)` restricts the launches: the proof that no role waits for ever uses it, and a launch that violates it is
    refused. A condition that no sizes satisfy, by itself or together with those before it, would let the proof show anything about
    a kernel that can never run. Sizes are not negative."""

    code = "E0293"
    title = "no launch meets this assumption"
    labels = (primary("at", "no sizes make this true"), secondary("others", "given this"))
    note = "every launch of the kernel would be refused"
    at: Span
    others: tuple[Span, ...]


class AssumedDivisor(Message):
    """In `assume`, `//`, `%` and `ceildiv` divide by a compile-time number above 0, so that the proof knows their value for all
    sizes. Write a condition with a product instead, `M >= N * 2`, or make the divisor a compile-time parameter."""

    code = "E0294"
    title = "an assumption divides by something other than a compile-time number above 0"
    labels = (primary("at", "the divisor"),)
    at: Span
