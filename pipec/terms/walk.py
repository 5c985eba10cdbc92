"""Traversal of terms: their atoms and leaves, and substitution of leaves."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from pipec.terms.arithmetic import at_least, equal, extreme, product, quotient, remainder, select
from pipec.terms.registers import bitwise, wrapped
from pipec.terms.term import LAUNCH, LEAVES, ZERO, Atom, Operator, Term, as_term, combination, leaf, make, operands, uninterpreted


def atoms(term: Term) -> Iterator[Atom]:
    """Every atom in a term at any depth, once each; an atom before those inside it."""
    seen: set[Atom] = set()
    unseen = [atom for atom, _ in reversed(term.parts)]
    while unseen:
        atom = unseen.pop()
        if atom not in seen:
            seen.add(atom)
            yield atom
            unseen += [inner for operand in operands(atom) for inner, _ in operand.parts]


def leaves(term: Term) -> Iterator[Atom]:
    return (atom for atom in atoms(term) if atom.operator in LEAVES)


def is_launch_value(atom: Atom) -> bool:
    """Whether the host could compute it before the launch."""
    return all(inner.operator in LAUNCH for inner in leaves(as_term(atom)))


def as_function_of_leaves(term: Term) -> Term:
    """An opaque function of the leaves, as shallow as they are, for when only the dependencies matter.

    The term itself identifies the function, so only equal computations on equal leaves are equal. Leaves with coordinates are split into
    tensor and leaves of the coordinates, so that a chain of loads does not grow in depth.
    """
    arguments = {
        leaf(
            atom.operator,
            *(each for each in atom.operands if not isinstance(each, Term)),
            least=atom.least,
            largest=atom.largest,
        ): None
        for atom in leaves(term)
    }
    return uninterpreted((term,), arguments, term.least, term.largest)


# How to rebuild an operation from its operands.
_REMADE: Mapping[Operator, Callable[..., Term]] = {
    Operator.PRODUCT: lambda *factors: reduce(product, factors),
    Operator.QUOTIENT: quotient,
    Operator.REMAINDER: remainder,
    Operator.NONNEGATIVE: at_least,
    Operator.IS_ZERO: lambda difference: equal(difference, ZERO),
    Operator.SELECT: select,
    Operator.MIN: lambda *terms: extreme(Operator.MIN, terms),
    Operator.MAX: lambda *terms: extreme(Operator.MAX, terms),
    Operator.WRAPPED: wrapped,
    Operator.BITS: bitwise,
}


def rebuilt(atom: Atom, parts: tuple[Any, ...]) -> Term:
    """The term of an atom with other operands, in canonical form."""
    if parts == atom.operands:
        return as_term(atom)
    if atom.operator in _REMADE:
        return _REMADE[atom.operator](*parts)
    return make(atom.operator, parts, atom.least, atom.largest)


class Substitution:
    """Substitutes terms for leaves simultaneously, and restores the canonical form."""

    def __init__(self, replace: Callable[[Atom], Term | None]) -> None:
        """`replace`: the substitute for a leaf; None keeps the leaf and substitutes inside it."""
        self._replace = replace
        self._made: dict[Atom, Term] = {}

    def __call__(self, term: Term) -> Term:
        if not term.parts:
            return term
        for atom, _ in term.parts:
            if atom not in self._made:
                self._made[atom] = self._atom(atom)
        return combination(term.constant, [(self._made[atom], factor) for atom, factor in term.parts])

    def _atom(self, atom: Atom) -> Term:
        if atom.operator in LEAVES:
            replaced = self._replace(atom)
            if replaced is not None:
                return replaced
        return rebuilt(atom, tuple(self(part) if isinstance(part, Term) else part for part in atom.operands))
