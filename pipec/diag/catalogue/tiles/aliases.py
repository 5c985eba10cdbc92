"""E0746 to E0748: tiles in tensor memory that use the columns of another one (`alias=`)."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class AliasPlace(Message):
    """A tile in tensor memory cannot use the columns of another one.

    `TensorTiles(tmem[...], count=1, alias=scores, column=c)` occupies columns of `scores`, from column c on. Both have the same rows,
    one tile, and a pipeline of one stage. One role multiplies `scores`; another one, with a thread for each row, reads them and writes
    the tile, which the first role reads as operand `a` of an MMA. The columns therefore have one owner at a time.
    """

    code = "E0746"
    title = "`{buffer}` cannot use the columns of `{base}`"
    labels = (primary("at", "{problem}"), secondary("declared", "the columns are those of this tile"))
    note = "the two would be in the same columns at the same time: one role overwrites what another has still to read"
    help = "declare `{buffer}` without `alias=`: it then has columns of its own"
    buffer: str
    base: str
    problem: str
    at: Span
    declared: Span


class AliasOwner(Message):
    """A role writes a tile that uses the columns of another one, and does not own those columns.

    They are the role's while it holds a stage of the tile below. Read that into registers, write the tile above and hand it over; give the
    stage back last:

        scores.wait()
        x = registers(s[scores.index()])
        probabilities.acquire()
        write(p[probabilities.index()], cast[bf16](x))
        probabilities.commit()
        scores.release()
    """

    code = "E0747"
    title = "`{buffer}` {problem}"
    subject = "two tiles share columns of tensor memory at the same time"
    labels = (
        primary("at", "`{base}` and `{buffer}` are in the same columns"),
        secondary("declared", "`{buffer}` uses the columns of `{base}`"),
    )
    note = "the columns would hold `{base}` for one role and `{buffer}` for the other at the same time"
    help = "read `{base}` into registers, write `{buffer}` and hand it over, then give the stage of `{base}` back"
    buffer: str
    base: str
    problem: str
    at: Span
    declared: Span


class AliasOverwritten(Message):
    """A role obtains a tile to multiply into while those columns may hold another tile that it has not read yet.

    A tile with `alias=` uses the columns of the tile that is multiplied. The role has to read it (wait for it, multiply it, give it back)
    before it obtains the next stage of the tile below, on every path.
    """

    code = "E0748"
    title = "`{base}` is multiplied again before `{buffer}` was read"
    labels = (primary("at", "obtained while `{buffer}` may be unread"), secondary("declared", "it uses the columns of `{base}`"))
    note = "the MMAs overwrite `{buffer}`, which the next ones then read"
    help = "multiply `{buffer}` and release `{pipeline}` before this"
    buffer: str
    base: str
    pipeline: str
    at: Span
    declared: Span
