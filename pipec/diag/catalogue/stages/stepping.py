"""Messages for hand-written waits, steps and barriers of a stage."""

from pipec.diag.message import Message, add_line_above, primary, remove_line, replace, secondary
from pipec.source import Span
from pipec.vocabulary import Side


class NoCurrentStage(Message):
    """A stage is named, signalled or stepped past before the role waited for it.

    `wait_consumer()` makes a free stage the producer's current one, `wait_producer()` a filled stage the consumer's. Only then is
    there a stage to work on, and only that stage may be stepped past.

        ring.wait_consumer()
        tma.load(tiles[ring.producer_stage()], a[0, 0])
        ring.producer_step()
    """

    code = "E0241"
    title = "`{call}` has no current stage of `{pipeline}`: the role has not waited for one"
    labels = (primary("at", "no `{wait}` comes before this"),)
    note = "{consequence}"
    help = "write `{wait}` before this"
    edits = (add_line_above("at", "{wait}"),)
    call: str
    pipeline: str
    wait: str
    consequence: str
    at: Span


class StageNumberChanged(Message):
    """A variable that holds a stage's number, and was used to select a slot or barrier, is assigned another value.

    The slot belongs to the stage that is held; a variable that may have another value could select a different slot. Use a
    separate variable for the other value.
    """

    code = "E0242"
    title = "`{name}` is the number of a stage, but is assigned another value"
    labels = (primary("at", "from here on `{name}` need not be the stage that is held"), secondary("first", "the stage's number"))
    help = "give the other value its own name"
    name: str
    at: Span
    first: Span


class OtherSidesBarrier(Message):
    """A role signals, or hands to a copy, the barrier that the other side completes.

    The producer completes the full barrier, `producer_mbar`, when a stage is filled; the consumer completes the empty barrier,
    `consumer_mbar`, when it has read it. An arrival on the other side's barrier completes a phase although the other side has not done
    its work.
    """

    code = "E0431"
    title = "a {side} signals the {other}'s barrier of `{pipeline}`"
    labels = (
        primary("at", "this is the {barrier} barrier, which the {other} completes"),
        secondary("obtained", "held as {side} since here"),
    )
    note = "{consequence}"
    help = "write `{right}`"
    edits = (replace("at", "{right}"),)
    side: Side
    other: str
    pipeline: str
    barrier: str
    consequence: str
    right: str
    at: Span
    obtained: Span | None


def never_stepped(side: Side) -> str:
    """The effect on the hardware of a wait without a step."""
    again = "fills the slot that was just handed over" if side == "producer" else "reads the slot that was just released"
    return f"stage and phase stay the same: the next wait returns at once, and this role {again}"


class NeverStepped(Message):
    """A stage is waited for, but never stepped past.

    `producer_step()` and `consumer_step()` end the work on a stage: they move to the next slot and, after the last, to the next phase.
    Without the step, the next wait tests the same stage and the same phase again.

        ring.wait_producer()
        store(d[0, 0], tiles[ring.consumer_stage()])
        arrive(ring.consumer_mbar())
        ring.consumer_step()            # without this
    """

    code = "E0331"
    title = "the stage of `{pipeline}` is waited for, but never stepped past"
    labels = (primary("at", "waited for here"), secondary("end", "{ending}"))
    note = "{consequence}"
    help = "add `{step}` after its last use"
    pipeline: str
    ending: str
    step: str
    consequence: str
    at: Span
    end: Span | None


class SteppedAgain(Message):
    """A role steps without having waited for the stage: after another step, or in a loop whose wait comes before the loop.

    Each step belongs to one wait. An extra step skips a slot that the other side is still using, and every later wait of this role
    is off by one.
    """

    code = "E0332"
    title = "`{step}` steps past a stage of `{pipeline}` that was not waited for"
    labels = (
        primary("at", "no stage is current here"),
        secondary("loop", "this loop may run any number of times"),
        secondary("first", "stepped past here already"),
        secondary("obtained", "the wait it belongs to"),
    )
    note = "the step skips a slot that the other side is still using: every later wait of this role is for the wrong stage"
    help = "{edit}"
    step: str
    pipeline: str
    edit: str
    at: Span
    loop: Span | None
    first: Span | None
    obtained: Span | None


