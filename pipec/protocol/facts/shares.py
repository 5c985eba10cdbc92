"""How far a walk over tiles comes whose turns are counted: a size times a number of turns that is no more than a quotient by that size
is no more than what is divided.

So a block's tile `block.x + i * grid.x` is one of the tiles, where `i` counts up to the block's share of them.
"""

from itertools import permutations

from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row
from pipec.protocol.variables.variables import Variables
from pipec.verify.terms import Product, add, atom, is_quotient, symbols_of


class Shares:
    """Of the products of a size and a register that have names, also of those that are named as the search goes on."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.known = 0  # values that had a name when these were made
        self.found: list[tuple[Row, Row]] = []  # by how much a quotient exceeds the turns, and what is divided their multiple

    def resolve(self, premises: Premises) -> None:
        for more, left in self._all():
            if premises.entails(more):
                premises.at_least(left)

    def _all(self) -> list[tuple[Row, Row]]:
        named = self.variables.number
        if self.known < len(named):
            quotients = [one for one in named if is_quotient(one) and symbols_of(atom(one)).isdisjoint(self.variables.registers)]
            for one in [*named][self.known :] if quotients else ():
                for size, turns in permutations(one.factors) if isinstance(one, Product) and len(one.factors) == 2 else ():
                    self.found += [
                        (
                            self.variables.row(add(atom(each), atom(turns), -1)),
                            self.variables.row(add(each.arguments[0], atom(one), -1)),
                        )
                        for each in quotients
                        if each.arguments[1] == atom(size)
                    ]
            self.known = len(named)
        return self.found
