"""The residues that a term can have: is it always a multiple of something?"""

from collections.abc import Callable
from functools import reduce
from math import gcd

from pipec.terms.term import Atom, Operator, Term, operands

# (step, rest): the values rest, rest + step, rest + 2 * step ...; step 0 means the single value `rest`.
Residue = tuple[int, int]
ANY: Residue = (1, 0)


class Residues:
    """`leaf` gives what is known about a leaf, or about an operation if more is known than follows from its operands (`follows`). None:
    no value yet."""

    def __init__(self, leaf: Callable[[Atom], Residue | None]) -> None:
        self._leaf = leaf
        self._known: dict[Atom, Residue | None] = {}

    def __call__(self, term: Term) -> Residue | None:
        found = 0, term.constant
        for atom, factor in term.parts:
            if atom not in self._known:
                self._known[atom] = self._leaf(atom)
            inner = self._known[atom]
            if inner is None:
                return None
            found = _residue(gcd(found[0], factor * inner[0]), found[1] + factor * inner[1])
        return found

    def follows(self, atom: Atom) -> Residue | None:
        inside = [self(term) for term in operands(atom)]
        if atom.operator in (Operator.SELECT, Operator.MIN, Operator.MAX):
            return reduce(either, inside[atom.operator is Operator.SELECT :])
        known = [one for one in inside if one is not None]
        if len(known) < len(inside):
            return None
        match atom.operator:
            case Operator.PRODUCT:
                return reduce(_product, known)
            case Operator.QUOTIENT:
                return _quotient(*known)
            case Operator.REMAINDER:
                (step, rest), divisor = known
                found = _residue(gcd(step, *divisor), rest)
                # If the divisor may be 0, which counts as 1, the remainder may be 0.
                right = operands(atom)[1]
                return found if right.least > 0 or right.largest < 0 else either(found, (0, 0))
            case Operator.WRAPPED:
                bits = atom.operands[1]
                assert isinstance(bits, int)
                return reduced(known[0], 1 << bits)
            case _:
                return ANY


def either(one: Residue | None, other: Residue | None) -> Residue | None:
    if one is None or other is None:
        return one or other
    return _residue(gcd(one[0], other[0], one[1] - other[1]), one[1])


def reduced(one: Residue | None, numbers: int) -> Residue | None:
    """In a type with this many values, modulo that number: multiples of 48 become multiples of 16."""
    return None if one is None else _residue(gcd(one[0], numbers), one[1])


def _product(one: Residue, other: Residue) -> Residue:
    (step, rest), (other_step, other_rest) = one, other
    return _residue(gcd(step * other_step, step * other_rest, rest * other_step), rest * other_rest)


def _quotient(dividend: Residue, divisor: Residue) -> Residue:
    (step, rest), (any_other, number) = dividend, divisor
    if any_other or not number or step % number:
        return ANY
    return _residue(step // number, rest // number)


def _residue(step: int, rest: int) -> Residue:
    step = abs(step)
    return step, rest % step if step else rest
