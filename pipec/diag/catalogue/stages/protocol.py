"""E06xx: the orders in which the roles wait and signal do not fit together."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class Deadlock(Message):
    """For the sizes shown, roles wait for each other for ever, whatever the timing: a consumer waits for a stage that no producer will
    fill any more, or a producer for one that no consumer will release.

    The usual cause is a loop that runs more often in one role than in the other:

        role load(warps=1) produces ring:
            for k in range(ceildiv(K, 64)):
                with ring.produce() as s:
                    tma.load(s.x, x[0, k * 64])

        role work(warps=4) consumes ring:
            for k in range(ceildiv(K, 64) + 1):     # the last wait never ends
                with ring.consume() as s:
                    store(y[0, k * 64], s.x)

    or two pipelines acquired in opposite orders, with fewer stages than the loop in between needs. The sizes are the smallest
    found; larger ones usually fail too.
    """

    code = "E0601"
    title = "{roles} for ever{when}"
    subject = "roles wait for each other, or for nobody, for ever"
    labels = (primary("at", "`{role}` never gets past this wait"), secondary("others", "and this wait never ends"))
    note = "{waits}: on the GPU the kernel hangs until a watchdog ends the process"
    roles: str
    when: str
    waits: str
    role: str
    at: Span
    others: tuple[Span, ...]


class Uneven(Message):
    """For the sizes shown, every role ends, but some stages were filled that a consuming role never acquired. The block then exits while
    copies may still be writing its shared memory, which may already belong to the next block on the multiprocessor; or signals to a
    barrier there may still be on their way; or what threads have written into a stage is lost.

    Let the loops of both sides run equally often, or drain the remaining stages.

    A pipeline of one stage without a tile is a baton. If only threads of one block signal it, nobody has to take its last signal: nothing
    is lost or under way then. Several stages without tiles are a queue. Nothing is under way there either, but a consumer that leaves
    some of them has not done the work that they stand for: a loop that is too short looks like that.
    """

    code = "E0602"
    title = "`{pipeline}` is filled {filled}, but consumed {consumed} by role `{role}`{when}"
    labels = (
        primary("at", "declared here"),
        secondary("fills", "a stage is obtained for filling here"),
        secondary("uses", "a filled stage is obtained here"),
    )
    note = "the block would exit with filled stages: {left}"
    pipeline: str
    filled: str
    role: str
    consumed: str
    when: str
    at: Span
    fills: tuple[Span, ...]
    uses: tuple[Span, ...]
    left: str


class NotDecided(Message):
    """The search found neither a proof that no role waits for ever, nor sizes at which one does. The kernel may well be correct. The
    search follows one order of the roles' steps through all situations that their branches lead to, and tracks linear relations
    between loop variables and sizes. It gives up where those do not suffice, where there are too many situations, and where
    arithmetic on loop variables might overflow 32 bits.

    Bounds and conditions that are the same linear expressions of sizes in all roles are the easiest to follow. Where loops have the same
    bounds already, the message names the conditions that decide whether a stage is handed over, such as `if i >= 3:` in one role and
    `if i + 3 < n:` in the other beside loops of unknown length. To hand all stages over, and leave out what is done with them, is easier
    to follow. A condition that a loop has just asked, `if lo <= hi:` at the begin of `while lo <= hi:`, is best not asked again: a value
    that is kept for it from turn to turn is not understood.

    Bounds may be in other words in each role where one of the ways applies that docs/proof.md lists: loops inside each other and one over
    their product, walks over tiles in steps of the grid, ranges of stream-K taken apart by `u // steps`, counters that go round, shares
    of K blocks. Known to be too hard are products of sizes and of numbers in memory that only one role has, and a loop in pieces of
    another length beside one in steps, `for c in range(0, K, 256):` around `for k in range(c, min(c + 256, K), 64):`.

    Where the roles wait for ever only if memory holds certain numbers, the message says which, as in "when B = 1, counts[0] = 64". Either
    memory never holds such numbers, which pipec cannot know, or this is the mistake.

    If nothing else helps, `--allow-undecided` (Python: `allow_undecided=True`) accepts the kernel as it is; run it with `--watchdog`
    then. It does not search again for what has not been found before: that is remembered in the cache.
    """

    code = "E0604"
    title = "it is not decided whether roles of kernel `{kernel}` wait for each other for ever{tried}"
    labels = (primary("at", "{why}"), secondary("others", "nor that this wait ends"))
    note = "if they do, the kernel hangs until a watchdog ends the process"
    help = "{advice}, or pass `--allow-undecided`"
    kernel: str
    tried: str
    why: str
    advice: str
    at: Span
    others: tuple[Span, ...] = ()


class TakenTooEarly(Message):
    """Consumers share the stages of a pipeline, and one of them may reach its next stage while the ring is a round or more behind.

    A barrier has one bit of phase. A consumer that has taken every stage so far waits for the phase after the one that it saw last, and
    the bit distinguishes these two. A consumer that has skipped stages does not know whether they have been filled: if they have not,
    the bit of the phase before the last is the one that it looks for, and the wait ends at once.

    Let a role reach its stages only after the other one has taken the preceding ones. A pipeline of one stage without tiles does that if
    each of the two roles holds it around its own stages:

        turn = ProducerConsumerPipeline(stages=1)
        role even(warps=4) consumes ring produces turn:
            for i in range(n):
                with turn.produce():
                    with ring.consume() as s:
                        store(y[0, i * 128], s.x)
                ring.skip()
        role odd(warps=4) consumes ring, turn:
            for i in range(n):
                ring.skip()
                with turn.consume():
                    with ring.consume() as s:
                        store(y[0, i * 128 + 64], s.x)
    """

    code = "E0606"
    title = "a consumer of `{pipeline}` may take a stage before it is filled"
    labels = (
        primary("at", "the stages skipped before this one need not be filled yet"),
        secondary("skipped", "skipped here"),
        secondary("declared", "declared here with {stages}"),
    )
    note = (
        "a barrier tells its phases apart by one bit: a wait that comes a round too early ends at once, and the role reads what the slot "
        "held before"
    )
    help = (
        "let the consumers wait for each other: each holds the only stage of another pipeline, "
        "`turn = ProducerConsumerPipeline(stages=1)`, around the stages that it takes, and around the `try_acquire_consumer` for them"
    )
    pipeline: str
    stages: str
    at: Span
    skipped: Span
    declared: Span


class TurnMayNotCome(Message):
    """Blocks start in the order of their numbers, and the GPU may have room for only one at a time. If the turn of a block is passed
    on by a later block, the two wait for each other: the later block cannot start before this one has ended.

    Turns are counted from 0. The turn of a block is its position along an axis (`block.z`), every block along the axis takes its turn
    once, and blocks at other positions have counters of their own.
    """

    code = "E0617"
    title = "block {block} waits for a turn that no block before it passes on{when}"
    labels = (primary("at", "waits until the counter is {turn}"),)
    note = "the counter is {found} when all blocks before it have ended: if there is no room for later blocks, the kernel hangs"
    help = "let each block take one turn, its position along an axis of the grid"
    block: str
    turn: int
    found: int
    when: str
    at: Span


class TurnsLeftOver(Message):
    """The last turn of a counter sets it to 0, for the next launch. If blocks take fewer turns than `with semaphore(...)` states, the
    counter is left at the turn that would have been next. The next launch, whose turns are counted from 0 again, then waits for ever.

    State as many turns as blocks come to the counter, each of them as often as it comes.
    """

    code = "E0624"
    title = "a counter is not 0 at the end of the kernel{when}"
    labels = (primary("at", "block {block} leaves it at {found}, and no block takes the next turn"),)
    note = "the next launch, in which turns are counted from 0 again, waits for ever"
    help = "let every block take its turn, also where it has nothing to do, or state as many turns as blocks take"
    block: str
    found: int
    when: str
    at: Span


class Wraps(Message):
    """For the sizes shown, a number that a branch or a loop of a role depends on overflows 32 bits. The hardware continues with the
    wrapped value, so the role takes a path that the source does not describe: it may signal too often, or wait for ever.

    The value is computed as written, in `i32`. Keep it small: subtract before adding, compare `i > -n` instead of `i + n > 0`, or
    compare indices of tiles instead of indices of elements.
    """

    code = "E0605"
    title = "arithmetic that role `{role}` branches on overflows 32 bits{when}"
    labels = (primary("at", "before this statement or its branch"),)
    note = "the number wraps around, and the role takes a different branch than the source says"
    role: str
    when: str
    at: Span
