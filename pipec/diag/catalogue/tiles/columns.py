"""Messages for `columns(tile, first, count)`."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class UnknownStart(Message):
    """The first column is made of compile-time numbers, variables of `for` loops with compile-time bounds, and the CTA's place in its
    cluster (`cta.x`, `cta.rank`).

    Every value that it takes is then known at compile time and can be checked against the tile, and it is the same in all threads of a
    warp, as loads from tensor memory require.

        for j in range(BN // 32):
            x = columns(acc, j * 32, 32)
    """

    code = "E0243"
    title = "the first column, `{start}`, is not known at compile time"
    labels = (primary("at", "made of something other than numbers, variables of loops with compile-time bounds and `cta.rank`"),)
    note = "a column beyond the tile belongs to another stage, and a load from tensor memory takes one address per warp"
    start: str
    at: Span


class ColumnsOutside(Message):
    """The columns must lie inside the tile for every value that the start takes. Memory beyond the tile belongs to another stage or
    buffer."""

    code = "E0244"
    title = "{count} columns from {start} on do not fit into `{tile}`, which has {columns}"
    labels = (primary("at", "takes columns from {start} on"), secondary("declared", "{columns} columns"))
    note = "memory beyond the tile belongs to another stage"
    tile: str
    columns: int
    count: int
    start: int
    at: Span
    declared: Span


class ColumnsSplit(Message):
    """In shared memory, the columns start at a multiple of the number that a thread reads at once: the largest power of two that divides
    their count, up to 32. Otherwise a wide load would cross the end of a swizzle span."""

    code = "E0245"
    title = "{count} columns of `{tile}` must start at a multiple of {unit}, not at {start}"
    labels = (primary("at", "takes the value {start}"),)
    note = "a thread reads {unit} columns at once, by wide loads; in a swizzled row they are contiguous only from a multiple of {unit} on"
    help = "start at a multiple of {unit}"
    tile: str
    count: int
    unit: int
    start: int
    at: Span


class ColumnsCount(Message):
    """How many columns a thread works on at a time depends on the number of rows: at least 8, because an accumulator of wgmma distributes
    them over the threads of a row in groups of eight, and 16 for tiles of 64 rows, which the halves of a warp share."""

    code = "E0246"
    title = "a tile cannot be read in panels of {count} columns"
    labels = (primary("at", "{needed}"),)
    note = "a thread works on a panel in whole groups of columns"
    help = "{hint}"
    count: int
    needed: str
    hint: str | None = None
    at: Span
