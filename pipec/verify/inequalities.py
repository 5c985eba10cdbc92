"""Linear equations and inequalities over the integers: solving, tightening and elimination.

Equations are solved for variables with coefficient 1 or -1 (Gauss); the remaining inequalities are eliminated one variable after the
other (Fourier-Motzkin), each divided by the gcd of its coefficients and rounded towards the feasible side. The consequences hold for all
integers.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import gcd, inf

from pipec.verify.per_thread import PerThread
from pipec.verify.terms import Atom, Linear, Product, Symbol, add, atom, computed_in, factors_of, scale, summed, symbols_of

_MOST_ROWS = 150  # number of inequalities during elimination
MOST_STEPS = 50_000  # of one question, in combinations of inequalities: what takes more is not found out

# The total number of combinations of inequalities: the cost counter of a search.
combined = PerThread(0)
# The limit beyond which nothing is shown to be impossible, which is always sound.
allowed = PerThread(inf)

# constant + sum of coefficient * variable; a variable is the number of an atom.
Row = tuple[int, dict[int, int]]
Key = tuple[tuple[int, int], ...]  # coefficients, sorted by their variables
Inequality = tuple[int, Key]
Rows = dict[Key, int]


class Inequalities:
    """Rows over atoms, in solved form."""

    def __init__(self) -> None:
        self.contradictory = False
        self._numbers: dict[Atom, int] = {}
        self._atoms: list[Atom] = []
        self._solved: dict[int, Row] = {}
        self._least: Rows = {}  # coefficients -> the smallest constant with which they are >= 0
        self._learnt = 0  # equations and inequalities that were news
        self._changed: set[int] = set()  # variables for which an equation was solved, or updated, since the last look

    def solved(self, form: Linear) -> Linear:
        """The form with solved variables replaced."""
        return self._form(self._reduced(self._row(form)))

    def _form(self, row: Row) -> Linear:
        return summed(row[0], [(atom(self._atoms[variable]), coefficient) for variable, coefficient in row[1].items()])

    def _row(self, form: Linear) -> Row:
        numbers = self._numbers
        try:
            return form.constant, {numbers[one]: coefficient for one, coefficient in form.terms}
        except KeyError:
            return form.constant, {self._number(one): coefficient for one, coefficient in form.terms}

    def _number(self, one: Atom) -> int:
        found = self._numbers.get(one)
        if found is None:
            found = self._numbers[one] = len(self._atoms)
            self._atoms.append(one)
        return found

    def _reduced(self, row: Row) -> Row:
        constant, coefficients = row
        if not self._solved.keys() & coefficients.keys():
            return row
        made: dict[int, int] = {}
        for variable, coefficient in coefficients.items():
            solved = self._solved.get(variable)
            if solved is None:
                made[variable] = made.get(variable, 0) + coefficient
                continue
            constant += coefficient * solved[0]
            for other, factor in solved[1].items():
                made[other] = made.get(other, 0) + coefficient * factor
        return constant, {variable: coefficient for variable, coefficient in made.items() if coefficient}

    def _at_least(self, row: Row) -> None:
        constant, coefficients = self._reduced(row)
        if not coefficients:
            self.contradictory = self.contradictory or constant < 0
            return
        constant, key = tight(constant, coefficients)
        if constant >= self._least.get(key, constant + 1):
            return
        self._least[key] = constant
        self._learnt += 1
        opposite = self._least.get(tuple((variable, -coefficient) for variable, coefficient in key))
        if opposite is not None and constant + opposite <= 0:  # equal lower and upper bounds
            self.contradictory = self.contradictory or constant + opposite < 0
            self._equal((constant, dict(key)))

    def _equal(self, row: Row) -> None:
        constant, coefficients = self._reduced(row)
        if not coefficients:
            self.contradictory = self.contradictory or constant != 0
            return
        divisor = gcd(*coefficients.values())
        if constant % divisor:
            self.contradictory = True
            return
        constant, coefficients = constant // divisor, {v: c // divisor for v, c in coefficients.items()}
        pivot = self._pivot(coefficients)
        if pivot is None:
            self._at_least((constant, coefficients))
            self._at_least((-constant, {v: -c for v, c in coefficients.items()}))
            return
        self._changed.add(pivot)
        self._learnt += 1
        sign = -coefficients.pop(pivot)
        self._solved[pivot] = (sign * constant, {v: sign * c for v, c in coefficients.items()})
        for variable, solved in self._solved.items():
            if pivot in solved[1]:
                self._solved[variable] = self._reduced(solved)
                self._changed.add(variable)
        replaced = [key for key in self._least if pivot in variables_of(key)]
        for key, least in [(key, self._least.pop(key)) for key in replaced]:
            self._at_least((least, dict(key)))

    def _pivot(self, coefficients: dict[int, int]) -> int | None:
        """The variable to solve for: preferably one that is not part of another atom, whose text would grow with each replacement."""
        found = [variable for variable in sorted(coefficients, key=self._solves_late) if abs(coefficients[variable]) == 1]
        inside = frozenset[Atom]().union(*(_occurring(self._atoms[variable]) for variable in coefficients))
        return next((variable for variable in found if self._atoms[variable] not in inside), found[0] if found else None)

    def _solves_late(self, variable: int) -> tuple[int, int]:
        """Symbols are solved for before atoms with definitions, and products last."""
        one = self._atoms[variable]
        return 0 if isinstance(one, Symbol) else 2 if isinstance(one, Product) else 1, -variable

    def _at_hand(self, form: Linear) -> bool:
        """Whether `form >= 0` is one of the inequalities, or a weaker form of one."""
        constant, coefficients = self._reduced(self._row(form))
        if not coefficients:
            return constant >= 0
        constant, key = tight(constant, coefficients)
        return self._least.get(key, constant + 1) <= constant

    def _equal_at_hand(self, one: Linear, other: Linear) -> bool:
        """Whether the equations, or two inequalities, make the two equal: without a search, as this is queried during one."""
        difference = add(one, other, -1)
        constant, coefficients = self._reduced(self._row(difference))
        if not coefficients:
            return constant == 0
        return self._at_hand(difference) and self._at_hand(scale(difference, -1))

    def _eliminated(self) -> bool:
        """Whether the inequalities contradict each other."""
        return contradict(self._least)

    def _excluded(self, form: Linear) -> bool:
        """Whether `form >= 0` contradicts the inequalities that are connected with it, of which there are often none."""
        constant, coefficients = self._reduced(self._row(form))
        if not coefficients:
            return constant < 0
        least, key = tight(constant, coefficients)
        met, left, known = {*coefficients}, list(self._least), 0
        while known < len(met):
            known, apart = len(met), []
            for one in left:
                variables = variables_of(one)
                if met.isdisjoint(variables):
                    apart.append(one)
                else:
                    met |= variables
            left = apart
        far = {*left}
        near = {one: value for one, value in self._least.items() if one not in far}
        return contradict({**near, key: min(least, near.get(key, least))})


def contradict(rows: Rows) -> bool:
    """Whether inequalities (coefficients -> the smallest constant) contradict each other. What has been asked before costs as many steps as
    then, so that no answer depends on what this process has checked earlier."""
    if combined.value > allowed.value:
        return False
    answer, steps = _contradictory(tuple(rows.items()))
    combined.value += steps
    return answer and combined.value <= allowed.value


@lru_cache(1024)  # four of five questions have been asked before: about another way into a node, or another CTA
def _contradictory(asked: tuple[tuple[Key, int], ...]) -> tuple[bool, int]:
    """Eliminates one variable after the other. Also returns the steps taken."""
    rows, steps = dict(asked), 0
    while rows:
        steps += len(rows)
        if steps > MOST_STEPS:
            break
        variable, free = _cheapest(rows)
        if variable is None:
            # A row with a variable that is bounded on one side only contradicts nothing.
            rows = {key: constant for key, constant in rows.items() if free.isdisjoint([each for each, _ in key])}
            continue
        made: Rows = {}
        lower: list[tuple[int, int, dict[int, int]]] = []
        upper: list[tuple[int, int, dict[int, int]]] = []
        for key, constant in rows.items():
            coefficients = dict(key)
            factor = coefficients.pop(variable, 0)
            if factor:
                (lower if factor > 0 else upper).append((abs(factor), constant, coefficients))
            else:
                made[key] = min(constant, made.get(key, constant))
        steps += len(lower) * len(upper)
        for low, constant, coefficients in lower:
            for high, other, others in upper:
                total = dict.fromkeys(coefficients, 0)
                for each, value in coefficients.items():
                    total[each] = value * high
                for each, value in others.items():
                    total[each] = total.get(each, 0) + value * low
                total = {each: value for each, value in total.items() if value}
                sum_ = constant * high + other * low
                if not total:
                    if sum_ < 0:
                        return True, steps
                    continue
                least, key = tight(sum_, total)
                if least < made.get(key, least + 1):
                    made[key] = least
        if len(made) > _MOST_ROWS:
            return False, steps
        rows = made
    return False, steps


@lru_cache(16_384)
def variables_of(key: Key) -> frozenset[int]:
    return frozenset([variable for variable, _ in key])


def tight(constant: int, coefficients: dict[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The inequality divided by the gcd of its coefficients, with the constant rounded down."""
    divisor = gcd(*coefficients.values())
    if divisor == 1:
        return constant, tuple(sorted(coefficients.items()))
    return constant // divisor, tuple(sorted((v, c // divisor) for v, c in coefficients.items()))


