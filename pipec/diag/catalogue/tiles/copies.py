"""E07xx: the shapes, types and coordinates of copies between memories."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class RowBytes(Message):
    """The rows of a tile in shared memory must be a multiple of 16 bytes long.

    TMA copies and MMAs address shared memory in units of 16 bytes (the inner box extent of a tensor map, the core matrices of an
    MMA operand). For 2-byte elements the last tile size must be a multiple of 8, for 1-byte elements a multiple of 16.
    """

    code = "E0702"
    title = "the rows of tile `{tile}` are {bytes} bytes long, which is not a multiple of 16"
    labels = (primary("at", "{columns} elements of {dtype}: {bytes} bytes in a row"),)
    note = "tensor copies address shared memory in units of 16 bytes"
    help = "use {fitting} columns"
    tile: str
    bytes: int
    columns: int
    dtype: str
    fitting: int
    at: Span


class CopyType(Message):
    """A tile and the tensor it is copied from or to have different element types.

    A tensor copy moves bytes and does not convert them. Give the tile the tensor's type, or convert with `cast[...]` on the way
    through registers. (A tf32 tile takes an f32 tensor: tf32 is how an MMA reads f32.)
    """

    code = "E0707"
    title = "`{operation}` copies between a tile of {tile} and a tensor of {tensor}"
    labels = (
        primary("at", "the tile holds {tile}"),
        secondary("slice", "the tensor holds {tensor}"),
        secondary("declared", "declared here"),
    )
    note = "a copy moves bytes without converting them: {tile} values would be read as {tensor} bits"
    help = "{hint}"
    operation: str
    tile: str
    tensor: str
    hint: str | None
    at: Span
    slice: Span
    declared: Span | None


class CopyRank(Message):
    """A tile of several rows is copied from or to a tensor of one dimension, which has only one row.

    Only `store.direct` takes a tile of one column there: a value for each row, such as `row_sum(x)`, goes to an element of its own.
    """

    code = "E0708"
    title = "`{operation}` copies {rows} rows between a tile and tensor `{tensor}`, which has one dimension"
    labels = (primary("at", "this tile has {rows} rows"), secondary("declared", "this tensor has one dimension, so one row"))
    help = "declare the tensor with two dimensions"
    operation: str
    rows: int
    tensor: str
    at: Span
    declared: Span


class WriteShape(Message):
    """`write(tile, value)` puts a tile from registers into a shared tile of the same shape and element type.

    Convert the elements first (`cast[bf16](x)`); nothing converts or reshapes on the way, since every thread stores what it holds.
    """

    code = "E0716"
    title = "`write` puts {value} into {destination}"
    labels = (primary("at", "the value is {value}"), secondary("target", "the tile is {destination}"))
    help = "{hint}"
    value: str
    destination: str
    hint: str | None
    at: Span
    target: Span


class StoreRowBytes(Message):
    """A register tile stored through TMA has rows that are not a multiple of 16 bytes long.

    TMA stores address memory in units of 16 bytes. `store.direct` lets each thread store its own elements, with any extent.
    """

    code = "E0717"
    title = "`store` of rows of {bytes} bytes, which is not a multiple of 16"
    labels = (primary("at", "{columns} elements of {dtype}: {bytes} bytes in a row"),)
    note = "TMA stores address memory in units of 16 bytes"
    help = "write `store.direct(...)`"
    bytes: int
    columns: int
    dtype: str
    at: Span


class TransposedStore(Message):
    """`store(d[i, j], x.T)` stores a register tile with its rows as columns, on its way through shared memory to a TMA store.

    The warps transpose it with `stmatrix`, which takes 8 x 8 elements of 16 bits as accumulators in registers (sm_90a) hold them.
    `store.direct` stores any other tile transposed, element by element: neighbouring threads then store neighbouring elements if each
    has a row. A transposed tile is stored whole, because `rows` would cut its columns.
    """

    code = "E0740"
    title = "this tile cannot be stored transposed"
    labels = (primary("at", "{problem}"),)
    note = "`stmatrix` transposes 8 x 8 matrices of 16-bit elements, in the register layout of a `wgmma` accumulator"
    help = "{hint}"
    problem: str
    hint: str | None
    at: Span


class TensorStride(Message):
    """A tensor that is copied by TMA has rows whose length in bytes is not a multiple of 16.

    A tensor map takes only strides that are a multiple of 16 bytes. Pad the rows, or store with `store.direct`.
    """

    code = "E0718"
    title = "tensor `{tensor}` has rows of {bytes} bytes, which TMA cannot address"
    labels = (
        primary("at", "the innermost dimension is {columns} elements of {dtype}: {bytes} bytes"),
        secondary("use", "copied by TMA here"),
    )
    note = "the strides of a tensor map are multiples of 16 bytes"
    tensor: str
    bytes: int
    columns: int
    dtype: str
    at: Span
    use: Span


class TileRows(Message):
    """A tile has more rows than one TMA copy takes, and cannot be divided into equal parts that start at addresses which TMA can reach.

    One copy takes up to 256 rows; a taller tile is copied in equal parts. Each part must start at a multiple of 128 bytes in
    shared memory, so with rows shorter than 128 bytes the parts have a multiple of 2, 4 or 8 rows.
    """

    code = "E0723"
    title = "{tile} has {rows} rows, which cannot be copied in equal parts"
    labels = (primary("at", "{rows} rows of {columns} elements of {dtype}"),)
    note = "one copy takes up to 256 rows; equal parts of this tile must have a number of rows that is a multiple of {step}"
    help = "use {fitting} rows"
    tile: str
    rows: int
    columns: int
    dtype: str
    step: int
    fitting: int
    at: Span


class CopyStart(Message):
    """A TMA copy starts inside a row at an element that is not a multiple of 16 bytes from the row's start.

    TMA reaches global memory in units of 16 bytes: 4 elements of 32 bits, 8 of 16, 16 of 8. The innermost coordinate must always
    be such a multiple. Sizes and scalar parameters are known only at launch and are assumed to fit. Conditions around the copy tell
    more: of elements of 32 bits, `i` is one under `if i % 4 == 0:`.
    """

    code = "E0724"
    title = "the innermost coordinate in `{tensor}` is not always a multiple of {unit}"
    labels = (primary("at", "counts elements of {dtype}: {unit} of them are 16 bytes"),)
    note = "TMA reaches memory in units of 16 bytes: the copy faults"
    help = "{hint}"
    tensor: str
    unit: int
    dtype: str
    at: Span
    hint: str | None


class StoreBefore(Message):
    """A TMA store starts before the first element of a dimension.

    Loads may start there and read zeros; stores may not. Elements past the end are clipped. Where the coordinate depends only on sizes,
    integer parameters and the block's index, such a launch is refused; other coordinates that may be negative are listed in the report
    as assumed.
    """

    code = "E0725"
    title = "a store into `{tensor}` starts at a negative coordinate"
    labels = (primary("at", "before the first element"),)
    note = "TMA clips a store at the end of a dimension, not at its start"
    tensor: str
    at: Span


class AsyncCopyShape(Message):
    """`cp.async(tile, tensor[i])` copies a run of a tensor of one dimension into a tile of one row. Larger tiles go by `tma.load`."""

    code = "E0771"
    title = "`cp.async` copies one row, from a tensor of one dimension"
    labels = (primary("at", "into a {tile}"), secondary("declared", "`{tensor}` has {dimensions}"))
    help = "use `tma.load`"
    tile: str
    tensor: str
    dimensions: str
    at: Span
    declared: Span


class AsyncCopyElement(Message):
    """cp.async moves 4, 8 or 16 bytes from an address that is a multiple of that number.

    An element of 4 or 8 bytes can start anywhere in its tensor; an element of 1 or 2 bytes need not be at a multiple of 4.
    """

    code = "E0772"
    title = "`cp.async` moves at least 4 bytes, but an element of {dtype} has {bytes}"
    labels = (primary("at", "copies elements of {bytes}"), secondary("declared", "declared here"))
    note = "a copy of 4 bytes from an address that is not a multiple of 4 is a misaligned access"
    help = "declare it as f32, or read it with `per_column(...)` or `tma.load`"
    dtype: str
    bytes: str
    at: Span
    declared: Span


class AsyncProxyOfCopy(Message):
    """A tile that `cp.async` fills is read by TMA or by an MMA.

    Both read through the async proxy, which does not see what threads wrote through the generic proxy unless there is a fence in
    between. The threads that copy do not wait for their copies, so none of them could execute that fence. Read the tile as a register
    tile.
    """

    code = "E0773"
    title = "`{tile}` is filled by `cp.async` and read by {reader}"
    labels = (primary("at", "read through the async proxy"), secondary("filled", "filled through the generic proxy"))
    note = "{reader} may read the old contents, from before the copies"
    help = "fill it with `tma.load`"
    tile: str
    reader: str
    at: Span
    filled: Span
