"""Operations on terms in canonical form: products, divisions, comparisons, selects, minimum and maximum."""

from collections.abc import Iterable, Iterator
from functools import reduce
from math import gcd

from pipec.terms.term import (
    MOST_PARTS,
    ONE,
    ZERO,
    Atom,
    Operator,
    Term,
    as_term,
    atom_of,
    combination,
    make,
    number,
    operands,
    weighted_sum,
)


def product(left: Term, right: Term) -> Term:
    # By a constant: scales the coefficients without a new atom.
    for one, other in ((left, right), (right, left)):
        if one.number is not None:
            return other * one.number
    # Once expanded, equal products are one object; but the sum grows with the product of the lengths.
    if (len(left.parts) + 1) * (len(right.parts) + 1) > MOST_PARTS:
        return _product((left, right))
    return combination(0, [(right, left.constant), *((_times(atom, right), factor) for atom, factor in left.parts)])


def _times(atom: Atom, right: Term) -> Term:
    parts = [(_product((*_factors(atom), *_factors(other))), factor) for other, factor in right.parts]
    return combination(0, [(as_term(atom), right.constant), *parts])


def _factors(atom: Atom) -> tuple[Term, ...]:
    return operands(atom) if atom.operator is Operator.PRODUCT else (as_term(atom),)


def _product(factors: tuple[Term, ...]) -> Term:
    ends = reduce(_corners, ((one.least, one.largest) for one in factors))
    return make(Operator.PRODUCT, _ordered(factors), *ends)


