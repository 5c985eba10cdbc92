"""Operations of an obtained stage: number, barrier, tiles, signals, release."""

from pipec.sema.language.operation import CONSUMER, EPILOGUE_LOAD, EPILOGUE_STAGE, INPUT, OUTPUT, PRODUCER, RING, Operation

STAGES = (
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
        only=(RING, INPUT, EPILOGUE_LOAD),
    ),
    Operation(
        "payload", (PRODUCER, CONSUMER), "payload()", "payload", page="S2", document="the stage's tiles, by name", only=(INPUT,)
    ),
    Operation(
        "tmem", (PRODUCER, CONSUMER), "tmem()", "accumulator", page="S3", document="the stage's accumulator", only=(OUTPUT,)
    ),
    Operation(
        "tmem_offset", (PRODUCER, CONSUMER), "tmem_offset()", "accumulator", page="S3", document="as tmem()", only=(OUTPUT,)
    ),
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
EPILOGUE_STAGES = (
    Operation("tmem", (EPILOGUE_STAGE,), "tmem()", "accumulator", half="output", page="S3", document="the accumulator"),
    Operation("tmem_offset", (EPILOGUE_STAGE,), "tmem_offset()", "accumulator", half="output", page="S3", document="as tmem()"),
    Operation(
        "index", (EPILOGUE_STAGE,), "index()", "index", half="output", page="S3", document="the accumulator's stage number"
    ),
    Operation(
        "input_index", (EPILOGUE_STAGE,), "input_index()", "index", half="input", page="S3", document="the input's stage number"
    ),
    Operation(
        "payload", (EPILOGUE_STAGE,), "payload()", "payload", half="input", page="S3", document="the input stage's tiles, by name"
    ),
)
