"""The location of a tile in its tensor, so that two tiles can be compared.

Coordinates are registers, so the distance of two is that of their terms, or 2 ** 32 more: then they are far apart anyway, and wrapping
can be ignored. Values that are not tracked (loop-carried ones, loads that may change) equal nothing, not even themselves at another
time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from math import gcd

from pipec.isa.specials import family_and_axis
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Loop
from pipec.kir.walk import subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, as_term
from pipec.terms.walk import Substitution, leaves
from pipec.vocabulary import Axis

COORDINATE_BITS = 32
_ROUND = 1 << COORDINATE_BITS  # the modulus of coordinate differences
LONGEST = 1 << 31  # of an unknown extent
_FOLLOWED = frozenset((Operator.DIMENSION, Operator.PARAMETER, Operator.COUNTER, Operator.ELEMENT))


@record
class TileBox:
    """The corner of a tile by axis, and its extent along each; None if unknown. `ranges`: the minimum and maximum of counters of loops
    with constant bounds. `dealt_out`: a loop distributes tiles over blocks, and the corner consists of its counter, sizes, parameters
    and other counters."""

    corner: tuple[Term, ...]
    extent: tuple[int | None, ...]
    ranges: Mapping[Atom, tuple[int, int]]
    dealt_out: bool


def place_of(where: tree.TensorSlice, extent: tuple[int | None, ...], values: Values) -> TileBox:
    corner = tuple(congruent(values.of(coordinate), COORDINATE_BITS) for coordinate in where.coordinates)
    return TileBox(corner, extent, values.numbered, _is_dealt_out(corner, values))


def renamed(term: Term, loops: Mapping[Loop, Term]) -> Term:
    """With the counters of another role's loops substituted for those of this role's."""
    return Substitution(lambda atom: loops.get(loop_of(atom)) if atom.operator is Operator.COUNTER else None)(term)


def loop_of(atom: Atom) -> Loop:
    loop = atom.operands[0]
    assert isinstance(loop, tree.For | tree.While)
    return loop


def loops_in(term: Term) -> set[Loop]:
    """The loops on whose counters a term depends."""
    return {loop_of(atom) for atom in leaves(term) if atom.operator is Operator.COUNTER}


def is_followed(term: Term) -> bool:
    """Whether equal terms are equal values, in the same iteration of the loops in them."""
    return all(
        atom.operator in _FOLLOWED
        or (atom.operator is Operator.SPECIAL and "." in str(atom.operands[0]))  # of the block, not the thread
        for atom in leaves(term)
    )


def _is_dealt_out(corner: tuple[Term, ...], values: Values) -> bool:
    found = {leaf for term in corner for leaf in leaves(term)}
    dealt = {leaf for leaf in found if _deals_out(leaf, values)}
    return bool(dealt) and all(
        leaf in dealt or (leaf.operator is not Operator.ELEMENT and is_followed(as_term(leaf))) for leaf in found
    )


def _deals_out(leaf: Atom, values: Values) -> bool:
    """Whether it counts a loop whose bounds depend on the block's index, or is a tile that a scheduler hands out."""
    if leaf.operator is Operator.LOOP_CARRIED:
        loop, key = leaf.operands
        return isinstance(loop, tree.While) and loop.tile is key
    if leaf.operator is not Operator.COUNTER:
        return False
    loop = loop_of(leaf)
    return any(
        _is_of_a_block(str(one.operands[0]))
        for term in values.controls[loop]
        for one in leaves(term)
        if one.operator is Operator.SPECIAL
    ) or (
        # The index of the only block is a number there.
        isinstance(loop, tree.For)
        and any(
            isinstance(one, tree.Special) and _is_of_a_block(one.name)
            for bound in (loop.start, loop.stop)
            for one in subexpressions(bound)
        )
    )


def _is_of_a_block(special: str) -> bool:
    return special.startswith(("block.", "cluster."))


