"""E04xx: which role may do what, and which of its threads."""

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
    """A role declares `consumes` for a pipeline and never obtains a stage of it: no slot is ever given back to the producer."""

    code = "E0404"
    title = "role `{role}` declares `consumes {pipeline}` but never takes a stage of it"
    labels = (primary("at", "declared by this role"),)
    note = "no slot is given back: the producer of `{pipeline}` blocks once all {stages} are full"
    help = "remove `consumes {pipeline}`, or obtain a stage with `{pipeline}.{call}()`"
    role: str
    pipeline: str
    call: str
    stages: str
    at: Span


class TwoProducers(Message):
    """Two roles fill the same pipeline.

    Each role counts the stages it fills by itself, so both would fill slot 0 first and wait for the same barrier phase.
    Give each producer a pipeline of its own.
    """

    code = "E0405"
    title = "pipeline `{pipeline}` has two producers: roles `{first}` and `{second}`"
    labels = (
        primary("at", "`{second}` fills `{pipeline}`, too"),
        secondary("other", "`{first}` fills `{pipeline}`"),
        secondary("declared", "declared here"),
    )
    note = "both roles fill slot 0 first: one tile overwrites the other, and the full barrier completes a phase too early"
    help = "declare a second pipeline for role `{second}`"
    pipeline: str
    first: str
    second: str
    at: Span
    other: Span
    declared: Span


class NoProducer(Message):
    """A pipeline is consumed, but no role fills it."""

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
    """A pipeline is filled, but no role takes its stages."""

    code = "E0407"
    title = "pipeline `{pipeline}` has no consumer"
    labels = (primary("at", "no role takes stages from this pipeline"), secondary("producer", "role `{role}` fills it"))
    note = "no slot is given back: role `{role}` blocks when it wants to fill stage number {blocked}"
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


class NeedsElect(Message):
    """A one-thread operation stands where every thread of a role with several warps runs.

    TMA copies, `mma` and `mma.commit` are issued by one thread. In a role of one warp the compiler elects that thread; in a
    larger role the kernel says which part one thread runs:

        with elect():
            tma.load(s.a, a[0, 0])
    """

    code = "E0409"
    title = "`{operation}` is issued by one thread, but all {threads} threads of role `{role}` are here"
    labels = (
        primary("at", "every thread of the role would issue it"),
        secondary("others", "the same holds here"),
        secondary("declared", "this role has {warps} warps"),
    )
    note = "{consequence}"
    help = "put it into a block `with elect():`"
    operation: str
    role: str
    threads: int
    warps: int
    consequence: str
    at: Span
    others: tuple[Span, ...]
    declared: Span


class RoleWideInElect(Message):
    """An operation of the whole role stands inside `with elect():`, where one thread runs.

    Obtaining and releasing a stage, `arrive`, `store`, `write` and reading tiles into registers involve every thread of the
    role: each one keeps its own count of stages, holds its own part of a tile, or has to arrive on the barrier.
    """

    code = "E0410"
    title = "{operation} takes every thread of role `{role}`, but only one thread runs here"
    labels = (primary("at", "reached by one thread"), secondary("guard", "one elected thread runs this block"))
    note = "{consequence}"
    help = "move it out of the `elect()` block"
    operation: str
    role: str
    consequence: str
    at: Span
    guard: Span | None


class RoleWideInGuard(Message):
    """An operation of the whole role stands in a branch that only some of its threads take.

    The condition depends on the thread (`lane_id()`, `role_thread()`, `role_warp()` or a value computed from them). Obtaining
    and releasing a stage, `store`, `write` and reading tiles into registers must be reached by all threads together.
    """

    code = "E0411"
    title = "{operation} takes every thread of role `{role}`, but only some take this branch"
    labels = (primary("at", "reached by some threads only"), secondary("guard", "this differs between the threads of the role"))
    note = "{consequence}"
    help = "move it out of the branch"
    operation: str
    role: str
    consequence: str
    at: Span
    guard: Span | None


class OneThreadInGuard(Message):
    """A one-thread operation stands in a branch taken by threads that the compiler cannot count down to one.

    TMA copies, `mma` and `mma.commit` are issued by one thread, and a commit covers only the MMAs of the thread that issues
    it. `with elect():` picks the same thread each time; a guard such as `lane_id() == 0` picks one per warp.
    """

    code = "E0412"
    title = "`{operation}` is issued by one thread, but this branch picks its threads by `{condition}`"
    labels = (primary("at", "issued by each thread that gets here"), secondary("guard", "picks the threads"))
    note = "{consequence}"
    help = "write `with elect():` in place of the condition"
    operation: str
    condition: str
    consequence: str
    at: Span
    guard: Span | None


