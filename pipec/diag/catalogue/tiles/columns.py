"""Messages for `columns(tile, first, count)`."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class UnknownStart(Message):
    """The first column is made of compile-time numbers and of variables of `for` loops with compile-time bounds.

    Then every value it takes is known while compiling and can be checked against the tile, and all threads of a warp have the same
    one, as loads from tensor memory ask for.

        for j in range(BN // 32):
            x = columns(acc, j * 32, 32)
    """

    code = "E0243"
    title = "the first of the columns, `{start}`, is not known while compiling"
    labels = (primary("at", "made of something other than numbers and variables of loops with compile-time bounds"),)
    note = "a column beyond the tile belongs to another stage, and a load from tensor memory takes one address per warp"
    start: str
    at: Span


class ColumnsOutside(Message):
    """The columns lie inside the tile for every value that the start takes. Beyond it stands another stage or another buffer."""

    code = "E0244"
    title = "{count} columns from {start} on are not inside `{tile}`, which has {columns}"
    labels = (primary("at", "takes columns from {start} on"), secondary("declared", "{columns} columns"))
    note = "what stands beyond the tile belongs to another stage"
    tile: str
    columns: int
    count: int
    start: int
    at: Span
    declared: Span


class ColumnsSplit(Message):
    """In shared memory the columns start at a multiple of what a thread reads at once: the largest power of two that divides their
    number, up to 32. Otherwise one wide load would reach over the end of a swizzle span."""

    code = "E0245"
    title = "{count} columns of `{tile}` start at a multiple of {unit}, not at {start}"
    labels = (primary("at", "takes the value {start}"),)
    note = "a thread reads {unit} columns at once, by wide loads that a swizzled row holds in one piece only from a multiple of {unit} on"
    help = "start at a multiple of {unit}"
    tile: str
    count: int
    unit: int
    start: int
    at: Span


class ColumnsCount(Message):
    """How many columns a thread works on at a time depends on the number of rows: at least 8, for an accumulator of wgmma spreads them
    over the threads of a row by eights, and 16 for tiles of 64 rows, which the halves of a warp share."""

    code = "E0246"
    title = "{count} columns are no panel of a tile"
    labels = (primary("at", "{needed}"),)
    note = "a thread works on a panel in whole groups of columns"
    count: int
    needed: str
    at: Span
