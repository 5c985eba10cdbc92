"""The residues that a term can have: is it always a multiple of something?"""

from collections.abc import Callable, Iterable
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


def where(residues: Residues, term: Term, zero: Iterable[Term], unit: int) -> Residue | None:
    """The residue of a term where others are 0, as far as it matters whether it is a multiple of a unit: multiples of these are taken out
    of it, where that leaves more. What is left of a number, less 2, is 0 where the number is 2 and a multiple of what it is divided by."""
    zero = tuple(zero)
    match [(one, *one.operands) for one, _ in term.parts]:
        case [(Atom(operator=Operator.WRAPPED), Term() as number, int(bits), _)] if zero:
            # (It differs from the number by a multiple of 2^bits.)
            within = reduced(where(residues, number, zero, unit), 1 << bits)
            return within and _times(within, term.parts[0][1], term.constant)
    found = residues(term)
    for congruent, modulus in map(_congruence, zero):
        for atom, factor in congruent.parts:
            times, rest = divmod(dict(term.parts).get(atom, 0), factor)
            without = term - congruent * times
            inside = residues(without) if times and not rest else None
            if inside is not None and found is not None:
                other = _residue(gcd(inside[0], times * modulus), inside[1])
                if gcd(unit, other[0]) > gcd(unit, found[0]):
                    found, term = other, without
    return found


def _congruence(zero: Term) -> tuple[Term, int]:
    """A term that is congruent to 0 where the given one is 0, and the modulus; 0 for a term that is 0 itself."""
    if len(zero.parts) == 1 and zero.parts[0][0].operator is Operator.REMAINDER and zero.parts[0][1] in (1, -1):
        atom, sign = zero.parts[0]
        divided, divisor = operands(atom)
        if divisor.number is not None:
            return divided + zero.constant * sign, divisor.number
    return zero, 0


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


def _times(one: Residue, times: int, more: int) -> Residue:
    return _residue(one[0] * times, one[1] * times + more)


def _residue(step: int, rest: int) -> Residue:
    step = abs(step)
    return step, rest % step if step else rest
