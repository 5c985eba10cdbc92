"""The layout in which a tile was written, by a tensor copy or by threads, and the one in which an MMA or a tensor copy reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from math import gcd, prod

import numpy as np

from pipec.record import record

from ...compiled.pieces import distinct
from ...findings import CheckName
from ...units.layouts import NO_TILE, SOURCE, Reading, Tile, disagreement, first_step
from ...units.patterns import Step as PatternStep
from ...units.patterns import lane_steps, warp_steps, written_otherwise
from ...units.products import Accumulator, Columns
from ...units.swizzle import SwizzleName
from ...units.tcgen05.operands import GRANULE
from .ledger import Access, Cells, Ledger
from .shadow import Shadow


@record
class Misreading:
    """`reader` reads what `writer` wrote in another layout; `why` says how they differ: from `other`, another reader, where it has a
    placeholder for one."""

    writer: Access
    reader: Access
    reading: Reading | Tile | Columns | Accumulator | str
    written: str
    why: str
    check: CheckName = "layout"
    other: Access | None = None
    does: str = "reads"


@record
class OperandStart:
    """An operand, and the tile in which it begins."""

    reading: Reading
    tile: Tile
    writer: Access


@record
class Step:
    """Where in its box an operand begins along K: the dimension of the box, and how many instructions' worth of K precede it."""

    along: str
    number: float

    def __str__(self) -> str:
        return f"step {self.number:g} of K along {self.along}"


# Maximum number of box pairs whose steps along K are remembered.
_PAIRS = 1024


