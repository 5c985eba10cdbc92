"""The value of a term in a register of a given width, and bitwise operations."""

from collections.abc import Callable, Mapping

from pipec.terms.arithmetic import quotient, remainder
from pipec.terms.term import ZERO, Atom, Operator, Term, as_term, combination, make, number, operands
from pipec.vocabulary import BinaryOperator


def wrapped(term: Term, bits: int, signed: bool) -> Term:
    """The number of the type that is congruent to the term: its value in a register of that width."""
    # If nothing can wrap, the term is unchanged: this makes equal values comparable.
    least, largest = type_range(bits, signed)
    if least <= term.least and term.largest <= largest:
        return term
    term = congruent(term, bits)
    if least <= term.least and term.largest <= largest:
        return term
    if term.number is not None:
        return number((term.number - least) % (1 << bits) + least)
    return make(Operator.WRAPPED, (term, bits, signed), least, largest)


def type_range(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def congruent(term: Term, bits: int) -> Term:
    """A canonical term congruent to this one modulo 2 ** bits: sums and products with constants are wrapped only once, at the end."""
    modulus, half = 1 << bits, 1 << bits - 1
    parts = []
    for atom, factor in term.parts:
        # A term wrapped to at least as many bits is congruent to its operand modulo this power of two as well.
        inner = operands(atom)[0] if atom.operator is Operator.WRAPPED and _bits(atom) >= bits else as_term(atom)
        parts.append((inner, (factor + half) % modulus - half))
    found = combination((term.constant + half) % modulus - half, parts)
    return found if found is term else congruent(found, bits)


def _bits(atom: Atom) -> int:
    bits = atom.operands[1]
    assert isinstance(bits, int)
    return bits


_BITWISE: Mapping[str, Callable[[int, int], int]] = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}


def bitwise(operator: BinaryOperator, bits: int, signed: bool, left: Term, right: Term) -> Term:
    """& | ^ << >> on registers of a type. A shift by the width or more leaves zero or the sign; amounts are read as unsigned."""
    if operator in ("<<", ">>"):
        return _shift(operator, bits, signed, left, right)
    if left.number is not None and right.number is not None:
        return number(_BITWISE[operator](left.number, right.number))
    least, largest = type_range(bits, signed)
    if operator == "&":
        for one, mask in ((left, right.number), (right, left.number)):
            if mask is not None and mask >= 0 and mask & (mask + 1) == 0:  # the lowest bits
                return remainder(one, number(mask + 1))
        if left.least >= 0 or right.least >= 0:
            least, largest = 0, min(one.largest for one in (left, right) if one.least >= 0)
    elif left.least >= 0 and right.least >= 0:
        least, largest = 0, (1 << max(left.largest, right.largest).bit_length()) - 1
    return make(Operator.BITS, (operator, bits, signed, left, right), least, largest)


def _shift(operator: BinaryOperator, bits: int, signed: bool, left: Term, right: Term) -> Term:
    amount = right.number
    if amount is None:
        ends = (min(left.least, 0), max(left.largest, 0)) if operator == ">>" else type_range(bits, signed)
        return make(Operator.BITS, (operator, bits, signed, left, right), *ends)
    inside = 0 <= amount < bits
    if operator == "<<":
        return wrapped(left * (1 << amount), bits, signed) if inside else ZERO
    return quotient(left, number(1 << (amount if inside else bits - 1))) if inside or signed else ZERO
