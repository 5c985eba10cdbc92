"""Whether tiles in loops are disjoint from those of other iterations, which may be earlier, later, or so many away.

Loops that are not listed are in the same iteration. See places.py for what is compared.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from math import prod

from pipec.kir.global_memory.places import (
    COORDINATE_BITS,
    LONGEST,
    TileBox,
    apart,
    axes_of,
    is_followed,
    loop_of,
    loops_in,
    split_by,
)
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Loop
from pipec.record import replace
from pipec.sema import tree
from pipec.terms.term import Atom, Operator, Term, as_term, atom_of, make, operands
from pipec.terms.walk import Substitution

_Axis = tuple[Term, int | None]


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
                for axes in zip(axes_of(one), axes_of(other), strict=True)
            )
            for loop, step in loops.items()
        )
        or (len(loops) == 1 and all(step is not None and _numbered_by(one, other, loop) for loop, step in loops.items()))
    )


def _numbered_by(one: TileBox, other: TileBox, loop: Loop) -> bool:
    """Whether both are tile number `n` of a grid of tiles, at `n % r` along one axis and at `n // r` along another, where the loop changes
    `n` in each iteration: from one number to another, the quotient or the remainder changes."""
    found = set[tuple[Hashable, ...]]()
    for (a, m), (b, n) in zip(axes_of(one), axes_of(other), strict=True):
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
    mine, rest = split_by(term, (loop,))
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
        for (a, m), (b, n) in zip(axes_of(one), axes_of(other), strict=True)
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


def beyond_at_distances(
    one: TileBox, other: TileBox, loops: Mapping[Loop, int | None], least: int | None, most: int | None, *, above: bool
) -> bool:
    """Whether one tile lies wholly above the other, or below it, of each iteration of the only loop that comes later by a number between
    `least` and `most`, of which None is no end."""
    return len(loops) == 1 and any(
        step is not None and _lies_beyond(*axes, loop, step, (least, most), above=above)
        for loop, step in loops.items()
        for axes in zip(axes_of(one), axes_of(other), strict=True)
    )


def _lies_beyond(
    one: _Axis, other: _Axis, loop: Loop, step: int, distances: tuple[int | None, int | None], *, above: bool
) -> bool:
    found = _steps(one, other, loop, step, (loop,))
    (_, m), (_, n) = one, other
    if found is None or m is None or n is None:
        return False
    each, now = found
    nearest = 0 if each == 0 else distances[(each > 0) == above]
    return nearest is not None and (now - each * nearest >= n if above else now - each * nearest <= -m)


def ends_of(place: TileBox, values: Values, around: Collection[Loop]) -> tuple[TileBox, TileBox]:
    """The lowest and the highest of the tiles that the loops inside those `around` reach in one iteration of these."""

    def end(term: Term, *, highest: bool) -> Term:
        inner = [
            (atom, factor)
            for atom, factor in term.parts
            if atom.operator is Operator.COUNTER and loop_of(atom) not in around and atom in values.ends
        ]
        for atom, factor in inner:
            term += (values.ends[atom][(factor > 0) == highest] - as_term(atom)) * factor
        # The ends of a loop may count another one around it.
        return end(term, highest=highest) if inner else term

    low, high = (replace(place, corner=tuple(end(one, highest=up) for one in place.corner)) for up in (False, True))
    return low, high


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
        lambda atom: as_term(atom) + distance * step if atom.operator is Operator.COUNTER and loop_of(atom) == loop else None
    )
    moved = replace(other, corner=tuple(map(later, other.corner)))
    return apart(one, moved) or any(map(_in_other_slots, axes_of(one), axes_of(moved)))


def numbered_by_turns(
    place: TileBox, loop: Loop, values: Values, turns: Loop, slots: Callable[[Atom, Term], Term | None]
) -> TileBox:
    """The place in terms of the number of the iteration of a loop, as the counter of `turns`: for loops that count by different steps.
    `slots`: what else depends on it, given that number."""
    number = make(Operator.COUNTER, (turns,), 0, LONGEST - 1)

    def counted(atom: Atom) -> Term | None:
        if atom.operator is Operator.UNKNOWN:
            return slots(atom, number)
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
    wrapped = inside is not None and inside.operator is Operator.WRAPPED and inside.operands[1] == COORDINATE_BITS
    return operands(inside)[0] if inside is not None and wrapped else term


def _in_other_slots(one: _Axis, other: _Axis) -> bool:
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
        return int(loop_of(atom) == loop)
    if atom.operator is not Operator.PRODUCT:
        return 0
    factors = [factor for factor in atom.operands if isinstance(factor, Term)]
    for counted in factors:
        others = [factor for factor in factors if factor is not counted]
        counters, rest = split_by(counted, (loop,))
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
    (mine, rest), (theirs, other_rest) = split_by(a, (loop,)), split_by(b, (loop,))
    if mine != theirs or not (is_followed(a) and is_followed(b)):
        return None
    apart_now = (rest - other_rest).number
    if apart_now is None or (loops_in(rest) | loops_in(other_rest)) & set(loops):
        return None
    return sum(mine.values()) * step, apart_now