class Layouts:
    """The layouts of the tiles that a ledger's accesses wrote; `misread` receives operands that are read in another layout (None: no
    checks)."""

    def __init__(self, sets: Ledger, misread: Callable[[Misreading], None] | None) -> None:
        self.sets, self.misread = sets, misread
        self.fits: dict[tuple[Reading, Tile], bool] = {}  # whether an operand inside a single tile is read in that tile's layout
        self.judged: dict[tuple[Reading, tuple[Tile, ...], bytes], tuple[Tile, str] | None] = {}
        # Swizzles, and the stores that are compatible with them.
        self.fitting: set[tuple[SwizzleName, frozenset[tuple[int, int]] | None]] = set()
        # What threads stored and copies took in part in some CTA, by instructions, and the stores of which they took all in some CTA
        # (`leftovers`).
        self.partly_copied: dict[tuple[int, int], Misreading] = {}
        self.copied_whole: set[int] = set()
        self.paired: dict[tuple[Access, Access], tuple[Step, Step, Access]] = {}  # by the two boxes, the first MMA that read them

    def operands(self, access: Access, shadow: Shadow, readings: Iterable[Reading], memory: np.ndarray) -> None:
        """Checks that an MMA reads its operands in the layout in which tensor copies last wrote their tiles. `memory`: in granules."""
        if self.misread is None or not shadow.writes.size:
            return
        begun: dict[str, OperandStart] = {}
        for reading in readings:
            if reading.end - GRANULE >= shadow.size:
                continue  # reported elsewhere
            first = self._of_one_tile(shadow, reading) or self._of_several(access, shadow, reading, memory)
            if first is not None:
                begun[reading.operand] = first
        if len(begun) == 2:
            self._in_step(access, begun["A"], begun["B"])

    def writer(self, shadow: Shadow, reading: Reading) -> Access | None:
        """The tensor copy that wrote the beginning of an operand."""
        if self.misread is None or not shadow.writes.size or reading.end - GRANULE >= shadow.size:
            return None
        (number, *_), _ = shadow.marks(GRANULE).standing(reading.granules[:1, :1])
        return next((one for one in self.sets.members(number) if one.tile is not None), None)

    def _of_one_tile(self, shadow: Shadow, reading: Reading) -> OperandStart | None:
        """An operand inside what one copy wrote, in that copy's layout: the common case, recognised before any comparison."""
        writers, _ = shadow.marks(GRANULE).standing(reading.granules)
        if len(writers) != 1 or (reading.operand == SOURCE and reading.descriptor.layout == "none"):
            return None
        (writer, *others) = self.sets.members(*writers) or (None,)
        if writer is None or others or writer.tile is None:
            return None
        key = reading, writer.tile
        if key not in self.fits:
            marks = np.zeros(reading.granules.shape, np.int8)
            self.fits[key] = disagreement(reading, (writer.tile,), marks) is None
        return OperandStart(reading, writer.tile, writer) if self.fits[key] else None

    def _of_several(self, access: Access, shadow: Shadow, reading: Reading, memory: np.ndarray) -> OperandStart | None:
        """Reports an operand that is read in another layout; returns the tile in which it begins, if there is one."""
        found = shadow.writes[reading.granules * (GRANULE // shadow.granule)]
        if reading.operand == SOURCE and reading.descriptor.layout == "none":
            self._unswizzled(access, found, reading, memory)
            return None
        tiles, marks = self._tiles(found)
        if not tiles or self.misread is None:
            self._based(access, found, reading)
            self._by_threads(access, found, reading, reading.descriptor.layout, reading.granules, memory)
            return None
        # The same operands recur in each round of the ring, and comparing layouts is slow: a verdict is cached for the tiles and their
        # places.
        key = reading, tuple(tile for tile, _ in tiles), b"" if len(tiles) == 1 and not marks.any() else marks.tobytes()
        if key not in self.judged:
            self.judged[key] = disagreement(reading, key[1], marks)
        verdict = self.judged[key]
        if verdict is not None:
            tile, why = verdict
            writer = next(writer for tile, writer in tiles if tile == verdict[0])
            self.misread(Misreading(writer, access, reading, f"wrote {tile}", why))
        elif marks.flat[0] != NO_TILE:
            tile, writer = tiles[marks.flat[0]]
            begun = OperandStart(reading, tile, writer)
            self._in_one_box(access, begun, marks)
            return begun
        return None

    def _unswizzled(self, access: Access, found: Cells, reading: Reading, memory: np.ndarray) -> None:
        """Rows without a swizzle may be arranged in any way, except as one of the swizzles does."""
        tiles, _ = self._tiles(found)
        swizzled = next(((tile, writer) for tile, writer in tiles if tile.swizzle != "none"), None)
        if swizzled is not None and self.misread is not None:
            tile, writer = swizzled
            self.misread(Misreading(writer, access, reading, f"wrote {tile}", "it reads the rows as if they had no swizzle"))
        elif not tiles:
            self._by_threads(access, found, reading, "none", reading.granules, memory)

    def _in_one_box(self, access: Access, begun: OperandStart, marks: np.ndarray) -> None:
        """Rows that begin inside a box end in it; otherwise whatever box follows in memory would fit as well.

        In a tile that several copies fill, an operand may take the end of one box and the beginning of the next: its rows then do not
        divide those of a box, and it begins at a multiple of the rows that both have in common. A box of several parts of K has the rows
        of each of them."""
        reading, tile = begun.reading, begun.tile
        if reading.mn_major or (marks[:, 0] == marks[0, 0]).all() or self.misread is None:
            return
        _, row = tile.place(reading.granules[:1, :1])
        if row[0, 0] % gcd(prod(tile.box[1 : tile.joined[0] or None]), reading.rows):
            why = f"it begins in row {int(row[0, 0])} of that box and goes on in another one"
            self.misread(Misreading(begun.writer, access, reading, f"wrote {tile}", why, "steps"))

    def _in_step(self, access: Access, a: OperandStart, b: OperandStart) -> None:
        """All MMAs that read the same two boxes step through K in both alike: a wrong start in one of them has no other symptom."""
        found = first_step(a.reading, a.tile), first_step(b.reading, b.tile)
        if found[0] is None or found[1] is None or self.misread is None:
            return
        mine, others = Step(*found[0]), Step(*found[1])
        if len(self.paired) > _PAIRS:
            self.paired.clear()
        first, second, before = self.paired.setdefault((a.writer, b.writer), (mine, others, access))
        alike = (first.along, second.along) == (mine.along, others.along)
        if alike and mine.number - others.number == first.number - second.number:
            return
        why = f"it multiplies {mine} with {others} of the box of operand B, while {{}} multiplied {first} with {second} of the same two"
        self.misread(Misreading(a.writer, access, a.reading, f"wrote {a.tile}", why, "steps", before))

    def copied_out(self, access: Access, shadow: Shadow, granules: np.ndarray, tile: Tile | None, memory: np.ndarray) -> None:
        """A tensor copy reads what threads have written as this tile. `memory`: in granules."""
        if self.misread is None or tile is None or not shadow.writes.size:
            return
        found = shadow.writes[granules * (GRANULE // shadow.granule)]
        tiles, marks = self._tiles(found)
        for number, (loaded, writer) in enumerate(tiles):
            inside = granules[marks == number]
            if np.unique(tile.linear(inside) - loaded.linear(inside)).size > 1:
                self.misread(Misreading(writer, access, tile, f"wrote {loaded}", "it reads the bytes of a row in another order"))
                return
        if not tiles:
            self._by_threads(access, found, tile, tile.swizzle, granules, memory)

    def _based(self, access: Access, found: Cells, reading: Reading) -> None:
        """A base offset says in which of its eight rows of 128 bytes a pattern begins, which its address says, too."""
        layout = reading.descriptor
        row = layout.start >> 7 & 7
        if layout.layout == "none" or layout.base_offset in (0, row) or self.misread is None:
            return
        members = (one for number in distinct(found) for one in self.sets.members(number) if one.writes)
        if (writer := next(members, None)) is not None:
            why = f"the base offset is {layout.base_offset}, and the operand begins in row {row} of its pattern"
            self.misread(Misreading(writer, access, reading, "stored there", why))

    def _by_threads(
        self,
        access: Access,
        found: Cells,
        reading: Reading | Tile,
        swizzle: SwizzleName,
        granules: np.ndarray,
        memory: np.ndarray,
    ) -> None:
        """Data written by ordinary stores and cp.async has no declared layout, but their addresses have a pattern."""
        numbers = distinct(found)
        if (swizzle, self.sets.stores(numbers)) in self.fitting:
            return
        writers = {
            (one.thread.index, one.pc): one
            for number in numbers
            for one in self.sets.members(number)
            if one.writes and one.scope is None and one.proxy == "generic"
        }
        key = swizzle, frozenset(writers)
        if not writers or key in self.fitting or self.misread is None:
            return
        by_store = defaultdict(list)
        for (_, pc), writer in writers.items():
            lanes = writer.thread.laid_out(pc)
            if lanes is not None:
                by_store[pc].append((writer.thread.index, lanes))
        verdict = written_otherwise(swizzle, _steps(by_store.values()))
        if verdict is None:
            self.fitting.add(key)
            return
        fills = self._fills(found, memory[granules])
        verdict = written_otherwise(swizzle, _steps(stores for pc, stores in by_store.items() if pc not in fills))
        if verdict is None:
            return
        name, step = verdict
        why = f"{step.who} of it store at 0x{step.first:x} and 0x{step.second:x}"
        writer = next(one for (_, pc), one in writers.items() if pc not in fills)
        # Threads that copy previously swizzled data in order store the same way as threads that should swizzle and do not.
        check: CheckName = "linear" if name == "none" else "layout"
        why = f"{why}, which differ in one place only then"
        self.misread(Misreading(writer, access, reading, f"stored as {called(name)} asks", why, check))

    def _fills(self, found: Cells, data: np.ndarray) -> set[int]:
        """The stores of which only equal elements are left, such as zeros before the tile was written: their addresses mean nothing.
        `data`: the granules that begin with the places found."""
        left = defaultdict[int, set[int]](set)
        beginnings = data.view(np.uint16)[..., 0]
        for number in distinct(found):
            values = set(np.unique(beginnings[found == number]).tolist())
            for one in self.sets.members(number):
                left[one.pc] |= values
        return {pc for pc, values in left.items() if len(values) == 1}

    def _tiles(self, found: Cells) -> tuple[list[tuple[Tile, Access]], np.ndarray]:
        """The tiles recorded for some places, and the index of the tile at each."""
        tiles: list[tuple[Tile, Access]] = []
        marks = np.full(found.shape, NO_TILE, np.int8)
        for number in sorted(self.sets.others(distinct(found))):
            writer = next((one for one in self.sets.members(number) if one.tile is not None), None)
            if writer is not None and writer.tile is not None and len(tiles) < 127:
                marks[found == number] = len(tiles)
                tiles.append((writer.tile, writer))
        return tiles, marks


def _steps(stores: Iterable[list[tuple[int, np.ndarray]]]) -> list[PatternStep]:
    """Of each store, the addresses of its lanes by warps."""
    steps: list[PatternStep] = []
    for by_warp in stores:
        steps += lane_steps(np.stack([lanes for _, lanes in by_warp]))
        steps += warp_steps(sorted((warp, int(lanes[0])) for warp, lanes in by_warp))
    return steps


def called(swizzle: SwizzleName) -> str:
    return "no swizzle" if swizzle == "none" else f"swizzle {swizzle}"