def _cheapest(rows: Iterable[Key]) -> tuple[int | None, set[int]]:
    """The variable whose elimination adds the fewest inequalities, among those that lose no integers, as all coefficients on one side
    are 1 (`8 * q <= i` and `i <= 8 * f + 7` are `q <= f`, but only without i); none as long as there are variables that are bounded on
    one side only, which come second."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    divided: dict[int, int] = {}  # variables with other coefficients: bit 0 or 1 for each side
    for key in rows:
        for variable, coefficient in key:
            side = lower if coefficient > 0 else upper
            side[variable] = side.get(variable, 0) + 1
            if coefficient not in (1, -1):
                divided[variable] = divided.get(variable, 0) | (1 if coefficient > 0 else 2)
    if free := lower.keys() ^ upper.keys():
        return None, free
    return min(lower, key=lambda v: (divided.get(v) == 3, lower[v] * upper[v] - lower[v] - upper[v], v)), free


@lru_cache(4096)
def _occurring(one: Atom) -> frozenset[Atom]:
    """The values inside an atom. For a product also its factors, even quotients or products: no inequality can be multiplied by a
    replaced one."""
    return parts_of(one) | factors_of(one) if isinstance(one, Product) else parts_of(one)


@lru_cache(4096)
def parts_of(one: Atom) -> frozenset[Atom]:
    """The symbols inside an atom, its factors, and what the machine computes inside of it."""
    if isinstance(one, Symbol):
        return frozenset()
    factors = one.factors if isinstance(one, Product) else ()
    return symbols_of(atom(one)) | frozenset(factors) | (computed_in(atom(one)) - {one})
