"""E04xx: which threads of a role take part in which operations."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class NeedsElect(Message):
    """A one-thread operation is executed by every thread of a role with several warps.

    TMA copies, `mma` and `mma.commit` are issued by one thread. In a role of one warp the compiler elects that thread; in a
    larger role the kernel says which part one thread runs:

        with elect():
            tma.load(s.a, a[0, 0])
    """

    code = "E0409"
    title = "`{operation}` is issued by one thread, but all {threads} threads of role `{role}` are here"
    labels = (
        primary("at", "every thread of the role would issue it"),
        secondary("others", "the same holds here"),
        secondary("declared", "this role has {warps} warps"),
    )
    note = "{consequence}"
    help = "put it into a block `with elect():`"
    operation: str
    role: str
    threads: int
    warps: int
    consequence: str
    at: Span
    others: tuple[Span, ...]
    declared: Span


class RoleWideInElect(Message):
    """An operation of the whole role is inside `with elect():`, where only one thread runs.

    Obtaining and releasing a stage, `arrive`, `store`, `write` and reading tiles into registers involve every thread of the
    role: each one keeps its own count of stages, holds its own part of a tile, or has to arrive on the barrier.
    """

    code = "E0410"
    title = "{operation} needs every thread of role `{role}`, but only one thread runs here"
    labels = (primary("at", "reached by one thread"), secondary("guard", "one elected thread runs this block"))
    note = "{consequence}"
    help = "move it out of the `elect()` block"
    operation: str
    role: str
    consequence: str
    at: Span
    guard: Span | None


class RoleWideInGuard(Message):
    """An operation of the whole role is in a branch that only some of its threads take.

    The condition depends on the thread (`lane_id()`, `role_thread()`, `role_warp()` or a value computed from them). Obtaining
    and releasing a stage, `store`, `write` and reading tiles into registers must be reached by all threads together.
    """

    code = "E0411"
    title = "{operation} needs every thread of role `{role}`, but only some take this branch"
    labels = (primary("at", "reached by some threads only"), secondary("guard", "this differs between the threads of the role"))
    note = "{consequence}"
    help = "move it out of the branch"
    operation: str
    role: str
    consequence: str
    at: Span
    guard: Span | None


class OneThreadInGuard(Message):
    """A one-thread operation is in a branch, and the compiler cannot tell that exactly one thread takes it.

    TMA copies, `mma` and `mma.commit` are issued by one thread, and a commit covers only the MMAs of the thread that issues
    it. `with elect():` selects the same thread each time; a guard such as `lane_id() == 0` selects one per warp, and another one.
    """

    code = "E0412"
    title = "`{operation}` is issued by one thread, but this branch selects threads by `{condition}`"
    labels = (primary("at", "{issued}"), secondary("guard", "selects the threads"))
    note = "{consequence}"
    help = "write `with elect():` instead of the condition"
    operation: str
    condition: str
    issued: str
    consequence: str
    at: Span
    guard: Span | None


class ArriveInUnknownGuard(Message):
    """`arrive()` is in a branch that is taken by a number of threads unknown at compile time.

    The barrier completes after a fixed number of arrivals. How many threads pass a condition is known if it compares nothing but
    `lane_id()`, `role_warp()` and `role_thread()` with constants: `if lane_id() == 0:` gives an arrival per warp, `if role_thread() == 0:`
    one of the role. It is not where a condition has another number as well, such as a size or the variable of a loop.
    """

    code = "E0413"
    title = "an unknown number of threads of role `{role}` arrive on `{stage}`"
    labels = (primary("at", "each thread that gets here arrives"), secondary("guard", "passed by an unknown number of threads"))
    note = "with fewer arrivals than the barrier expects, the producer of `{pipeline}` waits for ever; with more, it continues too early"
    help = "compare the number of the thread with constants alone, such as `lane_id() == 0`; put another condition around it"
    role: str
    stage: str
    pipeline: str
    at: Span
    guard: Span | None


class NestedElect(Message):
    """`with elect():` is executed where not all threads of the role run.

    All threads of a warp take part in an election (`elect.sync`); those that took another branch never join it.
    """

    code = "E0414"
    title = "`elect()` needs all threads of role `{role}`, but {found}"
    labels = (primary("at", "elects among all threads"), secondary("guard", "restricts the threads"))
    note = "the missing threads never join the election: the warp hangs"
    help = "{fix}"
    role: str
    found: str
    fix: str
    at: Span
    guard: Span | None


class TensorMemoryReader(Message):
    """A role that reads or writes a tile in tensor memory has a number of warps that is not a multiple of 4.

    Tensor memory has 128 lanes; each warp reaches only the quarter given by its number modulo 4, so four warps together read
    an accumulator.
    """

    code = "E0415"
    title = "role `{role}` {verb} tensor memory with {warps} instead of a multiple of 4"
    labels = (primary("at", "{done} tensor memory here"), secondary("declared", "declared with {warps}"))
    note = "a warp reaches 32 of the 128 lanes: the other rows of the tile would never be {word}"
    help = "declare the role with `warps=4`"
    role: str
    warps: str
    verb: str
    done: str
    word: str
    at: Span
    declared: Span


class NotWarpgroups(Message):
    """A role that multiplies in registers has a number of warps that is not a multiple of 4.

    `wgmma` is issued by the four warps of a warpgroup together; each holds a quarter of the accumulator's rows in its registers.
    """

    code = "E0441"
    title = "role `{role}` holds accumulator `{accumulator}` with {warps} instead of a multiple of 4"
    labels = (primary("at", "an accumulator in registers"), secondary("declared", "declared with {warps}"))
    note = "four warps multiply together, and each holds 16 rows of every 64"
    help = "declare the role with `warps={fitting}`"
    role: str
    accumulator: str
    warps: str
    fitting: int
    at: Span
    declared: Span


class DiffersBetweenThreads(Message):
    """A value that differs between the threads of a role is used where all of them need the same value.

    The position of a tile, and a number that a whole tile is combined with, belong to the tile and not to a thread: the compiler
    chooses which thread works on which elements, and which one issues a copy. `lane_id()`, `role_thread()`, `role_warp()` and what
    is computed from them, or assigned where only some threads pass, may guard an `arrive()` or choose a branch.
    """

    code = "E0420"
    title = "{what} differs between the threads of the role"
    labels = (primary("at", "not the same in every thread"), secondary("operation", "all threads must agree here"))
    note = "it is not defined which thread works on which part of the tile, so neither is the result"
    help = "{hint}"
    what: str
    hint: str | None
    at: Span
    operation: Span
