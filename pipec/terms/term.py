"""Integer terms: immutable, structural, in a canonical form.

A term is a mathematical integer: a constant plus atoms with integer coefficients. An atom is a leaf (a dimension, a parameter, a loop
counter ...) or an operation on terms other than a sum. Register contents are expressed by the atom WRAPPED: 32-bit arithmetic is exact
arithmetic whose result is wrapped to 32 bits; if the ranges show that nothing wraps, WRAPPED is dropped. A term that is a number thus
has that value in every launch, and identical term objects are equal values.

Terms and atoms are interned: equal ones are the same object. They contain no names of the source; leaves identify their subject by the
node that declares it.
"""

from collections.abc import Hashable, Iterable
from enum import Enum, auto
from itertools import count
from weakref import WeakValueDictionary

# Longer and deeper terms are reduced to their leaves (walk.as_function_of_leaves).
MOST_PARTS = 64  # of a sum
DEEPEST = 24  # nested operations


class Operator(Enum):
    # Leaves. Their operands are the node that they stand for, and for an element its tensor and coordinates.
    DIMENSION = auto()  # a launch-bound size
    PARAMETER = auto()  # a scalar parameter
    SPECIAL = auto()  # a hardware value
    ELEMENT = auto()  # of a tensor that nothing writes while the kernel runs: tensor, coordinates
    COUNTER = auto()  # the variable of a counted loop, in the current iteration
    LOOP_CARRIED = auto()  # the value of a variable at the start of the current iteration of a loop
    LOOP_EXIT = auto()  # its value after the loop
    SCHEDULER_ANSWER = auto()  # the response of a tile scheduler to a stage
    ELECTED = auto()  # whether this thread is the elected one
    WRITTEN_ELEMENT = auto()  # an element of a tensor that the kernel writes, as last loaded: the load, coordinates
    UNKNOWN = auto()  # the value of an expression at its last evaluation
    OBSERVED = auto()  # a leaf as seen by one of several observers: the leaf's atom, the observer
    # Operations on terms.
    PRODUCT = auto()
    QUOTIENT = auto()  # floor(a / b); a divisor 0 counts as 1
    REMAINDER = auto()  # the remainder of that division
    NONNEGATIVE = auto()  # 1 if the term is >= 0, else 0
    IS_ZERO = auto()  # 1 if it is 0, else 0
    SELECT = auto()  # condition, value if it is 1, value if it is 0
    MIN = auto()
    MAX = auto()
    WRAPPED = auto()  # term, bits, signed: the number of that type that is congruent to the term modulo 2 ** bits
    BITS = auto()  # operator, bits, signed, left, right: & | ^ << >> on registers
    UNINTERPRETED = auto()  # a function about which only congruence is known: equal arguments give equal values


LEAVES = frozenset(list(Operator)[: list(Operator).index(Operator.PRODUCT)])

# Known to the host before the launch.
LAUNCH = frozenset((Operator.DIMENSION, Operator.PARAMETER))


class _Interned:
    __slots__ = ("__weakref__", "depth", "largest", "least", "serial")
    least: int
    largest: int
    depth: int
    serial: int  # in order of creation, which does not depend on addresses


class Atom(_Interned):
    """`least` and `largest` are the ends of its range."""

    __slots__ = ("operands", "operator")
    operator: Operator
    operands: tuple[Hashable, ...]

    def __repr__(self) -> str:
        return f"{self.operator.name.lower()}({', '.join(map(repr, self.operands))})"


class Term(_Interned):
    """`constant + sum of coefficient * atom`; no coefficient is 0, and atoms are distinct."""

    __slots__ = ("constant", "parts")
    constant: int
    parts: tuple[tuple[Atom, int], ...]

    def __repr__(self) -> str:
        parts = [str(self.constant)] if self.constant or not self.parts else []
        return " + ".join((*parts, *(f"{factor}*{atom!r}" if factor != 1 else repr(atom) for atom, factor in self.parts)))

    @property
    def number(self) -> int | None:
        """The value of a term that is constant over all launches."""
        return None if self.parts else self.constant

    def __add__(self, other: "Term | int") -> "Term":
        if not isinstance(other, Term):
            return weighted_sum(self.constant + other, self.parts) if other else self
        return combination(0, ((self, 1), (other, 1)))

    def __mul__(self, factor: int) -> "Term":
        return self if factor == 1 else weighted_sum(factor * self.constant, ((atom, factor * own) for atom, own in self.parts))

    def __neg__(self) -> "Term":
        return self * -1

    def __sub__(self, other: "Term | int") -> "Term":
        return combination(0, ((self, 1), (other, -1))) if isinstance(other, Term) else self + -other


_COUNT = count()
# Weak: a term lives as long as an analysis refers to it, not as long as the process.
_TERMS: WeakValueDictionary[tuple[int, frozenset[tuple[Atom, int]]], Term] = WeakValueDictionary()
_ATOMS: WeakValueDictionary[tuple[Operator, tuple[Hashable, ...], int, int], Atom] = WeakValueDictionary()


def weighted_sum(constant: int, parts: Iterable[tuple[Atom, int]]) -> Term:
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


def combination(constant: int, terms: Iterable[tuple[Term, int]]) -> Term:
    """The constant plus multiples of terms. Added one by one, each partial sum would be interned."""
    found: dict[Atom, int] = {}
    for term, factor in terms:
        constant += factor * term.constant
        for atom, own in term.parts:
            found[atom] = found.get(atom, 0) + factor * own
    return weighted_sum(constant, found.items())


def make(operator: Operator, operands: tuple[Hashable, ...], least: int, largest: int) -> Term:
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
    """A leaf; equal leaves are the same value wherever both are known."""
    assert operator in LEAVES
    return make(operator, operands, least, largest)


def number(value: int) -> Term:
    return weighted_sum(value, ())


ZERO, ONE = number(0), number(1)


def as_term(atom: Atom) -> Term:
    return weighted_sum(0, ((atom, 1),))


def atom_of(term: Term) -> Atom | None:
    """The atom, if the term consists of just one."""
    return term.parts[0][0] if not term.constant and len(term.parts) == 1 and term.parts[0][1] == 1 else None


def uninterpreted(function: Hashable, arguments: Iterable[Term], least: int, largest: int) -> Term:
    return make(Operator.UNINTERPRETED, (function, *arguments), least, largest)


def operands(atom: Atom) -> tuple[Term, ...]:
    """The operands of an atom that are terms."""
    return tuple(operand for operand in atom.operands if isinstance(operand, Term))
