"""Words that several stages of the compiler choose among, each set a type, so that a misspelt one is a type error.

A set that only one module speaks of stands there.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeVar, get_args

Word = TypeVar("Word", bound=str)


def one_of(choices: Iterable[Word], word: str) -> Word | None:
    """The choice that a program wrote down; None where it is none of them."""
    return next((choice for choice in choices if choice == word), None)


# Who works with a stage: the producer fills it, the consumer reads it.
Side = Literal["producer", "consumer"]
SIDES: Final[tuple[Side, Side]] = ("producer", "consumer")
OTHER_SIDE: Final[dict[Side, Side]] = {"producer": "consumer", "consumer": "producer"}

# The operators of expressions, as they are written.
BinaryOperator = Literal[
    "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "and", "or",
]  # fmt: skip
UnaryOperator = Literal["-", "not", "~"]
BINARY_OPERATORS: Final[tuple[BinaryOperator, ...]] = get_args(BinaryOperator)
UNARY_OPERATORS: Final[tuple[UnaryOperator, ...]] = get_args(UnaryOperator)

# The pipeline types of the language; the tile scheduler is one, whose stages hold the hardware's answers.
PipelineKind = Literal[
    "ProducerConsumerPipeline", "InputTilePipeline", "OutputTilePipeline", "EpiLoadPipeline", "RolePipeline", "TileScheduler",
]  # fmt: skip

# The threads that run an instruction together, converged; one by itself.
Converged = Literal["thread", "warp", "warpgroup", "cta"]

# Which of a stage's barriers: producers complete the full one, consumers the empty one.
BarrierSide = Literal["full", "empty"]
BARRIER_SIDE: Final[dict[Side, BarrierSide]] = {"producer": "full", "consumer": "empty"}

# How a stage is held: by `with`, by a handle that has to be released, by one whose signals are explicit (consume_explicit), between a
# wait and its step, or not at all yet: a peek's result, which the wait that completes it takes up.
Form = Literal["scoped", "linear", "explicit", "stepped", "token"]

# Where a tile stands: shared memory or tensor memory.
Space = Literal["shared", "tensor"]

# Who shares a pipeline: the threads of one CTA, or of all CTAs of the cluster.
Scope = Literal["cta", "cluster"]

# Which threads of a role run a block: all, one elected thread, the first lanes of each warp, or as a condition says in each thread.
Threads = Literal["all", "one", "lanes", "unknown"]

# How a signal is given: by each thread that calls it, when the MMAs before it finish, or as the use of the stage asks.
SignalKind = Literal["arrive", "commit", "own"]

# Along what CTAs are counted in the grid and in a cluster.
Axis = Literal["x", "y", "z"]

# How tiles of the grid are dealt out: by a formula, or by the hardware (clusterlaunchcontrol).
ScheduleMode = Literal["static", "clc"]

# How a tile stands in shared memory: the swizzles of tensor maps (CUtensorMapSwizzle).
Swizzle = Literal["none", "32B", "64B", "128B", "128B_ATOM_32B"]

# How a tile in registers is stored to global memory: through shared memory by bulk copies, or by each thread.
StorePath = Literal["tma", "direct"]

# What a store does with what stands in global memory, atomically for each element.
Reduction = Literal["add", "min", "max"]

# Which lines the L2 cache gives up first, told with a copy (PTX ISA 9.7.9.18, createpolicy): a hint, which changes times only.
CachePolicy = Literal["evict_first", "evict_last", "evict_normal"]
CACHE_POLICIES: Final[tuple[CachePolicy, ...]] = get_args(CachePolicy)

# What is folded along a row.
RowFunction = Literal["sum", "min", "max"]
VoteKind = Literal["any", "all"]

# How a role completes a phase of a barrier: the bytes of TMA; copies of its threads landing; a commit of MMAs; each warp, once its own
# MMAs in registers are complete; one arrival for its threads, which met; each thread; one, once bulk stores have read the stage.
Completion = Literal["tma", "copies", "commit", "warps", "met", "threads", "read"]

# What an operation does to the tile of a stage: a load of TMA, copies of the threads (cp.async), their own writes, an MMA that adds to it,
# an operand of an MMA, a read into registers, a bulk store of it; "index" asks for its number only.
UseKind = Literal["load", "copy", "write", "accumulate", "operand", "read", "store", "index"]
FILLING: Final[frozenset[UseKind]] = frozenset(("load", "copy", "write", "accumulate"))  # by the producer
DRAINING: Final[frozenset[UseKind]] = frozenset(("operand", "read", "store"))  # by the consumer
