"""E02xx: names, types, compile-time values and where statements may stand."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class UnknownName(Message):
    """A name that nothing defines here. Names of a block end with it; a kernel sees its parameters, its constants, its
    pipelines, the file's `comptime` constants and `fn` helpers, and the built-in operations."""

    code = "E0201"
    title = "`{name}` is not defined"
    labels = (primary("at", "nothing here has this name"),)
    help = "did you mean `{close}`?"
    edits = (replace("at", "{close}"),)
    name: str
    close: str | None
    at: Span


class Redefined(Message):
    """A kernel-level name (parameter, constant, pipeline, buffer, role, helper) is defined once, so that every role means the
    same thing by it."""

    code = "E0202"
    title = "`{name}` is defined twice"
    labels = (primary("at", "defined again here"), secondary("first", "first defined here"))
    name: str
    at: Span
    first: Span | None


class WrongType(Message):
    """An operation got something of another kind than it works on. The label says what was found."""

    code = "E0203"
    title = "{what} must be {expected}"
    labels = (primary("at", "this is {found}"),)
    what: str
    expected: str
    found: str
    at: Span


class MixedTypes(Message):
    """Two operands of different element types. Only lossless widening is done silently (f16 and bf16 to f32, i8 to i32, i32 to
    i64); every other conversion is written, because it rounds or wraps."""

    code = "E0204"
    title = "`{operator}` mixes {left} and {right}"
    labels = (primary("at", "the two sides differ in element type"),)
    help = "convert one side, for example `cast[{left}](...)`"
    operator: str
    left: str
    right: str
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
    """The call does not fit the signature shown."""

    code = "E0206"
    title = "`{callee}` {problem}"
    labels = (primary("at", "called here"),)
    note = "its form is `{signature}`"
    callee: str
    problem: str
    signature: str | None
    at: Span


class NoSuchMember(Message):
    """A pipeline, stage or tensor has no operation or field of this name. Producer and consumer stages have different ones."""

    code = "E0207"
    title = "{owner} has no `{member}`"
    labels = (primary("at", "no such member"),)
    note = "it has {members}"
    help = "{hint}"
    edits = (replace("word", "{close}"),)
    owner: str
    member: str
    members: str | None
    hint: str | None
    close: str | None
    at: Span
    word: Span | None


class NotComptime(Message):
    """Tile sizes, stage counts, warps and other things that shape the generated code are fixed when the kernel is compiled:
    literals, compile-time parameters in `[...]`, `comptime` constants and arithmetic over them."""

    code = "E0208"
    title = "{what} must be known at compile time"
    labels = (primary("at", "this is only known when the kernel runs"),)
    what: str
    at: Span


class NotCallable(Message):
    """Only operations, helpers and types are called."""

    code = "E0209"
    title = "{what} cannot be called"
    labels = (primary("at", "this is not an operation"),)
    what: str
    at: Span


class DoesNotFit(Message):
    """A constant outside the range of its type would wrap silently on the GPU."""

    code = "E0210"
    title = "the constant {value} does not fit {type}"
    labels = (primary("at", "used as {type} here"),)
    value: str
    type: str
    at: Span


class ShapeMismatch(Message):
    """Two tiles combine element by element: each dimension is equal, or 1 on one side (a per-row or per-column vector)."""

    code = "E0211"
    title = "`{operator}` combines tiles of different shapes: {left} and {right}"
    labels = (primary("at", "no element pairs up"),)
    operator: str
    left: str
    right: str
    at: Span


class OutOfBlock(Message):
    """A variable first assigned inside a block ends with the block. On a path that skips the block it would hold whatever the register
    held before; behind a `with` the stage that it may have been read from is given back. Assigned before the block, a variable keeps its
    new value behind it."""

    code = "E0212"
    title = "`{name}` ends with the block that assigns it"
    labels = (primary("at", "used behind the block"), secondary("assigned", "assigned here, in a {block}"))
    note = "{why}"
    help = "use `{name}` inside the block{more}"
    name: str
    block: str
    why: str
    more: str
    at: Span
    assigned: Span


class TypeChanged(Message):
    """A variable keeps the type of its first assignment."""

    code = "E0213"
    title = "`{name}` is {old} and cannot become {new}"
    labels = (primary("at", "assigned {new} here"), secondary("first", "it is {old} since here"))
    name: str
    old: str
    new: str
    at: Span
    first: Span