class ArriveInUnknownGuard(Message):
    """`arrive()` stands in a branch whose number of threads is not known when the kernel is compiled.

    The barrier completes after a fixed number of arrivals. `if lane_id() < N:` with a constant N gives N arrivals per warp;
    of other conditions on the thread the compiler does not know how many threads pass.
    """

    code = "E0413"
    title = "how many threads of role `{role}` arrive on `{stage}` is not known"
    labels = (primary("at", "each thread that gets here arrives"), secondary("guard", "passed by an unknown number of threads"))
    note = (
        "with fewer arrivals than the barrier expects the producer of `{pipeline}` waits for ever, with more it goes on too early"
    )
    help = "write the condition as `lane_id() < N` with a constant N"
    role: str
    stage: str
    pipeline: str
    at: Span
    guard: Span | None


class NestedElect(Message):
    """`with elect():` stands where not all threads of the role run.

    Electing a thread is an agreement among all threads of a warp (`elect.sync`); those that took another branch never join it.
    """

    code = "E0414"
    title = "`elect()` needs all threads of role `{role}`, but {found}"
    labels = (primary("at", "elects among all threads"), secondary("guard", "narrows the threads"))
    note = "the threads that are not here never join the election: the warp hangs"
    help = "{fix}"
    role: str
    found: str
    fix: str
    at: Span
    guard: Span | None


class TensorMemoryReader(Message):
    """A role that reads or writes a tile in tensor memory has a number of warps that is not a multiple of 4.

    Tensor memory has 128 lanes; each warp reaches only the quarter given by its number modulo 4, so four warps together read
    an accumulator.
    """

    code = "E0415"
    title = "role `{role}` {verb} tensor memory with {warps} instead of a multiple of 4"
    labels = (primary("at", "{done} tensor memory here"), secondary("declared", "declared with {warps}"))
    note = "a warp reaches 32 of the 128 lanes: the other rows of the tile would never be {word}"
    help = "declare the role with `warps=4`"
    role: str
    warps: str
    verb: str
    done: str
    word: str
    at: Span
    declared: Span


class NotWarpgroups(Message):
    """A role that multiplies in registers has a number of warps that is not a multiple of 4.

    `wgmma` is issued by the four warps of a warpgroup together; each holds a quarter of the accumulator's rows in its registers.
    """

    code = "E0441"
    title = "role `{role}` holds accumulator `{accumulator}` with {warps} instead of a multiple of 4"
    labels = (primary("at", "an accumulator in registers"), secondary("declared", "declared with {warps}"))
    note = "four warps multiply together, and each holds 16 rows of every 64"
    help = "declare the role with `warps={fitting}`"
    role: str
    accumulator: str
    warps: str
    fitting: int
    at: Span
    declared: Span


class FillsConsumerStage(Message):
    """A stage obtained for reading is written, by a TMA load, a `write` or as the accumulator of an MMA.

    Its producer owns what is in the slot; other consumers may be reading it. Fill a stage obtained with `produce()` or
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


class ReadsProducerStage(Message):
    """A stage obtained for filling is read.

    While the producer holds the slot its contents are undefined: a TMA load or an MMA into it may still be running, and only
    the full barrier tells when it is done. Read from a stage obtained with `consume()`.
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
    note = "this waits for the other barrier of `{pipeline}`: the role goes on before a slot is its own"
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

    Draining is the producer's last wait: until the consumers gave back every stage it filled. A role that does not declare
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


class DiffersBetweenThreads(Message):
    """A value that differs between the threads of a role stands where all of them need the same.

    The place of a tile, and a number that a whole tile is combined with, belong to the tile and not to a thread: which thread
    works on which elements, and which one issues a copy, is the compiler's choice. `lane_id()`, `role_thread()`, `role_warp()` and what
    is computed from them, or assigned where only some threads pass, may guard an `arrive()` or choose a branch.
    """

    code = "E0420"
    title = "{what} differs between the threads of the role"
    labels = (primary("at", "not the same in every thread"), secondary("operation", "all threads must agree here"))
    note = "which thread works on which part of the tile is not defined, so neither is the result"
    what: str
    at: Span
    operation: Span
