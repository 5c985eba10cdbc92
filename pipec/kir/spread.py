"""The mapping of register-tile elements to the threads of a role.

Every element that is stored, written or kept belongs to exactly one thread and one of its values. The arithmetic is written once,
generic over the kind of number: the lowering instantiates it with the values of a running thread (`Builder`), a test with those of all
threads, to count the elements.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from pipec.isa.targets import WARP, WARPGROUP_WARPS
from pipec.kir.plan.types import RowMap
from pipec.record import record, replace
from pipec.sema.types import TileType

GROUP_COLUMNS = 8  # columns of a group, of which a thread has two in an accumulator in registers
BLOCK_ROWS = 64  # M of one wgmma
MOST_COLUMNS = 32  # elements of a row that a thread holds at once, at most
_VECTOR_BYTES = 16

N = TypeVar("N")


class Arithmetic(Protocol[N]):
    """The operations that the maps are computed with: 32-bit numbers of a thread."""

    def constant(self, value: int) -> N: ...

    def add(self, left: N, right: N | int) -> N: ...

    def multiply(self, left: N, right: N | int) -> N: ...

    def bits(self, operation: str, left: N, right: int) -> N: ...

    def binary(self, operation: str, left: N, right: N) -> N: ...

    def compare(self, predicate: str, left: N, right: N) -> N: ...

    def select(self, condition: N, when_true: N, when_false: N) -> N: ...


@record
class Threads(Generic[N]):
    """A thread of a role of `warps` warps: its index in the role, that of its warp, and its lane."""

    thread: N
    warp: N
    lane: N
    warps: int

    @property
    def warpgroups(self) -> int:
        return self.warps // WARPGROUP_WARPS


@record
class RowShare(Generic[N]):
    """The row of the tile that a thread works on, and its part of the row's columns.

    `uniform_part` is the part without the half-warp component; `working` is false in threads without a row (None: all have one); `half`
    is, for a folded tile, the half of the columns that this thread has.
    """

    index: N
    part: N
    uniform_part: N
    working: N | None = None
    half: N | None = None


@record
class Share:
    """How a row is divided: `panels` of `columns` columns; in each, `parts` threads have `chunks` chunks of `count` elements.

    The chunks of a thread start `step` columns apart, those of the parts `part_step`. `tail`: one more column after the panels, which
    the first thread of the row has (both halves of a warp compute it). `end`: the number of columns of a tile in which some threads have
    a chunk less.
    """

    columns: int
    panels: int
    parts: int
    chunks: int
    count: int
    step: int
    part_step: int
    half_columns: int = 0  # of a folded tile: a panel is in one half
    tail: bool = False
    end: int | None = None


def chunk_columns(columns: int, most: int = MOST_COLUMNS) -> int:
    """The largest power of two up to `most` that divides the columns."""
    return min(most, columns & -columns)


# ------------------------------------------------------------------------------------------------------------- a row per thread


def panel_share(row_map: RowMap, tile: TileType, columns: int, most: int = MOST_COLUMNS, *, panels: int | None = None) -> Share:
    """A tile in panels of this many columns, which divide it except for one odd column shared by half-warps; or so many `panels` of it.

    A row is shared by as many threads as have at least one 16-byte vector of a panel each (two halves of a warp always).
    """
    tail = panels is None and tile.columns % columns != 0
    panels = tile.columns // columns if panels is None else panels
    assert not tail or (row_map.half_warps and not row_map.in_registers and panels * columns == tile.columns - 1)
    # Register-resident tiles have no chunks: a thread has the same columns for every operation; otherwise values would have to move
    # between lanes.
    if row_map.in_registers and row_map.half_warps:
        run = row_map.half_run(tile.columns)
        return Share(columns, panels, 2, columns // (2 * run), run, 2 * run, run)
    if row_map.folded:
        count = chunk_columns(columns)
        return Share(columns, panels, 1, columns // count, count, count, columns, tile.columns // 2)
    least = 2 if row_map.half_warps else 1
    parts = row_map.split
    # Prefer fewer threads per row over vectors shorter than 16 bytes, the size of a thread's store.
    while parts > least and (columns % parts or columns // parts * tile.dtype.bytes < _VECTOR_BYTES):
        parts //= 2
    count = chunk_columns(columns // parts, most)
    share = Share(columns, panels, parts, columns // parts // count, count, count, columns // parts, tail=tail)
    assert parts * share.chunks * count == columns and parts % least == 0, (
        "elements of the tile would belong to no thread, or to two"
    )
    return share


def direct_share(row_map: RowMap, tile: TileType) -> Share:
    """A tile with several columns that the threads store directly: they process one chunk each per step, if that divides the tile."""
    width = MOST_COLUMNS * row_map.split
    columns = tile.columns // 2 if row_map.folded else tile.columns
    if row_map.half_warps:
        columns -= columns % 2
    while width > 1 and columns % width:
        width //= 2
    return panel_share(row_map, tile, max(width, 2) if row_map.half_warps else width)


def with_parts(row_map: RowMap, share: Share) -> RowMap:
    """The map of an operation with this many threads per row."""
    return row_map if share.parts == row_map.split else replace(row_map, split=share.parts, idle=True)


def place(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N], block: N) -> RowShare[N]:
    """The thread's position in a block of rows."""
    zero = ops.constant(0)
    if row_map.half_warps:
        return _half_warp_place(ops, row_map, threads)
    if row_map.vector:
        return _striped_place(ops, row_map, threads, block)
    if row_map.folded:
        half = ops.bits("lshr", threads.thread, row_map.block_rows.bit_length() - 1)
        return RowShare(ops.bits("and", threads.thread, row_map.block_rows - 1), zero, zero, half=half)
    if row_map.block_rows == threads.warps * WARP:
        inside, part = threads.thread, zero
    else:
        inside = ops.bits("urem", threads.thread, row_map.block_rows)
        part = ops.bits("udiv", threads.thread, row_map.block_rows)
    working = None
    if row_map.idle:
        working = ops.compare("ult", part, ops.constant(row_map.split))
        # Idle threads compute the same as the first part, so that no address is out of bounds; only their stores are omitted.
        part = ops.select(working, part, zero)
    index = ops.add(inside, ops.multiply(block, row_map.block_rows)) if row_map.blocks > 1 else inside
    return RowShare(index, part, part, working)