def split_by(term: Term, loops: Collection[Loop]) -> tuple[dict[Atom, int], Term]:
    """The coefficients of some loops' counters, and the term without them."""
    counters = {atom: factor for atom, factor in term.parts if atom.operator is Operator.COUNTER and loop_of(atom) in loops}
    rest = term
    for atom, factor in counters.items():
        rest -= as_term(atom) * factor
    return counters, rest


def apart(one: TileBox, other: TileBox, crossed: Collection[Loop] = ()) -> bool:
    """Whether the tiles are disjoint, in the same iteration of every common loop except those in `crossed`."""

    def varies(atom: Atom) -> bool:
        followed, loops = _about(atom)
        return not followed or not loops.isdisjoint(crossed)

    return any(
        _never_meet(a, m, b, n, (one.ranges, other.ranges), varies)
        for (a, m), (b, n) in zip(axes_of(one), axes_of(other), strict=True)
    )


@lru_cache(maxsize=10_000)
def _about(atom: Atom) -> tuple[bool, frozenset[Loop]]:
    """Whether it is tracked, and the loops that it depends on."""
    term = as_term(atom)
    return is_followed(term), frozenset(loops_in(term))


_Ranges = tuple[Mapping[Atom, tuple[int, int]], Mapping[Atom, tuple[int, int]]]


def _never_meet(
    one: Term, extent: int | None, other: Term, other_extent: int | None, ranges: _Ranges, varies: Callable[[Atom], bool]
) -> bool:
    """Whether two intervals of an axis are disjoint, by the minimum and maximum of their distance, or by its remainder modulo the steps
    in which it changes. Registers wrap: a distance is known modulo 2 ** 32."""
    constant, parts = _difference(one, other, ranges, varies)
    least, largest = _ends(constant, parts)
    m, n = (LONGEST if one is None else one for one in (extent, other_extent))
    if (n <= least and largest <= _ROUND - m) or (n - _ROUND <= least and largest <= -m):
        return True
    step = gcd(_ROUND, *(factor for factor, _, _ in parts))
    return n <= constant % step <= step - m


_Part = tuple[int, int, int]  # a coefficient, and the ends of the range of its factor


def _ends(constant: int, parts: list[_Part]) -> tuple[int, int]:
    ends = [sorted((factor * least, factor * largest)) for factor, least, largest in parts]
    return constant + sum(low for low, _ in ends), constant + sum(high for _, high in ends)


def _difference(one: Term, other: Term, ranges: _Ranges, varies: Callable[[Atom], bool]) -> tuple[int, list[_Part]]:
    """The difference of the terms as a constant and a sum of coefficients times numbers in ranges. An atom that varies is a different
    number in each term."""
    mine, theirs = dict(one.parts), dict(other.parts)
    found = []
    for atom in dict.fromkeys((*mine, *theirs)):
        factors = mine.get(atom, 0), -theirs.get(atom, 0)
        least, largest = ranges[0].get(atom) or ranges[1].get(atom) or (atom.least, atom.largest)
        found += [(factor, least, largest) for factor in (factors if varies(atom) else (sum(factors),)) if factor]
    return one.constant - other.constant, found


def _distances(
    one: TileBox, other: TileBox, crossed: Collection[Loop]
) -> Iterator[tuple[tuple[int, int] | None, int | None, int | None]]:
    """Per axis the minimum and maximum distance of the corners, and both extents."""
    ranges = _ranges(one, other)
    for (a, m), (b, n) in zip(axes_of(one), axes_of(other), strict=True):
        yield _between(a, b, ranges, crossed), m, n


def _ranges(one: TileBox, other: TileBox) -> Mapping[Atom, tuple[int, int]]:
    """Locations of one role share them."""
    return one.ranges if one.ranges is other.ranges else {**one.ranges, **other.ranges}


