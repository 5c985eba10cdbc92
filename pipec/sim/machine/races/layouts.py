"""The layout in which a tile was written, and the one in which an MMA reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ...units.layouts import GRANULE, NO_TILE, Reading, Tile, disagreement
from .ledger import Access, Cells, Ledger
from .shadow import Shadow, distinct


@dataclass(frozen=True)
class Misreading:
    """`reader` takes what `writer` wrote for something else; `why` says where they differ."""

    writer: Access
    reader: Access
    reading: Reading
    tile: Tile
    why: str


class Layouts:
    """Of the tiles that the accesses of a ledger wrote; `misread` hears of operands that are read in another layout (None: nobody
    asks)."""

    def __init__(self, sets: Ledger, misread: Callable[[Misreading], None] | None) -> None:
        self.sets, self.misread = sets, misread
        self.judged: dict[tuple[Reading, tuple[Tile, ...], bytes], tuple[Tile, str] | None] = {}

    def operands(self, access: Access, shadow: Shadow, readings: Iterable[Reading]) -> None:
        """An MMA reads these operands: of tiles that tensor copies wrote last, the layout must be the same."""
        if self.misread is None or not shadow.writes.size:
            return
        each = GRANULE // shadow.granule
        for reading in readings:
            granules = reading.granules
            if int(granules.max()) * GRANULE >= shadow.size:
                continue  # said elsewhere
            found = shadow.writes[granules * each]
            tiles, marks = self._tiles(found)
            if not tiles:
                continue
            # The same operands come back in each round of the ring, and comparing layouts is slow: a verdict is kept for the tiles and
            # where they lie.
            key = reading, tuple(tile for tile, _ in tiles), b"" if len(tiles) == 1 and not marks.any() else marks.tobytes()
            if key not in self.judged:
                self.judged[key] = disagreement(reading, key[1], marks)
            verdict = self.judged[key]
            if verdict is not None:
                writer = next(writer for tile, writer in tiles if tile == verdict[0])
                self.misread(Misreading(writer, access, reading, *verdict))

    def _tiles(self, found: Cells) -> tuple[list[tuple[Tile, Access]], np.ndarray]:
        """The tiles that stand in some places, and which of them in each."""
        tiles: list[tuple[Tile, Access]] = []
        marks = np.full(found.shape, NO_TILE, np.int8)
        for number in sorted(distinct(found)):
            writer = next((one for one in self.sets.members(number) if one.tile is not None), None)
            if writer is not None and writer.tile is not None and len(tiles) < 127:
                marks[found == number] = len(tiles)
                tiles.append((writer.tile, writer))
        return tiles, marks