def _half_warp_place(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N]) -> RowShare[N]:
    quarter = threads.warp if threads.warps <= WARPGROUP_WARPS else ops.bits("and", threads.warp, 3)
    # Layout F (hardware.md 3.6) fills 16 of the 32 lanes of a quarter. The other half of the warp takes half of the columns, which it
    # receives by shuffles.
    index = ops.add(ops.multiply(quarter, 16), ops.bits("and", threads.lane, 15))
    half = ops.bits("lshr", threads.lane, 4)
    if threads.warps <= WARPGROUP_WARPS:
        return RowShare(index, half, ops.constant(0))
    group = ops.bits("shl", ops.bits("lshr", threads.warp, 2), 1)
    working = None
    if row_map.idle:
        working = ops.compare("ult", group, ops.constant(row_map.split))
        group = ops.select(working, group, ops.constant(0))
    return RowShare(index, ops.add(group, half), group, working)


def _striped_place(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N], block: N) -> RowShare[N]:
    """Rows of whole warps are indexed by warp, so that the index is visibly uniform over the lanes."""
    zero = ops.constant(0)
    if row_map.split < WARP:
        index = ops.bits("lshr", threads.thread, row_map.split.bit_length() - 1)
        part = ops.bits("and", threads.lane, row_map.split - 1)
    elif row_map.split == threads.warps * WARP:
        index, part = zero, threads.thread
    else:
        index = ops.bits("udiv", threads.warp, row_map.warps_of_row)
        warp = ops.bits("urem", threads.warp, row_map.warps_of_row)
        part = ops.add(ops.multiply(warp, WARP), threads.lane)
    working = None
    if row_map.idle:
        working = ops.compare("ult", index, ops.constant(row_map.block_rows))
        index = ops.select(working, index, zero)
    if row_map.blocks > 1:
        index = ops.add(index, ops.multiply(block, row_map.block_rows))
    return RowShare(index, part, zero, working)


def half_working(ops: Arithmetic[N], share: Share, half: N, first: N) -> N:
    """Whether a panel of a folded tile, which begins at column `first`, is in the thread's half of the columns."""
    return ops.compare("eq", ops.bits("udiv", first, share.half_columns), half)


def inside_panel(ops: Arithmetic[N], share: Share, part: N, step: N) -> N:
    """The start of a part's chunk in its panel; `step` is the number of the chunk times `share.step`."""
    return ops.add(ops.multiply(part, share.part_step), step)


def both(ops: Arithmetic[N], one: N | None, other: N | None) -> N | None:
    """The conjunction of conditions; None means always true."""
    if one is None or other is None:
        return other if one is None else one
    return ops.binary("and", one, other)


def first_part(ops: Arithmetic[N], row_map: RowMap, part: N, working: N | None) -> N | None:
    """The condition for the first of the threads that share a row, for a value that all of them have. None if no threads share one."""
    if row_map.split == 1 and working is None:
        return None
    return both(ops, ops.compare("eq", part, ops.constant(0)), working)


# ------------------------------------------------------------------------------------------------------------ striped rows


