"""E0736 to E0738 and E0797: tiles in tensor memory that threads write, or that an MMA reads as its first operand."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class TensorTileRows(Message):
    """A tile in tensor memory that threads write, or an MMA reads as operand `a`, has 64 rows.

    Threads write 32 lanes per warp, four warps the 128 lanes of tensor memory: a tile of 128 rows. The rows of a 64-row
    accumulator occupy every second group of 16 lanes; only MMAs and reads support that layout.
    """

    code = "E0736"
    title = "`{buffer}` has {rows} rows and is {use}"
    labels = (primary("at", "this needs 128 rows"), secondary("declared", "{rows} rows"))
    note = "a warp writes its 32 lanes of tensor memory: four warps write 128 rows"
    help = "use 128 rows"
    buffer: str
    rows: int
    use: str
    at: Span
    declared: Span


class TensorTileType(Message):
    """A tile in tensor memory that threads write has elements of an unsupported size.

    A column holds one element of 16 or 32 bits. Operand `a` of an MMA is packed, and may have 8-bit elements as well.
    """

    code = "E0737"
    title = "threads write `{buffer}` of {dtype} into tensor memory"
    labels = (primary("at", "a column holds one element of 16 or 32 bits"), secondary("declared", "{bits}-bit elements"))
    help = "write the tile to shared memory, or convert it"
    buffer: str
    dtype: str
    bits: int
    at: Span
    declared: Span


class OperandAndAccumulator(Message):
    """One tile in tensor memory is both operand `a` of an MMA and an accumulator.

    As an operand, its 16-bit elements are packed two to a column; as an accumulator, each has its own column. Declare two tiles.
    """

    code = "E0738"
    title = "`{buffer}` is operand `a` of an MMA and an accumulator"
    labels = (
        primary("at", "read as an operand: elements are packed into columns"),
        secondary("accumulator", "written as an accumulator: a column per element"),
        secondary("declared", "declared here"),
    )
    note = "the MMA would read every second element, and zeros between them"
    help = "declare a separate tile for the operand"
    buffer: str
    at: Span
    accumulator: Span
    declared: Span


class FoldedAccumulator(Message):
    """An accumulator of 64 rows in a pair of CTAs (M = 128 over the pair) lies folded in tensor memory: lanes 0 to 63 hold the left half
    of its columns, lanes 64 to 127 the right half. The threads that share a row are in different warps, so the accumulator of
    an OutputTilePipeline can be converted, combined element by element and stored, but not reduced, shifted or kept in registers."""

    code = "E0797"
    title = "`{buffer}`, 64 rows in a pair of CTAs, is {use}"
    labels = (primary("at", "the halves of a row are in different warps"), secondary("declared", "64 rows with `cta_group=2`"))
    note = "a thread would see {columns} / 2 columns of its row as if they were all of it"
    help = "use 128 rows per CTA: M = 256 over the pair"
    buffer: str
    use: str
    columns: int
    at: Span
    declared: Span
