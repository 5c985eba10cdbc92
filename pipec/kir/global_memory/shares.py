"""Loops over a block's share of numbers, `range(b * tiles // blocks, (b + 1) * tiles // blocks)`: each ends where the next block's begins,
so that no two blocks count the same number.
"""

from pipec.isa.specials import AXES
from pipec.kir.global_memory.equations import unwrapped
from pipec.kir.values.analysis import Count
from pipec.record import record
from pipec.terms.term import Atom, Operator, Term, as_term, atom_of, combination, operands
from pipec.terms.walk import Substitution, atoms, leaves, rebuilt
from pipec.vocabulary import Axis


@record
class Share:
    """The numbers from `start` up to that of the next block along an axis; `wraps`: if what they are computed from fits in its register."""

    start: Term
    axis: Axis
    wraps: bool


def share_of(count: Count) -> Share | None:
    """Of the numbers that a loop counts; None if they are none."""
    if count.step < 0:
        return None
    start, stop = _fitting(count.start), _fitting(count.stop)
    for leaf in leaves(start):
        axis = next((one for one in AXES if leaf.operator is Operator.SPECIAL and leaf.operands[0] == f"block.{one}"), None)
        if axis is None or not _rises(start, leaf):
            continue
        following = _in_the_next(leaf)(start)
        inside = atom_of(stop)
        if following is stop or inside is not None and inside.operator is Operator.MIN and following in operands(inside):
            return Share(start, axis, start is not count.start or stop is not count.stop)
    return None


def _in_the_next(block: Atom) -> Substitution:
    return Substitution(lambda atom: as_term(atom) + 1 if atom is block else None)


def _fitting(term: Term) -> Term:
    """The term if all numbers that it is computed from fit in their registers."""
    parts = []
    for atom, factor in unwrapped(term).parts:
        inside = tuple(_fitting(part) if isinstance(part, Term) else part for part in atom.operands)
        parts.append((rebuilt(atom, inside), factor))
    return combination(unwrapped(term).constant, parts)


def _rises(term: Term, block: Atom) -> bool:
    """Whether the term never gets smaller as the block's index grows; or never larger, and then no block counts anything."""
    moving = [(atom, factor) for atom, factor in term.parts if _depends(as_term(atom), block)]
    if len(moving) != 1 or moving[0][1] < 0:
        return False
    atom = moving[0][0]
    inside = [part for part in operands(atom) if _depends(part, block)]
    if atom is block:
        return True
    if len(inside) != 1 or not _rises(inside[0], block):
        return False
    match atom.operator:
        case Operator.QUOTIENT:
            divisor = operands(atom)[1]
            return divisor is not inside[0] and divisor.least >= 1
        case Operator.PRODUCT | Operator.MIN | Operator.MAX:
            return True
        case _:
            return False


def _depends(term: Term, block: Atom) -> bool:
    return any(atom is block for atom in atoms(term))