def stripe(row_map: RowMap) -> int:
    """The number of columns of a striped row covered by one vector of each of its threads."""
    return row_map.vector * row_map.split


def striped_share(row_map: RowMap, columns: int) -> Share:
    width, count = stripe(row_map), row_map.vector
    assert columns % count == 0, "a vector would reach over the end of a row"
    return Share(columns, 1, row_map.split, -(-columns // width), count, width, count, end=columns if columns % width else None)


def has_vector(ops: Arithmetic[N], share: Share, column: N, step: int) -> N | None:
    """Whether a thread has a vector of the stripe `step`, which would start at `column`; None if all threads have one."""
    if share.end is None or (step + 1) * share.step <= share.end:
        return None
    return ops.compare("ult", column, ops.constant(share.end))


# --------------------------------------------------------------------------------------------------------------- fragments


def fragment_rows(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N]) -> list[N]:
    """The thread's rows in wgmma's distribution: two, 8 apart, in every 64 of its warpgroup's share."""
    groups = threads.warpgroups
    warp = ops.bits("and", threads.warp, 3) if groups > 1 else threads.warp
    first = ops.add(ops.multiply(warp, 16), ops.bits("lshr", threads.lane, 2))
    # The rows of a warpgroup are contiguous, like the 64-row blocks of its MMAs (hardware.md 8).
    share = row_map.block_rows // groups
    if groups > 1:
        first = ops.add(first, ops.multiply(ops.bits("lshr", threads.warp, 2), share))
    return [ops.add(first, block * BLOCK_ROWS + half * 8) for block in range(share // BLOCK_ROWS) for half in (0, 1)]


def fragment_groups(first: int, columns: int) -> range:
    """The groups of eight columns that overlap the `columns` columns from `first` on."""
    return range(first // GROUP_COLUMNS, -(-(first + columns) // GROUP_COLUMNS))


def fragment_column(ops: Arithmetic[N], lane: N, group: int) -> N:
    """The first of the two adjacent columns of a group that a lane has."""
    return ops.add(ops.bits("shl", ops.bits("and", lane, 3), 1), group * GROUP_COLUMNS)


def fragment_inside(ops: Arithmetic[N], column: N, group: int, columns: int) -> N | None:
    """Whether the column of a group is inside a tile of this many columns; None if it is for every lane."""
    if (group + 1) * GROUP_COLUMNS <= columns:
        return None
    return ops.compare("ult", column, ops.constant(columns))


def fragment_offset(element: int) -> int:
    """The offset of an element of a thread's groups from its first one."""
    return element // 2 * GROUP_COLUMNS + element % 2


# ------------------------------------------------------------------------------------------------------------- enumeration


@record
class Element(Generic[N]):
    """An element that a thread stores if `stored` is true (None: always)."""

    row: N
    column: N
    stored: N | None


def elements(
    ops: Arithmetic[N], row_map: RowMap, threads: Threads[N], tile: TileType, share: Share | None
) -> Iterator[Element[N]]:
    """The elements of a tile that a thread stores. `share` is None for fragments, and for one column that threads store directly."""
    if row_map.fragment:
        return _of_fragment(ops, row_map, threads, tile.columns)
    if share is None:
        return _of_column(ops, row_map, threads)
    return _of_share(ops, with_parts(row_map, share), threads, share)


def _of_fragment(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N], columns: int) -> Iterator[Element[N]]:
    for row in fragment_rows(ops, row_map, threads):
        for group in fragment_groups(0, columns):
            for index in (0, 1):
                column = ops.add(fragment_column(ops, threads.lane, group), index)
                yield Element(row, column, fragment_inside(ops, column, group, columns))


def _of_column(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N]) -> Iterator[Element[N]]:
    for block in range(row_map.blocks):
        at = place(ops, row_map, threads, ops.constant(block))
        yield Element(at.index, ops.constant(0), first_part(ops, row_map, at.part, at.working))


def _of_share(ops: Arithmetic[N], row_map: RowMap, threads: Threads[N], share: Share) -> Iterator[Element[N]]:
    for block in range(row_map.blocks):
        at = place(ops, row_map, threads, ops.constant(block))
        for panel in map(ops.constant, range(share.panels)):
            start = ops.multiply(panel, share.columns)
            working = at.working if at.half is None else half_working(ops, share, at.half, start)
            for chunk in range(share.chunks):
                first = inside_panel(ops, share, at.part, ops.constant(chunk * share.step))
                first = ops.add(start, first)
                stored = both(ops, working, has_vector(ops, share, first, chunk))
                yield from (Element(at.index, ops.add(first, index), stored) for index in range(share.count))
        if share.tail:
            last = ops.constant(share.panels * share.columns)
            yield Element(at.index, last, first_part(ops, row_map, at.part, at.working))
