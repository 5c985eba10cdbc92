"""E04xx: which role may do what: declared pipelines, and sides."""

from pipec.diag.message import Message, primary, remove_line, secondary
from pipec.source import Span


class UndeclaredProducer(Message):
    """A role fills a pipeline that its header does not name after `produces`.

    The header is the contract between roles: from it the compiler derives how many arrivals complete a barrier.

        role load(warps=1) produces input:
    """

    code = "E0401"
    title = "role `{role}` produces `{pipeline}` without declaring it"
    labels = (
        primary("at", "a stage of `{pipeline}` is obtained for filling here"),
        secondary("declared", "this role declares {declares}"),
    )
    help = "write `produces {pipeline}` in the header of role `{role}`"
    role: str
    pipeline: str
    declares: str
    at: Span
    declared: Span


class UndeclaredConsumer(Message):
    """A role reads a pipeline that its header does not name after `consumes`.

    The header is the contract between roles: from it the compiler derives how many arrivals free a slot.

        role mma(warps=1) consumes input produces output:
    """

    code = "E0402"
    title = "role `{role}` consumes `{pipeline}` without declaring it"
    labels = (
        primary("at", "a stage of `{pipeline}` is obtained for reading here"),
        secondary("declared", "this role declares {declares}"),
    )
    help = "write `consumes {pipeline}` in the header of role `{role}`"
    role: str
    pipeline: str
    declares: str
    at: Span
    declared: Span


class NeverProduces(Message):
    """A role declares `produces` for a pipeline and never obtains a stage of it: nobody fills it, and its consumers wait for ever."""

    code = "E0403"
    title = "role `{role}` declares `produces {pipeline}` but never fills a stage of it"
    labels = (primary("at", "declared by this role"),)
    note = "the consumers of `{pipeline}` wait for its first stage for ever"
    help = "remove `produces {pipeline}`, or obtain a stage with `{pipeline}.{call}()`"
    role: str
    pipeline: str
    call: str
    at: Span


class NeverConsumes(Message):
    """A role declares `consumes` for a pipeline and never obtains a stage of it: no slot is ever released to the producer."""

    code = "E0404"
    title = "role `{role}` declares `consumes {pipeline}` but never takes a stage of it"
    labels = (primary("at", "declared by this role"),)
    note = "no slot is released: the producer of `{pipeline}` blocks once {stages} full"
    help = "remove `consumes {pipeline}`, or obtain a stage with `{pipeline}.{call}()`"
    role: str
    pipeline: str
    call: str
    stages: str
    at: Span


class TwoProducers(Message):
    """Two roles fill the same pipeline, but do not each fill tiles of their own.

    Each role counts the stages that it fills itself, so both fill slot 0 first, then slot 1. A stage is full when both have given their
    signals. So each tile of a stage is filled by one of them, in shared memory, by copies or by threads:

        ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
        role load(warps=1) produces ring:
            for k in range(steps):
                with ring.produce() as s:
                    tma.load(s.a, a[block.x * 128, k * 64])
        role convert(warps=4) produces ring:
            for k in range(steps):
                with ring.produce() as s:
                    write(s.b, cast[bf16](load(w[block.y * 64, k * 64], 64, 64)))

    A tile that both fill would be overwritten. Roles that take turns, one filling stage 0 and the other one stage 1, need a pipeline each,
    and a consumer waits for a stage of each. Tiles in tensor memory, and stages of a pair of CTAs, have one producer; so have pipelines
    without tiles.
    """

    code = "E0405"
    title = "pipeline `{pipeline}` has two producers: roles `{first}` and `{second}`"
    labels = (
        primary("at", "`{second}` also fills `{pipeline}`"),
        secondary("other", "`{first}` fills `{pipeline}`"),
        secondary("declared", "declared here"),
    )
    note = "both roles take slot 0 first: {consequence}"
    help = "declare a second pipeline for role `{second}`, with the tiles that it fills"
    consequence: str
    pipeline: str
    first: str
    second: str
    at: Span
    other: Span
    declared: Span


