"""Vocabulary shared by several stages of the compiler, each set a type, so that a misspelt word is a type error.

A set used by only one module is defined there.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeVar, get_args

Word = TypeVar("Word", bound=str)


def one_of(choices: Iterable[Word], word: str) -> Word | None:
    """The choice that a program wrote; None if it is none of them."""
    return next((choice for choice in choices if choice == word), None)


# The sides of a stage: the producer fills it, the consumer reads it.
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

# The pipeline types of the language; the tile scheduler is one, whose stages hold the hardware's responses.
PipelineKind = Literal[
    "ProducerConsumerPipeline", "InputTilePipeline", "OutputTilePipeline", "EpiLoadPipeline", "RolePipeline", "TileScheduler",
]  # fmt: skip

# The threads that run an instruction together, converged; or one by itself.
Converged = Literal["thread", "warp", "warpgroup", "cta"]

# Which of a stage's barriers: producers complete the full one, consumers the empty one.
BarrierSide = Literal["full", "empty"]
BARRIER_SIDE: Final[dict[Side, BarrierSide]] = {"producer": "full", "consumer": "empty"}

# How a stage is held: by `with`, by a handle that must be released, by one with explicit signals (consume_explicit), between a wait and
# its step, or not yet: the result of a peek, consumed by the wait that completes it.
Form = Literal["scoped", "linear", "explicit", "stepped", "token"]

# The location of a tile: shared memory or tensor memory.
Space = Literal["shared", "tensor"]

# Who shares a pipeline: the threads of one CTA, or of all CTAs of the cluster.
Scope = Literal["cta", "cluster"]

# Which threads of a role run a block: all, one elected thread, those that their numbers select, or depending on a condition per thread.
Threads = Literal["all", "one", "some", "unknown"]

# How a signal is given: by each thread that calls it, when the MMAs before it finish, or as the use of the stage requires.
SignalKind = Literal["arrive", "commit", "own"]

# The axes of the grid and of a cluster.
Axis = Literal["x", "y", "z"]

# How tiles of the grid are distributed: by a formula, or by the hardware (clusterlaunchcontrol).
ScheduleMode = Literal["static", "clc"]

# The layout of a tile in shared memory: the swizzles of tensor maps (CUtensorMapSwizzle).
Swizzle = Literal["none", "32B", "64B", "128B", "128B_ATOM_32B"]

# How a tile in registers is stored to global memory: through shared memory by bulk copies, or by each thread.
StorePath = Literal["tma", "direct"]

# How a store combines with global memory, atomically per element.
Reduction = Literal["add", "min", "max"]

# The eviction priority of lines in the L2 cache, given with a copy (PTX ISA 9.7.9.18, createpolicy): a hint, which only affects time.
CachePolicy = Literal["evict_first", "evict_last", "evict_normal"]
CACHE_POLICIES: Final[tuple[CachePolicy, ...]] = get_args(CachePolicy)

# The function of a reduction along a row.
RowFunction = Literal["sum", "min", "max"]
VoteKind = Literal["any", "all"]

# How a role completes a phase of a barrier: by the bytes of TMA; by its threads' copies landing; by a commit of MMAs; by each warp, once
# its own register MMAs are complete; by one arrival for its synchronised threads; by each thread; by one, once bulk stores have read the
# stage.
Completion = Literal["tma", "copies", "commit", "warps", "met", "threads", "read"]

# The use of a stage's tile by an operation: a TMA load, copies of the threads (cp.async), their own writes, an MMA that accumulates into
# it, an operand of an MMA, a read into registers, a bulk store of it; "index" only reads its number.
UseKind = Literal["load", "copy", "write", "accumulate", "operand", "read", "store", "index"]
FILLING: Final[frozenset[UseKind]] = frozenset(("load", "copy", "write", "accumulate"))  # by the producer
DRAINING: Final[frozenset[UseKind]] = frozenset(("operand", "read", "store"))  # by the consumer
