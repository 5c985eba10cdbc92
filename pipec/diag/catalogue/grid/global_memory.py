"""E06xx and E076x: stores that combine with the contents of global memory, turns, and the order of accesses."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class ReductionType(Message):
    """A store with `reduce` combines each element with the one in global memory; the memory system does the arithmetic. TMA adds i32,
    u32, u64, f16, bf16 and f32, and takes the minimum or maximum of i32, u32, i64, u64, f16 and bf16; the reductions of threads
    (`store.direct`) add i64 and f64 as well, and take the minimum or maximum of integers of 32 and 64 bits, f32 and f64. A `store` with
    `rows=` is by TMA where a tile is whole and by threads where it is not, so both must have the reduction."""

    code = "E0761"
    title = "{unit} has no `{reduce}` of {dtype} in global memory"
    labels = (primary("at", 'reduces by "{reduce}"'), secondary("declared", "elements of {dtype}"))
    note = 'for "{reduce}" there are {allowed}'
    help = "{hint}"
    unit: str
    reduce: str
    dtype: str
    allowed: str
    hint: str | None
    at: Span
    declared: Span


class NestedTurn(Message):
    """A block that waits for its turn at one counter while it holds the turn at another makes later blocks wait for both. Two blocks
    that do so in different orders wait for each other for ever, and no check sees both of them."""

    code = "E0611"
    title = "this waits for a turn while it holds another one"
    labels = (primary("at", "waits here"), secondary("outer", "holds this turn"))
    note = "blocks that take two turns in different orders wait for each other for ever"
    help = "end the outer `with` first"
    at: Span
    outer: Span


class NoSuchTurn(Message):
    """Turns are counted from 0 to `turns - 1`, and the last one resets the counter to 0, so that the kernel can be launched again."""

    code = "E0612"
    title = "there is no turn {turn} of {turns}"
    labels = (primary("at", "turns are counted from 0 to `turns - 1`"),)
    note = "the counter never gets there: the block waits for ever"
    turn: str
    turns: int
    at: Span


class CounterOutside(Message):
    """A semaphore's counter is an element of its tensor. It is read and written by address: unlike a tile, it is not clipped at the
    tensor's edge. Where its index or the size is known only at the launch, the launch is refused if a counter lies outside."""

    code = "E0619"
    title = "a counter lies outside `{tensor}`"
    labels = (primary("at", "index {place} in a dimension of size {size}"), secondary("declared", "declared here"))
    note = "the block waits for what other memory happens to hold, and writes its turns over it"
    help = "give `{tensor}` an element for each counter"
    tensor: str
    place: int
    size: int | str
    at: Span
    declared: Span


class TurnsOfGrid(Message):
    """`with semaphore(counter[...], block.z, turns):` is taken by every block along z, in a loop by all of them equally often, so there
    are as many turns as the grid has blocks along z (for `block.z * 4 + block.y`, as along y and z together). With fewer turns, blocks
    beyond the last one wait for a number that the counter never reaches; with more, the counter is not 0 again at the end, and the next
    launch waits for ever."""

    code = "E0613"
    title = "{blocks} blocks along {axes} take {turns} turns"
    labels = (primary("at", "{turns} turns"), secondary("grid", "{blocks} blocks"))
    note = "blocks beyond the last turn wait for ever, or the counter is not 0 for the next launch"
    axes: str
    blocks: str
    turns: str
    at: Span
    grid: Span


class UnorderedRoles(Message):
    """The roles of a block run concurrently. If one of them stores what another loads, the two need a hand-over in between: a stage
    that one signals after its access, and the other waits for before its own. A signal covers everything that its threads did
    before it; the signal of a commit or of completed copies (`mma.commit`, `cp.async`) covers only those MMAs or copies, and the
    bytes of a TMA load cover what came before the stage was obtained. In a pair of CTAs the leader alone announces the bytes, for both:
    from a role to another one through a role of the leader, what the other CTA did is covered by the arrivals of threads that fill a
    stage, and by no other signal. In a loop, the hand-over must order each access of one role
    with each access of the other: the tiles do not recur in other iterations, or only in those that are further away than the
    stages let one role be ahead of the other, or a pipeline of one stage is held around both accesses. Tiles that are provably
    disjoint need nothing."""

    code = "E0614"
    title = "roles `{role}` and `{other}` both access `{tensor}`, and nothing orders them"
    labels = (primary("at", "`{role}` {does} here"), secondary("first", "`{other}` {other_does} here"))
    note = "{consequence}"
    help = "in the role that comes first, signal a stage after its access; in the other, wait for that stage before its own"
    role: str
    other: str
    tensor: str
    does: str
    other_does: str
    consequence: str
    at: Span
    first: Span