class NoProducer(Message):
    """A pipeline is consumed, but no role fills it, so its first stage never becomes full.

    Either the role that fills it does not say so (`role load(warps=1) produces input:`), or the pipeline is left over.
    """

    code = "E0406"
    title = "pipeline `{pipeline}` has no producer"
    labels = (primary("at", "no role fills this pipeline"), secondary("consumer", "role `{role}` waits for its stages"))
    note = "role `{role}` waits for the first stage for ever"
    help = "add `produces {pipeline}` to the role that fills it"
    pipeline: str
    role: str
    at: Span
    consumer: Span


class NoConsumer(Message):
    """A pipeline is filled, but no role takes its stages, so none becomes free again.

    The producer gets as far as the ring has stages, and then waits for ever.
    """

    code = "E0407"
    title = "pipeline `{pipeline}` has no consumer"
    labels = (primary("at", "no role takes stages from this pipeline"), secondary("producer", "role `{role}` fills it"))
    note = "no slot is released: role `{role}` blocks when it tries to fill stage number {blocked}"
    help = "add `consumes {pipeline}` to the role that reads it"
    pipeline: str
    role: str
    blocked: int
    at: Span
    producer: Span


class UnusedPipeline(Message):
    """No role produces or consumes the pipeline, yet its tiles and barriers would take shared or tensor memory."""

    code = "E0408"
    title = "pipeline `{pipeline}` is never used"
    labels = (primary("at", "no role produces or consumes it"),)
    help = "remove it"
    edits = (remove_line("at"),)
    pipeline: str
    at: Span


class FillsConsumerStage(Message):
    """A stage obtained for reading is written, by a TMA load, a `write` or as the accumulator of an MMA.

    The producer owns the contents of the slot; other consumers may be reading it. Fill a stage obtained with `produce()` or
    `acquire_producer()`.
    """

    code = "E0416"
    title = "{operation} fills stage `{stage}` of `{pipeline}`, which was obtained for reading"
    labels = (primary("at", "filled here"), secondary("obtained", "obtained as a consumer here"))
    note = "a consumer has no slot to fill: the full barrier is not waiting for this, and the tile in the slot is overwritten"
    help = "obtain the stage with `{suggestion}`"
    operation: str
    stage: str
    pipeline: str
    suggestion: str
    at: Span
    obtained: Span | None


class WritesWhatOthersUse(Message):
    """A role writes a tile of a stage that several roles have obtained for reading.

    A consumer of a RolePipeline may modify an accumulator before it gives it back. All consumers hold the stage at the same time, so that
    this is safe only where the tile is used by no other one: nothing orders its reads before or after the write.
    """

    code = "E0424"
    title = "role `{role}` writes `{tile}` while role `{other}` may use it"
    labels = (primary("at", "written here"), secondary("use", "used here, by another consumer of `{pipeline}`"))
    note = "both wait for the same signal: `{other}` may find what was there before, what is written, or some of both"
    help = "let one role do both, or let `{role}` fill a tile that it hands over through a pipeline of its own"
    role: str
    other: str
    tile: str
    pipeline: str
    at: Span
    use: Span


class ReadsProducerStage(Message):
    """A stage obtained for filling is read.

    While the producer holds the slot its contents are undefined: a TMA load or an MMA into it may still be running, and only
    the full barrier says when it is complete. Read from a stage obtained with `consume()`.
    """

    code = "E0417"
    title = "{operation} reads stage `{stage}` of `{pipeline}`, which was obtained for filling"
    labels = (primary("at", "read here"), secondary("obtained", "obtained as a producer here"))
    note = "nothing waits for the full barrier here: the slot still holds an older tile, or half of the new one"
    help = "obtain the stage with `{suggestion}`"
    operation: str
    stage: str
    pipeline: str
    suggestion: str
    at: Span
    obtained: Span | None


