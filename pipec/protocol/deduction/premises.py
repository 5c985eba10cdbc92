"""Deduction from rows that are 0 or at least 0.

The search asks thousands of small queries, most of them about nearby variables. So variables are numbers, and elimination considers only
the rows connected with the query. The results are not trusted: the checker verifies them in its own way.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import gcd

from pipec.protocol.deduction.comparisons import Condition
from pipec.protocol.deduction.rows import Row, Terms, negative, plus, primitive, replaced, scaled, tight
from pipec.verify.per_thread import PerThread

_MOST_ROWS = 60  # maximum number of inequalities during elimination

# The cost counter of a search: steps that each take about as long as combining two rows. Other work is counted at the same rate, fitted to
# the times of some hundred searches (tests/protocol/test_effort.py).
combined = PerThread(0)


class Premises:
    """A conjunction of rows that are 0 or at least 0, in solved form. `clauses`: other conditions, see `deduction`."""

    __slots__ = ("_parts", "clauses", "contradictory", "least", "solved")

    def __init__(self) -> None:
        self.contradictory = False
        self.solved: dict[int, Row] = {}
        self.least: dict[Terms, int] = {}  # terms -> the smallest constant with which they are >= 0
        self.clauses: list[Condition] = []
        # The inequalities connected with each variable, as they were when they last changed.
        self._parts: dict[int, dict[Terms, int]] | None = None

    def copy(self) -> "Premises":
        combined.value += len(self.solved) + len(self.least)
        made = Premises()
        made.contradictory, made.solved, made.least = self.contradictory, dict(self.solved), dict(self.least)
        made.clauses, made._parts = list(self.clauses), self._parts
        return made

    def reduced(self, row: Row) -> Row:
        return replaced(row, self.solved)

    def at_least(self, row: Row) -> None:
        combined.value += 2
        row = tight(replaced(row, self.solved))
        constant, terms = row
        if not terms:
            self.contradictory |= constant < 0
            return
        known = self.least.get(terms)
        if known is not None and known <= constant:
            return
        self.least[terms], self._parts = constant, None
        # Two bounds without a gap form an equation, which can be solved for a variable and saves its elimination.
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
        # There is no integer solution, even if a rational one exists: rings count whole uses.
        if constant % divisor:
            self.contradictory = True
            return
        constant, terms = primitive((constant, terms))
        # Registers have higher numbers than sizes and are solved for first.
        pivot = next(((variable, c) for variable, c in reversed(terms) if c in (1, -1)), None)
        # No coefficient is 1: solving would create fractions, so the equation is kept as two inequalities.
        if pivot is None:
            for each in ((constant, terms), scaled((constant, terms), -1)):
                if self.least.get(each[1], each[0] + 1) > each[0]:
                    self.least[each[1]], self._parts = each[0], None
            return
        self.define(pivot[0], scaled((constant, tuple([each for each in terms if each != pivot])), -pivot[1]))

    def define(self, variable: int, value: Row) -> None:
        """Defines a variable as a row in which it does not occur."""
        combined.value += 1 + (len(self.solved) + len(self.least)) // 16  # looking at a row costs less than combining two
        known = {variable: value}
        # (Rows are sorted: most rows end before this variable, and need no replacement.)
        for other, row in self.solved.items():
            if row[1] and row[1][-1][0] >= variable:
                self.solved[other] = replaced(row, known)
        self.solved[variable] = value
        touched = [terms for terms in self.least if terms[-1][0] >= variable and any(each == variable for each, _ in terms)]
        self._parts = None if touched else self._parts
        for terms, constant in [(terms, self.least.pop(terms)) for terms in touched]:
            self.at_least((constant, terms))

    def entails(self, row: Row) -> bool:
        """Whether the row is at least 0 wherever the conjunction holds; False if that is not established."""
        if self.contradictory:
            return True
        combined.value += 1
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
        """The inequalities connected with these variables."""
        combined.value += len(self.least)
        parts = self._parts
        if parts is None:
            parts = self._parts = _connected(self.least)
        found: dict[Terms, int] = {}
        for part in {id(part): part for variable, _ in terms if (part := parts.get(variable)) is not None}.values():
            found.update(part)
        return found


def _connected(least: dict[Terms, int]) -> dict[int, dict[Terms, int]]:
    """By variable, the inequalities that it is connected with through others: a part for all variables in it."""
    parts: dict[int, dict[Terms, int]] = {}
    inside: dict[int, list[int]] = {}  # by the identity of a part, its variables
    for terms, constant in least.items():
        mine = {terms: constant}
        joined = inside[id(mine)] = []
        for variable, _ in terms:
            other = parts.get(variable)
            if other is None:
                parts[variable] = mine
                joined.append(variable)
            elif other is not mine:
                if len(other) > len(mine):
                    mine, other = other, mine
                mine.update(other)
                moved = inside.pop(id(other))
                for each in moved:
                    parts[each] = mine
                joined = inside[id(mine)]
                joined += moved
    return parts


def _contradictory(rows: dict[Terms, int], last: Row) -> bool:
    """Whether the inequalities contradict each other. What has been asked before costs as many steps as then, so that no proof depends on
    what this process has proved earlier."""
    if last[0] < rows.get(last[1], last[0] + 1):
        rows[last[1]] = last[0]
    answer, steps = _eliminated(tuple(rows.items()))
    combined.value += steps
    return answer


@lru_cache(1024)  # four of five questions have been asked before, on an earlier visit
def _eliminated(asked: tuple[tuple[Terms, int], ...]) -> tuple[bool, int]:
    """Whether they contradict each other (Fourier-Motzkin), and the steps taken."""
    rows, steps = dict(asked), 0
    while rows:
        steps += len(rows)
        variable, free = _cheapest(rows)
        if free:
            # A row with a variable that is bounded on one side only contradicts nothing.
            rows = {terms: constant for terms, constant in rows.items() if free.isdisjoint([each for each, _ in terms])}
            continue
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
        steps += len(lower) * len(upper)
        for low, left in lower:
            for high, right in upper:
                common = gcd(low, high)
                constant, terms = tight(plus(scaled(left, high // common), right, low // common))
                if not terms:
                    if constant < 0:
                        return True, steps
                elif constant < made.get(terms, constant + 1):
                    made[terms] = constant
        # Elimination may square the number of rows each time. Giving up loses a fact of the proof but is sound.
        if len(made) > _MOST_ROWS:
            return False, steps
        rows = made
    return False, steps


def _cheapest(rows: Iterable[Terms]) -> tuple[int, set[int]]:
    """The variable whose elimination adds the fewest inequalities, unless there are variables that are bounded on one side only."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for terms in rows:
        for variable, coefficient in terms:
            side = lower if coefficient > 0 else upper
            side[variable] = side.get(variable, 0) + 1
    if free := lower.keys() ^ upper.keys():
        return -1, free
    best, found = 1 << 30, -1
    for variable, low in lower.items():
        high = upper[variable]
        cost = low * high - low - high
        if cost < best or cost == best and variable < found:
            best, found = cost, variable
    return found, free
