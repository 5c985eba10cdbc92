"""The operations of the language, one row each: who may call it, what it waits for and signals, what it does to a stage.

The names are those of the pipeline types' own pages (S0 to S4). The reference documentation prints this table.
"""

from pipec.record import record


@record
class Operation:
    """`receivers` are pipeline types, stage kinds or "" for free operations; `action` and `side`/`form` tell sema what to do."""

    name: str
    receivers: tuple[str, ...]
    signature: str
    action: str
    side: str | None = None
    form: str | None = None
    waits: str = "-"
    signals: str = "-"
    stage: str = "-"
    page: str = "-"
    document: str = ""
    sub_stages: str | None = None  # whose sub-stages `name[sub](...)` picks: "producer", "consumer" or "both"


RING = "ProducerConsumerPipeline"
INPUT = "InputTilePipeline"
OUTPUT = "OutputTilePipeline"
ROLE = "RolePipeline"
BARRIER = "barrier"
PRODUCER = "producer stage"
CONSUMER = "consumer stage"
PRODUCER_VIEW = "producer view"
CONSUMER_VIEW = "consumer view"
PER_K_VIEW = "per-K view"
EPILOGUE_STAGE = "per-K epilogue stage"
# What `View.side` says.
VIEWS = {"producer": PRODUCER_VIEW, "consumer": CONSUMER_VIEW, "per_k": PER_K_VIEW}

_FULL, _EMPTY = "full barrier", "empty barrier"