class UnorderedBlocks(Message):
    """The blocks of a grid run in any order and at the same time. Elements that one block stores may not be touched by another, unless
    both store with the same `reduce`, or take turns (`with semaphore(...)`) around their accesses.

    pipec shows that blocks have elements of their own by taking coordinates apart: from a block's index and the counters of loops, by
    sums, products, quotients and remainders. Otherwise it runs the coordinates of the first blocks at a few sizes, and reports a tensor
    whose tiles overlap at two of them. What is neither shown nor seen to overlap is assumed, and the report says so. If the sizes
    of the message cannot occur, `assume(...)` says so, as in `assume(N == 64 * H)`. The usual causes are a coordinate that leaves out
    `block.y`, a tile that is larger than the step from block to block, and a load of a neighbour's tile from a tensor that the kernel
    updates in place.
    """

    code = "E0618"
    title = "blocks {block} and {other} {does} the same elements of `{tensor}`"
    labels = (primary("at", "{what} here{extent}"), secondary("second", "stored here by the other block"))
    note = "blocks run at the same time, in any order: {consequence}; {element} is such an element{sizes}"
    help = (
        "let the coordinates differ by a whole tile from block to block, store with `reduce`, or take turns with one `semaphore`, in which "
        "somebody also waits for the stages that are loaded"
    )
    tensor: str
    block: str
    other: str
    does: str
    what: str
    extent: str
    element: str
    sizes: str
    consequence: str
    at: Span
    second: Span | None


class ReadsWhatItStores(Message):
    """All threads of the role compute a statement element by element, and store each result at once. If the statement loads other
    elements of the tensor that it stores to, another thread may already have stored them. Each thread may load exactly the elements
    that it stores."""

    code = "E0615"
    title = "one statement loads from `{tensor}` and stores to {what}"
    labels = (primary("at", "loaded here"), secondary("store", "stored here"))
    note = "some threads have stored when others load: they get a mixture of old and new values"
    help = "load first, in a line of its own: `before = {loaded}`, then compute with `before`"
    tensor: str
    what: str
    loaded: str
    at: Span
    store: Span


class GathersWhatIsStored(Message):
    """`load(t[i, j], rows, columns, at=rows_of_t)` loads rows that are known only when the kernel runs. Nothing says which of them another
    thread, role or block stores, so such a load may not read a tensor that the kernel stores to."""

    code = "E0620"
    title = "rows of `{tensor}` are gathered, and the kernel stores to it"
    labels = (primary("at", "gathered here"), secondary("store", "stored here"))
    note = "which rows are loaded is not known before the launch: one may be stored by another block at the same time"
    help = "store to another tensor"
    tensor: str
    at: Span
    store: Span


class ScattersWithoutReducing(Message):
    """`store.direct(t[i, j], tile, at=rows_of_t)` stores rows that are known only when the kernel runs. Two rows of the tile may have the
    same number, and so may rows of another block: only reductions, which combine with what is there, give the same result in each
    order."""

    code = "E0621"
    title = "rows of `{tensor}` are scattered without `reduce`"
    labels = (primary("at", "stored to rows that are known only when the kernel runs"),)
    note = "several threads may store to one row at the same time: it ends up with elements of some of them"
    help = 'add `reduce="add"`, into a tensor that holds the initial values, such as zeros'
    tensor: str
    at: Span


class ScatteredAndUsed(Message):
    """`store.direct(t[i, j], tile, at=rows_of_t, reduce="add")` reduces into rows that are known only when the kernel runs. All else that
    the kernel does with the tensor must be the same reduction, since nothing says which of its elements they meet."""

    code = "E0622"
    title = "rows of `{tensor}` are scattered, and the kernel also {does}"
    labels = (primary("at", "scattered here"), secondary("other", "{does} here"))
    note = "which rows are stored is not known before the launch: what comes last, and what a load finds, differs from run to run"
    help = 'leave it to another kernel, or let both reduce by "{reduce}"'
    tensor: str
    does: str
    reduce: str
    at: Span
    other: Span


class CounterUsed(Message):
    """The counter of a `semaphore` is changed by every block, at any time, to say whose turn it is. A block that loads it finds any number,
    and one that stores to it lets blocks in at the wrong time, or none. A tensor of counters is therefore for turns alone: also those of
    its elements that count nothing."""

    code = "E0623"
    title = "`{tensor}` counts turns, and the kernel also {does} it"
    labels = (primary("at", "{what} here"), secondary("turn", "turns are counted here"))
    note = "other blocks take their turns at the same time, and change the counters"
    help = "use another tensor, in which blocks change only elements of their own, or inside a turn"
    tensor: str
    does: str
    what: str
    at: Span
    turn: Span


class CopyUnderWay(Message):
    """A copy from global memory into a stage is complete when the stage is full. A role that later stores over the source of the copy
    must have waited for that stage, directly or through another role. Obtaining the only stage of a pipeline again waits for the copy
    into it as well, and so does draining the pipeline, since whoever gave the stage back has waited."""

    code = "E0616"
    title = "`{tensor}` is stored to while a copy from it may be in flight"
    labels = (primary("at", "stored here"), secondary("copy", "copied from here"))
    note = "the stage may get old values, new values, or a mixture"
    help = "wait for the stage before the store, or store in the role that waits for it"
    tensor: str
    at: Span
    copy: Span
