"""E032x: each sub-stage of a RolePipeline's stage is waited for once and signalled once before the step."""

from pipec.diag.message import Message, add_line_above, primary, secondary
from pipec.source import Span
from pipec.vocabulary import Side


class SubStageRange(Message):
    """A sub-stage index is out of range.

    `RolePipeline(stages=n, producer_sub_stages=p, consumer_sub_stages=c)` has n * p producer barriers and n * c consumer barriers.
    The sub-stage of `acquire`, `release`, `release_no_step` and `consumer_mbar` is below c; that of `wait` and `producer_mbar`
    below p.
    """

    code = "E0320"
    title = "`{operation}[{index}]`: `{pipeline}` has {count}"
    labels = (primary("at", "there is no sub-stage {index}: {last}"), secondary("declared", "declared with {count}"))
    note = "the barrier at this index belongs to another stage, or to none: its phases would belong to another hand-over"
    operation: str
    pipeline: str
    index: int
    count: str
    last: str
    at: Span
    declared: Span


class NoSubStages(Message):
    """An operation is given a sub-stage, but does not take one.

    Only `acquire`, `wait`, `release`, `release_no_step`, `producer_mbar`, `consumer_mbar` and `index` of a RolePipeline work on a
    sub-stage. `commit` and `commit_mma` signal sub-stage 0; `producer_mbar[sub]().arrive()` signals any other.
    """

    code = "E0321"
    title = "`{operation}` takes no sub-stage"
    labels = (primary("at", "a sub-stage is given here"),)
    help = "write `{signature}`"
    operation: str
    signature: str
    at: Span


class NothingObtained(Message):
    """A stage is signalled, stepped past or used before the role waited for it.

    The producer of a RolePipeline obtains a stage with `acquire()`, the consumer with `wait()`; everything that follows, up to the
    step, refers to that stage.
    """

    code = "E0322"
    title = "`{operation}` of `{pipeline}`, but the role holds no {side} stage of it"
    labels = (primary("at", "there is no {side} stage here: the role {reason}"),)
    note = "a {side} that does not wait signals a slot that the other side is still using"
    help = "{instead}"
    edits = (add_line_above("at", "{call}"),)
    call: str | None
    instead: str
    operation: str
    pipeline: str
    side: Side
    reason: str
    at: Span


class SubStageNotSignalled(Message):
    """A stage is stepped past although one of its sub-stages has not been signalled.

    Every barrier of the stage must complete once per round of the ring. The producer signals with `commit()`, `commit_mma()` or
    `producer_mbar[sub]().arrive()`, the consumer with `release[sub]()` or `release_no_step[sub]()`.

        s.wait()
        s.release_no_step[0]()
        s.release[1]()              # the last one also steps
    """

    code = "E0323"
    title = "sub-stage {missing} of `{pipeline}` is not {verb} before the step"
    labels = (
        primary("at", "steps on, but nothing has signalled sub-stage {missing}"),
        secondary("given", "signals another sub-stage"),
        secondary("obtained", "stage obtained here"),
    )
    note = "{waiter} waits on barrier {missing} of this stage for ever"
    help = "add `{call}` before this"
    edits = (add_line_above("at", "{call}"),)
    pipeline: str
    missing: str
    verb: str
    waiter: str
    call: str
    at: Span
    given: tuple[Span, ...]
    obtained: Span | None


class SubStageNotAwaited(Message):
    """A stage is stepped past although one of its sub-stages has not been waited for.

    The other side signals every sub-stage. One that is not waited for may still be in use when the role continues, and in the next
    round of the ring the wait sees the phase of the previous round.
    """

    code = "E0324"
    title = "sub-stage {missing} of `{pipeline}` is not waited for before the step"
    labels = (
        primary("at", "steps on, but nothing has waited for sub-stage {missing}"),
        secondary("awaited", "waits for another sub-stage"),
    )
    note = "the {other} may still be working on this part of the stage when the role steps on"
    help = "call `{pipeline}.{wait}[{missing}]()` before this"
    edits = (add_line_above("at", "{pipeline}.{wait}[{missing}]()"),)
    pipeline: str
    missing: str
    other: str
    wait: str
    at: Span
    awaited: tuple[Span, ...]


