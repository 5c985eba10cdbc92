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
    """`blocks` is the most thread blocks that run at one time in mode "static"; each walks over its share of the tiles."""

    code = "E0262"
    title = "the tiles are shared out to {value} blocks"
    labels = (primary("at", "at least 1 block must run"),)
    note = "without a block nothing is launched, and no tile is computed"
    help = "leave `blocks` out: as many run as the GPU has multiprocessors"
    edits = (set_keyword("at", "blocks", ""),)
    value: int
    at: Span


class HalfACluster(Message):
    """A tile is the work of one cluster, so `blocks` holds at least one of them. It counts thread blocks: with clusters of 2 and
    `blocks=148`, 74 clusters run."""

    code = "E0272"
    title = "{blocks} blocks are less than one cluster of {size}"
    labels = (primary("at", "its tiles are shared out to {blocks} blocks"), secondary("cluster", "{size} blocks run together"))
    note = "no cluster could run, and no tile would be computed"
    help = "write `blocks={size}` or more, or leave it out"
    edits = (set_keyword("at", "blocks", "{size}"),)
    blocks: int
    size: int
    at: Span
    cluster: Span


class EmptyGroup(Message):
    """`group=G` orders the tiles in strips of G values of x, each walked y by y, so that blocks that run together share what the
    L2 cache holds. Without it x runs fastest over the whole width."""

    code = "E0263"
    title = "a group of {value} rows of tiles"
    labels = (primary("at", "a strip has at least 1 row"),)
    note = "an empty strip never moves on: no tile beyond the first strip would be reached"
    help = "write `group=8`, or leave it out for row-major order"
    edits = (set_keyword("at", "group", "8"),)
    value: int
    at: Span


class UnknownMode(Message):
    """A tile scheduler shares the tiles out in one of two ways.

    "static": a fixed share for each block, computed by counting. "clc" (cluster launch control, sm_100a): a block that is done takes
    over the next tile from the hardware's own queue, which evens out tiles that take unequally long and GPUs that are shared.
    """

    code = "E0264"
    title = "a tile scheduler has no mode `{mode}`"
    labels = (primary("at", "neither `static` nor `clc`"),)
    help = 'write `mode="static"` or `mode="clc"`'
    edits = (set_keyword("at", "mode", '"static"'),)
    mode: str
    at: Span


class SecondScheduler(Message):
    """A kernel has one tile scheduler: the grid is derived from its tiles."""

    code = "E0265"
    title = "the kernel has two tile schedulers, `{other}` and `{name}`"
    labels = (primary("at", "a second one"), secondary("first", "the first"))
    note = "the grid has as many blocks as one scheduler's tiles ask for; the other's would be left out or computed twice"
    name: str
    other: str
    at: Span
    first: Span


class NeverWalked(Message):
    """A tile scheduler hands out tiles to roles that walk over them with `for tile in tiles:`."""

    code = "E0266"
    title = "no role walks over the tiles of `{scheduler}`"
    labels = (primary("at", "its tiles are handed out to nobody"),)
    note = "the grid is derived from these tiles, but each block would do the work of one of them at most"
    help = "write `for tile in {scheduler}:` in each role, around the work of one tile"
    scheduler: str
    at: Span


class WalkedTwice(Message):
    """A role walks over the tiles once.

    In mode "clc" a tile is handed out once and never again: a second loop would wait for answers that do not come. The rule holds in
    mode "static" as well, so that a kernel may change its mode.
    """

    code = "E0267"
    title = "role `{role}` walks over the tiles of `{scheduler}` twice"
    labels = (primary("at", "no tiles are left for this loop"), secondary("first", "the tiles are handed out here"))
    note = 'in mode "clc" each tile is handed out once: this loop would wait for an answer that never comes'
    help = "do the work of both loops in the first"
    role: str
    scheduler: str
    at: Span
    first: Span | None


class WalkedInside(Message):
    """The loop over the tiles stands by itself in its role: not in another loop, an `if` of run-time values, or a `with`.

    All roles walk over the same tiles. In mode "clc" they read each answer of the hardware together, so none may leave the loop out, and
    one that holds a stage around it would hold it over all tiles. An `if` over compile-time values is no obstacle.
    """

    code = "E0268"
    title = "the loop over the tiles of `{scheduler}` stands inside another statement of role `{role}`"
    labels = (primary("at", "this must run once in every block"), secondary("inside", "inside this"))
    note = "a role that skips or repeats the loop falls out of step with the others, which wait for it for ever"
    help = "move the loop out, and what surrounds it into its body"
    role: str
    scheduler: str
    at: Span
    inside: Span


class TileAssigned(Message):
    """The tile of an iteration is chosen by the scheduler. Other work goes into variables with other names."""

    code = "E0269"
    title = "the tile `{tile}` cannot be assigned"
    labels = (primary("at", "the scheduler chooses it"), secondary("loop", "named here"))
    note = "the other roles work on the scheduler's tile; this one would compute another"
    tile: str
    at: Span
    loop: Span | None


class GridDiffers(Message):
    """The grid follows from the tile scheduler: mode "static" runs min(tiles, blocks) blocks, mode "clc" one for each tile.

    `grid(...)` may be left out. Stated, it must be the derived one; the two are compared at a number of sizes.
    """

    code = "E0270"
    title = "the grid is not the one that `{scheduler}` asks for"
    labels = (primary("at", "{stated} with {sizes}"), secondary("declared", "these tiles ask for {derived}"))
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
    """The tile of `for tile in tiles:` is there for its iteration. A value that is needed later is kept in a variable of its own."""

    code = "E0271"
    title = "the tile `{tile}` is used outside its loop"
    labels = (primary("at", "no tile is being worked on here"), secondary("loop", "the loop over the tiles"))
    note = "a block may have walked over many tiles by now, or over none"
    help = "move this into the loop"
    tile: str
    at: Span
    loop: Span


class NoLaunchControl(Message):
    """The target has no cluster launch control, so no block can take over the tile of one that has not started.

    `mode="clc"` is Blackwell's way (sm_100a). On Hopper (sm_90a) the tiles are shared out by counting.
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
