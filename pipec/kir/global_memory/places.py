"""The location of a tile in its tensor, so that two tiles can be compared.

Coordinates are registers, so the distance of two is that of their terms, or 2 ** 32 more: then they are far apart anyway, and wrapping
can be ignored. Values that are not tracked (loop-carried ones, loads that may change) equal nothing, not even themselves at another
time.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod

from pipec.isa.specials import family_and_axis
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Loop
from pipec.kir.walk import subexpressions
from pipec.record import record, replace
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, as_term, atom_of, make, operands
from pipec.terms.walk import Substitution, leaves
from pipec.vocabulary import Axis

_COORDINATE_BITS = 32
_ROUND = 1 << _COORDINATE_BITS  # the modulus of coordinate differences
_LONGEST = 1 << 31  # of an unknown extent
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
    corner = tuple(congruent(values.of(coordinate), _COORDINATE_BITS) for coordinate in where.coordinates)
    return TileBox(corner, extent, values.numbered, _is_dealt_out(corner, values))


def renamed(term: Term, loops: Mapping[Loop, Term]) -> Term:
    """With the counters of another role's loops substituted for those of this role's."""
    return Substitution(lambda atom: loops.get(_loop(atom)) if atom.operator is Operator.COUNTER else None)(term)


def _loop(atom: Atom) -> Loop:
    loop = atom.operands[0]
    assert isinstance(loop, tree.For | tree.While)
    return loop


def loops_in(term: Term) -> set[Loop]:
    """The loops on whose counters a term depends."""
    return {_loop(atom) for atom in leaves(term) if atom.operator is Operator.COUNTER}


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
    loop = _loop(leaf)
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


def _split(term: Term, loops: Collection[Loop]) -> tuple[dict[Atom, int], Term]:
    """The coefficients of some loops' counters, and the term without them."""
    counters = {atom: factor for atom, factor in term.parts if atom.operator is Operator.COUNTER and _loop(atom) in loops}
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
        for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True)
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
    m, n = (_LONGEST if one is None else one for one in (extent, other_extent))
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
    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
        yield _between(a, b, ranges, crossed), m, n


def _ranges(one: TileBox, other: TileBox) -> Mapping[Atom, tuple[int, int]]:
    """Locations of one role share them."""
    return one.ranges if one.ranges is other.ranges else {**one.ranges, **other.ranges}


def _between(one: Term, other: Term, ranges: Mapping[Atom, tuple[int, int]], crossed: Collection[Loop]) -> tuple[int, int] | None:
    """The minimum and maximum of the difference of the terms; `crossed` loops may be in different iterations."""
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


def _axes(place: TileBox) -> Iterator[tuple[Term, int | None]]:
    return iter(zip(place.corner, place.extent, strict=True))


def _far(distance: tuple[int, int] | None, extent: int | None, other: int | None) -> bool:
    if distance is None:
        return False
    return (other is not None and distance[0] >= other) or (extent is not None and -distance[1] >= extent)


def apart_in_other_iterations(one: TileBox, other: TileBox, loops: Mapping[Loop, int | None]) -> bool:
    """Whether the tiles are disjoint in any two different iterations of the loops (with their steps).

    Each loop alone must separate them: along some axis that no other of these loops affects, the tile advances by at least its extent
    per iteration. Or a single loop numbers them. Loops that are not listed are in the same iteration. No loop runs so long that its tiles
    wrap around to the first.
    """
    return bool(loops) and (
        all(
            step is not None
            and any(
                _steps_over(*axes, loop, step, loops) or _strides_over(*axes, loop, step, loops)
                for axes in zip(_axes(one), _axes(other), strict=True)
            )
            for loop, step in loops.items()
        )
        or (len(loops) == 1 and all(step is not None and _numbered_by(one, other, loop) for loop, step in loops.items()))
    )


