"""What an MMA adds to an accumulator, and whether two MMAs take successive steps of K through one pair of tiles.

Where threads wrote the operands, and for the element types, a wrong descriptor field may have no other symptom. But a kernel takes
several steps of K through a tile, and all of them read it alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pipec.record import record, replace

from .layouts import SOURCE, Reading

_ATOMS = {"32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
_ROWS_OF_ATOM = {"128B_ATOM_32B": 4}


@record
class Columns:
    """An operand, or what a copy writes, in tensor memory: `step` columns for each step of K."""

    start: int
    step: int
    format: str = ""

    def __str__(self) -> str:
        return f"operand A of {self.format} in tensor memory from column {self.start & 0xFFFF} on"


@record
class Accumulator:
    """D, identified by its place."""

    place: str
    format: str

    def __str__(self) -> str:
        return f"{self.place} as {self.format}"


@record
class Scale:
    """Scale factors of an operand: the address of their columns, and the byte within it."""

    address: int
    byte: int


@record
class Product:
    """`a` None: in registers. `negative`: whether A and B are negated. `kind`: of a tcgen05.mma."""

    d: Accumulator
    a: Reading | Columns | None
    b: Reading
    negative: tuple[bool, bool] = (False, False)
    accumulates: bool = True
    scales: tuple[Scale, Scale] | None = None
    kind: str = ""


@record
class Unlike:
    """Where one product differs from the previous one: `now` and `before`, and why it should not."""

    check: Literal["layout", "steps"]
    now: Reading | Columns | Accumulator
    before: Reading | Columns | Accumulator
    why: str


def unlike(before: Product, now: Product, one_tile: bool | None = None) -> Unlike | None:
    """What is wrong with `now`, which accumulates onto `before`. `one_tile`: whether one copy wrote both operands B, None if unknown."""
    if not now.accumulates:
        return None
    if before.d.format != now.d.format:
        return Unlike("layout", now.d, before.d, "one accumulator has elements of one type")
    if before.kind != now.kind or _of_other_tiles(before, now, one_tile):
        return None
    pairs = [(first, second) for first, second in ((before.a, now.a), (before.b, now.b)) if first and second]
    following = [_follows(first, second) for first, second in pairs]
    if all(following):
        return _read_otherwise(before, now, pairs)
    if any(following):
        behind = next(pair for pair, follows in zip(pairs, following, strict=True) if not follows)
        return _out_of_step(*behind)
    for first, second in pairs:
        if first.format != second.format:
            return Unlike("steps", second, first, "one sum takes its products from elements of one type")
        if _transposed(first, second):
            return Unlike(
                "steps", second, first, "for one sum, tiles that are laid out alike are read with another dimension contiguous"
            )
    return None


def _of_other_tiles(before: Product, now: Product, one_tile: bool | None) -> bool:
    """Whether B alone is in memory, and its place does not show that the products are of one pair of tiles: one tile of B may lie behind
    another."""
    if before.a is not None and now.a is not None:
        return False
    if before.a is not None or now.a is not None or one_tile is False:
        return True
    goes_on = not before.b.mn_major and before.b.descriptor.layout != "none" and _goes_on(before.b)
    return one_tile is None and not goes_on


def _transposed(first: Reading | Columns, second: Reading | Columns) -> bool:
    """Whether two operands have the same descriptor but for their place, and are read in the two ways that it may mean."""
    if not isinstance(first, Reading) or not isinstance(second, Reading) or first.mn_major == second.mn_major:
        return False
    return replace(first.descriptor, start=0) == replace(second.descriptor, start=0)


def _read_otherwise(before: Product, now: Product, pairs: list[tuple[Reading | Columns, Reading | Columns]]) -> Unlike | None:
    for first, second in pairs:
        for what, one, other in _properties(first, second):
            if one != other:
                return Unlike("layout", second, first, f"these are successive steps of K through one tile, and differ in {what}")
    for name, one, other in zip("AB", before.negative, now.negative, strict=True):
        if one != other:
            why = f"these are successive steps of K through one tile, and one of them negates {name}"
            first, second = pairs[0] if name == "A" else pairs[-1]
            return Unlike("steps", second, first, why)
    if before.scales and now.scales and _apart(before.scales, now.scales):
        why = "these are successive steps of K through one tile, and the scale factors of A and of B go on by different numbers of bytes"
        return Unlike("steps", now.b, before.b, why)
    return None


def _apart(before: tuple[Scale, Scale], now: tuple[Scale, Scale]) -> bool:
    """Whether the scale factors of the two operands stay in the same columns but advance differently."""
    stays = all(first.address == second.address for first, second in zip(before, now, strict=True))
    a, b = ((second.byte - first.byte) % 4 for first, second in zip(before, now, strict=True))
    return stays and a != b


def _properties(first: Reading | Columns, second: Reading | Columns) -> Iterator[tuple[str, object, object]]:
    yield "the type of the elements", first.format, second.format
    if not isinstance(first, Reading) or not isinstance(second, Reading):
        return
    yield "which dimension is contiguous", first.mn_major, second.mn_major
    yield "the swizzle", first.descriptor.layout, second.descriptor.layout
    yield "the stride", first.descriptor.stride_offset, second.descriptor.stride_offset
    # For a K-major operand with a swizzle the leading offset is ignored.
    if first.mn_major or first.descriptor.layout == "none":
        yield "the leading offset", first.descriptor.leading_offset, second.descriptor.leading_offset


def _out_of_step(before: Reading | Columns, now: Reading | Columns) -> Unlike | None:
    """The other operand has advanced in its tile, and this one has not, although its rows continue."""
    if not isinstance(before, Reading) or not isinstance(now, Reading):
        return None
    moved, step, swizzled = now.descriptor.start - before.descriptor.start, _step(before), before.descriptor.layout != "none"
    # At the end of a pattern's rows, and without a pattern, the next step may be anywhere except at the previous one's place.
    elsewhere = (bool(step) and moved % step != 0) if before.mn_major else _goes_on(before)
    if not (swizzled and elsewhere) and (moved or before.operand == SOURCE):
        return None
    return Unlike("steps", now, before, "the other operand is at the following step of K, and this one is not")


def _follows(before: Reading | Columns, now: Reading | Columns) -> bool:
    """Whether `now` begins where `before` or `now` itself implies that the next step of K does."""
    if isinstance(before, Columns) or isinstance(now, Columns):
        return isinstance(before, Columns) and isinstance(now, Columns) and now.start - before.start == before.step
    moved = now.descriptor.start - before.descriptor.start
    return moved in (_step(one) for one in (before, now) if one.mn_major or _goes_on(before))


def _step(reading: Reading) -> int:
    """Bytes from the beginning of one step of K to the next."""
    layout, size = reading.descriptor, reading.k * reading.element_bytes
    if not reading.mn_major:
        return size if layout.layout != "none" else size // 16 * layout.leading_offset
    groups = reading.k // _ROWS_OF_ATOM.get(layout.layout, 8)
    return groups * (layout.leading_offset if layout.layout == "none" else layout.stride_offset)


def _goes_on(reading: Reading) -> bool:
    """Whether the pattern's rows extend beyond this step of K; without a pattern they do."""
    width, size = _ATOMS.get(reading.descriptor.layout), reading.k * reading.element_bytes
    return width is None or reading.descriptor.start % width + 2 * size <= width
