"""What a name or an expression can stand for during analysis, besides run-time values (which are tree nodes)."""

from typing import Literal

from pipec.isa.dtypes import DType
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import Form, Side, Space


class Reported(Exception):
    """A message was reported; the current statement is abandoned. Never leaves this package."""


KnownValue = int | float | bool | str | DType


@record
class Known:
    """A compile-time value: a number, condition, text or element type."""

    value: KnownValue
    span: Span


@record
class Poison:
    """The meaning of a name whose definition had an error: its uses report nothing more."""


@record
class LeftBehind:
    """The meaning of a name for a stage, or for something of it, after the name `stage` has taken over another one."""

    stage: str
    span: Span


@record
class TileSpec:
    """`tile[dtype, rows, columns]` (space "shared") or `tmem[dtype, rows, columns]` (space "tensor")."""

    space: Space
    dtype: DType
    rows: int
    columns: int
    span: Span
    stride: int | None = None  # columns from one accumulator to the next, if declared


@record
class PayloadSpec:
    tiles: dict[str, TileSpec]
    span: Span


@record
class View:
    """`pipeline.producer()` or `pipeline.consumer()`."""

    pipeline: tree.Pipeline
    side: Side | Literal["per_k"]


@record
class Payload:
    """`stage.payload()`: its members are the stage's tiles."""

    handle: tree.Handle


@record
class PipelinePayload:
    """`pipeline.payload`: its members are the tiles of all stages."""

    pipeline: tree.Pipeline


@record
class TileGroup:
    """The tiles of one payload member in a group stage, to be indexed; without a handle, those of all stages."""

    tiles: tuple[tree.Buffer, ...]
    handle: tree.Handle | None
    span: Span


@record
class Barrier:
    """`stage.mbar()`, or the barrier of one sub-stage."""

    handle: tree.Handle
    span: Span
    sub_stage: int = 0


@record
class Acquired:
    """The result of an acquire before it has a name; the form "either" may be assigned or used in a `with`."""

    pipeline: tree.Pipeline
    side: Side
    form: Form | Literal["either"]
    span: Span
    token: "Token | None" = None


@record
class Peeked:
    """The result of a peek before it has a name."""

    pipeline: tree.Pipeline
    side: Side
    span: Span


@record
class Token:
    """The result of a peek, in `ready`."""

    handle: tree.Handle
    ready: tree.Variable


@record(eq=False)
class BarrierArray:
    """`BarrierArray(count)`: explicitly declared barriers of one pipeline."""

    count: int
    span: Span


@record
class AcquiredPair:
    """`output.per_k_epilogue(input)` before it has a name: a stage of each."""

    output: Acquired
    input: Acquired
    span: Span


@record
class EpilogueStage:
    """The stages of a `per_k_epilogue`: an accumulator, and the input stage with the matching scales."""

    output: tree.Handle
    input: tree.Handle


@record
class NewRegisterTile:
    """`registers(tile)` before it has a name."""

    value: "tree.Expression"
    span: Span


@record
class NewAccumulator:
    """`accumulator(dtype, rows, columns)` before it has a name."""

    dtype: DType
    rows: int
    columns: int
    span: Span


@record
class Elected:
    """`elect()`."""

    span: Span


@record
class Turn:
    """`semaphore(counter[i], turn, turns)`, used in a `with`; its operands are evaluated at that point."""

    counter: "tree.TensorSlice"
    turn: "tree.Expression"
    turns: "tree.Expression"
    span: Span


@record
class Range:
    start: "tree.Expression"
    stop: "tree.Expression"
    step: "int | tree.Expression"  # an expression is always positive
    span: Span


@record(eq=False)
class Tile:
    """The tile of one iteration of `for tile in tiles`; `places` are the variables of the coordinates used so far."""

    name: str
    schedule: tree.Schedule
    index: tree.Variable
    places: dict[str, tree.Variable]


@record(eq=False)
class OfEachRole:
    """A value of the kernel that is read from memory: each role that uses it reads it at its start, into a variable of its own."""

    name: str
    value: "tree.Expression"
    span: Span


@record
class Void:
    """The result of an operation without a value."""


@record
class Helper:
    """An `fn`, inlined at each call."""

    function: ast.Function


Meaning = (
    Known
    | Poison
    | LeftBehind
    | TileSpec
    | PayloadSpec
    | View
    | Payload
    | PipelinePayload
    | TileGroup
    | Barrier
    | Acquired
    | AcquiredPair
    | BarrierArray
    | tree.TensorAllocation
    | EpilogueStage
    | NewRegisterTile
    | NewAccumulator
    | Peeked
    | Token
    | Elected
    | Turn
    | Range
    | Tile
    | tree.Schedule
    | OfEachRole
    | Void
    | Helper
    | tree.Pipeline
    | tree.Handle
    | tree.Buffer
    | tree.BufferRef
    | tree.TensorParameter
    | tree.TensorSlice
    | tree.Variable
    | tree.Accumulator
    | tree.ScalarParameter
    | tree.Expression
)