def _numbered_by(one: TileBox, other: TileBox, loop: Loop) -> bool:
    """Whether both are tile number `n` of a grid of tiles, at `n % r` along one axis and at `n // r` along another, where the loop changes
    `n` in each iteration: from one number to another, the quotient or the remainder changes."""
    found = set[tuple[Hashable, ...]]()
    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
        if a is b and m is not None and n is not None and is_followed(a):
            found |= {
                (atom.operator, *atom.operands)
                for atom, factor in a.parts
                if atom.operator in (Operator.QUOTIENT, Operator.REMAINDER)
                and abs(factor) >= max(m, n)
                and loop not in loops_in(a - as_term(atom) * factor)
            }
    return any(
        (Operator.QUOTIENT, number, divisor) in found and loop not in loops_in(divisor) and _changes(number, loop)
        for operator, number, divisor in found
        if operator is Operator.REMAINDER and isinstance(number, Term) and isinstance(divisor, Term)
    )


def _changes(term: Term, loop: Loop) -> bool:
    """Whether the term has another value in each iteration of the loop."""
    mine, rest = _split(term, (loop,))
    return (bool(mine) and loop not in loops_in(rest)) or _is_walked(term, loop)


def _is_walked(term: Term, loop: Loop) -> bool:
    """Whether the loop advances the term by a number of blocks, `range(block.x, tiles, grid.x)`. It ends below `tiles`, so that no register
    comes round on the way; a number that the source itself multiplies, or of a loop that counts by 1, might."""
    term = _exact(term)
    moving = [(atom, factor) for atom, factor in term.parts if loop in loops_in(as_term(atom))]
    if len(moving) != 1 or not isinstance(loop, tree.For) or loop.walk is None:
        return False
    ((atom, factor),) = moving
    operators = {(one and one.operator) for one in map(atom_of, operands(atom))} if atom.operator is Operator.PRODUCT else set()
    return abs(factor) == 1 and len(atom.operands) == 2 and operators == {Operator.COUNTER, Operator.SPECIAL}


def apart_in_earlier_iterations(one: TileBox, other: TileBox, loops: Mapping[Loop, int | None]) -> bool:
    """Whether one tile is disjoint from the other of every earlier iteration of the only common loop."""
    return len(loops) == 1 and any(
        step is not None and _steps_ahead((a, m), (b, n), loop, step)
        for loop, step in loops.items()
        for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True)
    )


def apart_at_distances(
    one: TileBox, other: TileBox, loops: Mapping[Loop, int | None], least: int | None, most: int | None
) -> bool:
    """Whether one tile is disjoint from the other of each iteration of the loops (with their steps) that comes later by a number between
    `least` and `most`, of which None is no end."""
    if meet_now(least, most) and not apart(one, other):
        return False
    return (
        (least == most == 0)
        or apart_in_other_iterations(one, other, loops)
        or (most is not None and most <= 0 and apart_in_earlier_iterations(one, other, loops))
        or (least is not None and least >= 0 and apart_in_earlier_iterations(other, one, loops))
        or (
            least is not None
            and most is not None
            and all(_apart_at_distance(one, other, loops, number) for number in range(least, most + 1) if number)
        )
    )


def meet_now(least: int | None, most: int | None) -> bool:
    """Whether iterations of the same number are among them."""
    return (least is None or least <= 0) and (most is None or most >= 0)


def _apart_at_distance(one: TileBox, other: TileBox, loops: Mapping[Loop, int | None], distance: int) -> bool:
    if len(loops) != 1:
        return False
    ((loop, step),) = loops.items()
    if step is None:
        return False
    later = Substitution(
        lambda atom: as_term(atom) + distance * step if atom.operator is Operator.COUNTER and _loop(atom) == loop else None
    )
    moved = replace(other, corner=tuple(map(later, other.corner)))
    return apart(one, moved) or any(map(_in_other_slots, _axes(one), _axes(moved)))


def numbered_by_turns(place: TileBox, loop: Loop, values: Values, turns: Loop) -> TileBox:
    """The place in terms of the number of the iteration of a loop, as the counter of `turns`: for loops that count by different steps."""
    number = make(Operator.COUNTER, (turns,), 0, _LONGEST - 1)

    def counted(atom: Atom) -> Term | None:
        count, row = values.counts.get(atom), values.recurrences.get(atom)
        if count is not None and atom.operands[0] is loop:
            return count.start + number * count.step
        if row is None or row.loop is not loop:
            return None
        step = (_exact(row.following) - as_term(atom)).number  # of a `while`
        return None if step is None or not is_followed(row.initial) else row.initial + number * step

    return replace(place, corner=tuple(map(Substitution(counted), place.corner)))