class TileReassigned(Message):
    """A tile's name stands for its expression, evaluated where it is used: it cannot change from one iteration or branch to the
    next. A tile that `registers(...)` put into registers can."""

    code = "E0214"
    title = "the tile `{name}` is assigned again inside a block"
    labels = (primary("at", "this would make its value depend on the path"), secondary("first", "first assigned here"))
    help = "give the new tile its own name, or keep the first one in registers: `{name} = registers(...)`"
    name: str
    at: Span
    first: Span


class Misplaced(Message):
    """Kernels hold `grid`, declarations and roles; roles hold what runs."""

    code = "E0215"
    title = "{what} cannot stand {where}"
    labels = (primary("at", "move it {to}"),)
    what: str
    where: str
    to: str
    at: Span


class MissingGrid(Message):
    """`grid(x, y, z)` says how many thread blocks run, from the tensors' dimensions; without it nothing could be launched."""

    code = "E0216"
    title = "kernel `{kernel}` has no `grid(...)`"
    labels = (primary("at", "this kernel never says how many blocks run"),)
    help = "add for example `grid(ceildiv(M, BM), ceildiv(N, BN))` as its first line, or a `TileScheduler`"
    kernel: str
    at: Span


class UnknownConstant(Message):
    """A constant given from outside (`-D NAME=VALUE`, `constants={{...}}`) must be a compile-time parameter of the kernel."""

    code = "E0217"
    title = "no kernel has a compile-time parameter `{name}`"
    note = "it was given from outside as {name}={value}; the kernels have {known}"
    name: str
    value: str
    known: str


class BadConstant(Message):
    """A value given for a compile-time parameter has another type than the parameter, or the parameter got no value at all."""

    code = "E0218"
    title = "compile-time parameter `{name}` {problem}"
    labels = (primary("at", "declared here"),)
    name: str
    problem: str
    at: Span


class Recursive(Message):
    """A helper is inlined where it is called, so it cannot call itself, directly or through others."""

    code = "E0219"
    title = "helper `{name}` calls itself"
    labels = (primary("at", "called again here"), secondary("defined", "defined here"))
    name: str
    at: Span
    defined: Span


class MisplacedReturn(Message):
    """A helper is inlined: its `return` can only be its last statement."""

    code = "E0220"
    title = "`return` is only allowed as the last statement of a helper"
    labels = (primary("at", "this one stands {where}"),)
    note = "{why}"
    help = "{instead}"
    where: str
    why: str
    instead: str
    at: Span


class NoEffect(Message):
    """A statement that computes a value and drops it, or names an operation without calling it."""

    code = "E0221"
    title = "this statement does nothing"
    labels = (primary("at", "the value is not used"),)
    help = "{hint}"
    hint: str | None
    at: Span


class DivisionByZero(Message):
    """A compile-time division by zero."""

    code = "E0222"
    title = "division by zero"
    labels = (primary("at", "the divisor is 0 at compile time"),)
    at: Span


class AssertionFailed(Message):
    """A `static_assert` of the kernel's author does not hold for these compile-time parameters."""

    code = "E0223"
    title = "{text}"
    labels = (primary("at", "this assertion does not hold"),)
    note = "compile-time values: {values}"
    text: str
    values: str
    at: Span


class UnknownKernel(Message):
    """`--kernel NAME` must name a kernel of the file."""

    code = "E0224"
    title = "no kernel is called `{name}`"
    note = "the file defines {known}"
    name: str
    known: str


class NotScoped(Message):
    """`with` takes a scoped stage (`pipeline.produce()`, `.consume()`, `.consume_explicit()`), `elect()` or `semaphore(...)`."""

    code = "E0225"
    title = "`with` cannot hold this"
    labels = (primary("at", "this is {found}"),)
    help = "write `with pipeline.produce() as s:`, `with pipeline.consume() as s:` or `with elect():`"
    found: str
    at: Span


class WrongRank(Message):
    """A tile of a tensor is named by one coordinate per dimension, outermost first, in elements."""

    code = "E0226"
    title = "`{tensor}` has {rank} and was given {given}"
    labels = (primary("at", "{given}"), secondary("declared", "declared here"))
    tensor: str
    rank: str
    given: str
    at: Span
    declared: Span