EXPRESSIONS = (
    tree.Constant,
    tree.ReadVariable,
    tree.ReadDimension,
    tree.ReadParameter,
    tree.Special,
    tree.StageIndex,
    tree.ReadResponse,
    tree.Unary,
    tree.Binary,
    tree.Convert,
    tree.Bitcast,
    tree.Select,
    tree.Call,
    tree.Splat,
    tree.ReadBuffer,
    tree.ReadTensor,
    tree.ReadElement,
    tree.Position,
    tree.ReadAccumulator,
    tree.Columns,
    tree.RowReduce,
    tree.ReadReducedColumns,
)


# How messages describe the meanings with fixed wording; and what to do with one that is given where a value is needed.
_PLAIN_WORDS: tuple[tuple[type | tuple[type, ...], str, str | None], ...] = (
    (PayloadSpec, "a payload type", None),
    ((View, tree.Pipeline), "a pipeline", None),
    (Payload, "the payload of a stage", None),
    (Acquired, "a newly acquired stage", "give the stage a name: `s = p.acquire_consumer()`"),
    (tree.TensorAllocation, "an allocation of tensor memory", None),
    (AcquiredPair, "two newly acquired stages", None),
    (NewRegisterTile, "a tile in registers that has no name", "give it one first: `x = registers(...)` on a line of its own"),
    (Peeked, "the result of a peek", None),
    (NewAccumulator, "an accumulator without a name", "give it one first: `acc = accumulator(...)` on a line of its own"),
    (Elected, "an election", None),
    (Turn, "a turn, which a `with` holds", None),
    (Range, "a range", None),
    (OfEachRole, "a value that each role reads from memory", None),
    (Void, "an operation that gives no value", None),
    (Poison, "unknown", None),
)


def describe(meaning: Meaning) -> str:
    """How a message describes a meaning: `this is ...`."""
    plain = next((words for kinds, words, _ in _PLAIN_WORDS if isinstance(meaning, kinds)), None)
    return plain or _named(meaning) or f"a value of type {getattr(meaning, 'type', None)}"


def _loaded(place: str, tensor: tree.TensorParameter) -> str:
    tile = f"load({place}, rows, columns)" if len(tensor.shape) > 1 else f"per_column({place}, columns)"
    return f"write `{tile}` for a tile of its values, `load({place})` for one of them"


def advice(meaning: Meaning) -> str | None:
    """What to write where a value is needed, instead of this."""
    if isinstance(meaning, tree.TensorSlice):
        return _loaded(meaning.span.text(), meaning.tensor)
    if isinstance(meaning, tree.TensorParameter):
        return _loaded(f"{meaning.name}[{', '.join('ijklm'[: len(meaning.shape)])}]", meaning)
    return next((instead for kinds, _, instead in _PLAIN_WORDS if isinstance(meaning, kinds)), None)


def _named(meaning: Meaning) -> str | None:
    """The description of a meaning that has a name, a type or a number; None for an expression."""
    match meaning:
        case Known(value=DType() as dtype):
            return f"the element type {dtype}"
        case Known(value=value):
            return "a string" if isinstance(value, str) else f"the constant {value}"
        case TileSpec():
            return "a tensor-memory tile type" if meaning.space == "tensor" else "a tile type"
        case PipelinePayload():
            return f"the payload of `{meaning.pipeline.name}`"
        case TileGroup(tiles):
            place = "one of them" if len(tiles) > 1 else "it"
            return f"a group of {len(tiles)} tiles: pick {place}, `{meaning.span.text()}[0]`"
        case tree.Handle():
            return f"the {meaning.side} stage `{meaning.name}`"
        case Barrier(handle):
            return f"the barrier of stage `{handle.name}`"
        case BarrierArray(count):
            return f"an array of {count} barriers"
        case EpilogueStage(output):
            return f"the stages of `{output.name}`"
        case Token(handle):
            return f"the result of the peek `{handle.name}`"
        case tree.Buffer():
            return f"the buffer `{meaning.name}`"
        case tree.BufferRef():
            return f"the {'accumulator' if meaning.buffer.space == 'tensor' else 'tile'} `{meaning.buffer.label}`"
        case tree.TensorParameter():
            return f"the tensor `{meaning.name}`"
        case tree.TensorSlice():
            return f"a place in tensor `{meaning.tensor.name}`"
        case Helper():
            return f"the helper `{meaning.function.name.name}`"
        case tree.Accumulator():
            return f"the accumulator `{meaning.name}`"
        case Tile(name) | tree.Schedule(name):
            return f"the {'tile' if isinstance(meaning, Tile) else 'tile scheduler'} `{name}`"
        case _:
            return None