class WaitedTwice(Message):
    """A role waits for a stage while the one before is still current.

    With hand-written waits there is one current stage per pipeline and side. The second wait tests the same stage and phase and returns
    at once; nobody waits for the stage that was meant. To hold several stages, acquire them: `s = ring.acquire_consumer()`.
    """

    code = "E0333"
    title = "the {side} waits twice for the same stage of `{pipeline}`"
    labels = (primary("at", "waits again here"), secondary("first", "waited here, with no step since"))
    note = "the second wait tests the same stage and phase and returns at once: it waits for nothing"
    help = "remove it, or finish the first stage before it, up to `{step}`"
    edits = (remove_line("at"),)
    side: Side
    pipeline: str
    step: str
    at: Span
    first: Span | None


class SteppedOnOneBranch(Message):
    """A stage is stepped past on one side of a branch and kept on the other. Step on both sides, or once, after the branch."""

    code = "E0334"
    title = "the stage of `{pipeline}` is stepped past on only one branch"
    labels = (
        primary("at", "stepped past if this is {yes}, but not if it is {no}"),
        secondary("released", "stepped past on this path"),
        secondary("obtained", "waited for here"),
    )
    note = "on the other path {consequence}"
    help = "move `{step}` below the `if`"
    pipeline: str
    yes: str
    no: str
    step: str
    consequence: str
    at: Span
    released: Span | None
    obtained: Span | None


class WaitedOnOneBranch(Message):
    """A stage is waited for on one side of a branch and still current where the sides join. On the other path nothing was waited
    for: wait before the branch, step inside it, or wait on both sides by one wait before."""

    code = "E0335"
    title = "the stage of `{pipeline}` is waited for on only one branch"
    labels = (
        primary("at", "waited for here, and still current where the branches join"),
        secondary("branch", "runs if this is {yes}, but not if it is {no}"),
        secondary("released", "stepped past outside the branch"),
    )
    note = "on the other path the step skips a slot that the other side is still using"
    help = "move `{wait}` before the `if`"
    pipeline: str
    yes: str
    no: str
    wait: str
    at: Span
    branch: Span
    released: Span | None


class UsedAfterStep(Message):
    """A stage's slot, number or barrier is used after the role stepped past it. The slot may be in use by the other side."""

    code = "E0336"
    title = "the stage of `{pipeline}` is used after it was stepped past"
    labels = (
        primary("at", "{use} here"),
        secondary("defined", "`{variable}` names values that are read from the stage where it is used"),
        secondary("released", "stepped past here"),
        secondary("obtained", "waited for here"),
    )
    note = "{consequence}"
    help = "move `{step}` below this"
    pipeline: str
    use: str
    variable: str | None
    step: str
    consequence: str
    at: Span
    defined: Span | None
    released: Span | None
    obtained: Span | None


class SteppedWithoutSignal(Message):
    """A role steps past a stage that nothing has signalled.

    A step does not signal. Copies (`tma.load`, `cp.async`) signal by themselves when they complete; everything else needs an
    explicit signal: `mma.commit(p.producer_mbar(stage))`, `arrive(p.consumer_mbar(stage))`.
    """

    code = "E0337"
    title = "the stage of `{pipeline}` is stepped past without a signal"
    labels = (primary("at", "steps on, but nothing has signalled"), secondary("obtained", "waited for here"))
    note = "{consequence}"
    help = "write `{signal}` before this"
    edits = (add_line_above("at", "{signal}"),)
    pipeline: str
    consequence: str
    signal: str
    at: Span
    obtained: Span | None


class SteppedAfterLoop(Message):
    """A stage is waited for in a loop, but stepped past only after it: each iteration but the last waits for the same stage."""

    code = "E0338"
    title = "the stage of `{pipeline}` is waited for in every iteration, but stepped past only after the loop"
    labels = (
        primary("at", "waited for in each iteration"),
        secondary("loop", "each iteration of this loop must step past what it waits for"),
        secondary("released", "stepped past only after the loop"),
    )
    note = "{consequence}"
    help = "move `{step}` to the end of the loop body"
    pipeline: str
    step: str
    consequence: str
    at: Span
    loop: Span
    released: Span | None
