"""Messages for peeks: the result of `try_acquire_...()` is completed by exactly one wait of the same side."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span
from pipec.vocabulary import Side


class WrongSideWait(Message):
    """The result of a peek is given to the wait of the other side.

    `try_acquire_producer()` tests whether the consumer has freed the next stage, so it is completed by `wait_consumer_if_needed`:
    a producer waits for the CONSUMER. `try_acquire_consumer()` goes with `wait_producer_if_needed`. The wrong one waits on the barrier
    that this role completes itself.

        ready = input.try_acquire_producer()
        input.wait_consumer_if_needed(ready)
    """

    code = "E0432"
    title = "a {side}'s peek is completed by the {side}'s wait for the {other}, not by `{call}`"
    labels = (
        primary("at", "waits for the {side}, which is this role"),
        secondary("peeked", "`{token}` says whether the {other} was done"),
    )
    note = "the role would wait on the {barrier} barrier, which only it completes: for ever, or not at all"
    help = "write `{right}`"
    edits = (replace("at", "{right}"),)
    side: Side
    other: str
    call: str
    token: str
    barrier: str
    right: str
    at: Span
    peeked: Span


class OtherPipelinesPeek(Message):
    """The result of a peek is given to the wait of another pipeline. It says nothing about that pipeline's stages.

    A peek goes to the wait for the same pipeline, and for the stage that was looked at:

        ready = first.try_acquire_consumer()
        first.wait_producer_if_needed(ready)      # right
        second.wait_producer_if_needed(ready)     # wrong: a stage of `second` would be read before it is full
    """

    code = "E0433"
    title = "`{token}` is a peek at `{peeked_pipeline}`, but completes a wait for `{pipeline}`"
    labels = (primary("at", "waits for a stage of `{pipeline}`"), secondary("peeked", "looked at `{peeked_pipeline}`"))
    note = "when `{peeked_pipeline}` was ready, the wait is skipped, and a stage of `{pipeline}` is used that may not be ready"
    help = "write `{right}`"
    edits = (replace("at", "{right}"),)
    token: str
    peeked_pipeline: str
    pipeline: str
    right: str
    at: Span
    peeked: Span


class PeekNeverUsed(Message):
    """The result of a peek is never given to a wait.

    A peek only tests. Until the matching wait has run, the role holds no stage, whether or not the peek found one ready.

        ready = input.try_acquire_consumer()
        input.wait_producer_if_needed(ready)
    """

    code = "E0341"
    title = "the peek `{token}` at `{pipeline}` is never completed"
    labels = (primary("at", "looked here"), secondary("end", "{ending}"))
    note = "a peek acquires nothing: the code that follows would use a stage that nobody waited for"
    help = "write `{right}`, or remove the peek"
    token: str
    pipeline: str
    ending: str
    right: str
    at: Span
    end: Span | None


class PeekUsedTwice(Message):
    """The result of a peek is given to a second wait, or to a wait in a loop that does not peek again.

    The result is about one stage. The second wait is for the next stage, and would be skipped although nobody peeked at it.

    A name may be given a new result before each wait, also in the next iteration of a loop, and False where nobody looked:

        ready = input.try_acquire_consumer()
        for k in range(steps):
            input.wait_producer_if_needed(ready)
            mma(acc, input.payload.a[input.consumer_stage()], input.payload.b[input.consumer_stage()])
            input.consumer_step()
            ready = False
            if k + 1 < steps:
                ready = input.try_acquire_consumer()
    """

    code = "E0342"
    title = "the peek `{token}` at `{pipeline}` is used again"
    labels = (
        primary("at", "waits for the stage after the one that the peek tested"),
        secondary("loop", "this loop may run any number of times"),
        secondary("first", "used here already"),
        secondary("obtained", "looked here"),
    )
    note = "if it found the first stage ready, this wait is skipped: the role uses a stage that the other side may still be using"
    help = "{fix}"
    token: str
    pipeline: str
    fix: str
    at: Span
    loop: Span | None
    first: Span | None
    obtained: Span | None


class NotAPeek(Message):
    """A wait is skipped if a condition is true that is not what a peek found of its stage.

    A name that completes waits holds what a peek of the same pipeline and side found, or False, which says that nobody has looked: the
    wait then waits. With any other value it could be skipped while the stage is not ready.

        ready = False                               # not True
        if steps > 0:
            ready = input.try_acquire_consumer()
    """

    code = "E0349"
    title = "`{token}` may hold something else than what a peek at `{pipeline}` found"
    labels = (primary("at", "skipped if `{token}` is true"), secondary("given", "nobody looked at the stage here"))
    note = "the role would use a stage that the other side may still be using"
    help = "where nothing is looked at, write `{token} = False`: the next wait then waits"
    token: str
    pipeline: str
    at: Span
    given: Span | None


class PeekOnOneBranch(Message):
    """The result of a peek is used by a wait on one side of a branch only, or comes from a peek made on one side only."""

    code = "E0343"
    title = "the peek `{token}` at `{pipeline}` is {what} on only one branch"
    labels = (
        primary("at", "{what} if this is {yes}, but not if it is {no}"),
        secondary("released", "completed on this path"),
        secondary("obtained", "looked here"),
    )
    note = "on the other path the role holds nothing and every later wait is off by one"
    help = "move both the peek and its wait to the same side of the `if`"
    token: str
    pipeline: str
    what: str
    yes: str
    no: str
    at: Span
    released: Span | None
    obtained: Span | None


class PeekOvertaken(Message):
    """Between a peek and its wait, the role acquired, skipped, peeked at or drained another stage of the same pipeline.

    The peek tested the stage that comes next. If another operation acquires or skips that stage, the wait is for the one after, which
    nobody tested.
    """

    code = "E0345"
    title = "the peek `{token}` at `{pipeline}` is overtaken"
    labels = (
        primary("at", "this {what} the stage that `{token}` looked at"),
        secondary("obtained", "looked here, and not completed yet"),
    )
    note = "the wait that completes `{token}` is then for the next stage, and is skipped if this one was ready"
    help = "complete `{token}` first: write `{right}` before this, or instead of it"
    token: str
    pipeline: str
    what: str
    right: str
    at: Span
    obtained: Span | None