class SubStageAwaitedTwice(Message):
    """The same sub-stage of a stage is waited for twice.

    The second wait is for the same barrier and the same phase, though it was meant for the next stage. A step is missing between the
    two.
    """

    code = "E0325"
    title = "sub-stage {sub_stage} of `{pipeline}` is waited for twice without a step"
    labels = (primary("at", "waited for again"), secondary("first", "waited for here"))
    note = "without a step in between, both waits refer to the same stage: {consequence}"
    help = "{fix}"
    sub_stage: int
    pipeline: str
    consequence: str
    fix: str
    at: Span
    first: Span | None


class SubStageOnOneBranch(Message):
    """A sub-stage is waited for on some paths only.

    The code that follows uses the stage on every path. Wait for all sub-stages on each path, or before the branch or loop.
    """

    code = "E0326"
    title = "sub-stage {sub_stage} of `{pipeline}` is waited for on some paths only"
    labels = (
        primary("at", "waited for here"),
        secondary("branch", "some paths through this skip the wait, or repeat it"),
        secondary("obtained", "stage obtained here"),
    )
    note = "on the other paths the {other} may still be working on this part of the stage"
    help = "wait for all sub-stages in one place"
    sub_stage: int
    pipeline: str
    other: str
    at: Span
    branch: Span | None
    obtained: Span | None


class UsedBeforeWait(Message):
    """A tile is used before the wait for its sub-stage.

    `tiles[p.index[sub]()]` belongs to one sub-stage and may be used after the wait for it; `tiles[p.index()]` belongs to the
    whole stage and may be used after the waits for all of them.
    """

    code = "E0327"
    title = "`{tile}` is {use} before sub-stage {missing} of `{pipeline}` was waited for"
    labels = (primary("at", "{use} here"), secondary("awaited", "only this sub-stage was waited for"))
    note = "the {other} may still be working on it"
    help = "call `{pipeline}.{wait}[{missing}]()` before this, and not again before the step"
    tile: str
    use: str
    missing: str
    pipeline: str
    other: str
    wait: str
    at: Span
    awaited: tuple[Span, ...]


class SubStageCount(Message):
    """A RolePipeline is declared with an unsupported number of sub-stages or CTAs."""

    code = "E0328"
    title = "`{pipeline}` is declared with {what}={count}"
    labels = (primary("at", "{what} is {legal}"),)
    pipeline: str
    what: str
    count: int
    legal: str
    at: Span


class SubStageUnwritten(Message):
    """An accumulator that a sub-stage hands over may not have been written by an MMA.

    Where a single barrier hands over an accumulator that no MMA wrote, pipec makes it read as zero. With several producer sub-stages
    it does not: let an MMA write every accumulator on each path.
    """

    code = "E0330"
    title = "`{buffer}` may be handed over by `{pipeline}` without an MMA having written it"
    labels = (primary("at", "declared here"), secondary("declared", "declared with {count} producer sub-stages"))
    note = "the consumers read whatever the columns held before"
    help = "move the `mma` out of its branch or loop"
    buffer: str
    pipeline: str
    count: int
    at: Span
    declared: Span


class SubStageCopies(Message):
    """A TMA copy fills a stage whose producer side has several sub-stages.

    The bytes of a stage complete one barrier. Fill it through an InputTilePipeline, or declare one producer sub-stage.
    """

    code = "E0329"
    title = "`tma.load` fills a stage of `{pipeline}`, which has {count} producer sub-stages"
    labels = (primary("at", "its bytes complete one barrier"), secondary("declared", "declared with {count} producer sub-stages"))
    note = "the other barriers of the stage would never complete: the consumers wait for ever"
    help = "declare `{pipeline}` with `producer_sub_stages=1`, or give the tiles of each sub-stage a pipeline of their own"
    pipeline: str
    count: int
    at: Span
    declared: Span


class WrongSubStage(Message):
    """A tile that is selected by the index of a sub-stage belongs to that sub-stage: its signal says that the tile is filled, and its
    release that the tile may be filled again. A wait for another sub-stage of the same pipeline says nothing about it. A tile
    selected by the index of the whole stage (`p.index()`) belongs to all of them."""

    code = "E0339"
    title = "`{buffer}` is {used} under sub-stage {sub_stage} of `{pipeline}`, but belongs to sub-stage {other}"
    labels = (primary("at", "sub-stage {sub_stage} here"), secondary("first", "{other_used} under sub-stage {other} here"))
    note = "{consequence}"
    help = "use the index of one sub-stage in both places, and wait for that one"
    buffer: str
    pipeline: str
    used: str
    other_used: str
    sub_stage: int
    other: int
    consequence: str
    at: Span
    first: Span