_PIPELINE = (
    Operation(
        "produce",
        (RING, INPUT, OUTPUT),
        "produce()",
        "acquire",
        "producer",
        "scoped",
        _EMPTY,
        "full, at the end",
        "obtains; the `with` releases",
        "S0",
        "holds the next free stage for the length of a `with`",
    ),
    Operation(
        "consume",
        (RING, INPUT, OUTPUT),
        "consume()",
        "acquire",
        "consumer",
        "scoped",
        _FULL,
        "empty, at the end",
        "obtains; the `with` releases",
        "S0",
        "holds the next filled stage for the length of a `with`",
    ),
    Operation(
        "consume_explicit",
        (RING, INPUT),
        "consume_explicit()",
        "acquire",
        "consumer",
        "explicit",
        _FULL,
        "-",
        "obtains; the `with` steps only",
        "S0",
        "as consume, but the body signals itself with arrive()",
    ),
    Operation(
        "acquire_producer",
        (RING, INPUT),
        "acquire_producer()",
        "acquire",
        "producer",
        "linear",
        _EMPTY,
        "-",
        "obtains",
        "S0",
        "the next free stage, to be released by hand",
    ),
    Operation(
        "acquire_consumer",
        (RING, INPUT),
        "acquire_consumer()",
        "acquire",
        "consumer",
        "linear",
        _FULL,
        "-",
        "obtains",
        "S0",
        "the next filled stage, to be released by hand",
    ),
    Operation(
        "acquire_mma_linear",
        (OUTPUT,),
        "acquire_mma_linear()",
        "acquire",
        "producer",
        "linear",
        _EMPTY,
        "-",
        "obtains",
        "S3",
        "a free accumulator for the MMA role, to be released by hand",
    ),
    Operation(
        "acquire_epilogue_linear",
        (OUTPUT,),
        "acquire_epilogue_linear()",
        "acquire",
        "consumer",
        "linear",
        _FULL,
        "-",
        "obtains",
        "S3",
        "a finished accumulator for the epilogue, to be released by hand",
    ),
    Operation(
        "acquire_for_mma",
        (OUTPUT,),
        "acquire_for_mma()",
        "acquire",
        "producer",
        "linear",
        _EMPTY,
        "-",
        "obtains",
        "S3",
        "a free accumulator, given back with release_from_mma(stage)",
    ),
    Operation(
        "release_from_mma",
        (OUTPUT,),
        "release_from_mma(stage)",
        "release_stage",
        "producer",
        None,
        "-",
        "full, when the MMAs finish",
        "releases",
        "S3",
        "commits the MMAs and steps",
    ),
    Operation(
        "acquire_for_epilogue",
        (OUTPUT,),
        "acquire_for_epilogue()",
        "acquire",
        "consumer",
        "linear",
        _FULL,
        "-",
        "obtains",
        "S3",
        "a finished accumulator, given back with release_from_epilogue()",
    ),
    Operation(
        "release_from_epilogue",
        (OUTPUT,),
        "release_from_epilogue()",
        "release_current",
        "consumer",
        None,
        "-",
        "empty, every thread",
        "releases",
        "S3",
        "signals and steps",
    ),
    Operation(
        "drain_producer",
        (INPUT,),
        "drain_producer()",
        "drain",
        "producer",
        None,
        _EMPTY + " of every stage",
        "-",
        "-",
        "S2",
        "waits until every filled stage was given back",
    ),
    Operation(
        "init_barriers",
        (INPUT, OUTPUT),
        "init_barriers(producer_count, consumer_count)",
        "init",
        page="S2",
        document="states the arrival counts of the full and empty barriers; they are derived, and must be these",
    ),
    Operation(
        "get_pipeline",
        (OUTPUT,),
        "get_pipeline()",
        "underlying",
        page="S3",
        document="the pipeline itself, for `init_barriers`",
    ),
    Operation(
        "per_k",
        (OUTPUT,),
        "per_k()",
        "per_k",
        page="S3",
        document="a view whose stages are handed over after every K block, not once per tile",
    ),
    Operation(
        "produce",
        (PER_K_VIEW,),
        "produce()",
        "acquire",
        "producer",
        "scoped",
        _EMPTY,
        "full, at the end",
        "obtains; the `with` releases",
        "S3",
        "the accumulator of one K block",
    ),
    Operation(
        "consume",
        (PER_K_VIEW,),
        "consume()",
        "acquire",
        "consumer",
        "scoped",
        _FULL,
        "empty, every thread",
        "obtains; the `with` releases",
        "S3",
        "the finished accumulator of one K block",
    ),
    Operation(
        "per_k_epilogue",
        (OUTPUT,),
        "per_k_epilogue(input_pipeline)",
        "per_k_epilogue",
        "consumer",
        "scoped",
        _FULL + " of both",
        "empty of both, every thread",
        "obtains; the `with` releases",
        "S3",
        "holds an accumulator and the input stage that it was made of, whose scales the epilogue reads",
    ),
    Operation(
        "stage_stride_cols",
        (OUTPUT,),
        "stage_stride_cols",
        "property",
        page="S3",
        document="a constant: columns from one accumulator to the next",
    ),
    Operation("payload", (INPUT,), "payload", "property", page="S2", document="the tiles of all stages: `payload.a[s.stage()]`"),
    Operation(
        "num_group_stages", (INPUT,), "num_group_stages", "property", page="S2", document="a constant: stages / k_group_size"
    ),
    Operation(
        "k_group_size", (INPUT,), "k_group_size", "property", page="S2", document="a constant: tiles of each member in a stage"
    ),
    Operation(
        "producer",
        (INPUT, OUTPUT),
        "producer()",
        "view",
        "producer",
        page="S2",
        document="the producer's view: acquire(), drain()",
    ),
    Operation(
        "consumer", (INPUT, OUTPUT), "consumer()", "view", "consumer", page="S2", document="the consumer's view: acquire()"
    ),
    Operation(
        "acquire",
        (PRODUCER_VIEW,),
        "acquire()",
        "acquire",
        "producer",
        "scoped",
        _EMPTY,
        "full, at the end",
        "obtains; the `with` releases",
        "S2",
        "as produce()",
    ),
    Operation(
        "acquire",
        (CONSUMER_VIEW,),
        "acquire()",
        "acquire",
        "consumer",
        "scoped",
        _FULL,
        "empty, at the end",
        "obtains; the `with` releases",
        "S2",
        "as consume()",
    ),
    Operation(
        "acquire_stage",
        (PRODUCER_VIEW,),
        "acquire_stage()",
        "acquire",
        "producer",
        "linear",
        _EMPTY,
        "-",
        "obtains",
        "S2",
        "as acquire_producer()",
    ),
    Operation(
        "acquire_stage",
        (CONSUMER_VIEW,),
        "acquire_stage()",
        "acquire",
        "consumer",
        "linear",
        _FULL,
        "-",
        "obtains",
        "S2",
        "as acquire_consumer()",
    ),
    Operation(
        "drain",
        (PRODUCER_VIEW,),
        "drain()",
        "drain",
        "producer",
        None,
        _EMPTY + " of every stage",
        "-",
        "-",
        "S2",
        "as drain_producer()",
    ),
)