def _exact(term: Term) -> Term:
    """What a register of a coordinate's bits has wrapped."""
    inside = atom_of(term)
    wrapped = inside is not None and inside.operator is Operator.WRAPPED and inside.operands[1] == _COORDINATE_BITS
    return operands(inside)[0] if inside is not None and wrapped else term


def _in_other_slots(one: "_Axis", other: "_Axis") -> bool:
    """Whether both are slots of a ring, `i % 3`, that differ since the numbers of which they are left differ by no multiple of 3."""
    (a, m), (b, n) = one, other
    return any(
        m is not None
        and n is not None
        and abs(factor) >= max(m, n)
        and a - as_term(atom) * factor is b - as_term(slot) * factor
        and is_followed(a)
        and _differ_by_remainder(atom, slot)
        for atom, factor in a.parts
        for slot, other_factor in b.parts
        if factor == other_factor
    )


def _differ_by_remainder(one: Atom, other: Atom) -> bool:
    if not one.operator is other.operator is Operator.REMAINDER:
        return False
    (number, divisor), (other_number, same_divisor) = operands(one), operands(other)
    distance = (other_number - number).number
    return divisor is same_divisor and divisor.number is not None and distance is not None and distance % divisor.number != 0


_Axis = tuple[Term, int | None]


def _steps_over(one: _Axis, other: _Axis, loop: Loop, step: int, loops: Mapping[Loop, int | None]) -> bool:
    found = _steps(one, other, loop, step, loops)
    (_, m), (_, n) = one, other
    return found is not None and m is not None and n is not None and abs(found[0]) - abs(found[1]) >= max(m, n)


def _strides_over(one: _Axis, other: _Axis, loop: Loop, step: int, loops: Collection[Loop]) -> bool:
    """Whether both tiles are at the same place, which advances by a multiple of something that is at least 1, such as the number of blocks:
    from one tile of a block to the next."""
    (a, m), (b, n) = one, other
    if a is not b or m is None or n is None or not is_followed(a):
        return False
    moving = [(atom, factor) for atom, factor in a.parts if loops_in(as_term(atom)) & set(loops)]
    strides = [_stride(atom, loop, loops) * factor for atom, factor in moving]
    return (all(each > 0 for each in strides) or all(each < 0 for each in strides)) and abs(sum(strides) * step) >= max(m, n)


def _stride(atom: Atom, loop: Loop, loops: Collection[Loop]) -> int:
    """By how much the atom grows at least when the counter of the loop does by one, which alone changes it; 0 if that is not known."""
    if atom.operator is Operator.COUNTER:
        return int(_loop(atom) == loop)
    if atom.operator is not Operator.PRODUCT:
        return 0
    factors = [factor for factor in atom.operands if isinstance(factor, Term)]
    for counted in factors:
        others = [factor for factor in factors if factor is not counted]
        counters, rest = _split(counted, (loop,))
        fixed = not set(loops) & loops_in(rest).union(*map(loops_in, others))
        if fixed and len(others) == len(atom.operands) - 1 and all(factor.least >= 1 for factor in others):
            return sum(counters.values()) * prod(factor.least for factor in others)
    return 0


def _steps_ahead(one: _Axis, other: _Axis, loop: Loop, step: int) -> bool:
    found = _steps(one, other, loop, step, (loop,))
    (_, m), (_, n) = one, other
    if found is None or m is None or n is None:
        return False
    each, now = found
    return (each > 0 and now + each >= n) or (each < 0 and now + each <= -m)


def _steps(one: _Axis, other: _Axis, loop: Loop, step: int, loops: Collection[Loop]) -> tuple[int, int] | None:
    """How far both tiles advance per iteration, and their distance in the same iteration."""
    (a, _), (b, _) = one, other
    (mine, rest), (theirs, other_rest) = _split(a, (loop,)), _split(b, (loop,))
    if mine != theirs or not (is_followed(a) and is_followed(b)):
        return None
    apart_now = (rest - other_rest).number
    if apart_now is None or (loops_in(rest) | loops_in(other_rest)) & set(loops):
        return None
    return sum(mine.values()) * step, apart_now


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

    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
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
