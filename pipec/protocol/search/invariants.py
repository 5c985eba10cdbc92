"""Invariants of a situation: linear equations and inequalities over registers.

The initial candidates come from runs: the affine hull of the points, and the inequalities of tests that all points satisfy. They are
weakened until every way into the situation implies them: failing equations are combined into ones that still hold (Karr's join), and
bounds are relaxed before they are dropped.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from math import gcd

from pipec.protocol.deduction.comparisons import Condition, holds, substituted
from pipec.protocol.deduction.deduction import assume, certain
from pipec.protocol.deduction.premises import Premises, combined
from pipec.protocol.deduction.rows import ZERO, Row, Terms, evaluated, one, plus, primitive, replaced, scaled, tight
from pipec.protocol.variables.numbers import Numbers
from pipec.record import field, mutable

_MOST_POINTS = 12
_SLACK = 2  # maximum distance of a candidate bound from its test
_PROPOSED = 5  # cost of evaluating a point, in row combinations
_LIFT = 2  # how much more than the test requires is kept


@mutable
class Facts:
    """The invariants of one node. `equations`: rows that are 0. `bounds`: for each direction the smallest known constant with which it
    is >= 0."""

    dimensions: tuple[int, ...]
    points: list[Numbers] = field(default_factory=list)
    equations: list[Row] = field(default_factory=list)
    bounds: dict[Terms, int] = field(default_factory=dict)
    options: dict[Terms, list[int]] = field(default_factory=dict)  # weaker constants that are worth trying
    clauses: list[Condition] = field(default_factory=list)  # what is not a row: disequalities and disjunctions
    inherited: list[Row] = field(default_factory=list)  # bounds of which no test is made
    followed: bool = False  # the initial facts do not come from a run

    def meet(self, numbers: Numbers) -> bool:
        """Adds a point of a run; returns whether it was new information."""
        if not self.points and not self.followed:
            self.equations = [(-numbers[variable], ((variable, 1),)) for variable in self.dimensions]
            news = True
        else:
            news = self._widen(numbers)
        if news or len(self.points) < _MOST_POINTS:
            self.points.append(numbers)
        return news

    def keep(self) -> None:
        """Drops what further points contradict."""
        for terms, constant in list(self.bounds.items()):
            least = min(evaluated((constant, terms), numbers) for numbers in self.points)
            if least < 0:
                del self.bounds[terms]
                weaker = [each for each in self.options.get(terms, ()) if each >= constant - least]
                if weaker:
                    self.bounds[terms] = min(weaker)
        self.clauses = [clause for clause in self.clauses if all(holds(clause, numbers) for numbers in self.points)]

    def _widen(self, numbers: Numbers) -> bool:
        combined.value += len(self.equations)
        rests = [evaluated(row, numbers) for row in self.equations]
        failing = [number for number, rest in enumerate(rests) if rest]
        if not failing:
            return False
        # A small multiple of a short row, which keeps the combined rows short.
        pivot = min(failing, key=lambda number: (abs(rests[number]), len(self.equations[number][1]), number))
        kept = []
        for number, row in enumerate(self.equations):
            if number == pivot:
                continue
            if rests[number]:
                row = primitive(plus(scaled(row, rests[pivot]), self.equations[pivot], -rests[number]))
            kept.append(row)
        self.equations = kept
        return True

    def propose(self, directions: Iterable[Row], clauses: Iterable[Condition]) -> None:
        """Adds candidate inequalities close to how they are written, and clauses, that all points satisfy."""
        self.clauses = [clause for clause in clauses if all(holds(clause, numbers) for numbers in self.points)]
        combined.value += _PROPOSED * len(self.points)
        for row in directions:
            least = min(evaluated(row, numbers) for numbers in self.points)
            if least >= -_SLACK:
                self._bound(row, -min(least, _LIFT))

    def _bound(self, row: Row, more: int) -> None:
        """`more`: the distance of the constant from how the row is written."""
        constant, terms = tight(plus(row, (more, ())))
        if terms:
            # Both in the same unit: for `3 * i + 4294967296` the range in between would be huge.
            written = tight(row)[0]
            options = self.options.setdefault(terms, [])
            options += [each for each in range(min(constant, written), written + _SLACK + 1) if each not in options]
            if constant < self.bounds.get(terms, constant + 1):
                self.bounds[terms] = constant

    def follow(
        self, having: Premises, values: Mapping[int, Row], directions: Iterable[Row], clauses: Iterable[Condition]
    ) -> None:
        """The facts after the only known way into the node."""
        self.followed = True
        self.clauses = [clause for clause in clauses if certain(having, substituted(clause, values))]
        self.equations = _dependencies({v: having.reduced(replaced(one(v), values)) for v in self.dimensions})
        for row in directions:
            found = None
            for slack in reversed(range(_SLACK)):  # what fails with more slack fails with less
                if not having.entails(replaced(plus(row, (slack, ())), values)):
                    break
                found = slack
            if found is not None:
                self._bound(row, found)

    def inherit(self, rows: Iterable[Row]) -> None:
        """Adds candidates that hold on the first way into the node."""
        for row in rows:
            if all(evaluated(row, numbers) >= 0 for numbers in self.points):
                self._bound(row, 0)
                self.inherited.append(row)

    def weaken(self, having: Premises, values: Mapping[int, Row]) -> bool:
        """Weakens the facts to those that hold on this way as well; returns whether any changed."""
        equations = self._combined(having, values)
        changed = equations is not None
        if equations is not None:
            self.equations = equations
        for terms, constant in list(self.bounds.items()):
            if having.entails(replaced((constant, terms), values)):
                continue
            changed = True
            del self.bounds[terms]
            # The strongest weaker bound that still holds: dropping it may lose what excludes an outcome.
            for weaker in sorted(self.options.get(terms, ())):
                if weaker > constant and having.entails(replaced((weaker, terms), values)):
                    self.bounds[terms] = weaker
                    break
        clauses = [clause for clause in self.clauses if certain(having, substituted(clause, values))]
        changed |= len(clauses) < len(self.clauses)
        self.clauses = clauses
        return changed

    def _combined(self, having: Premises, values: Mapping[int, Row]) -> list[Row] | None:
        """The equations that hold on the way as well; None if all do."""
        holding: list[Row] = []
        failing: list[tuple[Row, Row]] = []
        for row in self.equations:
            rest = having.reduced(replaced(row, values))
            if rest == ZERO or (rest[1] and having.equals(rest)):
                holding.append(row)
            else:
                failing.append((row, rest))
        if not failing:
            return None
        while failing:
            row, rest = min(failing, key=lambda pair: (len(pair[1][1]), len(pair[0][1])))
            failing.remove((row, rest))
            pivot = rest[1][0][0] if rest[1] else None
            weight, remaining = _coefficient(rest, pivot), []
            for other, other_rest in failing:
                factor = _coefficient(other_rest, pivot)
                if factor:
                    other = plus(scaled(other, weight), row, -factor)
                    other_rest = plus(scaled(other_rest, weight), rest, -factor)
                if other_rest != ZERO:
                    remaining.append((other, other_rest))
                elif other[1]:
                    holding.append(primitive(other))
            failing = remaining
        return holding

    def premises(self, base: Premises) -> Premises:
        made = base.copy()
        for row in self.equations:
            made.equal(row)
        for terms, constant in self.bounds.items():
            made.at_least((constant, terms))
        for clause in self.clauses:
            assume(made, clause)
        return made

    def lean(self, given: Premises, derived: Container[int], rename: Callable[[Premises], None]) -> "Facts":
        """The facts without those implied by the equations, the given facts, and the definitions of `derived` variables: fewer
        obligations for the checker. `rename`: substitutes known equalities in the definitions."""
        known = given.copy()
        plain = [row for row in self.equations if not any(variable in derived for variable, _ in row[1])]
        for row in plain:
            known.equal(row)
        equations = plain
        if len(plain) < len(self.equations):
            rename(known)
            for row in self.equations:
                if row not in plain and known.reduced(row) != ZERO:
                    equations.append(row)
                    known.equal(row)
        made = Facts(self.dimensions, equations=equations, clauses=self.clauses)
        for terms, constant in sorted(self.bounds.items(), key=lambda bound: len(bound[0])):
            before = len(known.least), known.least.get(tight(known.reduced((constant, terms)))[1])
            known.at_least((constant, terms))
            if (len(known.least), known.least.get(tight(known.reduced((constant, terms)))[1])) != before:
                made.bounds[terms] = constant
        return made

    def rows(self) -> Sequence[Row]:
        return [(constant, terms) for terms, constant in self.bounds.items()]


def _coefficient(row: Row, variable: int | None) -> int:
    return row[0] if variable is None else next((c for each, c in row[1] if each == variable), 0)


def _dependencies(forms: Mapping[int, Row]) -> list[Row]:
    """The linear dependencies between the variables, given their values."""
    found: list[Row] = []
    pivots: list[tuple[int, Row, Row]] = []  # a variable, a form in which it occurs, the same over the original variables
    for variable, form in forms.items():
        over = one(variable)
        for pivot, row, written in pivots:
            coefficient = _coefficient(form, pivot)
            if coefficient:
                lead = _coefficient(row, pivot)
                common = gcd(lead, coefficient)
                up, down = abs(lead) // common, coefficient // common * (1 if lead > 0 else -1)
                form = plus(scaled(form, up), row, -down)
                over = plus(scaled(over, up), written, -down)
        if form[1]:
            pivots.append((form[1][-1][0], form, over))
        else:
            found.append(primitive(plus(over, (-form[0], ()))))
    return found


def expressed(rows: Iterable[Row], having: Premises, values: Mapping[int, Row], made: Iterable[int], sizes: int) -> Iterator[Row]:
    """What the rows, which are about the time before the way, are in terms of one of the variables `made` after it, and of sizes. These
    have numbers below `sizes`. Different variables are the same at this time, and not later."""
    forms = [(variable, having.reduced(replaced(one(variable), values))) for variable in made]
    for row in rows:
        form = having.reduced(row)
        pivot = form[1][-1][0] if form[1] else 0
        for variable, other in forms if pivot >= sizes else ():
            times, rest = divmod(_coefficient(form, pivot), _coefficient(other, pivot) or 1)
            apart = plus(form, other, -times)
            if times and not rest and all(each < sizes for each, _ in apart[1]):
                yield plus(apart, one(variable), times)