def _between(one: Term, other: Term, ranges: Mapping[Atom, tuple[int, int]], crossed: Collection[Loop]) -> tuple[int, int] | None:
    """The minimum and maximum of the difference of the terms; `crossed` loops may be in different iterations."""
    if not (is_followed(one) and is_followed(other)):
        return None
    (mine, rest), (theirs, other_rest) = split_by(one, crossed), split_by(other, crossed)
    if loops_in(rest) & set(crossed) or loops_in(other_rest) & set(crossed):
        return None
    difference = rest - other_rest
    parts = (*mine.items(), *((atom, -factor) for atom, factor in theirs.items()), *difference.parts)
    if any(atom not in ranges for atom, _ in parts):
        return None
    ends = [sorted(factor * end for end in ranges[atom]) for atom, factor in parts]
    return difference.constant + sum(least for least, _ in ends), difference.constant + sum(largest for _, largest in ends)


def axes_of(place: TileBox) -> Iterator[tuple[Term, int | None]]:
    return iter(zip(place.corner, place.extent, strict=True))


def _far(distance: tuple[int, int] | None, extent: int | None, other: int | None) -> bool:
    if distance is None:
        return False
    return (other is not None and distance[0] >= other) or (extent is not None and -distance[1] >= extent)


@record
class GridAxis:
    """An axis of the grid: a block's index along it, and its index in a cluster of this width."""

    axis: Axis
    block: Term
    cta: Term
    width: int


def apart_by_blocks(one: TileBox, other: TileBox, along: GridAxis, same: Collection[Axis]) -> bool:
    """Whether the tiles of any two blocks are disjoint that differ in their index along an axis of the grid and agree along the axes
    `same`: along some axis of the tensor the tile advances from block to block by more than everything else can offset."""

    def varies(atom: Atom) -> bool:
        followed, loops = _about(atom)
        return not followed or bool(loops) or any(_differs(leaf, same) for leaf in leaves(as_term(atom)))

    for (a, m), (b, n) in zip(axes_of(one), axes_of(other), strict=True):
        (mine, rest), (theirs, other_rest) = _of_block(a, along), _of_block(b, along)
        if m is None or n is None or mine != theirs:
            continue
        ends = _ends(*_difference(rest, other_rest, (one.ranges, other.ranges), varies))
        back = max(map(abs, ends)) + max(m, n)
        if back <= abs(mine) and abs(mine) * along.block.largest + back <= _ROUND:
            return True
    return False


def _differs(leaf: Atom, same: Collection[Axis]) -> bool:
    """Whether the leaf may differ between two blocks that agree along the axes `same`."""
    family, axis = family_and_axis(str(leaf.operands[0]))
    return leaf.operator is Operator.SPECIAL and family not in ("grid", "clusters") and axis not in same


def _of_block(term: Term, along: GridAxis) -> tuple[int, Term]:
    """The coefficient of a block's index, and the term without it. A cluster's position is that of its first block."""
    factor, rest = 0, term
    for atom, each in term.parts:
        name = atom.operands[0] if atom.operator is Operator.SPECIAL else None
        if name == f"block.{along.axis}":
            factor, rest = factor + each, rest - as_term(atom) * each
        elif name == f"cluster.{along.axis}" and each % along.width == 0:
            blocks = each // along.width
            factor, rest = factor + blocks, rest - as_term(atom) * each - along.cta * blocks
    return factor, rest


def overlap_by_numbers(one: TileBox, other: TileBox, crossed: Collection[Loop] = ()) -> bool:
    """Whether the distances of the tiles are known as numbers along every axis, and do not separate them."""
    found = list(_distances(one, other, crossed))
    return all(distance is not None for distance, _, _ in found) and not any(_far(*axis) for axis in found)


def same(one: TileBox, other: TileBox) -> bool:
    """The same elements, in the same iteration of every common loop."""
    return one.extent == other.extent and one.corner == other.corner and all(is_followed(term) for term in one.corner)