_STAGE = (
    Operation("index", (PRODUCER, CONSUMER), "index()", "index", page="S0", document="the stage number"),
    Operation("stage", (PRODUCER, CONSUMER), "stage()", "index", page="S2", document="the stage number"),
    Operation(
        "mbar",
        (PRODUCER, CONSUMER),
        "mbar()",
        "barrier",
        page="S0",
        document="the barrier this side completes: full for a producer, empty for a consumer",
    ),
    Operation("barrier", (PRODUCER,), "barrier()", "barrier", page="S2", document="as mbar()"),
    Operation(
        "expect_bytes",
        (PRODUCER,),
        "expect_bytes(bytes)",
        "expect_bytes",
        page="S2",
        document="states the bytes that the loads into the stage bring; they are derived, and must be these",
    ),
    Operation("payload", (PRODUCER, CONSUMER), "payload()", "payload", page="S2", document="the stage's tiles, by name"),
    Operation("tmem", (PRODUCER, CONSUMER), "tmem()", "accumulator", page="S3", document="the stage's accumulator"),
    Operation("tmem_offset", (PRODUCER, CONSUMER), "tmem_offset()", "accumulator", page="S3", document="as tmem()"),
    Operation(
        "release",
        (PRODUCER,),
        "release()",
        "release",
        signals="full, unless signalled before",
        stage="releases",
        page="S0",
        document="signals what was not signalled yet, then steps",
    ),
    Operation(
        "release",
        (CONSUMER,),
        "release()",
        "release",
        signals="empty, unless signalled before",
        stage="releases",
        page="S0",
        document="signals what was not signalled yet, then steps",
    ),
    Operation(
        "arrive",
        (CONSUMER,),
        "arrive()",
        "arrive",
        signals="empty, each calling thread",
        stage="signals",
        page="S0",
        document="an explicit arrival on the empty barrier",
    ),
    Operation(
        "release_without_signal",
        (CONSUMER,),
        "release_without_signal()",
        "release_silent",
        stage="releases",
        page="S0",
        document="steps only; the signal was given before",
    ),
)

_NO_STEP = "signals"
_ROLE = (
    Operation("acquire", (ROLE,), "acquire[sub]()", "role_wait", "producer", None, "empty barrier `sub`", "-", "obtains", "S1",
              "the producer waits until the consumer gave sub-stage `sub` (0) back", "consumer"),
    Operation("wait", (ROLE,), "wait[sub]()", "role_wait", "consumer", None, "full barrier `sub`", "-", "obtains", "S1",
              "the consumer waits until the producer filled sub-stage `sub` (0)", "producer"),
    Operation("commit", (ROLE,), "commit()", "role_signal", "producer", None, "-", "full barrier 0", "releases", "S1",
              "signals sub-stage 0, then steps"),
    Operation("commit_mma", (ROLE,), "commit_mma() or commit_mma(elect())", "role_commit_mma", "producer", None, "-",
              "full barrier 0, when the MMAs finish", _NO_STEP, "S1", "commits the MMAs issued so far; does not step"),
    Operation("release", (ROLE,), "release[sub]()", "role_signal", "consumer", None, "-", "empty barrier `sub`", "releases", "S1",
              "signals sub-stage `sub` (0), then steps", "consumer"),
    Operation("release_no_step", (ROLE,), "release_no_step[sub]()", "role_signal", "consumer", None, "-", "empty barrier `sub`",
              _NO_STEP, "S1", "signals sub-stage `sub` (0) and stays, for the release of several one by one", "consumer"),
    Operation("step", (ROLE,), "step()", "role_step", stage="releases", page="S1",
              document="goes to the next stage; every sub-stage was waited for and signalled before"),
    Operation("producer_mbar", (ROLE,), "producer_mbar[sub]()", "role_barrier", "producer", page="S1",
              document="the full barrier of sub-stage `sub` (0), to be completed by the producer", sub_stages="producer"),
    Operation("consumer_mbar", (ROLE,), "consumer_mbar[sub]()", "role_barrier", "consumer", page="S1",
              document="the empty barrier of sub-stage `sub` (0), to be completed by the consumer", sub_stages="consumer"),
    Operation("index", (ROLE,), "index[sub]()", "role_index", page="S1", sub_stages="both",
              document="the stage number; with `sub`, what it picks from a buffer is handed over by that sub-stage"),
    Operation("num_stages", (ROLE, OUTPUT), "num_stages", "property", page="S1", document="the number of stages, at compile time"),
    Operation("arrive", (BARRIER,), "arrive()", "barrier_arrive", signals="this barrier", stage=_NO_STEP, page="S1",
              document="the signal that the stage's use asks for: an arrival of each thread, or a commit after MMAs"),
)  # fmt: skip

