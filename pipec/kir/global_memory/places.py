"""Where a tile lies in its tensor, so that two tiles can be compared.

Coordinates are registers, so two of them are as far apart as their terms are, or 2 ** 32 further: then they are far apart, too, and what
wraps need not be looked at. What is not followed (what a loop carries, a value from memory that may change) equals nothing, not even
itself at another time.
"""

from collections.abc import Collection, Iterator, Mapping

from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Loop
from pipec.record import record
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, as_term
from pipec.terms.walk import Substitution, leaves

_COORDINATE_BITS = 32
_FOLLOWED = frozenset((Operator.DIMENSION, Operator.PARAMETER, Operator.COUNTER, Operator.ELEMENT))


@record
class Place:
    """The corner of a tile by axis, and its extent along each; None where it is not known. `ranges`: the least and the largest value of
    loops' counters whose bounds are numbers."""

    corner: tuple[Term, ...]
    extent: tuple[int | None, ...]
    ranges: Mapping[Atom, tuple[int, int]]


def place_of(where: tree.TensorSlice, extent: tuple[int | None, ...], values: Values) -> Place:
    corner = tuple(congruent(values.of(coordinate), _COORDINATE_BITS) for coordinate in where.coordinates)
    return Place(corner, extent, values.numbered)


def renamed(term: Term, loops: Mapping[Loop, Term]) -> Term:
    """With the counters of another role's loops in place of those of this one's."""
    return Substitution(lambda atom: loops.get(_loop(atom)) if atom.operator is Operator.COUNTER else None)(term)


def _loop(atom: Atom) -> Loop:
    loop = atom.operands[0]
    assert isinstance(loop, tree.For | tree.While)
    return loop


def loops_in(term: Term) -> set[Loop]:
    """The loops whose counters a term depends on."""
    return {_loop(atom) for atom in leaves(term) if atom.operator is Operator.COUNTER}


def is_followed(term: Term) -> bool:
    """Equal terms are then equal values, in the same iteration of the loops in them."""
    return all(
        atom.operator in _FOLLOWED
        or (atom.operator is Operator.SPECIAL and "." in str(atom.operands[0]))  # of the block, not the thread
        for atom in leaves(term)
    )


def _split(term: Term, loops: Collection[Loop]) -> tuple[dict[Atom, int], Term]:
    """The factors of some loops' counters, and the term without them."""
    counters = {atom: factor for atom, factor in term.parts if atom.operator is Operator.COUNTER and _loop(atom) in loops}
    rest = term
    for atom, factor in counters.items():
        rest -= as_term(atom) * factor
    return counters, rest


def apart(one: Place, other: Place, crossed: Collection[Loop] = ()) -> bool:
    """Whether the tiles have no element in common, in the same iteration of every loop that both stand in but for `crossed`."""
    return any(_far(distance, m, n) for distance, m, n in _distances(one, other, crossed))


def _distances(
    one: Place, other: Place, crossed: Collection[Loop]
) -> Iterator[tuple[tuple[int, int] | None, int | None, int | None]]:
    """By axis the least and the largest distance of the corners, and both extents."""
    ranges = _ranges(one, other)
    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
        yield _between(a, b, ranges, crossed), m, n


def _ranges(one: Place, other: Place) -> Mapping[Atom, tuple[int, int]]:
    """Places of one role have them in common."""
    return one.ranges if one.ranges is other.ranges else {**one.ranges, **other.ranges}


def _between(one: Term, other: Term, ranges: Mapping[Atom, tuple[int, int]], crossed: Collection[Loop]) -> tuple[int, int] | None:
    """The least and the largest value of one term less the other; `crossed` loops may be in different iterations."""
    if not (is_followed(one) and is_followed(other)):
        return None
    (mine, rest), (theirs, other_rest) = _split(one, crossed), _split(other, crossed)
    if loops_in(rest) & set(crossed) or loops_in(other_rest) & set(crossed):
        return None
    difference = rest - other_rest
    parts = (*mine.items(), *((atom, -factor) for atom, factor in theirs.items()), *difference.parts)
    if any(atom not in ranges for atom, _ in parts):
        return None
    ends = [sorted(factor * end for end in ranges[atom]) for atom, factor in parts]
    return difference.constant + sum(least for least, _ in ends), difference.constant + sum(largest for _, largest in ends)


