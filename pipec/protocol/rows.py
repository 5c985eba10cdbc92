"""Linear forms in numbers: a row is a constant and (variable, coefficient), sorted by variable; and what follows from rows.

The search asks thousands of small questions, most of them about what is at hand. So variables are numbers, and elimination looks only at
the rows that hang together with the question. What is found here is not trusted: the checker asks again, in its own way.
"""

from collections.abc import Iterable, Mapping
from math import gcd

Terms = tuple[tuple[int, int], ...]
Row = tuple[int, Terms]

ZERO: Row = (0, ())
_MOST_ROWS = 60  # of inequalities while variables are eliminated

# How often two rows have been combined, in all: what a search counts to know when it has taken too long.
combined = [0]


def plus(left: Row, right: Row, times: int = 1) -> Row:
    """`left + times * right`."""
    if not right[1]:
        return left[0] + times * right[0], left[1]
    found = dict(left[1])
    for variable, coefficient in right[1]:
        found[variable] = found.get(variable, 0) + times * coefficient
    return left[0] + times * right[0], _terms(found)


def _terms(found: Mapping[int, int]) -> Terms:
    return tuple(sorted([row for row in found.items() if row[1]]))


def negative(row: Row) -> Row:
    """`row < 0`, as what is at least 0."""
    return -1 - row[0], tuple([(variable, -coefficient) for variable, coefficient in row[1]])


def scaled(row: Row, times: int) -> Row:
    return row[0] * times, tuple([(variable, coefficient * times) for variable, coefficient in row[1]])


def one(variable: int) -> Row:
    return 0, ((variable, 1),)


def replaced(row: Row, values: Mapping[int, Row]) -> Row:
    """The row with variables replaced, all at once."""
    if not any(variable in values for variable, _ in row[1]):
        return row
    constant, found = row[0], dict[int, int]()
    for variable, coefficient in row[1]:
        value = values.get(variable)
        if value is None:
            found[variable] = found.get(variable, 0) + coefficient
            continue
        constant += coefficient * value[0]
        for other, factor in value[1]:
            found[other] = found.get(other, 0) + coefficient * factor
    return constant, _terms(found)


def evaluated(row: Row, numbers: Mapping[int, int]) -> int:
    total = row[0]
    for variable, coefficient in row[1]:
        total += coefficient * numbers[variable]
    return total


def tight(row: Row) -> Row:
    """`row >= 0` divided by the common factor of its coefficients, its constant rounded down."""
    divisor = gcd(*[coefficient for _, coefficient in row[1]])
    if divisor <= 1:
        return row
    return row[0] // divisor, tuple([(variable, coefficient // divisor) for variable, coefficient in row[1]])


def primitive(row: Row) -> Row:
    """`row == 0` divided by the common factor."""
    divisor = gcd(row[0], *[coefficient for _, coefficient in row[1]])
    if divisor <= 1:
        return row
    return row[0] // divisor, tuple([(variable, coefficient // divisor) for variable, coefficient in row[1]])


