"""E076x: stores that combine with what stands in global memory."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class ReductionType(Message):
    """A store with `reduce` combines each element with the one that stands in global memory, where the memory system does the
    arithmetic. TMA adds i32, u32, u64, f16, bf16 and f32, and takes the minimum or maximum of i32, u32, i64, u64, f16 and bf16; the
    reductions of threads (`store.direct`) add i64 and f64 as well, and have minima and maxima of integers only."""

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
    """A block that waits for its turn of one counter while it holds the turn of another makes the blocks behind it wait for both. Two
    blocks that do so in different orders wait for each other for ever, and no check sees both of them."""

    code = "E0611"
    title = "a turn is awaited while another one is held"
    labels = (primary("at", "waits here"), secondary("outer", "inside this turn"))
    note = "blocks that take two turns in different orders wait for each other for ever"
    help = "end the outer `with` first"
    at: Span
    outer: Span


class NoSuchTurn(Message):
    """Turns are counted from 0 to `turns - 1`, and the last one sets the counter back to 0, so that the kernel can be launched again."""

    code = "E0612"
    title = "there is no turn {turn} of {turns}"
    labels = (primary("at", "turns are counted from 0 to `turns - 1`"),)
    note = "the counter never gets there: the block waits for ever"
    turn: str
    turns: int
    at: Span


class TurnsOfGrid(Message):
    """`with semaphore(counter[...], block.z, turns):` is taken by every block along z, so there are as many turns as the grid has blocks
    there. With fewer, blocks beyond the last turn wait for a number that the counter never reaches; with more, it is not 0 again at the
    end, and the next launch waits for ever."""

    code = "E0613"
    title = "{blocks} blocks along {axis} take {turns} turns"
    labels = (primary("at", "{turns} turns"), secondary("grid", "{blocks} blocks"))
    note = "blocks beyond the last turn wait for ever, or the counter is not 0 for the next launch"
    axis: str
    blocks: int
    turns: int
    at: Span
    grid: Span


class UnorderedRoles(Message):
    """The roles of a block run side by side. What one of them stores and another loads needs a hand-over between the two: a stage that the
    one signals after its access, and the other waits for before its own. A signal speaks for what its threads did before it; that of a
    commit or of copies that land (`mma.commit`, `cp.async`) speaks for the MMAs or copies alone, and the bytes of a TMA load for what came
    before the stage was obtained. In a loop the hand-over must order each access of one role with each of the other: by tiles that do not
    come back in other iterations, or by a pipeline of one stage that is held around both. Tiles that are shown to be apart need nothing."""

    code = "E0614"
    title = "roles `{role}` and `{other}` both touch `{tensor}`, and nothing orders them"
    labels = (primary("at", "`{role}` {does} here"), secondary("first", "`{other}` {other_does} here"))
    note = "{consequence}"
    help = "signal a stage in the role that comes first after its access, and wait for it in the other before its own"
    role: str
    other: str
    tensor: str
    does: str
    other_does: str
    consequence: str
    at: Span
    first: Span


class ReadsWhatItStores(Message):
    """A statement is computed by all threads of the role, element by element, and stored as it goes. Where it loads other elements of the
    tensor that it stores to, another thread may have stored them already. Each thread may load the very elements that it stores."""

    code = "E0615"
    title = "one statement loads from `{tensor}` and stores to other elements of it"
    labels = (primary("at", "loaded here"), secondary("store", "stored here"))
    note = "some threads have stored when others load: they find old and new values mixed"
    help = "load first, into registers: `x = registers(...)`, then store `x`"
    tensor: str
    at: Span
    store: Span


class CopyUnderWay(Message):
    """A copy from global memory into a stage is complete when the stage is full. A role that goes on to store over what it copies must have
    waited for that stage, itself or through another role."""

    code = "E0616"
    title = "`{tensor}` is stored to while a copy from it may be under way"
    labels = (primary("at", "stored here"), secondary("copy", "copied from here"))
    note = "the stage may get old values, new ones, or some of both"
    help = "wait for the stage before the store, or store in the role that waits for it"
    tensor: str
    at: Span
    copy: Span
