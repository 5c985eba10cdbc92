"""Products of sizes of which a factor is a known number: what is left of them then."""

from collections.abc import Container, Iterator, Mapping, Sequence
from math import prod

from pipec.protocol.deduction.rows import Row, one, plus, scaled
from pipec.verify.terms import Atom, Product


class KnownFactors:
    """`number`: of each value that has one, a mapping that grows; `derived`: those of registers, and not of sizes alone."""

    def __init__(self, number: Mapping[Atom, int], derived: Container[int]) -> None:
        self._number, self._derived = number, derived
        self._named = 0  # how many values had a number when the products were looked for
        self._products: list[tuple[int, tuple[int, ...]]] = []

    def rows(self, known: Mapping[int, Row]) -> Iterator[Row]:
        """Rows that are 0, one for each product of sizes of which `known` tells a factor."""
        for variable, factors in self._of_sizes():
            numbers = [known[each][0] for each in factors if each in known and not known[each][1]]
            others = [each for each in factors if each not in known or known[each][1]]
            if numbers and (rest := self._multiple(others)) is not None:
                yield plus(scaled(rest, prod(numbers)), one(variable), -1)

    def _of_sizes(self) -> list[tuple[int, tuple[int, ...]]]:
        """The products of sizes with their factors, of those that have a number."""
        if self._named != len(self._number):
            self._named = len(self._number)
            self._products = [
                (number, tuple([self._number[factor] for factor in each.factors]))
                for each, number in self._number.items()
                if isinstance(each, Product)
                and number not in self._derived
                and all(factor in self._number for factor in each.factors)
            ]
        return self._products

    def _multiple(self, factors: Sequence[int]) -> Row | None:
        """What some sizes make together, if that has a number."""
        if len(factors) < 2:
            return one(factors[0]) if factors else (1, ())
        found = next((number for number, others in self._of_sizes() if sorted(others) == sorted(factors)), None)
        return None if found is None else one(found)