class Premises:
    """A conjunction of rows that are 0 or at least 0, in solved form."""

    __slots__ = ("contradictory", "least", "solved")

    def __init__(self) -> None:
        self.contradictory = False
        self.solved: dict[int, Row] = {}
        self.least: dict[Terms, int] = {}  # terms -> the least constant with which they are >= 0

    def copy(self) -> "Premises":
        made = Premises()
        made.contradictory, made.solved, made.least = self.contradictory, dict(self.solved), dict(self.least)
        return made

    def reduced(self, row: Row) -> Row:
        return replaced(row, self.solved)

    def at_least(self, row: Row) -> None:
        row = tight(replaced(row, self.solved))
        constant, terms = row
        if not terms:
            self.contradictory |= constant < 0
            return
        known = self.least.get(terms)
        if known is not None and known <= constant:
            return
        self.least[terms] = constant
        # Between two bounds with no room an inequality is an equation, which can be solved
        # for a variable and spares its elimination.
        opposite = self.least.get(tuple([(variable, -coefficient) for variable, coefficient in terms]))
        if opposite is not None and constant + opposite <= 0:
            self.contradictory |= constant + opposite < 0
            self.equal(row)

    def equal(self, row: Row) -> None:
        constant, terms = replaced(row, self.solved)
        if not terms:
            self.contradictory |= constant != 0
            return
        divisor = gcd(*[coefficient for _, coefficient in terms])
        # No whole numbers solve it, though fractions would: rings are counted in whole uses.
        if constant % divisor:
            self.contradictory = True
            return
        constant, terms = primitive((constant, terms))
        # Registers have higher numbers than sizes and are solved for first.
        pivot = next(((variable, c) for variable, c in reversed(terms) if c in (1, -1)), None)
        # No coefficient of 1: solving would make fractions, so the equation stays as two inequalities.
        if pivot is None:
            for each in ((constant, terms), scaled((constant, terms), -1)):
                if self.least.get(each[1], each[0] + 1) > each[0]:
                    self.least[each[1]] = each[0]
            return
        self.define(pivot[0], scaled((constant, tuple([each for each in terms if each != pivot])), -pivot[1]))

    def define(self, variable: int, value: Row) -> None:
        """The variable is equal to a row in which it does not occur."""
        known = {variable: value}
        for other, row in self.solved.items():
            self.solved[other] = replaced(row, known)
        self.solved[variable] = value
        old, self.least = self.least, {}
        for terms, constant in old.items():
            if any(each == variable for each, _ in terms):
                self.at_least((constant, terms))
            elif constant < self.least.get(terms, constant + 1):
                self.least[terms] = constant

    def entails(self, row: Row) -> bool:
        """Whether the row is at least 0 wherever the conjunction holds; False where that is not found out."""
        if self.contradictory:
            return True
        constant, terms = tight(replaced(row, self.solved))
        if not terms:
            return constant >= 0
        if self.least.get(terms, constant + 1) <= constant:
            return True
        return _contradictory(self._near(terms), negative((constant, terms)))

    def equals(self, row: Row) -> bool:
        if self.contradictory:
            return True
        constant, terms = replaced(row, self.solved)
        return constant == 0 if not terms else self.entails(row) and self.entails(scaled(row, -1))

    def _near(self, terms: Terms) -> dict[Terms, int]:
        """The inequalities that hang together with these variables."""
        reached = {variable for variable, _ in terms}
        rest, found = list(self.least.items()), {}
        while True:
            further = []
            for row in rest:
                if reached.isdisjoint([variable for variable, _ in row[0]]):
                    further.append(row)
                else:
                    found[row[0]] = row[1]
            if len(further) == len(rest):
                return found
            rest = further
            for found_terms in found:
                reached.update([variable for variable, _ in found_terms])


def _contradictory(rows: dict[Terms, int], last: Row) -> bool:
    """Whether the inequalities contradict each other (Fourier and Motzkin)."""
    if last[0] < rows.get(last[1], last[0] + 1):
        rows[last[1]] = last[0]
    while rows:
        combined[0] += len(rows)
        variable = _cheapest(rows)
        made: dict[Terms, int] = {}
        lower, upper = [], []
        for terms, constant in rows.items():
            factor = next((c for each, c in terms if each == variable), 0)
            if factor > 0:
                lower.append((factor, (constant, terms)))
            elif factor:
                upper.append((-factor, (constant, terms)))
            else:
                made[terms] = constant
        combined[0] += len(lower) * len(upper)
        for low, left in lower:
            for high, right in upper:
                common = gcd(low, high)
                constant, terms = tight(plus(scaled(left, high // common), right, low // common))
                if not terms:
                    if constant < 0:
                        return True
                elif constant < made.get(terms, constant + 1):
                    made[terms] = constant
        # Eliminating may square the number of rows each time. To give up here costs a fact of the proof, never a wrong one.
        if len(made) > _MOST_ROWS:
            return False
        rows = made
    return False


def _cheapest(rows: Iterable[Terms]) -> int:
    """The variable whose elimination adds the fewest inequalities."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for terms in rows:
        for variable, coefficient in terms:
            side = lower if coefficient > 0 else upper
            side[variable] = side.get(variable, 0) + 1
    best, found = 1 << 30, -1
    for variable in lower.keys() | upper.keys():
        low, high = lower.get(variable, 0), upper.get(variable, 0)
        cost = low * high - low - high
        if cost < best or cost == best and variable < found:
            best, found = cost, variable
    return found
