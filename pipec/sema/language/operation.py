"""The type of a row of the operation table, and its possible receivers."""

from typing import Final, Literal

from pipec.record import record
from pipec.vocabulary import SIDES, Form, PipelineKind, Side

# What an operation is called on; "" for a free operation.
PartKind = Literal[
    "barrier", "producer stage", "consumer stage", "producer view", "consumer view", "per-K view", "per-K epilogue stage", "tile", "",
]  # fmt: skip
Receiver = PipelineKind | PartKind
ViewSide = Side | Literal["per_k"]

# What an operation does: the name of a function of pipec.sema.calls, or of a statement that pipec.sema.kernels reads at the start of a
# kernel. The tables keyed by action are compared when pipec.sema.calls.actions is imported: a misspelt name in one is missing in another.
ActionName = str

# Which threads of a role perform an action.
Caller = Literal[
    "anywhere", "outside roles", "all threads", "one thread", "any thread", "all threads, or some",
]  # fmt: skip


@record
class Operation:
    """`action` and `side`/`form` tell sema what to do."""

    name: str
    receivers: tuple[Receiver, ...]
    signature: str
    action: ActionName
    side: Side | None = None
    form: Form | Literal["either"] | None = None
    waits: str = "-"
    signals: str = "-"
    stage: str = "-"
    page: str = "-"
    document: str = ""
    sub_stages: Side | Literal["both"] | None = (
        None  # whose sub-stages `name[sub](...)` selects: "producer", "consumer" or "both"
    )
    half: Literal["input", "output"] | None = None  # of a per-K epilogue stage: the stage that the operation applies to
    only: tuple[PipelineKind, ...] = ()  # of a stage's member: the kinds of pipeline whose stages have it, if not all

    def belongs_to(self, pipeline: PipelineKind) -> bool:
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
SCHEDULER: Final[PipelineKind] = "TileScheduler"  # the kind of the pipeline that distributes a scheduler's responses
INPUT: Final[PipelineKind] = "InputTilePipeline"
OUTPUT: Final[PipelineKind] = "OutputTilePipeline"
EPILOGUE_LOAD: Final[PipelineKind] = "EpiLoadPipeline"
ROLE: Final[PipelineKind] = "RolePipeline"
BARRIER: Final[PartKind] = "barrier"
PRODUCER: Final[PartKind] = "producer stage"
CONSUMER: Final[PartKind] = "consumer stage"
PRODUCER_VIEW: Final[PartKind] = "producer view"
CONSUMER_VIEW: Final[PartKind] = "consumer view"
PER_K_VIEW: Final[PartKind] = "per-K view"
EPILOGUE_STAGE: Final[PartKind] = "per-K epilogue stage"
TILE: Final[PartKind] = "tile"
# The receivers of each kind of pipeline: itself, its views, its stages.
PARTS: dict[PipelineKind, tuple[Receiver, ...]] = {
    RING: (RING, PRODUCER, CONSUMER, TILE),
    ROLE: (ROLE, BARRIER),
    INPUT: (INPUT, PRODUCER_VIEW, CONSUMER_VIEW, PRODUCER, CONSUMER, TILE),
    OUTPUT: (OUTPUT, PRODUCER_VIEW, CONSUMER_VIEW, PER_K_VIEW, PRODUCER, CONSUMER, EPILOGUE_STAGE),
    EPILOGUE_LOAD: (EPILOGUE_LOAD, PRODUCER, CONSUMER),
}
# The receiver for each `View.side`.
VIEWS: dict[ViewSide, PartKind] = {"producer": PRODUCER_VIEW, "consumer": CONSUMER_VIEW, "per_k": PER_K_VIEW}

FULL, EMPTY = "full barrier", "empty barrier"

# pipec.checks.stages.participation rejects other threads. Free operations have no entry: their nodes state the participants.
ANYWHERE: Final = "anywhere"
OUTSIDE: Final = "outside roles"
_ACTIONS_OF: dict[Caller, tuple[ActionName, ...]] = {
    "all threads": (
        "acquire",
        "acquire_if_needed",
        "wait",
        "wait_if_needed",
        "role_wait",
        "drain",
        "skip",
        "per_k_epilogue",
        "peek",
        "release",
        "release_silent",
        "release_stage",
        "release_current",
        "step",
        "signal_and_step",
        "role_signal",
        "role_step",
        "of_cta",
    ),
    "all threads, or some": (
        "arrive",
        "barrier_arrive",
    ),
    "one thread": ("role_commit_mma",),
    "any thread": (
        "index",
        "barrier",
        "payload",
        "accumulator",
        "current_stage",
        "stage_barrier",
        "role_barrier",
        "role_index",
        "view",
        "per_k",
        "expect_bytes",
    ),
    ANYWHERE: (
        "property",
        "underlying",
        "assert",
    ),
    OUTSIDE: (
        "init",
        "programmatic",
        "grid",
        "cluster",
        "assume",
    ),
}
THREADS: dict[ActionName, Caller] = {action: caller for caller, actions in _ACTIONS_OF.items() for action in actions}
