"""E026x, E0911: tile schedulers and the loops over their tiles."""

from pipec.diag.message import Message, primary, remove_line, secondary, set_keyword
from pipec.source import Span


class NegativeExtent(Message):
    """A tile scheduler counts tiles along up to three axes; a count is 0 or more."""

    code = "E0261"
    title = "the number of tiles along {axis} is {extent}"
    labels = (primary("at", "a count is 0 or more"),)
    note = "the grid would have a negative size, and the launch would be refused"
    axis: str
    extent: int
    at: Span


class NoBlocks(Message):
    """`blocks` is the largest number of thread blocks in mode "static"; each iterates over its share of the tiles."""

    code = "E0262"
    title = "the tiles are distributed over {value} blocks"
    labels = (primary("at", "at least 1 block must run"),)
    note = "without a block nothing is launched, and no tile is computed"
    help = "remove `blocks`: there are then as many as the GPU has multiprocessors"
    edits = (set_keyword("at", "blocks", ""),)
    value: int
    at: Span


class HalfACluster(Message):
    """A tile is the work of one cluster, so `blocks` must make up at least one cluster. It counts thread blocks: with clusters of 2 and
    `blocks=148`, 74 clusters run."""

    code = "E0272"
    title = "{blocks} blocks are less than one cluster of {size}"
    labels = (primary("at", "its tiles are distributed over {blocks} blocks"), secondary("cluster", "{size} blocks run together"))
    note = "no cluster could run, and no tile would be computed"
    help = "write `blocks={size}` or more, or remove it"
    edits = (set_keyword("at", "blocks", "{size}"),)
    blocks: int
    size: int
    at: Span
    cluster: Span


class EmptyGroup(Message):
    """`group=G` orders the tiles in strips of G values of x, each enumerated row by row in y, so that concurrent blocks share data in the
    L2 cache. Without it, x runs fastest over the whole width."""

    code = "E0263"
    title = "a group of tiles cannot have {value} rows"
    labels = (primary("at", "a strip has at least 1 row"),)
    note = "an empty strip never moves on: no tile beyond the first strip would be reached"
    help = "write `group=8`, or remove it for row-major order"
    edits = (set_keyword("at", "group", "8"),)
    value: int
    at: Span


class UnknownMode(Message):
    """A tile scheduler distributes the tiles in one of two ways.

    "static": a fixed share for each block, computed by counting. "clc" (cluster launch control, sm_100a): a block that is done takes
    the next tile from the hardware's own queue, which balances tiles of unequal length and GPUs that are shared.
    """

    code = "E0264"
    title = "a tile scheduler has no mode `{mode}`"
    labels = (primary("at", "neither `static` nor `clc`"),)
    help = 'write `mode="static"` or `mode="clc"`'
    edits = (set_keyword("at", "mode", '"static"'),)
    mode: str
    at: Span


class SecondScheduler(Message):
    """A kernel has one tile scheduler: the grid is derived from its tiles, and in every block all roles iterate over the same ones.

    For two kinds of work in one kernel, count the tiles of both in one scheduler and tell them apart by their number.
    """

    code = "E0265"
    title = "the kernel has two tile schedulers, `{other}` and `{name}`"
    labels = (primary("at", "a second one"), secondary("first", "the first"))
    note = "the grid has as many blocks as one scheduler's tiles need; the other's tiles would be skipped or computed twice"
    name: str
    other: str
    at: Span
    first: Span


class NeverWalked(Message):
    """A tile scheduler hands out tiles to roles that iterate over them with `for tile in tiles:`."""

    code = "E0266"
    title = "no role iterates over the tiles of `{scheduler}`"
    labels = (primary("at", "nobody receives its tiles"),)
    note = "the grid is derived from these tiles, but each block would do the work of at most one of them"
    help = "write `for tile in {scheduler}:` in each role, around the work of one tile"
    scheduler: str
    at: Span


class WalkedTwice(Message):
    """A role iterates over the tiles once.

    In mode "clc" a tile is handed out once and never again: a second loop would wait for answers that do not come. The rule holds in
    mode "static" as well, so that a kernel may change its mode.
    """

    code = "E0267"
    title = "role `{role}` iterates over the tiles of `{scheduler}` twice"
    labels = (primary("at", "no tiles are left for this loop"), secondary("first", "the tiles are handed out here"))
    note = 'in mode "clc" each tile is handed out once: this loop would wait for an answer that never comes'
    help = "do the work of both loops in the first"
    role: str
    scheduler: str
    at: Span
    first: Span | None


class WalkedInside(Message):
    """The loop over the tiles is at the top level of its role: not in another loop, an `if` of run-time values, or a `with`.

    All roles iterate over the same tiles. In mode "clc" they read each answer of the hardware together, so none may skip the loop, and a
    role that holds a stage around it would hold the stage for all tiles. An `if` over compile-time values is allowed.
    """

    code = "E0268"
    title = "the loop over the tiles of `{scheduler}` is inside another statement of role `{role}`"
    labels = (primary("at", "this must run once in every block"), secondary("inside", "inside this"))
    note = "a role that skips or repeats the loop falls out of step with the others, which wait for it for ever"
    help = "move the loop out, and the surrounding statement into its body"
    role: str
    scheduler: str
    at: Span
    inside: Span


class TileAssigned(Message):
    """The scheduler chooses the tile of an iteration. Use another name for a variable of your own."""

    code = "E0269"
    title = "the tile `{tile}` cannot be assigned"
    labels = (primary("at", "the scheduler chooses it"), secondary("loop", "named here"))
    note = "the other roles work on the scheduler's tile; this one would compute another"
    tile: str
    at: Span
    loop: Span | None


class GridDiffers(Message):
    """The grid follows from the tile scheduler: mode "static" runs min(tiles, blocks) blocks, mode "clc" one for each tile.

    `grid(...)` may be omitted. If it is given, it must agree with the derived grid; the two are compared at a number of sizes.
    """

    code = "E0270"
    title = "the grid is not the one that `{scheduler}` needs"
    labels = (primary("at", "{stated} with {sizes}"), secondary("declared", "these tiles need {derived}"))
    note = "{consequence}"
    help = "remove `grid(...)`: it is derived"
    edits = (remove_line("at"),)
    scheduler: str
    stated: str
    derived: str
    sizes: str
    consequence: str
    at: Span
    declared: Span


class TileOutsideLoop(Message):
    """The tile of `for tile in tiles:` exists only during its iteration. Keep a value that is needed later in a variable of its own."""

    code = "E0271"
    title = "the tile `{tile}` is used outside its loop"
    labels = (primary("at", "no tile is being worked on here"), secondary("loop", "the loop over the tiles"))
    note = "a block may have worked on many tiles by now, or on none"
    help = "move this into the loop"
    tile: str
    at: Span
    loop: Span


class NoLaunchControl(Message):
    """The target has no cluster launch control, so no block can take over the tile of one that has not started.

    `mode="clc"` is Blackwell's way (sm_100a). On Hopper (sm_90a), each block computes which tiles are its own.
    """

    code = "E0911"
    title = "target {target} has no cluster launch control for `{scheduler}`"
    labels = (primary("at", 'tiles handed out by the hardware (`mode="clc"`)'),)
    note = "{target} cannot cancel the launch of a block; a block only knows its own number"
    help = 'write `mode="static"`: each block takes every n-th tile; or compile with `--arch sm_100a`'
    edits = (set_keyword("at", "mode", '"static"'),)
    target: str
    scheduler: str
    at: Span
