"""The minimum and maximum of a coordinate over the blocks of a grid, as sums of sizes and integer parameters that a launch can check."""

from collections.abc import Mapping

from pipec.kir.values.analysis import Count
from pipec.sema import tree
from pipec.terms.registers import type_range
from pipec.terms.term import Atom, Operator, Term, as_term
from pipec.verify.conditions import GRID
from pipec.verify.terms import Linear, Symbol, add, atom, floor, number

_BLOCKS = dict(zip(("block.x", "block.y", "block.z"), GRID, strict=True))
_NO_LOOPS: Mapping[Atom, Count] = {}


def ends(place: Term, counts: Mapping[Atom, Count] = _NO_LOOPS, fits: list[Linear] | None = None) -> tuple[Linear, Linear] | None:
    """None if it is not a sum of sizes, parameters and the block's index, or quotients of such sums by constants. `counts`: of loops whose
    counters may be in it, too, with all turns of these loops. `fits`: takes numbers that are not negative if and only if those fit in
    their registers from which the ends are computed, such as the start of `range(n - 1, -1, -1)`; without it, they must."""
    for part, factor in reversed(place.parts):  # inner loops first: their bounds may be made of other counters
        if part in counts:
            return _in_turns(place, part, factor, counts, fits)
    first = last = number(place.constant)
    for part, factor in place.parts:
        found = _range(part, counts, fits)
        if found is None:
            return None
        low, high = found if factor > 0 else reversed(found)
        first, last = add(first, low, factor), add(last, high, factor)
    return first, last


def _in_turns(
    place: Term, counter: Atom, factor: int, counts: Mapping[Atom, Count], fits: list[Linear] | None
) -> tuple[Linear, Linear] | None:
    """Between what it is in the first and in the last turn, in terms of what these are: `t - 4 * block.x` of a loop from `4 * block.x` on
    begins at 0 in all blocks."""
    count = counts[counter]
    if count.wraps:
        return None
    ahead = 1 if count.step > 0 else -1
    found = [ends(place + (turn - as_term(counter)) * factor, counts, fits) for turn in (count.start, count.stop - ahead)]
    low, high = found if factor * ahead > 0 else reversed(found)
    return None if low is None or high is None else (low[0], high[1])


def _range(part: Atom, counts: Mapping[Atom, Count], fits: list[Linear] | None) -> tuple[Linear, Linear] | None:
    about = part.operands[0] if part.operands else None
    match part.operator, about:
        case Operator.SPECIAL, str() if about in _BLOCKS:
            return number(0), add(atom(Symbol(_BLOCKS[about])), number(-1))
        case Operator.DIMENSION, str():
            here = atom(Symbol(about))
        case Operator.PARAMETER, tree.ScalarParameter():
            here = atom(Symbol(about.name))
        case Operator.QUOTIENT, Term():
            inside, by = ends(about, counts, fits), part.operands[1]
            if inside is None or not isinstance(by, Term) or by.number is None or by.number < 1:
                return None
            return floor(inside[0], by.number), floor(inside[1], by.number)
        case Operator.WRAPPED, Term() if fits is not None:
            inside, (_, bits, signed) = ends(about, counts, fits), part.operands
            if inside is not None and isinstance(bits, int):
                least, largest = type_range(bits, bool(signed))
                fits += [add(inside[0], number(-least)), add(number(largest), inside[1], -1)]
            return inside
        case _:
            return None
    return here, here
