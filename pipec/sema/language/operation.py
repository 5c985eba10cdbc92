"""What a row of the operation table is, and the receivers it may have."""

from typing import Final, Literal

from pipec.record import record
from pipec.vocabulary import SIDES, Form, PipelineKind, Side


@record
class Operation:
    """`receivers` are pipeline types, stage kinds or "" for free operations; `action` and `side`/`form` tell sema what to do."""

    name: str
    receivers: tuple[str, ...]
    signature: str
    action: str
    side: Side | None = None
    form: Form | Literal["either"] | None = None
    waits: str = "-"
    signals: str = "-"
    stage: str = "-"
    page: str = "-"
    document: str = ""
    sub_stages: Side | Literal["both"] | None = None  # whose sub-stages `name[sub](...)` picks: "producer", "consumer" or "both"
    half: Literal["input", "output"] | None = None  # of a per-K epilogue stage: whose stage the operation is about
    only: tuple[str, ...] = ()  # of a stage's name: the pipelines whose stages have it, where not all do

    def belongs_to(self, pipeline: str) -> bool:
        return not self.only or pipeline in self.only

    @property
    def caller(self) -> str:
        """Which role may call it, and which of its threads."""
        threads = THREADS[self.action]
        if threads in (ANYWHERE, OUTSIDE):
            return threads
        return f"{self._role()}; {threads}"

    def _role(self) -> str:
        sides = [side for side, receiver in zip(SIDES, (PRODUCER, CONSUMER), strict=True) if receiver in self.receivers]
        if self.receivers == (EPILOGUE_STAGE,):
            return "consumer"
        if self.side is None and not sides:
            return "either role"
        return self.side or " or ".join(sides)


RING: Final[PipelineKind] = "ProducerConsumerPipeline"
SCHEDULER: Final[PipelineKind] = "TileScheduler"  # the kind of the pipeline that hands a scheduler's answers out
INPUT: Final[PipelineKind] = "InputTilePipeline"
OUTPUT: Final[PipelineKind] = "OutputTilePipeline"
EPILOGUE_LOAD: Final[PipelineKind] = "EpiLoadPipeline"
ROLE: Final[PipelineKind] = "RolePipeline"
BARRIER = "barrier"
PRODUCER = "producer stage"
CONSUMER = "consumer stage"
PRODUCER_VIEW = "producer view"
CONSUMER_VIEW = "consumer view"
PER_K_VIEW = "per-K view"
EPILOGUE_STAGE = "per-K epilogue stage"
TILE = "tile"
# What a pipeline is used through: itself, its views, the stages it gives.
PARTS = {
    RING: (RING, PRODUCER, CONSUMER, TILE),
    ROLE: (ROLE, BARRIER),
    INPUT: (INPUT, PRODUCER_VIEW, CONSUMER_VIEW, PRODUCER, CONSUMER, TILE),
    OUTPUT: (OUTPUT, PRODUCER_VIEW, CONSUMER_VIEW, PER_K_VIEW, PRODUCER, CONSUMER, EPILOGUE_STAGE),
    EPILOGUE_LOAD: (EPILOGUE_LOAD, PRODUCER, CONSUMER),
}
# What `View.side` says.
VIEWS = {"producer": PRODUCER_VIEW, "consumer": CONSUMER_VIEW, "per_k": PER_K_VIEW}

FULL, EMPTY = "full barrier", "empty barrier"

# Which threads of a role perform an action (pipec.checks.stages.roles refuses others).
ANYWHERE, OUTSIDE = "anywhere", "outside roles"
_ALL, _ONE, _ANY = "all threads", "one thread", "any thread"
_LANES = "all threads, or the first lanes of each warp"
THREADS: dict[str, str] = {
    **dict.fromkeys(
        ("acquire", "acquire_if_needed", "wait", "wait_if_needed", "role_wait", "drain", "per_k_epilogue", "peek"), _ALL
    ),
    **dict.fromkeys(("release", "release_silent", "release_stage", "release_current", "step", "signal_and_step"), _ALL),
    **dict.fromkeys(("role_signal", "role_step"), _ALL),
    **dict.fromkeys(("arrive", "barrier_arrive"), _LANES),
    **dict.fromkeys(("of_cta",), _ALL),
    **dict.fromkeys(("role_commit_mma",), _ONE),
    **dict.fromkeys(("index", "barrier", "payload", "accumulator", "current_stage", "stage_barrier", "role_barrier"), _ANY),
    **dict.fromkeys(("role_index", "view", "per_k", "expect_bytes"), _ANY),
    **dict.fromkeys(("property", "underlying", "assert"), ANYWHERE),
    **dict.fromkeys(("init", "programmatic", "grid", "cluster", "assume"), OUTSIDE),
}
