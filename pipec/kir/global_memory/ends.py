"""The minimum and maximum of a coordinate over the blocks of a grid, as sums of sizes and integer parameters that a launch can check."""

from collections.abc import Mapping

from pipec.kir.values.analysis import Count
from pipec.sema import tree
from pipec.terms.term import Atom, Operator, Term
from pipec.verify.conditions import GRID
from pipec.verify.terms import Linear, Symbol, add, atom, floor, number

_BLOCKS = dict(zip(("block.x", "block.y", "block.z"), GRID, strict=True))
_NO_LOOPS: Mapping[Atom, Count] = {}


def ends(place: Term, counts: Mapping[Atom, Count] = _NO_LOOPS) -> tuple[Linear, Linear] | None:
    """None if it is not a sum of sizes, parameters and the block's index, or quotients of such sums by constants. `counts`: of loops whose
    counters may be in it, too, with all turns of these loops."""
    first = last = number(place.constant)
    for part, factor in place.parts:
        found = _range(part, counts)
        if found is None:
            return None
        low, high = found if factor > 0 else reversed(found)
        first, last = add(first, low, factor), add(last, high, factor)
    return first, last


def _range(part: Atom, counts: Mapping[Atom, Count]) -> tuple[Linear, Linear] | None:
    if part in counts:
        return _of_turns(counts[part], counts)
    about = part.operands[0] if part.operands else None
    match part.operator, about:
        case Operator.SPECIAL, str() if about in _BLOCKS:
            return number(0), add(atom(Symbol(_BLOCKS[about])), number(-1))
        case Operator.DIMENSION, str():
            here = atom(Symbol(about))
        case Operator.PARAMETER, tree.ScalarParameter():
            here = atom(Symbol(about.name))
        case Operator.QUOTIENT, Term():
            inside, by = ends(about, counts), part.operands[1]
            if inside is None or not isinstance(by, Term) or by.number is None or by.number < 1:
                return None
            return floor(inside[0], by.number), floor(inside[1], by.number)
        case _:
            return None
    return here, here


def _of_turns(count: Count, counts: Mapping[Atom, Count]) -> tuple[Linear, Linear] | None:
    """Between what the variable of a loop is in its turns."""
    start, stop = ends(count.start, counts), ends(count.stop, counts)
    if start is None or stop is None or count.wraps:
        return None
    return (start[0], add(stop[1], number(-1))) if count.step > 0 else (add(stop[0], number(1)), start[1])
