"""Whether an MMA reads a tile of shared memory in the layout in which it was written.

A tensor copy determines the place of each 16 bytes of a box by the swizzle, the box and the address. A matrix descriptor determines
where each 16 bytes of an operand are read. The two agree if neighbours in the operand are neighbours in the box.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import prod

import numpy as np

from pipec.record import record

from .swizzle import SWIZZLES, SwizzleName
from .tcgen05.descriptors import MatrixDescriptor
from .tcgen05.operands import GRANULE, operand_lines

NO_TILE = -1
SOURCE = "the source"  # of a copy to tensor memory, which is untyped

# Operand formats that a map's element type allows; types not listed leave the content open.
_FORMATS: dict[str, frozenset[str]] = {
    "f16": frozenset({"f16"}),
    "bf16": frozenset({"bf16"}),
    "f32": frozenset({"tf32"}),
    "f32_ftz": frozenset({"tf32"}),
    "tf32": frozenset({"tf32"}),
    "tf32_ftz": frozenset({"tf32"}),
    "f64": frozenset(),
    "u8": frozenset({"e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "u8", "s8", "b1"}),
    "u16": frozenset({"f16", "bf16"}),
    "b4x16": frozenset({"e2m1"}),
    "b4x16_p64": frozenset({"e2m1"}),
    "b6x16_p32": frozenset({"e2m3", "e3m2"}),
}


@record(remember=True)
class Tile:
    """What a tensor copy wrote from `start` on: `box` in elements, dimension 0 first; rows of `inner` bytes, `pitch` apart.

    `inside`: the first element of each dimension that lies in the tensor, and the one after the last; () where all do. `joined`: the
    dimensions that go on in the tensor where dimension 0, and dimension 1, ends, as in a map that takes a matrix as tiles; 0 for none.
    """

    swizzle: SwizzleName
    dtype: str
    box: tuple[int, ...]
    inner: int
    pitch: int
    start: int
    inside: tuple[tuple[int, int], ...] = ()
    joined: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        swizzle = "without a swizzle" if self.swizzle == "none" else f"with swizzle {self.swizzle}"
        return f"a box of {' x '.join(map(str, self.box))} {self.dtype} {swizzle} at 0x{self.start:x}"

    def place(self, granules: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(16-byte column within the row, row) of granules of the tile."""
        linear = self.linear(granules)
        return linear % self.pitch // GRANULE, linear // self.pitch

    def in_tensor(self, row: np.ndarray) -> np.ndarray:
        """Rows of the box, numbered along dimension 1 and the one that continues it before all others."""
        if self.joined[1] < 3:
            return row
        near, far = prod(self.box[1 : self.joined[1]]), self.box[self.joined[1]]
        outer = row // (near * far)
        first, between = row % self.box[1], row % near // self.box[1]
        number: np.ndarray = first + self.box[1] * (self.along(1, row) + far * (between + near // self.box[1] * outer))
        return number

    def along(self, dimension: int, row: np.ndarray) -> np.ndarray:
        """Where rows of the box lie in the dimension that continues this one."""
        joined = self.joined[dimension]
        place: np.ndarray = row // prod(self.box[1:joined]) % self.box[joined] if joined else 0 * row
        return place

    @property
    def length(self) -> int:
        """How many rows lie behind each other along dimension 1 and the one that continues it."""
        along = self.box[1] if len(self.box) > 1 else 1
        return along * self.box[self.joined[1]] if self.joined[1] else along

    def holds(self, granules: np.ndarray) -> np.ndarray:
        """Whether granules of the tile hold elements of the tensor, rather than only the fill for those outside."""
        column, row = self.place(granules)
        first, end = (edge * self.inner / self.box[0] / GRANULE for edge in (self.inside or ((0, self.box[0]),))[0])
        found = (column < end) & (column + 1 > first)
        for size, (low, high) in zip(self.box[1:], self.inside[1:], strict=False):
            found &= (row % size >= low) & (row % size < high)
            row = row // size
        return found

    def linear(self, granules: np.ndarray) -> np.ndarray:
        """The offsets that granules of the tile would have without a swizzle."""
        return SWIZZLES[self.swizzle].apply(granules * GRANULE) - self.start


@record(remember=True, caches=True)
class Reading:
    """An operand of an MMA: `rows` of `k` elements, read through `descriptor`."""

    operand: str
    descriptor: MatrixDescriptor
    rows: int
    k: int
    element_bytes: int
    mn_major: bool
    format: str

    def __str__(self) -> str:
        layout = self.descriptor.layout
        swizzle = "no swizzle" if layout == "none" else f"swizzle {layout}"
        major = "MN" if self.mn_major else "K"
        strides = f"strides {self.descriptor.leading_offset} and {self.descriptor.stride_offset}"
        name = self.operand if self.operand == SOURCE else f"operand {self.operand}"
        what = f"{name}, {self.rows} x {self.k} {self.format}"
        return f"{what}, as {major}-major with {swizzle} and {strides} from 0x{self.descriptor.start:x} on"

    @cached_property
    def granules(self) -> np.ndarray:
        """int64 [lines, 16 bytes each]: a line is a row of a K-major operand, or a step of K of an MN-major one."""
        return operand_lines(self.descriptor, self.rows, self.k, self.element_bytes, self.mn_major)

    @cached_property
    def end(self) -> int:
        """The offset behind its last byte."""
        return (int(self.granules.max()) + 1) * GRANULE

    @cached_property
    def overlaps(self) -> bool:
        """Whether any granule is read twice."""
        return bool(np.unique(self.granules).size < self.granules.size)


@lru_cache(maxsize=4096)
def first_step(reading: Reading, tile: Tile) -> tuple[str, float] | None:
    """The dimension of the box along which K runs, and where the operand begins there, in instructions' worth of K; None where the box
    does not determine it."""
    if reading.descriptor.layout == "none" or reading.descriptor.layout != tile.swizzle:
        return None
    chunk, row = tile.place(reading.granules[:1, :1])
    if not reading.mn_major:
        start = chunk * GRANULE + tile.along(0, row) * tile.inner
        return "rows", int(start[0, 0]) / reading.element_bytes / reading.k
    # Beyond these rows are other parts of M or N.
    return None if tile.length % 8 else ("columns", int(tile.in_tensor(row)[0, 0]) % tile.length / reading.k)


def wrong_type(reading: Reading, tile: Tile) -> bool:
    known = _FORMATS.get(tile.dtype)
    return known is not None and reading.operand != SOURCE and reading.format not in known


def disagreement(reading: Reading, tiles: tuple[Tile, ...], marks: np.ndarray) -> tuple[Tile, str] | None:
    """The first tile that `reading` reads in another layout, and how; `marks` has the index of each granule's tile."""
    for number, tile in enumerate(tiles):
        inside = marks == number
        if wrong_type(reading, tile):
            return tile, f"the elements are {tile.dtype}"
        if reading.overlaps:
            return tile, "the operand reads some bytes of it twice"
        why = _misplaced(reading, tile, inside)
        if why is not None:
            return tile, why
    return None


def _misplaced(reading: Reading, tile: Tile, inside: np.ndarray) -> str | None:
    chunk, row = tile.place(reading.granules)
    lines = np.arange(len(chunk))
    line_name, chunk_name = ("K", "rows") if reading.mn_major else ("row", "bytes of K")
    swizzled = reading.descriptor.layout != "none"
    place = tile.in_tensor(row)
    for column in range(chunk.shape[1]):
        own = inside[:, column]
        if not own.any():
            continue
        first = int(lines[own][0])
        step = (
            lines - first
            if swizzled
            else lines % 8 - first % 8 + place[lines - lines % 8 + first % 8, column] - place[first, column]
        )
        wrong = own & ((chunk[:, column] != chunk[first, column]) | (place[:, column] - place[first, column] != step))
        if wrong.any():
            line = int(lines[wrong][0])
            return _told(line_name, line, chunk_name, column, chunk[line, column], row[line, column])
        if column and inside[first, column - 1] and swizzled:
            before = chunk[first, column - 1], row[first, column - 1]
            following = chunk[first, column] == before[0] + 1 and row[first, column] == before[1]
            # An MN-major operand continues in another atom, of 8 steps of K.
            elsewhere = reading.mn_major and not chunk[first, column] and (row[first, column] - before[1]) % 8 == 0
            if not following and not elsewhere:
                return _told(line_name, first, chunk_name, column, chunk[first, column], row[first, column])
    # An instruction multiplies 32 bytes of K, so operands begin at multiples of that.
    if swizzled and not reading.mn_major and inside[0, 0] and chunk[0, 0] % 2:
        return _told(line_name, 0, chunk_name, 0, chunk[0, 0], row[0, 0])
    return None


def _told(line_name: str, line: int, chunk_name: str, column: int, chunk: int, row: int) -> str:
    wanted = f"{line_name} {line}, {chunk_name} {GRANULE * column}..{GRANULE * column + GRANULE - 1}"
    return f"what it takes for {wanted} are bytes {GRANULE * int(chunk)}..{GRANULE * int(chunk) + GRANULE - 1} of row {int(row)} of the box"
