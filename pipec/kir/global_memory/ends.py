"""The minimum and maximum of a coordinate over the blocks of a grid, as sums of sizes and integer parameters that a launch can check."""

from pipec.sema import tree
from pipec.terms.term import Atom, Operator, Term
from pipec.verify.conditions import GRID
from pipec.verify.terms import Linear, Symbol, add, atom, number

_BLOCKS = dict(zip(("block.x", "block.y", "block.z"), GRID, strict=True))


def ends(place: Term) -> tuple[Linear, Linear] | None:
    """None if it is not a sum of sizes, parameters and the block's index."""
    first = last = number(place.constant)
    for part, factor in place.parts:
        found = _range(part)
        if found is None:
            return None
        low, high = found if factor > 0 else reversed(found)
        first, last = add(first, low, factor), add(last, high, factor)
    return first, last


def _range(part: Atom) -> tuple[Linear, Linear] | None:
    about = part.operands[0] if part.operands else None
    match part.operator, about:
        case Operator.SPECIAL, str() if about in _BLOCKS:
            return number(0), add(atom(Symbol(_BLOCKS[about])), number(-1))
        case Operator.DIMENSION, str():
            here = atom(Symbol(about))
        case Operator.PARAMETER, tree.ScalarParameter():
            here = atom(Symbol(about.name))
        case _:
            return None
    return here, here
