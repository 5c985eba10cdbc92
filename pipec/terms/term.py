"""Integer terms: immutable, structural, in a normal form.

A term is a mathematical integer, a constant plus atoms with whole coefficients. An atom is a leaf (what the term is about: a dimension,
a parameter, a loop's counter ...) or an operation on terms that is no sum. What the registers of the machine hold is said with the atom
WRAPPED: arithmetic of 32 bits is exact arithmetic whose result is wrapped to 32 bits, and where the ranges show that nothing wraps,
WRAPPED falls away. So a term that is a number is that number for every launch, and terms that are one object are equal values.

Terms and atoms are made once each: equal ones are the same object. No name of the source is part of one; leaves stand for what they
are about by the node that declares it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import reduce
from itertools import count
from math import gcd
from typing import Any
from weakref import WeakValueDictionary

MOST_PARTS = 64  # of a sum; longer ones are not followed
DEEPEST = 24  # operations inside of operations; deeper terms are not followed


class Operator(Enum):
    # Leaves. Their operands are the node that they are about, and for an element its tensor and coordinates.
    DIMENSION = auto()  # a launch-bound size
    PARAMETER = auto()  # a scalar parameter
    SPECIAL = auto()  # a hardware value
    ELEMENT = auto()  # of a tensor that nothing writes while the kernel runs: tensor, coordinates
    COUNTER = auto()  # the variable of a counted loop, in the current iteration
    CARRIED = auto()  # what a variable holds when the current iteration of a loop begins
    LEFT = auto()  # what it holds behind the loop
    ANSWER = auto()  # what a tile scheduler answered to a stage
    ELECTED = auto()  # whether this thread is the elected one
    CHANGING = auto()  # an element of a tensor that the kernel writes, when it was last loaded: the load, coordinates
    UNKNOWN = auto()  # the value of an expression when it was last evaluated
    SEEN = auto()  # a leaf as one of several observers sees it: the leaf's atom, the observer
    # Operations on terms.
    PRODUCT = auto()
    QUOTIENT = auto()  # floor(a / b); a divisor 0 counts as 1
    REMAINDER = auto()  # what is left then
    AT_LEAST = auto()  # 1 where the term is >= 0, else 0
    EQUAL = auto()  # 1 where it is 0, else 0
    CHOOSE = auto()  # condition, value where it is 1, value where it is 0
    LEAST = auto()
    GREATEST = auto()
    WRAPPED = auto()  # term, bits, signed: the number of that type that is equal to the term modulo 2 ** bits
    BITS = auto()  # operator, bits, signed, left, right: & | ^ << >> on registers
    APPLY = auto()  # a function of which only that is known: equal arguments give equal values


LEAVES = frozenset(list(Operator)[: list(Operator).index(Operator.PRODUCT)])
# What the host knows before the launch.
LAUNCH = frozenset((Operator.DIMENSION, Operator.PARAMETER))


class _Interned:
    __slots__ = ("__weakref__", "depth", "largest", "least", "serial")
    least: int
    largest: int
    depth: int
    serial: int  # of its making: an order that does not depend on addresses


class Atom(_Interned):
    """`least` and `largest` are the ends of its range."""

    __slots__ = ("operands", "operator")
    operator: Operator
    operands: tuple[Hashable, ...]

    def __repr__(self) -> str:
        return f"{self.operator.name.lower()}({', '.join(map(repr, self.operands))})"


class Term(_Interned):
    """`constant + sum of coefficient * atom`; no coefficient is 0, no atom stands there twice."""

    __slots__ = ("constant", "parts")
    constant: int
    parts: tuple[tuple[Atom, int], ...]

    def __repr__(self) -> str:
        parts = [str(self.constant)] if self.constant or not self.parts else []
        return " + ".join((*parts, *(f"{factor}*{atom!r}" if factor != 1 else repr(atom) for atom, factor in self.parts)))

    @property
    def number(self) -> int | None:
        """The value of a term that is the same for every launch."""
        return None if self.parts else self.constant

    def __add__(self, other: "Term | int") -> "Term":
        other = other if isinstance(other, Term) else number(other)
        if not other.parts:
            return _sum(self.constant + other.constant, self.parts)
        found = dict(self.parts)
        for atom, factor in other.parts:
            found[atom] = found.get(atom, 0) + factor
        return _sum(self.constant + other.constant, found.items())

    def __mul__(self, factor: int) -> "Term":
        return _sum(factor * self.constant, ((atom, factor * own) for atom, own in self.parts))

    def __neg__(self) -> "Term":
        return self * -1

    def __sub__(self, other: "Term | int") -> "Term":
        return self + -other


_COUNT = count()
_TERMS: WeakValueDictionary[tuple[int, frozenset[tuple[Atom, int]]], Term] = WeakValueDictionary()
_ATOMS: WeakValueDictionary[tuple[Operator, tuple[Hashable, ...], int, int], Atom] = WeakValueDictionary()


def _sum(constant: int, parts: Iterable[tuple[Atom, int]]) -> Term:
    kept = [(atom, factor) for atom, factor in parts if factor]
    key = constant, frozenset(kept)
    term = _TERMS.get(key)
    if term is None:
        term = Term()
        term.constant = constant
        term.parts = tuple(sorted(kept, key=lambda part: part[0].serial))
        term.least = constant + sum(factor * (atom.least if factor > 0 else atom.largest) for atom, factor in kept)
        term.largest = constant + sum(factor * (atom.largest if factor > 0 else atom.least) for atom, factor in kept)
        term.depth = max((atom.depth for atom, _ in kept), default=0)
        term.serial = next(_COUNT)
        _TERMS[key] = term
    return term


def _atom(operator: Operator, operands: tuple[Hashable, ...], least: int, largest: int) -> Term:
    if least == largest:
        return number(least)
    key = operator, operands, least, largest
    atom = _ATOMS.get(key)
    if atom is None:
        atom = Atom()
        atom.operator, atom.operands, atom.least, atom.largest = operator, operands, least, largest
        atom.depth = 1 + max((operand.depth for operand in operands if isinstance(operand, Term)), default=0)
        atom.serial = next(_COUNT)
        _ATOMS[key] = atom
    return as_term(atom)


def leaf(operator: Operator, *operands: Hashable, least: int, largest: int) -> Term:
    """What a term is about; equal leaves are the same value, wherever both are known."""
    assert operator in LEAVES
    return _atom(operator, operands, least, largest)


def number(value: int) -> Term:
    return _sum(value, ())


ZERO, ONE = number(0), number(1)


def as_term(atom: Atom) -> Term:
    return _sum(0, ((atom, 1),))


def atom_of(term: Term) -> Atom | None:
    """The atom that a term is, by itself."""
    return term.parts[0][0] if not term.constant and len(term.parts) == 1 and term.parts[0][1] == 1 else None


# ------------------------------------------------------------------------------------------------------------ operations


def product(left: Term, right: Term) -> Term:
    for one, other in ((left, right), (right, left)):
        if one.number is not None:
            return other * one.number
    if (len(left.parts) + 1) * (len(right.parts) + 1) > MOST_PARTS:
        return _product((left, right))
    found = right * left.constant
    for atom, factor in left.parts:
        found += _times(atom, right) * factor
    return found


def _times(atom: Atom, right: Term) -> Term:
    found = _sum(0, ((atom, right.constant),))
    for other, factor in right.parts:
        found += _product((*_factors(atom), *_factors(other))) * factor
    return found


def _factors(atom: Atom) -> tuple[Term, ...]:
    return _terms(atom) if atom.operator is Operator.PRODUCT else (as_term(atom),)


def _product(factors: tuple[Term, ...]) -> Term:
    ends = reduce(_corners, ((one.least, one.largest) for one in factors))
    return _atom(Operator.PRODUCT, _ordered(factors), *ends)


def _corners(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    corners = [a * b for a in one for b in other]
    return min(corners), max(corners)


def _ordered(found: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(sorted(found, key=lambda term: term.serial))


def quotient(left: Term, right: Term) -> Term:
    """Terms that a number as divisor divides leave the division."""
    divisor = right.number
    if divisor is None:
        bound = max(abs(left.least), abs(left.largest))
        ends = (-bound, bound) if right.least < 0 else (min(left.least, 0), max(left.largest, 0))
        if left.number == 0 or (left is right and right.least > 0):
            return ZERO if left.number == 0 else ONE
        return _atom(Operator.QUOTIENT, (left, right), *ends)
    if divisor < 0:
        return quotient(-left, number(-divisor))
    if divisor in (0, 1):
        return left
    whole = _sum(left.constant // divisor, ((atom, factor // divisor) for atom, factor in left.parts if factor % divisor == 0))
    rest = _sum(left.constant % divisor, ((atom, factor) for atom, factor in left.parts if factor % divisor))
    shared = gcd(divisor, *(factor for _, factor in rest.parts)) if rest.parts else divisor
    rest, divisor = _shared(rest, shared), divisor // shared
    if rest.least // divisor == rest.largest // divisor:
        return whole + rest.least // divisor
    inner = _sum(0, rest.parts)
    inside = atom_of(inner)
    if inside is not None and inside.operator is Operator.QUOTIENT:
        dividend, first = _terms(inside)
        if first.number is not None:  # (x // a + c) // b is (x + a * c) // (a * b)
            return whole + quotient(dividend + rest.constant * first.number, first * divisor)
    return whole + _atom(Operator.QUOTIENT, (rest, number(divisor)), rest.least // divisor, rest.largest // divisor)


def _shared(term: Term, shared: int) -> Term:
    """floor(term / shared), where `shared` divides all factors."""
    return _sum(term.constant // shared, ((atom, factor // shared) for atom, factor in term.parts))


def remainder(left: Term, right: Term) -> Term:
    divisor = right.number
    if divisor is None:
        if left.number == 0 or (left is right):
            return ZERO
        least, largest = min(0, right.least + 1), max(0, right.largest - 1)
        if left.least >= 0 and right.least >= 0:
            largest = min(largest, left.largest)
        return _atom(Operator.REMAINDER, (left, right), least, largest)
    if divisor < 0:
        return -remainder(-left, number(-divisor))
    if divisor in (0, 1):
        return ZERO
    if left.least // divisor == left.largest // divisor:
        return left - left.least // divisor * divisor
    rest = _sum(left.constant % divisor, ((atom, factor % divisor) for atom, factor in left.parts))
    shared = gcd(divisor, *(factor for _, factor in rest.parts)) if rest.parts else divisor
    if shared > 1:
        return remainder(_shared(rest, shared), number(divisor // shared)) * shared + rest.constant % shared
    if rest.least // divisor == rest.largest // divisor:
        return rest - rest.least // divisor * divisor
    return _atom(Operator.REMAINDER, (rest, right), 0, divisor - 1)


def at_least(term: Term) -> Term:
    """1 where the term is not negative."""
    if term.least >= 0 or term.largest < 0:
        return ONE if term.least >= 0 else ZERO
    shared = gcd(*(factor for _, factor in term.parts))
    term = _shared(term, shared)
    if term.parts[0][1] < 0:  # of the two ways to say it, one is the other's opposite
        return ONE - at_least(-term - 1)
    return _atom(Operator.AT_LEAST, (term,), 0, 1) if term.least < 0 <= term.largest else at_least(term)


def equal(left: Term, right: Term) -> Term:
    """1 where the terms are equal."""
    difference = left - right
    if difference.number is not None or difference.least > 0 or difference.largest < 0:
        return ONE if difference is ZERO else ZERO
    shared = gcd(*(factor for _, factor in difference.parts))
    if difference.constant % shared:
        return ZERO
    difference = _shared(difference, shared)
    if difference.parts[0][1] < 0:
        difference = -difference
    inside = atom_of(difference - difference.constant) if difference.constant in (0, -1) else None
    if inside is not None and (inside.least, inside.largest) == (0, 1):  # a condition is its own comparison with 1
        return ONE - as_term(inside) if difference.constant == 0 else as_term(inside)
    return _atom(Operator.EQUAL, (difference,), 0, 1)


def choose(condition: Term, yes: Term, no: Term) -> Term:
    """The condition is 0 or 1."""
    if condition.number is not None or yes is no:
        return yes if condition.number != 0 else no
    if condition.parts[0][1] < 0:  # `not`
        return choose(ONE - condition, no, yes)
    if (yes.number, no.number) in ((1, 0), (0, 1)):
        return condition if no is ZERO else ONE - condition
    return _atom(Operator.CHOOSE, (condition, yes, no), min(yes.least, no.least), max(yes.largest, no.largest))


def extreme(operator: Operator, terms: Iterable[Term]) -> Term:
    """The LEAST or the GREATEST of the terms."""
    found: list[Term] = []
    for term in _flattened(operator, terms):
        if any(_decides(operator, other, term) for other in found):
            continue
        found = [*(other for other in found if not _decides(operator, term, other)), term]
    if len(found) == 1:
        return found[0]
    pick = min if operator is Operator.LEAST else max
    ends = pick(term.least for term in found), pick(term.largest for term in found)
    return _atom(operator, _ordered(found), *ends)


def _flattened(operator: Operator, terms: Iterable[Term]) -> Iterator[Term]:
    for term in terms:
        inside = atom_of(term)
        if inside is not None and inside.operator is operator:
            yield from _terms(inside)
        else:
            yield term


def _decides(operator: Operator, one: Term, other: Term) -> bool:
    """Whether the first is always taken rather than the other."""
    difference = one - other if operator is Operator.GREATEST else other - one
    return difference.least >= 0


def wrapped(term: Term, bits: int, signed: bool) -> Term:
    """The number of the type that the term is congruent to: what is left of it in a register of so many bits."""
    least, largest = type_range(bits, signed)
    if least <= term.least and term.largest <= largest:
        return term
    term = congruent(term, bits)
    if least <= term.least and term.largest <= largest:
        return term
    if term.number is not None:
        return number((term.number - least) % (1 << bits) + least)
    return _atom(Operator.WRAPPED, (term, bits, signed), least, largest)


def type_range(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def congruent(term: Term, bits: int) -> Term:
    """An equal term modulo 2 ** bits, in a normal form: of sums and of products with numbers only the result is wrapped."""
    modulus, half = 1 << bits, 1 << bits - 1
    found = number((term.constant + half) % modulus - half)
    for atom, factor in term.parts:
        inner = _terms(atom)[0] if atom.operator is Operator.WRAPPED and _bits(atom) >= bits else None
        factor = (factor + half) % modulus - half
        found += _sum(0, ((atom, factor),)) if inner is None else inner * factor
    return found if found is term else congruent(found, bits)


def _bits(atom: Atom) -> int:
    bits = atom.operands[1]
    assert isinstance(bits, int)
    return bits


_BITWISE: Mapping[str, Callable[[int, int], int]] = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}


def bitwise(operator: str, bits: int, signed: bool, left: Term, right: Term) -> Term:
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
    return _atom(Operator.BITS, (operator, bits, signed, left, right), least, largest)


def _shift(operator: str, bits: int, signed: bool, left: Term, right: Term) -> Term:
    amount = right.number
    if amount is None:
        ends = (min(left.least, 0), max(left.largest, 0)) if operator == ">>" else type_range(bits, signed)
        return _atom(Operator.BITS, (operator, bits, signed, left, right), *ends)
    inside = 0 <= amount < bits
    if operator == "<<":
        return wrapped(left * (1 << amount), bits, signed) if inside else ZERO
    return quotient(left, number(1 << (amount if inside else bits - 1))) if inside or signed else ZERO


def apply(function: Hashable, arguments: Iterable[Term], least: int, largest: int) -> Term:
    return _atom(Operator.APPLY, (function, *arguments), least, largest)


# ----------------------------------------------------------------------------------------------------------------- walks


def _terms(atom: Atom) -> tuple[Term, ...]:
    return tuple(operand for operand in atom.operands if isinstance(operand, Term))


def operands(atom: Atom) -> tuple[Term, ...]:
    """The terms inside of an atom."""
    return _terms(atom)


def atoms(term: Term) -> Iterator[Atom]:
    """Every atom in a term, however deep, each once; an atom before those inside of it."""
    seen: set[Atom] = set()
    unseen = [atom for atom, _ in reversed(term.parts)]
    while unseen:
        atom = unseen.pop()
        if atom not in seen:
            seen.add(atom)
            yield atom
            unseen += [inner for operand in _terms(atom) for inner, _ in operand.parts]


def leaves(term: Term) -> Iterator[Atom]:
    return (atom for atom in atoms(term) if atom.operator in LEAVES)


def is_launch_value(atom: Atom) -> bool:
    """Whether the host could compute it before the launch."""
    return all(inner.operator in LAUNCH for inner in leaves(as_term(atom)))


# How an operation is made from its operands again.
_REMADE: Mapping[Operator, Callable[..., Term]] = {
    Operator.PRODUCT: lambda *factors: reduce(product, factors),
    Operator.QUOTIENT: quotient,
    Operator.REMAINDER: remainder,
    Operator.AT_LEAST: at_least,
    Operator.EQUAL: lambda difference: equal(difference, ZERO),
    Operator.CHOOSE: choose,
    Operator.LEAST: lambda *terms: extreme(Operator.LEAST, terms),
    Operator.GREATEST: lambda *terms: extreme(Operator.GREATEST, terms),
    Operator.WRAPPED: wrapped,
    Operator.BITS: bitwise,
}


class Substitution:
    """Puts other terms in place of leaves, all at once, and brings what results into the normal form."""

    def __init__(self, replace: Callable[[Atom], Term | None]) -> None:
        """`replace`: what stands in place of a leaf; None where the leaf stays, with what is inside of it replaced."""
        self._replace = replace
        self._made: dict[Atom, Term] = {}

    def __call__(self, term: Term) -> Term:
        if not term.parts:
            return term
        found = number(term.constant)
        for atom, factor in term.parts:
            if atom not in self._made:
                self._made[atom] = self._atom(atom)
            found += self._made[atom] * factor
        return found

    def _atom(self, atom: Atom) -> Term:
        if atom.operator in LEAVES:
            replaced = self._replace(atom)
            if replaced is not None:
                return replaced
        parts: tuple[Any, ...] = tuple(self(part) if isinstance(part, Term) else part for part in atom.operands)
        if parts == atom.operands:
            return as_term(atom)
        if atom.operator in _REMADE:
            return _REMADE[atom.operator](*parts)
        return _atom(atom.operator, parts, atom.least, atom.largest)
