"""E02xx: where statements are allowed, what a kernel must have, and what has no effect."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class Misplaced(Message):
    """Kernels contain `grid`, declarations and roles; roles contain the statements that run.

    Nothing runs outside of a role, so an operation written there would belong to no thread; and what is declared inside one would exist
    for that role alone, although every role of the block shares it.
    """

    code = "E0215"
    title = "{what} is not allowed {where}"
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


class Recursive(Message):
    """A helper is inlined where it is called, so it cannot call itself, directly or through others: the code would never end.

    Write a loop; over compile-time numbers it can be unrolled.
    """

    code = "E0219"
    title = "helper `{name}` calls itself"
    labels = (primary("at", "called again here"), secondary("defined", "defined here"))
    name: str
    at: Span
    defined: Span


class MisplacedReturn(Message):
    """A helper is inlined: its body takes the place of the call, so its `return` can only be its last statement.

    Where the result depends on a condition, choose between values (`return x if k > 0 else y`), or assign a variable in both branches and
    return it at the end. Roles and kernels return nothing: what they compute is stored.
    """

    code = "E0220"
    title = "`return` is only allowed as the last statement of a helper"
    labels = (primary("at", "this one is {where}"),)
    note = "{why}"
    help = "{instead}"
    where: str
    why: str
    instead: str
    at: Span


class NoEffect(Message):
    """A statement computes a value and drops it, or names an operation without calling it: `s.release` in place of `s.release()`.

    No instruction would be emitted for it. Where it should have signalled something, another role would wait for ever.
    """

    code = "E0221"
    title = "this statement does nothing"
    labels = (primary("at", "the value is not used"),)
    help = "{hint}"
    hint: str | None
    at: Span


class NotScoped(Message):
    """`with` takes a scoped stage (`pipeline.produce()`, `.consume()`, `.consume_explicit()`), `elect()` or `semaphore(...)`."""

    code = "E0225"
    title = "`with` cannot take this"
    labels = (primary("at", "this is {found}"),)
    help = "write `with pipeline.produce() as s:`, `with pipeline.consume() as s:` or `with elect():`"
    found: str
    at: Span


class UnnamedStage(Message):
    """A stage that was acquired must be named, or nothing could fill it, read it or release it."""

    code = "E0228"
    title = "the stage acquired here has no name"
    labels = (primary("at", "acquired and dropped"),)
    note = "its slot is never released: the other side blocks for ever once the ring is full"
    help = "write `{fix}`"
    fix: str
    at: Span


class TooManyInlined(Message):
    """Helpers and constants are expanded at compile time; with more nodes than this, the kernel would not fit the instruction cache
    anyway."""

    code = "E0232"
    title = "this kernel expands to more than {limit} operations"
    labels = (primary("at", "while expanding this"),)
    limit: str
    at: Span


class EndlessLoop(Message):
    """A loop whose condition is always true never ends: the language has no `break`, and a kernel that does not end hangs the GPU
    until a watchdog kills the process.

    A condition of which the loop changes nothing is true for ever if it is true once. What a peek such as `try_acquire_consumer()` has
    found does not change by itself either: to wait for a stage, obtain it.
    """

    code = "E0233"
    title = "this loop never ends"
    labels = (primary("at", "{why}"),)
    note = "the kernel would occupy the GPU until the process is killed"
    help = "loop over `range(...)`, or under a condition that becomes false"
    why: str
    at: Span


class NoRoles(Message):
    """A kernel's work is done by its roles; one without any would launch threads that do nothing.

    The smallest kernel has one, without a pipeline:

        role work(warps=4):
            store(y[block.x * 128, 0], load(x[block.x * 128, 0], 128, 64))
    """

    code = "E0234"
    title = "kernel `{kernel}` has no role"
    labels = (primary("at", "declared here"),)
    help = "write `role all(warps=4):` above what its threads do, and indent that"
    kernel: str
    at: Span


class KernelName(Message):
    """A kernel's name becomes the name of its entry in the PTX, where some identifiers mean something else.

    `WARP_SZ` is a constant of PTX (PTX ISA 4.4), and `_` stands for a result that is dropped.
    """

    code = "E0237"
    title = "a kernel cannot be called `{kernel}`"
    labels = (primary("at", "{meaning}"),)
    note = "the assembler would not accept it as the name of an entry"
    help = "write `kernel {better}`"
    edits = (replace("at", "{better}"),)
    kernel: str
    meaning: str
    better: str
    at: Span


class GridSize(Message):
    """A grid has at least one block along each axis, at most 2147483647 along x and 65535 along y and z.

    Sizes that depend on the arrays are checked when the kernel is launched.
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
    subject = "a stage is obtained in one form and given back in the other"
    labels = (primary("at", "this is the {form} form"),)
    help = "{fix}"
    problem: str
    form: str
    fix: str
    at: Span
