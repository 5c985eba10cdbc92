"""E02xx: names, what they are bound to, and where they are known."""

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


class NotCallable(Message):
    """The expression before the brackets is a value, a type or a name of the kernel. Only operations, helpers (`fn`) and types that
    describe something (`tile[...]`, `TilePayload(...)`) can be called or indexed this way; `a[m, k]` is a place in a tensor, `a(m, k)`
    has no meaning.
    """

    code = "E0209"
    title = "{what} cannot be called"
    labels = (primary("at", "this is not an operation"),)
    what: str
    at: Span


class OutOfBlock(Message):
    """A variable first assigned inside a loop or branch ends with it: on a path that skips the block it would have whatever the register
    had before. So it is where one elected thread runs a block. A `with` around a stage ends only the name of the stage; what its block
    assigns goes on. So does what a turn, `with semaphore(...)`, puts into registers; but a tile that is not in registers is loaded where
    its name is used, and after the turn other blocks change that. A variable that is also assigned before a block keeps its new value
    after it."""

    code = "E0212"
    title = "`{name}` ends with the block that assigns it"
    labels = (primary("at", "used after the block"), secondary("assigned", "assigned here, in a {block}"))
    note = "{why}"
    help = "use `{name}` inside the block{more}"
    name: str
    block: str
    why: str
    more: str
    at: Span
    assigned: Span


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


class LostMeaning(Message):
    """A block that gives a name of an enclosing block another meaning (a tile, an accumulator, a number where the name was a parameter
    of a helper or counts a loop) does so for itself alone. Where the name is read behind the block, or in the next iteration of a
    loop, it would still stand for what it was: what the block assigned would be lost. Numbers and tiles in registers are variables, which
    keep what is assigned in a block."""

    code = "E0297"
    title = "`{name}` is read where it does not stand for what a block assigned to it"
    labels = (
        primary("at", "here it would be what it was before the block"),
        secondary("again", "assigned for this block alone"),
    )
    note = "what is assigned would be lost"
    help = "make it a variable before the block: `own = {name}` for a number, `own = registers({name})` for a tile"
    name: str
    at: Span
    again: Span


class ChangedTile(Message):
    """A tile's name stands for its expression, which is read where the name is used. What it reads (an accumulator, a tensor, the tile of
    a stage) must not be written by the role between the two, or the name would stand for the new values. The argument of a helper is
    such a name, too."""

    code = "E0298"
    title = "what the tile `{name}` reads has changed since it was named"
    labels = (
        primary("at", "read here, and not where it is named"),
        secondary("changed", "changed here"),
        secondary("named", "named here"),
    )
    note = "these would be the new values"
    help = "keep the old ones in registers: `{name} = registers(...)`; or name the tile behind the change"
    name: str
    at: Span
    changed: Span
    named: Span


class UnknownKernel(Message):
    """`--kernel NAME`, or `kernel=` in Python, must name a kernel of the file."""

    code = "E0224"
    title = "no kernel is called `{name}`"
    note = "the file defines {known}"
    name: str
    known: str


class ForeignStage(Message):
    """A slot of a buffer that the kernel declares belongs to the stage whose index selects it, so the index must be the number of a stage
    that is held here: `s.index()` of one with a name, `p.producer_stage()` or `p.consumer_stage()` after a wait by hand, `p.index()` of a
    RolePipeline."""

    code = "E0229"
    title = "a slot of `{buffer}` must be selected by the index of a held stage"
    labels = (primary("at", "this is {found}"),)
    help = "write `{buffer}[{number}]`"
    buffer: str
    number: str
    found: str
    at: Span


class WrongBarrier(Message):
    """A copy or a commit signals the barrier of the stage it works for. Signalling another stage's barrier completes that
    stage too early, and its own never."""

    code = "E0230"
    title = "this signals the barrier of stage `{other}`, but works on stage `{stage}`"
    labels = (primary("at", "the barrier of `{other}`"), secondary("obtained", "`{stage}` obtained here"))
    note = "whoever waits for `{stage}` would block for ever, and whoever waits for `{other}` would continue too early"
    help = "use `{stage}.mbar()`"
    edits = (replace("at", "{stage}.mbar()"),)
    stage: str
    other: str
    at: Span
    obtained: Span
