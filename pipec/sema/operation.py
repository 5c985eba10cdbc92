"""What a row of the operation table is, and the receivers it may have."""

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
EPILOGUE_LOAD = "EpiLoadPipeline"
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

FULL, EMPTY = "full barrier", "empty barrier"
