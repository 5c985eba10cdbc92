"""E073x: register-resident tiles, and the registers of a thread."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class KeptTiles(Message):
    """The register-resident tiles of a role need more registers at one time than a thread has.

    A thread keeps the columns of its rows: a tile of 128 x 128 f32 in a role of 4 warps takes 128 registers of each thread, a result of
    `row_max` or `row_sum` one. A thread has at most 255, or what `registers=` gives its role, or what is left when the block's threads
    share 65536. A tile counts from its assignment to its last use.
    """

    code = "E0733"
    title = "role `{role}` needs {needed} registers of each thread for its tiles, but a thread has {budget}"
    labels = (primary("at", "the most are needed here"), secondary("tiles", "kept here"))
    note = (
        "needed there: {list}, and about {reserve} for everything else; what does not fit would be spilled to slow local memory"
    )
    help = "{hint}"
    role: str
    needed: int
    budget: int
    reserve: int
    list: str
    hint: str
    at: Span
    tiles: tuple[Span, ...]


class OddKeptColumns(Message):
    """In a role that keeps rows of a 64-row accumulator in registers, lanes 0-15 of a warp have one half of a row's columns and lanes
    16-31 the other, because that is the layout of loads from tensor memory. Other tiles of 64 rows in that role are distributed the
    same way."""

    code = "E0734"
    title = "a tile of {columns} columns cannot be distributed over half warps"
    labels = (primary("at", "{columns} columns do not divide in two"),)
    help = "use an even number of columns"
    columns: int
    at: Span


class OddKeptFragment(Message):
    """A register-resident tile, in a role that also accumulates in registers, has a size that cannot be divided among its threads.

    Such tiles are distributed over the threads like an accumulator of `wgmma`: each warpgroup has a multiple of 64 rows, each thread two
    of every 8 columns.
    """

    code = "E0743"
    title = "tile `{tile}` cannot be kept in registers alongside an accumulator"
    labels = (primary("at", "this is a {type}"),)
    note = "it is distributed like the accumulator: its rows must be a multiple of {unit}, its columns 1 or a multiple of 8"
    tile: str
    type: str
    unit: int
    at: Span


class KeptWithoutRows(Message):
    """A tile of one row can be register-resident only where threads share rows: each thread then has its columns of it, for the row
    that it works on.

    Where a thread has rows of its own, or works on accumulators, it would need every column. Read a vector along the columns where it
    is used instead (`per_column(v[j], columns)` costs one load per warp).
    """

    code = "E0236"
    title = "a {type} cannot be kept in registers"
    labels = (primary("at", "this has one row for all threads"),)
    help = "use it where it is needed, without `registers(...)`"
    type: str
    at: Span