_EPILOGUE_STAGE = (
    Operation("tmem", (EPILOGUE_STAGE,), "tmem()", "accumulator", "output", page="S3", document="the accumulator"),
    Operation("tmem_offset", (EPILOGUE_STAGE,), "tmem_offset()", "accumulator", "output", page="S3", document="as tmem()"),
    Operation("index", (EPILOGUE_STAGE,), "index()", "index", "output", page="S3", document="the accumulator's stage number"),
    Operation("input_index", (EPILOGUE_STAGE,), "input_index()", "index", "input", page="S3", document="the input's stage number"),
    Operation("payload", (EPILOGUE_STAGE,), "payload()", "payload", "input", page="S3", document="the input stage's tiles, by name"),
)

_FREE = (
    Operation(
        "tma.load",
        ("",),
        "tma.load(tile, tensor[i, ...]) or tma.load(tile, tensor[i, ...], stage.mbar())",
        "tma_load",
        signals="full, by bytes",
        document="global to shared memory; one thread; outside the tensor reads as zero",
    ),
    Operation(
        "tma.store",
        ("",),
        "tma.store(tensor[i, ...], tile)",
        "tma_store",
        document="shared to global memory; one thread; clipped at the tensor's edge",
    ),
    Operation(
        "mma",
        ("",),
        "mma(accumulator, a, b, sfa, sfb, accumulate=condition, sfb_row=row)",
        "mma",
        document="accumulator[M, N] (+)= a[M, K] @ b[N, K].T; one thread, or with an accumulator in registers all threads of the "
        "role; `.T` gives a tile stored with K outermost; with scale tiles each block of K is multiplied by its factors",
    ),
    Operation(
        "accumulator",
        ("",),
        "accumulator(dtype, rows, columns)",
        "register_accumulator",
        document="zeros in the role's registers, for `mma` to add up in (sm_90a)",
    ),
    Operation(
        "mma.commit",
        ("",),
        "mma.commit(stage.mbar())",
        "commit",
        signals="when all earlier MMAs of the role finish",
        stage="signals",
        document="makes the barrier receive one arrival when the MMAs issued so far are complete",
    ),
    Operation("store", ("",), "store(tensor[i, j], tile)", "store", document="a register tile through shared memory and TMA"),
    Operation(
        "store.direct",
        ("",),
        "store.direct(tensor[i, j], tile)",
        "store_direct",
        document="a register tile by each thread's own stores; any alignment",
    ),
    Operation(
        "registers",
        ("",),
        "registers(tile)",
        "registers",
        document="the tile's values now, kept in registers under the name they are assigned to, which may be assigned again",
    ),
    Operation(
        "write",
        ("",),
        "write(tile, value)",
        "write",
        document="a register tile into a producer stage's tile, in shared or tensor memory",
    ),
    Operation("static_assert", ("",), 'static_assert(condition, "text")', "assert", document="a compile-time check"),
    Operation("grid", ("",), "grid(x, y, z)", "grid", document="how many blocks run"),
)

OPERATIONS: tuple[Operation, ...] = _PIPELINE + _STAGE + _ROLE + _EPILOGUE_STAGE + _FREE

MEMBERS: dict[str, dict[str, Operation]] = {}
for _row in OPERATIONS:
    for _receiver in _row.receivers:
        MEMBERS.setdefault(_receiver, {})[_row.name] = _row

FREE: dict[str, Operation] = MEMBERS[""]