class NotLaunchUniform(Message):
    """The grid is computed before the kernel starts, from dimensions, scalar parameters and constants."""

    code = "E0227"
    title = "{what} cannot be computed before the launch"
    labels = (primary("at", "{found}"),)
    note = "the host computes it from sizes, integer parameters and constants, by + - * // % min max ceildiv"
    what: str
    found: str
    at: Span


class UnnamedStage(Message):
    """A stage that was acquired must be named, or nothing could fill it, read it or release it."""

    code = "E0228"
    title = "the stage acquired here has no name"
    labels = (primary("at", "acquired and dropped"),)
    note = "its slot is never given back: the other side blocks for ever once the ring is full"
    help = "write `{fix}`"
    fix: str
    at: Span


class ForeignStage(Message):
    """A buffer that the kernel declares itself belongs to the stage whose index picks its slot, so the index must be `s.index()`
    of a stage that is held here."""

    code = "E0229"
    title = "a slot of `{buffer}` is picked by the index of a held stage"
    labels = (primary("at", "this is {found}"),)
    help = "write `{buffer}[s.index()]`"
    buffer: str
    found: str
    at: Span


class WrongBarrier(Message):
    """A copy or a commit signals the barrier of the stage it works for. Signalling another stage's barrier completes that one
    too early, and its own never."""

    code = "E0230"
    title = "this signals the barrier of stage `{other}`, but works on stage `{stage}`"
    labels = (primary("at", "the barrier of `{other}`"), secondary("obtained", "`{stage}` obtained here"))
    note = "the waiter of `{stage}` would block for ever, the waiter of `{other}` would read too early"
    help = "use `{stage}.mbar()`"
    edits = (replace("at", "{stage}.mbar()"),)
    stage: str
    other: str
    at: Span
    obtained: Span


class BadRange(Message):
    """A loop runs over `range(stop)`, `range(start, stop)` or `range(start, stop, step)` with a step that is known and not zero, or over
    the tiles of a `TileScheduler`."""

    code = "E0231"
    title = "a loop runs over `range(...)` or the tiles of a scheduler"
    labels = (primary("at", "this is {found}"),)
    found: str
    at: Span


class TooManyInlined(Message):
    """Helpers and constants are expanded while compiling; past this many nodes the kernel would not fit the instruction cache anyway."""

    code = "E0232"
    title = "this kernel expands to more than {limit} operations"
    labels = (primary("at", "while expanding this"),)
    limit: str
    at: Span


class EndlessLoop(Message):
    """A loop whose condition is always true never ends: the language has no `break`, and a kernel that does not end hangs the GPU
    until a watchdog kills the process."""

    code = "E0233"
    title = "this loop never ends"
    labels = (primary("at", "the condition is true at compile time"),)
    note = "the kernel would occupy the GPU until the process is killed"
    help = "loop over `range(...)`, or under a condition that becomes false"
    at: Span


class NoRoles(Message):
    """A kernel's work is done by its roles; one without any would launch threads that do nothing."""

    code = "E0234"
    title = "kernel `{kernel}` has no role"
    labels = (primary("at", "declared here"),)
    kernel: str
    at: Span


class KernelName(Message):
    """A kernel's name becomes the name of its entry in the PTX, where some identifiers mean something else.

    `WARP_SZ` is a constant of PTX (PTX ISA 4.4) and `_` is a place for a result that is dropped.
    """

    code = "E0237"
    title = "a kernel cannot be called `{kernel}`"
    labels = (primary("at", "{meaning}"),)
    note = "the assembler would not take it for the name of an entry"
    help = "write `kernel {better}`"
    edits = (replace("at", "{better}"),)
    kernel: str
    meaning: str
    better: str
    at: Span


class GridSize(Message):
    """A grid has at least one block along each axis, at most 2147483647 along x and 65535 along y and z.

    Sizes that depend on the arrays are looked at when the kernel is launched.
    """

    code = "E0238"
    title = "the grid has {size} blocks along {axis}"
    labels = (primary("at", "from 1 to {most}"),)
    note = "the driver refuses to launch such a grid"
    size: int
    axis: str
    most: int
    at: Span


class LinearInWith(Message):
    """`acquire_...()` gives a stage that is released by hand; `with` takes `produce()`, `consume()` or `consume_explicit()`, whose
    stage the end of the block releases. Mixing the two would release twice, or never."""

    code = "E0235"
    title = "{problem}"
    labels = (primary("at", "this is the {form} form"),)
    help = "{fix}"
    problem: str
    form: str
    fix: str
    at: Span