def _corners(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    corners = [a * b for a in one for b in other]
    return min(corners), max(corners)


def _ordered(found: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(sorted(found, key=lambda term: term.serial))


def quotient(left: Term, right: Term) -> Term:
    """Parts whose coefficient the constant divisor divides are moved out of the division."""
    divisor = right.number
    if divisor is None:
        # The absolute value of a divisor is at least 1 (0 counts as 1), so that of the quotient is at most that of the dividend.
        bound = max(abs(left.least), abs(left.largest))
        ends = (-bound, bound) if right.least < 0 else (min(left.least, 0), max(left.largest, 0))
        if left.number == 0 or (left is right and right.least > 0):
            return ZERO if left.number == 0 else ONE
        return make(Operator.QUOTIENT, (left, right), *ends)
    if divisor < 0:
        return quotient(-left, number(-divisor))
    if divisor in (0, 1):
        return left
    whole = weighted_sum(
        left.constant // divisor, ((atom, factor // divisor) for atom, factor in left.parts if factor % divisor == 0)
    )
    rest = weighted_sum(left.constant % divisor, ((atom, factor) for atom, factor in left.parts if factor % divisor))
    shared = gcd(divisor, *(factor for _, factor in rest.parts)) if rest.parts else divisor
    rest, divisor = _shared(rest, shared), divisor // shared
    if rest.least // divisor == rest.largest // divisor:
        return whole + rest.least // divisor
    inner = weighted_sum(0, rest.parts)
    inside = atom_of(inner)
    if inside is not None and inside.operator is Operator.QUOTIENT:
        dividend, first = operands(inside)
        if first.number is not None:  # (x // a + c) // b is (x + a * c) // (a * b)
            return whole + quotient(dividend + rest.constant * first.number, first * divisor)
    return whole + make(Operator.QUOTIENT, (rest, number(divisor)), rest.least // divisor, rest.largest // divisor)


def _shared(term: Term, shared: int) -> Term:
    """floor(term / shared), where `shared` divides all factors."""
    return weighted_sum(term.constant // shared, ((atom, factor // shared) for atom, factor in term.parts))


def remainder(left: Term, right: Term) -> Term:
    divisor = right.number
    if divisor is None:
        if left.number == 0 or (left is right):
            return ZERO
        least, largest = min(0, right.least + 1), max(0, right.largest - 1)
        if left.least >= 0 and right.least >= 0:
            largest = min(largest, left.largest)
        return make(Operator.REMAINDER, (left, right), least, largest)
    if divisor < 0:
        return -remainder(-left, number(-divisor))
    if divisor in (0, 1):
        return ZERO
    if left.least // divisor == left.largest // divisor:
        return left - left.least // divisor * divisor
    rest = weighted_sum(left.constant % divisor, ((atom, factor % divisor) for atom, factor in left.parts))
    shared = gcd(divisor, *(factor for _, factor in rest.parts)) if rest.parts else divisor
    if shared > 1:
        return remainder(_shared(rest, shared), number(divisor // shared)) * shared + rest.constant % shared
    if rest.least // divisor == rest.largest // divisor:
        return rest - rest.least // divisor * divisor
    return make(Operator.REMAINDER, (rest, right), 0, divisor - 1)


def at_least(term: Term) -> Term:
    """1 if the term is not negative, else 0."""
    if term.least >= 0 or term.largest < 0:
        return ONE if term.least >= 0 else ZERO
    # For integers, g * x + c >= 0 if and only if x + floor(c / g) >= 0.
    shared = gcd(*(factor for _, factor in term.parts))
    term = _shared(term, shared)
    if term.parts[0][1] < 0:  # of the two equivalent forms, one is the negation of the other
        return ONE - at_least(-term - 1)
    return make(Operator.NONNEGATIVE, (term,), 0, 1) if term.least < 0 <= term.largest else at_least(term)


def equal(left: Term, right: Term) -> Term:
    """1 if the terms are equal, else 0."""
    difference = left - right
    if difference.number is not None or difference.least > 0 or difference.largest < 0:
        return ONE if difference is ZERO else ZERO
    shared = gcd(*(factor for _, factor in difference.parts))
    # The atoms add up to a multiple of the gcd, so the constant would have to be one, too.
    if difference.constant % shared:
        return ZERO
    difference = _shared(difference, shared)
    if difference.parts[0][1] < 0:
        difference = -difference
    inside = atom_of(difference - difference.constant) if difference.constant in (0, -1) else None
    if inside is not None and (inside.least, inside.largest) == (0, 1):  # a condition equals its comparison with 1
        return ONE - as_term(inside) if difference.constant == 0 else as_term(inside)
    return make(Operator.IS_ZERO, (difference,), 0, 1)


def select(condition: Term, yes: Term, no: Term) -> Term:
    """`condition` is 0 or 1."""
    if condition.number is not None or yes is no:
        return yes if condition.number != 0 else no
    if condition.parts[0][1] < 0:  # `not`
        return select(ONE - condition, no, yes)
    if (yes.number, no.number) in ((1, 0), (0, 1)):
        return condition if no is ZERO else ONE - condition
    first, second = _range_where(yes, condition, True), _range_where(no, condition, False)
    return make(Operator.SELECT, (condition, yes, no), min(first[0], second[0]), max(first[1], second[1]))


def _range_where(term: Term, condition: Term, holds: bool) -> tuple[int, int]:
    """The range of a term where a condition holds, or where it does not: `n` from 0 to 3 where `n >= 0 and n < 4`."""
    least, largest = term.least, term.largest
    for known in _not_negative(condition, holds):
        least, largest = max(least, (term - known).least), min(largest, (term + known).largest)
    return (least, largest) if least <= largest else (term.least, term.largest)  # such a condition never comes about


def _not_negative(condition: Term, holds: bool) -> Iterator[Term]:
    """Terms that are not negative where a condition holds, or where it does not."""
    for relation, term in known_where(condition, holds):
        yield term
        if relation is Operator.IS_ZERO:
            yield -term


def known_where(condition: Term, holds: bool) -> Iterator[tuple[Operator, Term]]:
    """What is known where a condition holds, or where it does not: terms that are not negative (NONNEGATIVE), and terms that are 0
    (IS_ZERO)."""
    if len(condition.parts) != 1:
        return
    atom, factor = condition.parts[0]
    if (condition.constant, factor) == (1, -1):
        yield from known_where(as_term(atom), not holds)
    if (condition.constant, factor) != (0, 1):
        return
    inside = operands(atom)
    match atom.operator, inside:
        case Operator.NONNEGATIVE, (term,):
            yield Operator.NONNEGATIVE, term if holds else -term - 1
        case Operator.IS_ZERO, (term,):
            if holds:
                yield Operator.IS_ZERO, term
        case Operator.SELECT, (first, yes, no):
            # Of `and` and `or`: the side that cannot be chosen says what the condition is.
            if (ZERO if holds else ONE) in (yes, no):
                chosen = no is (ZERO if holds else ONE)
                yield from (*known_where(first, chosen), *known_where(yes if chosen else no, holds))
        case _:
            # A number that is 0 or 1 itself, as what is left of a division by 2.
            yield Operator.IS_ZERO, as_term(atom) - int(holds)


def extreme(operator: Operator, terms: Iterable[Term]) -> Term:
    """The MIN or the MAX of the terms."""
    found: list[Term] = []
    for term in _flattened(operator, terms):
        if any(_decides(operator, other, term) for other in found):
            continue
        found = [*(other for other in found if not _decides(operator, term, other)), term]
    if len(found) == 1:
        return found[0]
    pick = min if operator is Operator.MIN else max
    ends = pick(term.least for term in found), pick(term.largest for term in found)
    return make(operator, _ordered(found), *ends)


def _flattened(operator: Operator, terms: Iterable[Term]) -> Iterator[Term]:
    for term in terms:
        inside = atom_of(term)
        if inside is not None and inside.operator is operator:
            yield from operands(inside)
        else:
            yield term


def _decides(operator: Operator, one: Term, other: Term) -> bool:
    """Whether the first is always chosen over the other."""
    difference = one - other if operator is Operator.MAX else other - one
    return difference.least >= 0
