"""E02xx: types and shapes of values, and the operands and arguments that take them."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class WrongType(Message):
    """An operation got an operand of the wrong kind: the title says what it takes, the label what it was given.

    Often a tile is given where a place in a tensor is needed, or a stage where one of its tiles is: `tma.load(s.a, a[m, k])` takes the
    tile first and the place second. The elements of a tensor are read with `load(lengths[i])`; `lengths[i]` alone is the place.
    """

    code = "E0203"
    title = "{what} must be {expected}"
    subject = "an operand of the wrong kind"
    labels = (primary("at", "this is {found}"),)
    help = "{hint}"
    what: str
    expected: str
    found: str
    at: Span
    hint: str | None = None


class MixedTypes(Message):
    """Two operands of different element types. Only lossless widening is done silently (f16 and bf16 to f32, i8 to i32, i32 to
    i64); every other conversion must be written, because it rounds or wraps."""

    code = "E0204"
    title = "`{operator}` mixes {left} and {right}"
    labels = (primary("at", "the two sides differ in element type"),)
    help = "convert one side, for example `{example}`"
    operator: str
    left: str
    right: str
    example: str
    at: Span


class BadOperand(Message):
    """The operator is not defined for this element type: `/` needs floats (use `//` for integers), `//`, `%`, shifts and bit
    operators need integers, `and`, `or`, `not` need conditions, and 8-bit floats are converted before any arithmetic."""

    code = "E0205"
    title = "`{operator}` does not work on {type}"
    labels = (primary("at", "this is {type}"),)
    help = "{hint}"
    operator: str
    type: str
    hint: str | None
    at: Span


class WrongArguments(Message):
    """The arguments of a call do not fit its form, which the note shows: one is missing, one is too many, or a name is not a parameter's.

    Parameters with `=` may be left out. Tiles that travel together in a form of their own are `TilePayload(name=tile[...], ...)`.
    """

    code = "E0206"
    title = "`{callee}` {problem}"
    subject = "arguments do not fit the operation"
    labels = (primary("at", "called here"),)
    note = "its form is `{signature}`"
    help = "{advice}"
    callee: str
    problem: str
    signature: str | None
    at: Span
    advice: str | None = None


class DoesNotFit(Message):
    """A constant is outside the range of the type it is used as; on the GPU it would silently wrap around, or become infinite.

    An integer literal without a type is an `i32` beside other `i32` values. Where 64 bits are meant, say so once: `x: i64 = 5000000000`.
    """

    code = "E0210"
    title = "the constant {value} does not fit into {type}"
    labels = (primary("at", "used as {type} here"),)
    value: str
    type: str
    at: Span


class ShapeMismatch(Message):
    """Two tiles are combined element by element: each dimension must be equal, or 1 on one side (a per-row or per-column vector)."""

    code = "E0211"
    title = "`{operator}` combines tiles of different shapes: {left} and {right}"
    labels = (primary("at", "the elements do not pair up"),)
    operator: str
    left: str
    right: str
    at: Span


class TypeChanged(Message):
    """A variable keeps the type of its first assignment, because it is one register with one meaning for the whole of its block.

    A number that starts as an integer therefore stays one:

        total = 0                 # i32 from here on
        total = total * 0.5       # refused: write `total = 0.0` above, or give the new value another name
    """

    code = "E0213"
    title = "`{name}` is {old} and cannot become {new}"
    labels = (primary("at", "assigned {new} here"), secondary("first", "it has been {old} since here"))
    name: str
    old: str
    new: str
    at: Span
    first: Span


class DivisionByZero(Message):
    """A divisor is 0 while the kernel is compiled: a literal, or arithmetic over compile-time parameters that comes out as 0.

    A divisor that is 0 only when the kernel runs is not found here; integer division by zero gives an unspecified number on a GPU.
    """

    code = "E0222"
    title = "division by zero"
    labels = (primary("at", "the divisor is 0 at compile time"),)
    at: Span


class WrongRank(Message):
    """A place in a tensor is given by one coordinate per dimension, outermost first, counted in elements (not in tiles or bytes).

    Dimensions of batches and heads come first; the tile lies along the last two:

        # keys: tensor[bf16, HEADS, N, D]
        tma.load(s.k, keys[head, n * BN, 0])
    """

    code = "E0226"
    title = "`{tensor}` has {rank}, but was given {given}"
    labels = (primary("at", "{given}"), secondary("declared", "declared here"))
    tensor: str
    rank: str
    given: str
    at: Span
    declared: Span


class BadRange(Message):
    """A loop runs over `range(stop)`, `range(start, stop)` or `range(start, stop, step)`, or over the tiles of a `TileScheduler`. The
    step is known, and is a number from 1 to 2**30, or its negative."""

    code = "E0231"
    title = "a loop must run over `range(...)` or the tiles of a scheduler"
    labels = (primary("at", "this is {found}"),)
    found: str
    at: Span