def _axes(place: Place) -> Iterator[tuple[Term, int | None]]:
    return iter(zip(place.corner, place.extent, strict=True))


def _far(distance: tuple[int, int] | None, extent: int | None, other: int | None) -> bool:
    if distance is None:
        return False
    return (other is not None and distance[0] >= other) or (extent is not None and -distance[1] >= extent)


def apart_in_other_iterations(one: Place, other: Place, loops: Mapping[Loop, int | None]) -> bool:
    """Whether the tiles have no element in common in any two different iterations of the loops (with their steps).

    Each loop alone must set them apart: along some axis no other of the loops counts, and from one iteration to the next the tile goes on
    by its extent at least. Loops that are not named are in the same iteration. No loop goes on until its tiles come round to the first.
    """
    return bool(loops) and all(
        step is not None
        and any(_steps_over((a, m), (b, n), loop, step, loops) for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True))
        for loop, step in loops.items()
    )


def _steps_over(
    one: tuple[Term, int | None], other: tuple[Term, int | None], loop: Loop, step: int, loops: Mapping[Loop, int | None]
) -> bool:
    (a, m), (b, n) = one, other
    (mine, rest), (theirs, other_rest) = _split(a, (loop,)), _split(b, (loop,))
    if m is None or n is None or mine != theirs or not (is_followed(a) and is_followed(b)):
        return False
    apart_now = (rest - other_rest).number
    if apart_now is None or (loops_in(rest) | loops_in(other_rest)) & loops.keys():
        return False
    return abs(sum(mine.values()) * step) - abs(apart_now) >= max(m, n)


def apart_by_blocks(one: Place, other: Place, name: str, names: Collection[str]) -> bool:
    """Whether the tiles of two blocks have no element in common that differ in the hardware value `name`; of all `names` none but this one
    counts along some axis, where the tile goes on by its extent at least from one block to the next."""
    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
        (mine, rest), (theirs, other_rest) = _of_block(a, name), _of_block(b, name)
        if m is None or n is None or mine != theirs or not (is_followed(a) and is_followed(b)):
            continue
        if any(_names_in(term) & set(names) for term in (rest, other_rest)):
            continue
        between = _between(rest, other_rest, _ranges(one, other), loops_in(rest) | loops_in(other_rest))
        if between is not None and abs(mine) - max(map(abs, between)) >= max(m, n):
            return True
    return False


def _of_block(term: Term, name: str) -> tuple[int, Term]:
    """The factor of a hardware value, and the term without it."""
    found = [(atom, factor) for atom, factor in term.parts if atom.operator is Operator.SPECIAL and atom.operands[0] == name]
    factor = found[0][1] if found else 0
    return factor, term - as_term(found[0][0]) * factor if found else term


def _names_in(term: Term) -> set[str]:
    return {str(atom.operands[0]) for atom in leaves(term) if atom.operator is Operator.SPECIAL}


def overlap_by_numbers(one: Place, other: Place, crossed: Collection[Loop] = ()) -> bool:
    """Whether the distances of the tiles are known as numbers along every axis, and are not enough to keep them apart."""
    found = list(_distances(one, other, crossed))
    return all(distance is not None for distance, _, _ in found) and not any(_far(*axis) for axis in found)


def same(one: Place, other: Place) -> bool:
    """The same elements, in the same iteration of every loop that both stand in."""
    return one.extent == other.extent and one.corner == other.corner and all(is_followed(term) for term in one.corner)
