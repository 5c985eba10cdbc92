"""E03xx: a stage is signalled once on every path, and not used after its signal."""

from pipec.diag.message import Message, primary, remove_line, replace, secondary
from pipec.source import Span


class SignalledTwice(Message):
    """A stage's signal is given a second time.

    Each stage is handed over by exactly one signal. `release()` gives it unless it was given before, so an explicit
    `mma.commit(s.mbar())` or `s.arrive()` followed by `release()` signals once; two explicit signals complete two phases.

        mma.commit(s.mbar())
        mma.commit(s.mbar())        # wrong: remove it
        s.release()
    """

    code = "E0309"
    title = "stage `{stage}` of `{pipeline}` is signalled twice"
    labels = (
        primary("at", "signalled again here"),
        secondary("first", "first signalled here"),
        secondary("obtained", "obtained here"),
    )
    note = "{consequence}"
    help = "remove {which} signal"
    edits = (remove_line("alone"),)
    stage: str
    pipeline: str
    which: str
    alone: Span | None
    consequence: str
    at: Span
    first: Span | None
    obtained: Span | None


class SignalledOnOneBranch(Message):
    """A stage is signalled on one side of a branch only.

    After the branch, the release cannot know whether the signal still has to be given. Signal on both sides, signal after the
    branch, or leave the signal to `release()`.

        if k == last:
            mma.commit(s.mbar())    # wrong: and otherwise?
        s.release()
    """

    code = "E0310"
    title = "stage `{stage}` of `{pipeline}` is signalled on only one branch"
    labels = (
        primary("at", "signalled if this is {yes}, but not if it is {no}"),
        secondary("signalled", "signalled on this path"),
        secondary("released", "released here on both paths"),
        secondary("obtained", "stage obtained here"),
    )
    note = "the release cannot signal on one path and not on the other: one phase too many or one too few completes"
    help = "move `{signal}` below the `if`"
    stage: str
    pipeline: str
    yes: str
    no: str
    signal: str
    at: Span
    signalled: Span | None
    released: Span | None
    obtained: Span | None


class ReleasedWithoutSignal(Message):
    """`release_without_signal()` on a stage that nothing signalled.

    It only steps on; the signal must have been given before, with `s.arrive()` or `mma.commit(s.mbar())`. Use `s.release()` to
    signal and step at once.
    """

    code = "E0311"
    title = "stage `{stage}` of `{pipeline}` is released without a signal"
    labels = (primary("at", "steps on, but nothing has signalled"), secondary("obtained", "obtained here"))
    note = "{consequence}"
    help = "write `{stage}.release()`, or signal before"
    edits = (replace("at", "{stage}.release()"),)
    stage: str
    pipeline: str
    consequence: str
    at: Span
    obtained: Span | None


class ExplicitNeverSignals(Message):
    """The body of `with pipeline.consume_explicit() as s:` ends without a signal.

    This form only steps at its end; the body itself must tell the producer that the slot is free.

        with ring.consume_explicit() as s:
            store(d[0, 0], s.a)
            s.arrive()              # without this the producer never gets the slot back
    """

    code = "E0312"
    title = "stage `{stage}` of `{pipeline}` is never signalled"
    labels = (primary("at", "`consume_explicit` leaves the signal to the body, and the body gives none"),)
    note = "{consequence}"
    help = "call `{stage}.arrive()` in the body, or write `{pipeline}.consume()`"
    stage: str
    pipeline: str
    consequence: str
    at: Span


class SignalledInLoop(Message):
    """A stage obtained before a loop is signalled inside the loop: once per iteration, though it is one stage.

    Signal it after the loop, or obtain a stage in each iteration.
    """

    code = "E0313"
    title = "stage `{stage}` of `{pipeline}` is obtained once but signalled in every iteration"
    labels = (
        primary("at", "signalled in each iteration"),
        secondary("loop", "this loop may run any number of times"),
        secondary("obtained", "obtained once, before the loop"),
    )
    note = "{consequence}"
    help = "move `{signal}` below the loop"
    stage: str
    pipeline: str
    signal: str
    consequence: str
    at: Span
    loop: Span
    obtained: Span | None


class UsedAfterSignal(Message):
    """A stage is used after its signal was given.

    The signal hands over the slot. Whatever follows it, even before the release, races with the other side. An `mma.commit`
    covers the MMAs issued before it, not those after it.

        mma.commit(s.mbar())
        mma(acc, s.a, s.b)          # wrong: swap the two lines
    """

    code = "E0316"
    title = "stage `{stage}` of `{pipeline}` is used after it was signalled"
    labels = (
        primary("at", "{use} here"),
        secondary("defined", "`{variable}` names values that are read from `{stage}` where it is used"),
        secondary("signalled", "handed over here"),
        secondary("obtained", "obtained here"),
    )
    note = "{consequence}"
    help = "signal the stage after this"
    stage: str
    pipeline: str
    use: str
    variable: str | None
    consequence: str
    at: Span
    defined: Span | None
    signalled: Span | None
    obtained: Span | None