class OtherWayRound(Message):
    """A role declares one side of a pipeline and obtains stages of the other side.

    `produces` goes with `produce()` and `acquire_producer()`: wait for a free slot and fill it. `consumes` goes with `consume()` and
    `acquire_consumer()`: wait for a full slot and read it. A role that waits on the wrong barrier hangs or reads too early.
    """

    code = "E0418"
    title = "role `{role}` declares `{declares} {pipeline}` but obtains its stages {use}"
    labels = (primary("at", "obtained {use} here"), secondary("declared", "this role declares `{declares} {pipeline}`"))
    note = "this waits for the other barrier of `{pipeline}`: the role continues before it owns a slot"
    help = "obtain the stage with `{pipeline}.{call}()`, or declare `{clause} {pipeline}`"
    role: str
    pipeline: str
    declares: str
    use: str
    clause: str
    call: str
    at: Span
    declared: Span


class DrainsForeign(Message):
    """A role drains a pipeline that it does not fill.

    Draining is the producer's last wait, until the consumers have released every stage that it filled. A role that does not declare
    `produces` for the pipeline keeps no count of its stages.
    """

    code = "E0419"
    title = "role `{role}` drains `{pipeline}`, which it does not produce"
    labels = (
        primary("at", "only the role that fills the stages can wait for their return"),
        secondary("declared", "this role declares {declares}"),
    )
    help = "move the drain to the role that `produces {pipeline}`"
    role: str
    pipeline: str
    declares: str
    at: Span
    declared: Span


class SkipsForeign(Message):
    """A role skips a stage of a pipeline that it does not consume.

    `skip()` moves a consumer past a stage that another consumer takes. A role that does not declare `consumes` for the pipeline keeps no
    count of its stages.
    """

    code = "E0421"
    title = "role `{role}` skips a stage of `{pipeline}`, which it does not consume"
    labels = (
        primary("at", "only a consumer of `{pipeline}` has a next stage to go past"),
        secondary("declared", "this role declares {declares}"),
    )
    help = "remove this line"
    edits = (remove_line("at"),)
    role: str
    pipeline: str
    declares: str
    at: Span
    declared: Span


class SkippedByAll(Message):
    """The only consumer of a pipeline skips one of its stages.

    Consumers that take turns share the stages of a pipeline: each stage is taken by one of them, and the others skip it. A stage that
    the only consumer skips is taken by nobody, so the slot is never given back.

        role even(warps=4) consumes ring:
            for i in range(n):
                with ring.consume() as s:
                    store(y[2 * i * 64, 0], s.x)
                ring.skip()                         # the stage that `odd` takes
        role odd(warps=4) consumes ring:
            for i in range(n):
                ring.skip()                         # the stage that `even` takes
                with ring.consume() as s:
                    store(y[(2 * i + 1) * 64, 0], s.x)
    """

    code = "E0422"
    title = "role `{role}` skips a stage of `{pipeline}`, which no other role consumes"
    labels = (primary("at", "nobody takes this stage"), secondary("declared", "declared here with {stages}"))
    note = "the slot of a stage that is skipped stays full for ever, and its producer blocks when it comes to that slot again"
    help = "take the stage, `with {pipeline}.consume():`, or declare another role that `consumes {pipeline}`"
    role: str
    pipeline: str
    stages: str
    at: Span
    declared: Span


class TakesEveryStage(Message):
    """One consumer of a pipeline takes all of its stages, while another one skips some.

    Either all consumers of a pipeline take every stage, and the empty barrier counts the arrivals of all of them. Or they take turns: each
    stage is taken by one of them and skipped by the others, and the empty barrier counts the arrivals of one. A role that never skips
    arrives for stages that another one takes as well.
    """

    code = "E0423"
    title = "role `{role}` takes every stage of `{pipeline}`, of which role `{other}` skips some"
    labels = (primary("at", "this role never skips"), secondary("skipped", "role `{other}` skips here"))
    note = (
        "a stage that both take is given back twice: the empty barrier counts the second arrival towards the next phase, and the producer "
        "fills a slot that is still read"
    )
    help = "skip in role `{role}` what role `{other}` takes, `{pipeline}.skip()`, or let both take every stage"
    role: str
    pipeline: str
    other: str
    at: Span
    skipped: Span
