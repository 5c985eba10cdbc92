"""E078x: narrow operands and block-scaled MMAs: which types, tiles and tensors go together."""

from pipec.diag.message import Message, primary, replace, secondary
from pipec.source import Span


class ScaledOperands(Message):
    """No block-scaled MMA multiplies the types of these operands.

    There are block-scaled MMAs for e4m3, e5m2, e2m3, e3m2 and e2m1 in any mix. Other types are multiplied without factors.
    """

    code = "E0782"
    title = "no block-scaled MMA multiplies {a} with {b}"
    labels = (primary("at", "`a` is {a}, `b` is {b}"), secondary("first", "{a}"), secondary("second", "{b}"))
    note = "scale factors go with e4m3, e5m2, e2m3, e3m2 and e2m1 operands, in any mix"
    help = "write `mma(accumulator, a, b)` without scale tiles"
    a: str
    b: str
    at: Span
    first: Span
    second: Span


class ScaleTile(Message):
    """A tile of scale factors consists of whole chunks of 128 rows and 4 factors.

    `tile[ue8m0, rows, factors]` holds one factor per row and block of K. In memory 128 rows and 4 factors are one chunk of 512
    bytes, which one instruction copies to tensor memory. Rows that the operand lacks are padding.
    """

    code = "E0783"
    title = "scale tile `{tile}` has {rows} rows and {columns} factors in a row"
    labels = (primary("at", "{rows} rows of {columns} factors"),)
    note = "factors come in chunks of 128 rows and 4 factors: {problem}"
    help = "declare `tile[{dtype}, {fitting_rows}, {fitting_columns}]`{advice}"
    tile: str
    rows: int
    columns: int
    problem: str
    dtype: str
    fitting_rows: int
    fitting_columns: int
    advice: str
    at: Span


class ScaleBlock(Message):
    """The type of the scale factors, or the number of elements per factor, does not match the operand types.

    e4m3, e5m2, e2m3, e3m2, or a mix of types: ue8m0 for blocks of 32 (MXFP8). Two e2m1 operands: ue8m0 for blocks of 32 (MXFP4), ue4m3
    or ue8m0 for blocks of 16 (NVFP4). The block is the K of the operand tile divided by the factors in a row of its scale tile.
    """

    code = "E0784"
    title = "no MMA of {operands} takes {factor} factors for blocks of {block}"
    labels = (
        primary("at", "K = {depth}, {scales} factors in a row"),
        secondary("operand", "K = {depth}"),
        secondary("declared", "{scales} {factor} factors in a row"),
    )
    note = "{operands} {verb} multiplied with {rule}"
    help = "{hint}"
    operands: str
    verb: str
    factor: str
    block: str
    depth: int
    scales: int
    rule: str
    hint: str | None
    at: Span
    operand: Span
    declared: Span


class ScaledAccumulator(Message):
    """A block-scaled MMA accumulates in f32, 128 rows at a time."""

    code = "E0785"
    title = "a block-scaled MMA cannot accumulate in {rows} rows of {dtype}"
    labels = (primary("at", "has scale factors"), secondary("declared", "{rows} rows of {dtype}"))
    note = "block-scaled MMAs have M = 128 and accumulate in f32"
    help = "declare the accumulator as `tmem[f32, 128, {columns}]`, and `a` with as many rows"
    edits = (replace("declared", "tmem[f32, 128, {columns}]"),)
    rows: int
    dtype: str
    columns: int
    at: Span
    declared: Span


class ScaleTensor(Message):
    """A scale tile is loaded from a tensor of chunks: `tensor[ue8m0, row_chunks, k_chunks, 512]`.

    The factors of 128 rows and 4 blocks are 512 bytes: the factor of row r and block k at byte r % 32 * 16 + r // 32 * 4 + k. This
    is the layout of cuBLAS and CUTLASS. The coordinates count chunks, the innermost is 0.
    """

    code = "E0786"
    title = "`{tensor}` is not a tensor of scale chunks: {problem}"
    labels = (primary("at", "{problem}"), secondary("declared", "declared here"), secondary("tile", "a scale tile"))
    note = "the factors of 128 rows and 4 blocks of K lie in one chunk of 512 bytes, which is copied as a whole"
    help = "{hint}"
    tensor: str
    problem: str
    hint: str
    at: Span
    declared: Span
    tile: Span


class NarrowTile(Message):
    """A tile of 4- or 6-bit elements is stored or read in a way that the hardware does not support.

    Two e2m1 operands with scale factors are read packed, two elements per byte. Every other MMA reads 4- and 6-bit elements one per
    byte, as TMA unpacks them: 128 elements of a row at a time. Neither is read with K outermost.
    """

    code = "E0787"
    title = "tile `{tile}` of {dtype} cannot be read like this: {problem}"
    labels = (primary("at", "{use}"), secondary("other", "{other_use}"), secondary("declared", "declared here"))
    note = "{reason}"
    help = "{hint}"
    tile: str
    dtype: str
    problem: str
    use: str
    other_use: str
    reason: str
    hint: str | None
    at: Span
    other: Span | None
    declared: Span


class MmaOnly(Message):
    """A 4- or 6-bit element or a scale factor is used as a value.

    e2m1, e2m3, e3m2, ue8m0 and ue4m3 are stored, copied by `tma.load`, and read by MMAs; the threads of a role cannot have values of
    these types.
    """

    code = "E0788"
    title = "{dtype} elements are read by MMAs only"
    labels = (primary("at", "{use}"),)
    note = "threads cannot have values of {dtype}: no instruction converts them in registers"
    dtype: str
    use: str
    at: Span


class ScaleRows(Message):
    """A scale tile has too few rows for its operand, or the first row that is used is out of range.

    The tile of `a` has a factor for each of its 128 rows; that of `b` for each column of the accumulator, rounded up to 128.
    `sfb_row` says which row of the scale tile belongs to the first row of `b`: a multiple of 64, for tiles of `b` that start inside a
    chunk.
    """

    code = "E0789"
    title = "scale tile `{tile}` {problem}"
    subject = "a scale tile does not cover the operand"
    labels = (primary("at", "{use}"), secondary("declared", "{rows} rows of factors"))
    note = "an MMA reads the factors of 32 rows from one column of tensor memory: it would read those of other rows"
    help = "{hint}"
    tile: str
    problem: str
    use: str
    rows: int
    hint: str | None
    at: Span
    declared: Span
