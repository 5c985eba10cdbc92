"""E05xx: a stage's barrier receives exactly the arrivals and bytes that it waits for."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class TileNeverFilled(Message):
    """A tile of the payload is not filled before the stage is handed over.

    The consumers are told that the whole stage is ready. Load (`tma.load`) or `write` every tile of the payload, once, on
    every path, or remove the tile from the payload.

        with input.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])      # without this, s.b holds what an older stage left there
    """

    code = "E0501"
    title = "tile `{tile}` of stage `{stage}` is never filled"
    labels = (
        primary("at", "a stage of {total} bytes is handed over, but only {filled} bytes of it are filled"),
        secondary("declared", "`{tile}` is declared here, {bytes} bytes"),
        secondary("others", "filled"),
    )
    note = "the consumers of `{pipeline}` read whatever the slot held before"
    help = "add `{load}`"
    stage: str
    pipeline: str
    tile: str
    bytes: int
    total: int
    filled: int
    load: str | None
    at: Span
    declared: Span
    others: tuple[Span, ...]


class TileFilledOnOneBranch(Message):
    """A tile of the payload is filled on one side of a branch only.

    The full barrier waits for a number of bytes that is fixed per stage. The path without the load brings too few: the barrier
    never completes, or it completes with the bytes of a later stage. Threads that `write` signal it on either path: without the
    write, what an older stage left in the tile is taken for what this one holds.
    """

    code = "E0502"
    title = "tile `{tile}` of stage `{stage}` is filled on only one branch"
    labels = (
        primary("fill", "fills {bytes} bytes"),
        secondary("branch", "this decides whether it runs"),
        secondary("obtained", "the stage needs it on every path"),
    )
    note = "{consequence}"
    help = "fill `{tile}` on both paths, or move the branch around the whole stage"
    stage: str
    tile: str
    bytes: int
    consequence: str
    fill: Span
    branch: Span | None
    obtained: Span | None


class TileLoadedTwice(Message):
    """A tile of the payload is loaded more than once into the same stage.

    Both copies run at the same time and write the same bytes in an unknown order, and more bytes arrive than the stage has.
    """

    code = "E0503"
    title = "tile `{tile}` of stage `{stage}` is loaded twice"
    labels = (
        primary("at", "loaded again here"),
        secondary("first", "loaded here"),
        secondary("obtained", "one stage takes each tile once"),
    )
    note = "{issued} bytes arrive for a tile of {bytes}: the two copies overwrite each other in an unknown order"
    help = "remove one of the loads, or obtain a stage for each"
    stage: str
    tile: str
    bytes: int
    issued: int
    at: Span
    first: Span
    obtained: Span | None


class TileLoadedInLoop(Message):
    """A tile of the payload is loaded in a loop, into a stage obtained before the loop.

    The number of bytes that arrive depends on the number of iterations, while the full barrier waits for one tile. Obtain a
    stage in each iteration.
    """

    code = "E0504"
    title = "tile `{tile}` of stage `{stage}` is loaded in every iteration of a loop"
    labels = (
        primary("at", "loaded in each iteration"),
        secondary("loop", "this loop runs {times}"),
        secondary("obtained", "one stage, obtained before the loop"),
    )
    note = "the full barrier waits for {bytes} bytes and receives {bytes} per iteration: it completes out of step, or never"
    help = "obtain the stage inside the loop"
    stage: str
    tile: str
    bytes: int
    times: str
    at: Span
    loop: Span
    obtained: Span | None


class MixedFill(Message):
    """One tile of a stage is filled in two ways, for example by TMA and by threads, or a stage by an MMA and in another way.

    A TMA copy completes the full barrier by bytes, a `write` by arrivals of threads, an MMA by a commit. The barrier counts the
    same for each stage of its loop: one tile may be loaded by TMA and another one written by threads, but for a tile that is
    loaded on one path and written on the other there would be bytes too few. Obtain the stage on each path:

        if k < whole:
            with p.produce() as s:
                tma.load(s.x, x[k * 64, 0])
        else:
            with p.produce() as s:
                write(s.x, fill(0.0, f32, 64, 32))

    A stage that an MMA fills is filled in one way only: use a separate pipeline for each.
    """

    code = "E0505"
    title = "stage `{stage}` of `{pipeline}` is filled in two ways"
    labels = (primary("at", "filled by {second}"), secondary("first", "filled by {one}"), secondary("obtained", "obtained here"))
    note = "{consequence}"
    help = "{instead}"
    stage: str
    pipeline: str
    one: str
    second: str
    consequence: str
    instead: str
    at: Span
    first: Span
    obtained: Span | None


class SignalsDiffer(Message):
    """A role signals the same side of a pipeline in two ways, or with two numbers of arrivals.

    A barrier completes after a number of arrivals that is fixed when it is initialised: one for TMA bytes or a commit, one per
    thread for arrivals. Every stage of a pipeline must therefore be signalled in the same way.
    """

    code = "E0507"
    title = "role `{role}` signals `{pipeline}` in two ways: {one} and {second}"
    labels = (
        primary("at", "{second}"),
        secondary("first", "{one}"),
        secondary("declared", "one barrier per stage, with one number of arrivals"),
    )
    note = "the {barrier} barrier expects {expected}: with {found} it completes too early or never"
    role: str
    pipeline: str
    one: str
    second: str
    barrier: str
    expected: str
    found: str
    at: Span
    first: Span
    declared: Span


class SignalDoesNotWait(Message):
    """An explicit signal that does not wait for what the role does with the stage.

    `arrive()` signals at once; it does not wait for an MMA or a TMA store that still reads the stage. `mma.commit` waits for
    MMAs, not for threads that read, nor for TMA loads. Leave the signal to `release()`, which gives the right one.
    """

    code = "E0508"
    title = "`{signal}` does not wait for {work} on stage `{stage}`"
    labels = (primary("at", "signals {when}"), secondary("use", "{done}"), secondary("obtained", "obtained here"))
    note = "{consequence}"
    help = "{instead}"
    edits = (replace("at", "{edit}"),)
    instead: str
    edit: str | None
    signal: str
    work: str
    stage: str
    when: str
    done: str
    consequence: str
    at: Span
    use: Span
    obtained: Span | None


class NoArrival(Message):
    """`arrive()` is under a condition that is false for every lane, so nobody arrives and the stage is never given back.

    Lanes are numbered from 0 to 31 in each warp:

        if lane_id() == 0: s.arrive()       # right: one arrival per warp
        if lane_id() == 32: s.arrive()      # wrong: no lane has this number
    """

    code = "E0509"
    title = "no thread arrives on stage `{stage}`"
    labels = (primary("at", "never reached"), secondary("guard", "no thread passes this: lanes are numbered 0 to 31"))
    note = "the producer of `{pipeline}` waits for this slot for ever"
    stage: str
    pipeline: str
    at: Span
    guard: Span | None


class TileFilledInLoopOnly(Message):
    """A tile of the payload is filled in a loop only, and the loop may run zero times.

    Then the stage is handed over with whatever the slot held before. Fill the tile once outside the loop, or move the loop around
    the whole stage.
    """

    code = "E0510"
    title = "tile `{tile}` of stage `{stage}` is filled only if a loop runs"
    labels = (
        primary("at", "fills the tile"),
        secondary("loop", "this loop may run zero times"),
        secondary("obtained", "the stage needs it on every path"),
    )
    note = "when the loop does not run, the consumers of `{pipeline}` read whatever the slot held before"
    help = "fill `{tile}` outside the loop"
    stage: str
    pipeline: str
    tile: str
    at: Span
    loop: Span
    obtained: Span | None


class BufferOfTwoPipelines(Message):
    """A buffer that the kernel declares is indexed by the stages of two pipelines.

    A slot of the buffer belongs to the stage whose index selects it, from its acquire to its release. Two pipelines are independent
    of each other: while one hands over a slot, the other may be filling or reading the same slot. Declare a buffer for each.
    """

    code = "E0511"
    title = "buffer `{buffer}` is handed over by two pipelines: `{one}` and `{second}`"
    labels = (
        primary("at", "indexed by a stage of `{second}`"),
        secondary("first", "indexed by a stage of `{one}`"),
        secondary("declared", "declared here"),
    )
    note = "neither pipeline waits for the other's roles: one fills a slot of `{buffer}` that the other is still using"
    help = "declare a second buffer for `{second}`"
    buffer: str
    one: str
    second: str
    at: Span
    first: Span
    declared: Span


class StatedBytes(Message):
    """`expect_bytes(n)` states a number of bytes that differs from what the loads into the stage bring.

    The compiler derives the bytes from the loads and expects them at the acquire; `expect_bytes` only states what the author expects.
    """

    code = "E0521"
    title = "`expect_bytes` states {stated} bytes for stage `{stage}`, but its loads bring {derived}"
    labels = (primary("at", "states {stated} bytes"), secondary("loads", "loaded here"), secondary("obtained", "obtained here"))
    note = "a full barrier that expects more or fewer bytes than arrive completes too early or never"
    help = "write `{stage}.expect_bytes({derived})`, or remove it"
    edits = (replace("at", "{stage}.expect_bytes({derived})"),)
    stage: str
    stated: int
    derived: int
    at: Span
    loads: tuple[Span, ...]
    obtained: Span | None


class StatedArrivals(Message):
    """`init_barriers(p, c)` or `init_mbars(p, c)` states arrival counts that differ from those derived from the roles.

    The full barrier of a stage completes after the producer's arrivals: one for TMA bytes or a commit of MMAs, one per thread that
    writes. The empty barrier completes after the consumers' arrivals, counted in the same way.
    """

    code = "E0522"
    title = "`{call}` states {stated} for `{pipeline}`, but its roles give {derived}"
    labels = (primary("at", "states {stated}"), secondary("declared", "declared here"), secondary("roles", "{part}"))
    note = "a barrier that waits for more or fewer arrivals than it gets completes too early or never"
    help = "write `{pipeline}.{call}({producer}, {consumer})`, or remove it"
    edits = (replace("at", "{pipeline}.{call}({producer}, {consumer})"),)
    pipeline: str
    call: str
    stated: str
    derived: str
    part: str
    producer: int
    consumer: int
    at: Span
    declared: Span
    roles: tuple[Span, ...]


class TurnsDiffer(Message):
    """Consumers that take turns give a stage back by different numbers of arrivals.

    Each stage is taken by one of them, so the empty barrier counts the arrivals of one. It has one count for all stages: the roles must
    have as many warps, and use the stage in the same way.
    """

    code = "E0512"
    title = "roles `{role}` and `{other}` take turns at `{pipeline}`, but give its stages back by {gives} and {other_gives}"
    labels = (
        primary("at", "gives {gives} for a stage"),
        secondary("others", "gives {other_gives}"),
        secondary("declared", "declared here"),
    )
    note = "the empty barrier waits for one number of arrivals: with the other a phase ends too early, or never"
    help = "give both roles as many warps, and let both use the stage in the same way"
    role: str
    other: str
    pipeline: str
    gives: str
    other_gives: str
    at: Span
    others: Span
    declared: Span
