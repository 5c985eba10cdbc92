"""What follows from the ranges of sums of integers: which terms are equal, or that there are no such integers.

A sum is taken apart like a number in a mixed radix: if F * u + v lies in a range that leaves room for one multiple of F only, u is known,
and v is in what is left of the range. F is a number, or a term such as the size of a grid. Of equal terms one replaces the other
everywhere; two dividends are equal if their quotients and their remainders are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from math import gcd

from pipec.record import record
from pipec.terms.arithmetic import product, quotient, remainder
from pipec.terms.registers import type_range
from pipec.terms.term import Atom, Operator, Term, as_term, atom_of, combination, leaf, number, operands, weighted_sum
from pipec.terms.walk import atoms, rebuilt

_MOST_ROUNDS = 10
_MOST_NESTED = 60  # replacements inside of each other
_MOST_FACTS = 300  # that are looked at
_DEEPEST = 6  # of bounds of bounds
_ROUND = 1 << 32
_PLAIN = 1 << 24  # the largest coefficient in arithmetic that is not meant to wrap


class _NoSuchValues(Exception):
    pass


@record
class Fact:
    """`least <= term <= largest`; `round`: or that plus a multiple of 2 ** 32."""

    term: Term
    least: int
    largest: int
    round: bool = False


@record
class _Division:
    """With equal terms replaced."""

    dividend: Term
    divisor: Term
    quotient: Term
    remainder: Term


class Facts:
    """`tops`: upper bounds of terms. `implied`: where the first term is 0, the others are 0 too.

    `impossible`: the facts contradict each other. `wrapping`: it is taken for granted that some number fits in its register; if given,
    that all do.
    """

    def __init__(
        self,
        facts: Iterable[Fact],
        tops: Mapping[Term, tuple[Term, ...]],
        implied: Iterable[tuple[Term, tuple[Term, ...]]] = (),
        *,
        wrapping: bool = False,
    ) -> None:
        self._unwraps, self._implied = wrapping, list(implied)
        self._open = list(facts)
        self._equal: dict[Atom, Term] = {}
        self._known: dict[Atom, Term] = {}
        self._signs: dict[tuple[Term, int], bool] = {}  # of terms, and how deep was looked
        self._replacing: set[Atom] = set()
        self._divisions: dict[tuple[Term, Term], None] = {}
        self._split: set[Atom] = set()  # quotients and remainders of products
        self._steps, self._version = 0, 0
        self.wrapping = wrapping
        self.impossible = False
        self._tops = {self(term): tuple(map(self, above)) for term, above in tops.items()} if wrapping else tops
        try:
            self._solve()
        except _NoSuchValues:
            self.impossible = True

    def same(self, one: Term, other: Term) -> bool:
        return self(one - other).number == 0

    def never_negative(self, term: Term) -> bool:
        return self.impossible or self._never_negative(self(term))

    def most(self, term: Term) -> int:
        """An upper bound."""
        return self._most(self(term))

    def __call__(self, term: Term) -> Term:
        """The term, with equal terms replaced."""
        if not term.parts or not (self._equal or self._unwraps):
            return term
        return combination(term.constant, [(self._replaced(atom), factor) for atom, factor in term.parts])

    def _replaced(self, atom: Atom) -> Term:
        if atom in self._replacing or len(self._replacing) > _MOST_NESTED:
            return as_term(atom)  # of equal terms any will do
        if atom not in self._known:
            self._replacing.add(atom)
            if atom in self._equal:
                found = self(self._equal[atom])
            elif self._unwraps and _may_be_unwrapped(atom):
                found = self(operands(atom)[0])
            else:
                found = rebuilt(atom, tuple(self(part) if isinstance(part, Term) else part for part in atom.operands))
                inside = atom_of(found)
                if inside is not atom:
                    found = self(found)
            self._known[atom] = found
            self._replacing.remove(atom)
        return self._known[atom]

    # ------------------------------------------------------------------------------------------------------------- solving

    def _solve(self) -> None:
        for _ in range(_MOST_ROUNDS):
            before = len(self._equal)
            facts, self._open = self._open, []
            for fact in facts:
                self._take(fact)
            self._join_divisions()
            self._imply()
            if len(self._equal) == before or self._steps > _MOST_FACTS:
                break

    def _take(self, fact: Fact) -> None:
        self._steps += 1
        term, least, largest = self(fact.term), fact.least, fact.largest
        if self._steps > _MOST_FACTS:
            return
        for atom in atoms(term):
            if atom.operator in (Operator.QUOTIENT, Operator.REMAINDER):
                dividend, divisor = operands(atom)
                self._divisions.setdefault((dividend, divisor))
                if atom not in self._split:
                    self._split.add(atom)
                    alike = _one_by_one if atom.operator is Operator.QUOTIENT else _of_the_whole
                    self._open += (Fact(one - other, 0, 0) for one, other in alike(dividend, divisor))
                if atom.operator is Operator.REMAINDER and atom.least < 0 and self._never_negative(divisor - 1):
                    self._equal[atom] = leaf(Operator.OBSERVED, atom, least=0, largest=max(0, divisor.largest - 1))
                    self._forget()
        term = self(term)
        if fact.round and not (largest - _ROUND < self._least(term) and self._most(term) < least + _ROUND):
            if not _is_plain(term):
                return
            self.wrapping = True
        least, largest = max(least, term.least), min(largest, term.largest)
        if least > largest:
            raise _NoSuchValues
        if not term.parts:
            return
        shared = gcd(*(factor for _, factor in term.parts))
        constant = term.constant
        term = weighted_sum(0, ((atom, factor // shared) for atom, factor in term.parts))
        least, largest = -((constant - least) // shared), (largest - constant) // shared
        if least > largest:
            raise _NoSuchValues
        parted = self._parted(term, least, largest)
        if parted is not None:
            for one in parted:
                self._take(one)
        elif least == largest:
            self._equate(term - least)
        else:
            self._open.append(Fact(term, least, largest))

    def _parted(self, term: Term, least: int, largest: int) -> tuple[Fact, ...] | None:
        for unit in sorted({abs(factor) for _, factor in term.parts}, reverse=True):
            whole = weighted_sum(0, ((atom, factor // unit) for atom, factor in term.parts if factor % unit == 0))
            rest = weighted_sum(0, ((atom, factor) for atom, factor in term.parts if factor % unit))
            if unit == 1 or not rest.parts:
                continue
            first, last = -((rest.largest - least) // unit), (largest - rest.least) // unit
            if first > last:
                raise _NoSuchValues
            if first == last:
                return Fact(whole, first, first), Fact(rest, least - first * unit, largest - first * unit)
        for unit_term in dict.fromkeys(factor for atom, _ in term.parts for factor in _factors(atom)):
            whole, rest = _divided(term, unit_term)
            if whole.parts and any(self._leaves_room(size, rest, least, largest) for size in (unit_term, -unit_term)):
                return Fact(whole, 0, 0), Fact(rest, least, largest)
        return None

    def _leaves_room(self, size: Term, rest: Term, least: int, largest: int) -> bool:
        """Whether `rest` plus a multiple of `size` (which may be that of a rounded-up quotient, written as -(-x // y)) is in the range
        for no multiple but 0."""
        room = size - 1
        return self._never_negative(room - largest + rest) and self._never_negative(room + least - rest)

    def _forget(self) -> None:
        """What was found before the last equation."""
        self._known, self._signs = {}, {}
        self._version += 1

    def _equate(self, term: Term) -> None:
        """The term is 0."""
        if len(term.parts) > 2:
            self._open.append(Fact(term, 0, 0))
            return
        for atom, factor in sorted(term.parts, key=lambda part: -part[0].serial):
            value = (term - as_term(atom) * factor) * -factor
            if abs(factor) == 1 and atom not in set(atoms(value)):
                self._equal[atom] = value
                self._forget()
                break
        else:
            self._open.append(Fact(term, 0, 0))
        if any(atom.operator is Operator.WRAPPED for atom, _ in term.parts):
            self._take(Fact(unwrapped(term), 0, 0, True))

    def _join_divisions(self) -> None:
        """x - y = d * (x // d - y // d) + (x % d - y % d), for a divisor d of at least 1."""
        found, version = list(self._divisions), -1
        seen: list[_Division] = []
        for place, (_, divisor) in enumerate(found):
            for before in range(place):
                if version != self._version:  # each fact that is taken may make more of them equal
                    seen, version = [self._division(*each) for each in found], self._version
                one, other = seen[place], seen[before]
                if one.divisor is not other.divisor or one.dividend is other.dividend:
                    continue
                whole, rest = (one.quotient - other.quotient).number, (one.remainder - other.remainder).number
                if whole is None and rest == 0 and self._less_than(one, other):
                    whole = 0
                # A divisor 0 counts as 1.
                if whole is None or rest is None or (whole and divisor.least < 1):
                    continue
                difference = one.dividend - other.dividend - one.divisor * whole - rest
                if difference.number is None:
                    self._take(Fact(difference, 0, 0))
                elif difference.number:
                    raise _NoSuchValues

    def _less_than(self, one: "_Division", other: "_Division") -> bool:
        """Whether two dividends differ by less than their divisor: then they are equal if they leave the same, `(t + n) % n`."""
        difference, most = one.dividend - other.dividend, one.divisor - 1
        return self._never_negative(most - difference) and self._never_negative(most + difference)

    def _division(self, dividend: Term, divisor: Term) -> "_Division":
        return _Division(*map(self, (dividend, divisor, quotient(dividend, divisor), remainder(dividend, divisor))))

    def _imply(self) -> None:
        for premise, conclusions in tuple(self._implied):
            if self._is_zero(self(premise)):
                self._implied.remove((premise, conclusions))
                for one in conclusions:
                    self._take(Fact(one, 0, 0))

    def _is_zero(self, term: Term) -> bool:
        """Whether it is a fact that the term is 0, also where that says of none of its parts what it is."""
        facts = (self(fact.term) for fact in self._open if fact.least == fact.largest == 0 and not fact.round)
        return term.number == 0 or any(term is fact or term is -fact for fact in facts)

    # -------------------------------------------------------------------------------------------------------------- bounds

    def _never_negative(self, term: Term, depth: int = _DEEPEST) -> bool:
        if term.least >= 0 or not depth:
            return term.least >= 0
        found = self._signs.get((term, depth))
        if found is None:
            found = self._signs[term, depth] = any(
                all(self._never_negative(one, depth - 1) for one in smaller)
                for atom, factor in term.parts
                for smaller in self._smaller(term - as_term(atom) * factor, atom, factor, depth)
            )
        return found

    def _smaller(self, rest: Term, atom: Atom, factor: int, depth: int) -> Iterator[tuple[Term, ...]]:
        """Terms; if none of those that belong together is negative, `rest + atom * factor` is not."""
        inside = operands(atom)
        if atom.operator is Operator.WRAPPED:
            bits, signed = atom.operands[1:]
            assert isinstance(bits, int) and isinstance(signed, bool)
            least, largest = type_range(bits, signed)
            if self._most(inside[0], depth - 1) <= largest and self._never_negative(inside[0] - least, depth - 1):
                yield (rest + inside[0] * factor,)
        if factor > 0:
            if atom.operator is Operator.MIN:
                yield tuple(rest + one * factor for one in inside)
            elif atom.operator is Operator.PRODUCT:
                yield rest, *inside
            elif atom.operator is Operator.QUOTIENT and inside[1].least >= 1:
                # x // d - 1 is (x - d) // d
                whole = rest.constant // factor
                yield rest - whole * factor, inside[0] + inside[1] * whole
            return
        if atom.operator is Operator.QUOTIENT:
            # d * (x // d) <= x
            divisor = inside[1].number
            if divisor is not None and divisor > 0 and factor % divisor == 0:
                yield (rest + inside[0] * (factor // divisor),)
            # f * (x // (f * d)) <= x // d
            unit = [each for _, each in inside[1].parts]
            if inside[1].constant == 0 and unit and all(each % factor == 0 for each in unit) and inside[1].least >= 1:
                less = weighted_sum(0, ((one, each // -factor) for one, each in inside[1].parts))
                yield (rest - quotient(inside[0], less),)
        yield from ((rest + self(top) * factor,) for top in self._tops_of(as_term(atom)))

    def _most(self, term: Term, depth: int = _DEEPEST) -> int:
        """An upper bound."""
        if not depth or not term.parts:
            return term.largest
        found = [term.constant + sum(factor * self._end(atom, factor > 0, depth) for atom, factor in term.parts)]
        return min(term.largest, *found, *(self._most(top, depth - 1) for top in self._tops.get(term, ())))

    def _least(self, term: Term) -> int:
        return term.constant + sum(factor * self._end(atom, factor < 0, _DEEPEST) for atom, factor in term.parts)

    def _end(self, atom: Atom, upper: bool, depth: int) -> int:
        if not upper:
            return atom.least
        return min((atom.largest, *(self._most(top, depth - 1) for top in self._tops_of(as_term(atom)))))

    def _tops_of(self, term: Term) -> Iterator[Term]:
        yield from self._tops.get(term, ())
        atom = atom_of(term)
        inside = operands(atom) if atom is not None else ()
        match atom.operator if atom is not None else None:
            case Operator.MIN:
                yield from inside
            case Operator.WRAPPED if inside[0].least >= 0:
                yield inside[0]
            case Operator.REMAINDER:
                if inside[1].least >= 1:
                    yield inside[1] - 1
                if inside[0].least >= 0:
                    yield inside[0]
            case Operator.QUOTIENT if inside[0].least >= 0 and inside[1].least >= 1:
                yield inside[0]
                ends = [top + 1 for top in self._tops_of(inside[0])]
                for end in (*ends, *(above for one in ends for above in self._tops_of(one))):
                    whole, rest = _divided(end, inside[1])
                    if whole.parts and not rest.parts and rest.constant <= 0:
                        yield whole - 1


def _one_by_one(dividend: Term, divisor: Term) -> Iterator[tuple[Term, Term]]:
    """x // (a * b) is x // a // b."""
    for first, last in _two_factors(divisor):
        yield quotient(dividend, divisor), quotient(quotient(dividend, first), last)


def _of_the_whole(dividend: Term, divisor: Term) -> Iterator[tuple[Term, Term]]:
    """x % (a * b) % b is x % b, and % a likewise."""
    for factors in _two_factors(divisor):
        for one in factors:
            yield remainder(remainder(dividend, divisor), one), remainder(dividend, one)


def _two_factors(divisor: Term) -> Iterator[tuple[Term, Term]]:
    """Each way to write it as a product of two numbers that are at least 1."""
    if divisor.constant or len(divisor.parts) != 1:
        return
    ((atom, factor),) = divisor.parts
    factors = (*((number(factor),) if factor > 1 else ()), *_as_factors(as_term(atom)))
    if factor < 1 or len(factors) < 2 or any(one.least < 1 for one in factors):
        return
    for place, last in enumerate(factors):
        first = reduce(product, (*factors[:place], *factors[place + 1 :]))
        yield first, last


def _factors(atom: Atom) -> Iterator[Term]:
    """The terms that divide the atom, as it is written."""
    if atom.operator is Operator.PRODUCT:
        yield from operands(atom)


def _divided(term: Term, unit: Term) -> tuple[Term, Term]:
    """The term as the product of the first with the unit, plus the second."""
    whole, rest = number(0), number(term.constant)
    wanted = Counter(_as_factors(unit))
    for atom, factor in term.parts:
        left = Counter(_as_factors(as_term(atom)))
        if wanted <= left:
            whole += reduce(product, (left - wanted).elements(), number(factor))
        else:
            rest += as_term(atom) * factor
    return whole, rest


def _as_factors(term: Term) -> tuple[Term, ...]:
    atom = atom_of(term)
    return operands(atom) if atom is not None and atom.operator is Operator.PRODUCT else (term,)


def _is_plain(term: Term) -> bool:
    return all(abs(factor) <= _PLAIN for factor in (term.constant, *(factor for _, factor in term.parts)))


def _may_be_unwrapped(atom: Atom) -> bool:
    return atom.operator is Operator.WRAPPED and atom.operands[1] == 32 and _is_plain(operands(atom)[0])


def unwrapped(term: Term) -> Term:
    parts = [(operands(atom)[0] if _may_be_unwrapped(atom) else as_term(atom), factor) for atom, factor in term.parts]
    return combination(term.constant, parts)
