"""A decision procedure for conjunctions over the integers: sound, and complete enough for protocols.

Equations are solved where a coefficient is 1 or -1 (Gauss), the inequalities that remain are eliminated one variable after the other
(Fourier and Motzkin), each divided by the common factor of its coefficients and rounded towards the feasible side. What is derived so
holds for all integers; that nothing is derived proves nothing, and the answer is then "not entailed".

Atoms other than symbols are variables with a definition: `d * floor(f / d) <= f <= d * floor(f / d) + d - 1`; a choice is one of two cases;
equal arguments give equal values of a function. Of products only this is known: two numbers that are not negative have a product that is
not, which is said of inequalities whose products are made of values that already occur; and what the machine multiplies is the product
where that is in the range of its type.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import gcd, inf

from pipec.verify.terms import (
    FALSE,
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
    Product,
    Symbol,
    add,
    atom,
    negate,
    product,
    scale,
    substitute,
    symbols_of,
)

_MOST_ROWS = 150  # of inequalities while variables are eliminated
_MOST_SPLITS = 3  # nested cases of one question
_NEAR = 3  # steps from one inequality to others about its values, before all are looked at
_MOST_TURNS = 3  # in which what has been found out settles cases, and these what else holds

_ASSUMED = 7  # what it costs to add a formula, in combinations of inequalities
_LOOKED_AT = 3  # to see whether an atom has parts to replace
_RENAMED = 10  # what it costs to replace parts of a value, in combinations of inequalities
_FAR = 1 << 128  # a bound that says nothing
_MOST_OF_A_FACTOR = 4  # values in an inequality that is multiplied with others
_MOST_MULTIPLIED = 18  # inequalities, the shortest ones

# How often two inequalities have been combined, in all: what a search counts to know when it has taken too long.
combined = [0]

# constant + sum of coefficient * variable; a variable is the number of an atom.
Row = tuple[int, dict[int, int]]
Key = tuple[tuple[int, int], ...]  # coefficients, sorted by their variables
Inequality = tuple[int, Key]


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
        self._far: set[Linear] = set()  # forms whose range has been asked for by elimination: once, as that takes long
        self._equations = 0  # solved so far
        self._renamed, self._renamed_with = 0, 0  # atoms whose parts have been replaced, by so many equations
        self._wrapping: list[Apply] = []  # numbers and products in a type of the machine that are not known to be in its range
        for premise in premises:
            self.assume(premise)

    def extended(self, premises: Iterable[Formula]) -> "System":
        made = System()
        made.contradictory = self.contradictory
        made._numbers, made._atoms = dict(self._numbers), list(self._atoms)
        made._solved, made._least = dict(self._solved), dict(self._least)
        made._cases, made._chosen, made._defined = list(self._cases), set(self._chosen), self._defined
        made._wrapping, made._far = list(self._wrapping), set(self._far)
        made._equations, made._renamed, made._renamed_with = self._equations, self._renamed, self._renamed_with
        for premise in premises:
            made.assume(premise)
        return made

    def assume(self, formula: Formula) -> None:
        combined[0] += _ASSUMED
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
                if self._at_hand(form) or self._nearby(form) or self.closed()._nearby(form):
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
        self._propagate()
        self._multiply()
        if self.contradictory or self._eliminated():
            return True
        if self._congruent() and self.impossible(splits):
            return True
        if not splits:
            return False
        return any(all(part.impossible(splits - 1) for part in parts) for parts in self._splits(splits))

    def closed(self) -> "System":
        """Itself, with what is known of its values added: what extends it need not find that out again."""
        self._propagate()
        return self

    def _nearby(self, form: Linear) -> bool:
        """Whether `form >= 0` follows from the inequalities about its own values, and about those that stand beside them: most that is
        asked does, and what else is known would only be eliminated."""
        if self.contradictory:
            return True
        constant, coefficients = self._reduced(self._row(add(Linear(-1), form, -1)))
        if not coefficients:
            return constant < 0
        least, key = _tight(constant, coefficients)
        rows = {key: min(least, self._least.get(key, least))}
        met = {variable for variable, _ in key}
        for _ in range(_NEAR):
            near = [(one, constant) for one, constant in self._least.items() if any(variable in met for variable, _ in one)]
            combined[0] += len(near)
            rows = {**dict(near), **rows}
            if _contradict(rows):
                return True
            met.update(variable for one, _ in near for variable, _ in one)
        return False

    def _propagate(self) -> None:
        """Adds what is known of atoms, and what follows of cases and choices at hand; that may bring in further atoms."""
        # What has been renamed stays so as long as no further equation replaces anything.
        known = self._renamed if self._equations == self._renamed_with else 0
        for _ in range(_MOST_TURNS):
            self._renamed, self._renamed_with = len(self._atoms), self._equations
            self._rename(known)
            self._define()
            known = len(self._atoms)
            if self.contradictory or not (self._settled() or len(self._atoms) > known):
                return

    def _settled(self) -> bool:
        """Assumes the part of a case that is left when the others are refuted at hand, and of a choice the side that is; whether there was
        any such. Without this, telling cases apart would take as many turns as there are cases, each twice as long as the one before."""
        found = False
        for case in list(self._cases):
            left = [part for part in case.parts if not self._refuted(part)]
            if len(left) < 2:
                self._cases.remove(case)
                self.assume(left[0] if left else FALSE)
                found = True
        for one in self._atoms:
            if isinstance(one, Choose) and one not in self._chosen:
                for condition, value in ((one.condition, one.no), (negate(one.condition), one.yes)):
                    if self._refuted(condition):
                        self._chosen.add(one)
                        self.assume(Compare("eq", add(atom(one), value, -1)))
                        found = True
                        break
        return found

    def _refuted(self, formula: Formula) -> bool:
        """Whether what is at hand contradicts the formula."""
        match formula:
            case Compare("ge", form):
                return self._at_hand(add(Linear(-1), form, -1))
            case Compare("eq", form):
                return self._at_hand(add(form, Linear(-1))) or self._at_hand(add(Linear(-1), form, -1))
            case Compare(_, form):
                return self._equal_at_hand(form, Linear(0))
            case Both(parts):
                return any(self._refuted(part) for part in parts)
            case Either(parts):
                return all(self._refuted(part) for part in parts)

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
        return self._form(self._reduced(self._row(form)))

    def _form(self, row: Row) -> Linear:
        made = Linear(row[0])
        for variable, coefficient in row[1].items():
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
        pivot = self._pivot(coefficients)
        if pivot is None:
            self._at_least((constant, coefficients))
            self._at_least((-constant, {v: -c for v, c in coefficients.items()}))
            return
        self._equations += 1
        sign = -coefficients.pop(pivot)
        self._solved[pivot] = (sign * constant, {v: sign * c for v, c in coefficients.items()})
        for variable, solved in self._solved.items():
            if pivot in solved[1]:
                self._solved[variable] = self._reduced(solved)
        replaced = [key for key in self._least if any(variable == pivot for variable, _ in key)]
        for key, least in [(key, self._least.pop(key)) for key in replaced]:
            self._at_least((least, dict(key)))

    def _pivot(self, coefficients: dict[int, int]) -> int | None:
        """The variable that is solved for: none that is part of another one if possible, whose text would grow with each replacement."""
        found = [variable for variable in sorted(coefficients, key=self._solves_late) if abs(coefficients[variable]) == 1]
        inside = frozenset[Symbol]().union(*(_parts(self._atoms[variable]) for variable in coefficients))
        return next((variable for variable in found if self._atoms[variable] not in inside), found[0] if found else None)

    def _solves_late(self, variable: int) -> tuple[int, int]:
        """Symbols are solved for before what has a definition of its own, and products last."""
        one = self._atoms[variable]
        return 0 if isinstance(one, Symbol) else 2 if isinstance(one, Product) else 1, -variable

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
        while True:
            while self._defined < len(self._atoms):
                self._defined += 1
                self._define_one(self._atoms[self._defined - 1])
            wrapping = list(self._wrapping)
            for one in wrapping:
                made = product(*one.arguments) if len(one.arguments) == 2 else one.arguments[0]
                least, most = RANGES[one.function.rpartition(".")[2]]
                if self._reaches(made, least) and self._reaches(scale(made, -1), -most):
                    self._wrapping.remove(one)
                    self.assume(Compare("eq", add(atom(one), made, -1)))
            # What one of them is may tell the range of another.
            if self._defined == len(self._atoms) and len(wrapping) == len(self._wrapping):
                return

    def _define_one(self, one: Atom) -> None:
        match one:
            case Floor(form, divisor):
                rest = add(form, atom(one), -divisor)
                self.assume(Compare("ge", rest))
                self.assume(Compare("ge", add(Linear(divisor - 1), rest, -1)))
            case Choose(_, Linear(yes, ()), Linear(no, ())):
                # Often all that is asked of it; else the two cases would have to be told apart.
                self.assume(Compare("ge", add(atom(one), Linear(-min(yes, no)))))
                self.assume(Compare("ge", add(Linear(max(yes, no)), atom(one), -1)))
            case Apply(function, arguments) if function.rpartition(".")[2] in RANGES:
                operation, _, kind = function.rpartition(".")
                least, most = RANGES[kind]
                self.assume(Compare("ge", add(atom(one), Linear(-least))))
                self.assume(Compare("ge", add(Linear(most), atom(one), -1)))
                if (operation, len(arguments)) in (("", 1), ("mul.lo", 2)):
                    self._wrapping.append(one)
            case _:
                pass

    def _reaches(self, form: Linear, least: int) -> bool:
        """Whether the form is at least so much, for what is at hand of it, or of each of its values."""
        if self._at_hand(add(form, Linear(-least))) or self._between(form)[0] >= least:
            return True
        if form in self._far or not any(isinstance(one, Product) for one, _ in form.terms):
            return False
        self._far.add(form)
        beyond = self.extended([Compare("ge", add(Linear(least - 1), form, -1))])
        return beyond.contradictory or beyond._eliminated()

    def _between(self, form: Linear) -> tuple[float, float]:
        low: float = form.constant
        high: float = form.constant
        for one, times in form.terms:
            least, most = self._bounds(one)
            low, high = low + times * (least if times > 0 else most), high + times * (most if times > 0 else least)
        return low, high

    def _bounds(self, one: Atom, *, factor: bool = False) -> tuple[float, float]:
        """Whole numbers where they are finite, and so exact. `factor`: of a product, whose bounds are being asked for."""
        constant, coefficients = self._reduced(self._row(atom(one)))
        low: float = constant
        high: float = constant
        for variable, times in coefficients.items():
            least, most = self._least.get(((variable, 1),)), self._least.get(((variable, -1),))
            from_ = -inf if least is None or least > _FAR else min(-least, _FAR)
            to = inf if most is None or most > _FAR else max(most, -_FAR)
            known = self._atoms[variable]
            if isinstance(known, Product) and not factor:
                down, up = _corners([self._bounds(each, factor=True) for each in known.factors])
                from_, to = max(from_, down), min(to, up)
            low, high = low + times * (from_ if times > 0 else to), high + times * (to if times > 0 else from_)
        return low, high

    def _least_of(self, factor: Atom) -> float:
        """What a quotient or a choice is at least, as no inequality may say it alone."""
        match factor:
            case Floor(form, divisor):
                return self._between(form)[0] // divisor
            case Choose(_, yes, no):
                return min(self._between(yes)[0], self._between(no)[0])
            case _:
                return -inf

    def _multiply(self) -> None:
        """Adds products of inequalities that say something of factors."""
        factors = {factor for one in self._atoms if isinstance(one, Product) for factor in one.factors}
        if not factors:
            return
        for factor in factors:
            least = self._least_of(factor)
            if least > -inf:
                self.assume(Compare("ge", add(atom(factor), Linear(-int(least)))))
        made_of = {
            tuple(sorted(map(self._number, one.factors))): n
            for n, one in enumerate(list(self._atoms))
            if isinstance(one, Product)
        }
        rows = []
        for key, constant in self._least.items():
            if len(key) <= _MOST_OF_A_FACTOR and any(self._atoms[variable] in factors for variable, _ in key):
                rows.append((constant, key))
        rows = sorted(rows, key=lambda row: len(row[1]))[:_MOST_MULTIPLIED]
        combined[0] += len(rows) ** 2
        for left, right in combinations_with_replacement(rows, 2):
            row = self._multiplied(left, right, made_of)
            if row is not None:
                self._at_least(row)

    def _multiplied(self, left: Inequality, right: Inequality, made_of: dict[tuple[int, ...], int]) -> Row | None:
        """The product of two inequalities, where it is one of values that occur. `made_of`: factors -> the variable of their product."""
        (constant, terms), (other, others) = left, right
        row: dict[int, int] = {}
        for variable, times in terms:
            for factor, more in others:
                found = made_of.get(tuple(sorted((*self._factors(variable), *self._factors(factor)))))
                if found is None:
                    return None
                row[found] = row.get(found, 0) + times * more
        for each, by in ((terms, other), (others, constant)):
            for variable, times in each:
                row[variable] = row.get(variable, 0) + times * by
        return constant * other, {variable: times for variable, times in row.items() if times}

    def _factors(self, variable: int) -> tuple[int, ...]:
        one = self._atoms[variable]
        return tuple(map(self._number, one.factors)) if isinstance(one, Product) else (variable,)

    def _rename(self, first: int) -> None:
        """What is made of equal values is equal: each atom is equal to the one whose parts the equations have replaced. `first`: the atom
        to begin with; what this brings in is not renamed again, as that could go on for ever."""
        combined[0] += _LOOKED_AT * (len(self._atoms) - first)
        for one in self._atoms[first:]:
            parts = _parts(one)
            if any(self._numbers.get(part) in self._solved for part in parts):
                known = {part: self.solved(atom(part)) for part in parts}
                combined[0] += _RENAMED
                if _is_product(one) and any(map(_multiplies, known.values())):
                    continue  # products in products would grow with each turn
                made = substitute(atom(one), known)
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
        return _contradict(self._least)


Rows = dict[Key, int]


def _contradict(rows: Rows) -> bool:
    """Whether inequalities (coefficients -> the least constant) contradict each other: one variable after the other is eliminated."""
    while rows:
        combined[0] += len(rows)
        variable = _cheapest(rows)
        if variable is None:
            return False
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


def _corners(bounds: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Between which numbers the product of numbers between these lies."""
    least: float = 1
    most: float = 1
    for low, high in bounds:
        # (In floating point nothing times infinity is no number.)
        corners = [one * other if one and other else 0 for one in (least, most) for other in (low, high)]
        least, most = min(corners), max(corners)
    return least, most


def _multiplies(form: Linear) -> bool:
    """Whether there is a product in it."""
    return any(_is_product(one) for one, _ in form.terms)


@lru_cache(4096)
def _is_product(one: Atom) -> bool:
    match one:
        case Product() | Apply("product", _):
            return True
        case Floor(form, _):
            return _multiplies(form)
        case Choose(condition, yes, no):
            return _multiplies(yes) or _multiplies(no) or any(map(_multiplies, _forms(condition)))
        case Apply(_, arguments):
            return any(map(_multiplies, arguments))
        case _:
            return False


def _forms(formula: Formula) -> Iterator[Linear]:
    match formula:
        case Compare(_, form):
            yield form
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _forms(part)
