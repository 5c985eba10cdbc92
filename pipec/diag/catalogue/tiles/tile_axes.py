"""Messages about the dimensions that a tile spans."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class RowsAlongAnother(Message):
    """The rows and columns of a tile run along the last two dimensions of its tensor; of each other dimension it takes one element.

        # q: tensor[bf16, T, H, D]
        tma.load(s.x, q[block.x * 64, 0, 0])    # 64 rows: the heads 0 to 63 of every 64th token

    If the coordinates advance along another dimension by as many elements as the tile has rows, but not along the dimension of the rows,
    most of that dimension would never be read. To get a tile of one head and 64 tokens, declare the tensor with two dimensions, whose
    columns hold the heads one after the other: the array is the same in memory, and needs no copy.

        # q: tensor[bf16, T, HD]
        tma.load(s.x, q[block.x * 64, head * D])
    """

    code = "E0739"
    title = "the {rows} rows of this tile run along `{dimension}` of `{tensor}`, but its position moves by {rows} along `{moved}`"
    labels = (
        primary("at", "moves by {rows}, and the tile takes one element of `{moved}`"),
        secondary("along", "the rows start here and run along `{dimension}`"),
        secondary("declared", "rows and columns of a tile lie along the last two dimensions"),
    )
    note = "of every {rows} elements along `{moved}`, only the first is accessed"
    help = "declare `{tensor}` with `{dimension}` and `{columns}` as one dimension: a tile's column is then `index * {columns}`"
    tensor: str
    rows: int
    dimension: str | int
    moved: str | int
    columns: str | int
    at: Span
    along: Span
    declared: Span


class VectorAlongAnother(Message):
    """`per_row(t[...], rows)` and `per_column(t[...], columns)` read elements that lie along the last dimension of a tensor, whichever
    way the vector then broadcasts. The scales of a tile's rows, in a tensor with a row for each of them, are a column of it:

        scale = per_row(scales[block.x * BM, g], BM)      # scales[m, g] to scales[m, g + BM - 1]
        scale = load(scales[block.x * BM, g], BM, 1)      # scales[m, g] to scales[m + BM - 1, g]

    The other way round, a tile of one column, `load(t[...], rows, 1)`, runs along the last dimension but one. If its position moves by
    `rows` along the last dimension, and by less along its own, it was meant to be `per_row(t[...], rows)`. Stores are alike: to write one
    number for each row of a tile along the last dimension, store the column transposed.

        store.direct(scales[g, block.x * BM], largest.T)  # scales[g, m] to scales[g, m + BM - 1]
    """

    code = "E0799"
    title = "the {count} elements of `{vector}` run along `{dimension}` of `{tensor}`, but its position moves by {count} along `{moved}`"
    labels = (
        primary("at", "moves by {count}, and the vector takes one element of `{moved}`"),
        secondary("along", "the elements start here and run along `{dimension}`"),
        secondary("declared", "{lies}"),
    )
    note = "of every {count} elements along `{moved}`, only the first is {does}"
    help = "{hint}"
    tensor: str
    vector: str
    count: int
    dimension: str | int
    moved: str | int
    lies: str
    does: str
    hint: str | None
    at: Span
    along: Span
    declared: Span


class CoordinatesSwapped(Message):
    """Coordinates are given in the order of the tensor's dimensions, the outermost first.

        # a: tensor[bf16, M, K], grid(ceildiv(M, BM), ...)
        for k in range(ceildiv(K, BK)):
            tma.load(s.a, a[k * BK, block.x * BM])    # walks over K along M, and over M along K
            tma.load(s.a, a[block.x * BM, k * BK])    # right

    Where the sizes differ, part of the tensor is never accessed, and copies start outside of it: loads bring zeros, stores store
    nothing. Only the result shows the mistake, and not even that if the sizes happen to be equal. To access a square matrix in this
    order, give both dimensions one name, `tensor[bf16, M, M]`.
    """

    code = "E0798"
    title = (
        "coordinates of `{tensor}` are swapped: along `{first}` one walks over `{second}`, and along `{second}` over `{first}`"
    )
    labels = (
        primary("at", "walks over `{second}`, but runs along `{first}`"),
        secondary("other", "walks over `{first}`, but runs along `{second}`"),
        secondary("declared", "the dimensions, the outermost first"),
    )
    note = "where `{first}` and `{second}` differ, copies start outside of the tensor: loads bring zeros, and stores are lost"
    help = "swap the two coordinates"
    tensor: str
    first: str | int
    second: str | int
    at: Span
    other: Span
    declared: Span
