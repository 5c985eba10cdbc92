"""A decision procedure for conjunctions over the integers: sound, and complete enough for protocols.

Equations are solved where a coefficient is 1 or -1 (Gauss), the inequalities that remain are eliminated one variable after the other
(Fourier and Motzkin), each divided by the common factor of its coefficients and rounded towards the feasible side. What is derived so
holds for all integers; that nothing is derived proves nothing, and the answer is then "not entailed".

Atoms other than symbols are variables with a definition: `d * floor(f / d) <= f <= d * floor(f / d) + d - 1`; a choice is one of two cases;
equal arguments give equal values of a function.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from math import gcd

from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    negate,
    scale,
    substitute,
    symbols_of,
)

_MOST_ROWS = 150  # of inequalities while variables are eliminated
_MOST_SPLITS = 3  # nested cases of one question

# How often two inequalities have been combined, in all: what a search counts to know when it has taken too long.
combined = [0]

# constant + sum of coefficient * variable; a variable is the number of an atom.
Row = tuple[int, dict[int, int]]


class System:
    """A conjunction of formulas, kept in solved form."""

    def __init__(self, premises: Iterable[Formula] = ()) -> None:
        self.contradictory = False
        self._numbers: dict[Atom, int] = {}
        self._atoms: list[Atom] = []
        self._solved: dict[int, Row] = {}
        self._least: dict[tuple[tuple[int, int], ...], int] = {}  # coefficients -> the least constant with which they are >= 0
        self._cases: list[Either] = []
        self._chosen: set[Choose] = set()  # choices of which a case is assumed
        self._defined = 0  # atoms whose definition has been added
        for premise in premises:
            self.assume(premise)

    def extended(self, premises: Iterable[Formula]) -> "System":
        made = System()
        made.contradictory = self.contradictory
        made._numbers, made._atoms = dict(self._numbers), list(self._atoms)
        made._solved, made._least = dict(self._solved), dict(self._least)
        made._cases, made._chosen, made._defined = list(self._cases), set(self._chosen), self._defined
        for premise in premises:
            made.assume(premise)
        return made

    def assume(self, formula: Formula) -> None:
        match formula:
            case Compare("ge", form):
                self._at_least(self._row(form))
            case Compare("eq", form):
                self._equal(self._row(form))
            case Compare(_, form):
                self._cases.append(_different(form))
            case Both(parts):
                for part in parts:
                    self.assume(part)
            case Either(()):
                self.contradictory = True
            case Either((only,)):
                self.assume(only)
            case Either():
                self._cases.append(formula)

    def entails(self, formula: Formula) -> bool:
        """Whether the formula holds wherever the conjunction does; False where that is not found out."""
        if self.contradictory:
            return True
        match formula:
            case Compare("ge", form):
                if self._at_hand(form):
                    return True
            case Compare("eq", form):
                constant, coefficients = self._reduced(self._row(form))
                if not coefficients:
                    return constant == 0 or self.impossible()
                return self.entails(Compare("ge", form)) and self.entails(Compare("ge", scale(form, -1)))
            case Both(parts):
                return all(self.entails(part) for part in parts)
            case _:
                pass
        return self.extended([negate(formula)]).impossible()

    def impossible(self, splits: int = _MOST_SPLITS) -> bool:
        """Whether no integers satisfy the conjunction; False where that is not found out."""
        if self.contradictory:
            return True
        self._rename()
        self._define()
        if self.contradictory or self._eliminated():
            return True
        if self._congruent() and self.impossible(splits):
            return True
        if not splits:
            return False
        return any(all(part.impossible(splits - 1) for part in parts) for parts in self._splits(splits))

    def _splits(self, most: int) -> Iterator[list["System"]]:
        """Ways to tell cases apart: each a list of systems one of which holds."""
        combined[0] += len(self._least)
        for case in self._cases[:most]:
            parts = [self.extended([part]) for part in case.parts]
            for part in parts:
                part._cases.remove(case)
            yield parts
        choices = [one for one in self._atoms if isinstance(one, Choose) and one not in self._chosen]
        for choice in choices[:most]:
            value = atom(choice)
            taken = self.extended([choice.condition, Compare("eq", add(value, choice.yes, -1))])
            other = self.extended([negate(choice.condition), Compare("eq", add(value, choice.no, -1))])
            taken._chosen.add(choice)
            other._chosen.add(choice)
            yield [taken, other]

    def solved(self, form: Linear) -> Linear:
        """The form with what the equations determine replaced."""
        constant, coefficients = self._reduced(self._row(form))
        made = Linear(constant)
        for variable, coefficient in coefficients.items():
            made = add(made, atom(self._atoms[variable]), coefficient)
        return made

    # ------------------------------------------------------------------------------------------------------------- rows

    def _row(self, form: Linear) -> Row:
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
        constant, key = _tight(constant, coefficients)
        if constant >= self._least.get(key, constant + 1):
            return
        self._least[key] = constant
        opposite = self._least.get(tuple((variable, -coefficient) for variable, coefficient in key))
        if opposite is not None and constant + opposite <= 0:  # at least and at most the same number
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
        pivot = next((v for v in sorted(coefficients, key=self._solves_late) if abs(coefficients[v]) == 1), None)
        if pivot is None:
            self._at_least((constant, coefficients))
            self._at_least((-constant, {v: -c for v, c in coefficients.items()}))
            return
        sign = -coefficients.pop(pivot)
        self._solved[pivot] = (sign * constant, {v: sign * c for v, c in coefficients.items()})
        for variable, solved in self._solved.items():
            if pivot in solved[1]:
                self._solved[variable] = self._reduced(solved)
        old, self._least = self._least, {}
        for key, least in old.items():
            self._at_least((least, dict(key)))

    def _solves_late(self, variable: int) -> tuple[bool, int]:
        """Symbols are solved for before what has a definition of its own."""
        return not isinstance(self._atoms[variable], Symbol), -variable

    def _at_hand(self, form: Linear) -> bool:
        """Whether `form >= 0` is one of the inequalities, or follows from one by its constant."""
        constant, coefficients = self._reduced(self._row(form))
        if not coefficients:
            return constant >= 0
        constant, key = _tight(constant, coefficients)
        return self._least.get(key, constant + 1) <= constant

    # ------------------------------------------------------------------------------------------------------------- atoms

    def _define(self) -> None:
        """Adds what is known of the atoms that are no symbols."""
        while self._defined < len(self._atoms):
            one = self._atoms[self._defined]
            self._defined += 1
            match one:
                case Floor(form, divisor):
                    rest = add(form, atom(one), -divisor)
                    self.assume(Compare("ge", rest))
                    self.assume(Compare("ge", add(Linear(divisor - 1), rest, -1)))
                case Apply(function, _) if function.rpartition(".")[2] in RANGES:
                    least, most = RANGES[function.rpartition(".")[2]]
                    self.assume(Compare("ge", add(atom(one), Linear(-least))))
                    self.assume(Compare("ge", add(Linear(most), atom(one), -1)))
                case _:
                    pass

    def _rename(self) -> None:
        """What is made of equal values is equal: each atom is equal to the one whose parts the equations have replaced."""
        for one in list(self._atoms):
            parts = _parts(one)
            if any(self._numbers.get(part) in self._solved for part in parts):
                made = substitute(atom(one), {part: self.solved(atom(part)) for part in parts})
                self.assume(Compare("eq", add(atom(one), made, -1)))

    def _congruent(self) -> bool:
        """Sets values of one function equal whose arguments are; whether that was news."""
        applied = [one for one in self._atoms if isinstance(one, Apply)]
        found = False
        combined[0] += len(applied) ** 2
        for left, right in combinations(applied, 2):
            if left.function != right.function or len(left.arguments) != len(right.arguments):
                continue
            if self._equal_at_hand(atom(left), atom(right)):
                continue
            pairs = zip(left.arguments, right.arguments, strict=True)
            if all(self._equal_at_hand(one, other) for one, other in pairs):
                self.assume(Compare("eq", add(atom(left), atom(right), -1)))
                found = True
        return found

    def _equal_at_hand(self, one: Linear, other: Linear) -> bool:
        """Whether the equations, or two inequalities, say that the two are equal: no search, as this is asked while one is under way."""
        difference = add(one, other, -1)
        constant, coefficients = self._reduced(self._row(difference))
        if not coefficients:
            return constant == 0
        return self._at_hand(difference) and self._at_hand(scale(difference, -1))

    # ------------------------------------------------------------------------------------------------------- elimination

    def _eliminated(self) -> bool:
        """Whether the inequalities contradict each other."""
        rows = dict(self._least)
        while rows:
            combined[0] += len(rows)
            variable = _cheapest(rows)
            if variable is None:
                return False
            made: dict[tuple[tuple[int, int], ...], int] = {}
            lower: list[tuple[int, int, dict[int, int]]] = []
            upper: list[tuple[int, int, dict[int, int]]] = []
            for key, constant in rows.items():
                coefficients = dict(key)
                factor = coefficients.pop(variable, 0)
                if factor:
                    (lower if factor > 0 else upper).append((abs(factor), constant, coefficients))
                else:
                    made[key] = min(constant, made.get(key, constant))
            combined[0] += len(lower) * len(upper)
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
                            return True
                        continue
                    least, key = _tight(sum_, total)
                    if least < made.get(key, least + 1):
                        made[key] = least
            if len(made) > _MOST_ROWS:
                return False
            rows = made
        return False


def _tight(constant: int, coefficients: dict[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The inequality divided by the common factor of its coefficients, its constant rounded down."""
    divisor = gcd(*coefficients.values())
    if divisor == 1:
        return constant, tuple(sorted(coefficients.items()))
    return constant // divisor, tuple(sorted((v, c // divisor) for v, c in coefficients.items()))


def _cheapest(rows: Iterable[tuple[tuple[int, int], ...]]) -> int | None:
    """The variable whose elimination adds the fewest inequalities."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for key in rows:
        for variable, coefficient in key:
            side = lower if coefficient > 0 else upper
            side[variable] = side.get(variable, 0) + 1
    variables = lower.keys() | upper.keys()
    if not variables:
        return None
    return min(variables, key=lambda v: (lower.get(v, 0) * upper.get(v, 0) - lower.get(v, 0) - upper.get(v, 0), v))


@lru_cache(4096)
def _parts(one: Atom) -> frozenset[Symbol]:
    """The symbols inside of an atom."""
    return frozenset() if isinstance(one, Symbol) else symbols_of(atom(one))


def _different(form: Linear) -> Either:
    return Either((Compare("ge", add(form, Linear(-1))), Compare("ge", add(Linear(-1), form, -1))))
