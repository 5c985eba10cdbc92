"""The properties of atoms other than symbols: quotients, choices, functions, products.

`d * floor(f / d) <= f <= d * floor(f / d) + d - 1`; a quotient of a quotient is one quotient; a choice between two numbers is between
them; functions are congruent. About products only this is known: two non-negative numbers have a non-negative product, which is applied
to inequalities whose products consist of existing terms; and a machine product equals the exact one if that is in the range of its type.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, permutations
from math import inf

from pipec.verify.inequalities import Inequality, Row, allowed, combined, variables_of
from pipec.verify.renaming import Renaming
from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    REMAINDER,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Linear,
    Product,
    add,
    atom,
    computed_in,
    divided_further,
    factors_of,
    is_larger,
    is_quotient,
    is_smaller,
    product,
    scale,
    text_of,
)

_FAR = 1 << 128  # an unbounded value
_LARGE = 1 << 30  # the constant of a bound by type: its products are useless
_MOST_WITHIN = 2  # nesting of products whose inner one is known through its factors
_MOST_OF_A_FACTOR = 4  # terms of an inequality that is multiplied with others
_MOST_COMPARED = 12  # pairs of quotients that are factors
_MOST_MULTIPLIED = 18  # inequalities, the shortest ones


class Definitions(Renaming):
    """Inequalities, with those that follow from the definitions of their atoms."""

    def __init__(self) -> None:
        super().__init__()
        self._defined = 0  # atoms whose definition has been added
        self._looked = 0, 0, 0  # what was known when no value was found that more can be said of
        # Forms whose range has been computed by elimination, with what was known then: only once, as that is expensive.
        self._far: set[tuple[object, ...]] = set()
        self._divided: list[Apply] = []  # quotients and remainders whose divisor is not known to be at least 1
        self._multiples: list[Apply] = []  # quotients that are multiplied by their divisor
        self._implied: list[Either] = []  # cases of which one is assumed when the others are refuted; none is tried
        # How many atoms there were, and how much had been learnt, when products of inequalities were last found to be no news.
        self._exhausted: tuple[int, int] | None = None
        self._wrapping: list[Apply] = []  # numbers and products of a machine type that are not known to be in its range

    def _nearby(self, form: Linear) -> bool:
        raise NotImplementedError

    def _define(self) -> None:
        """Adds the definitions of atoms other than symbols."""
        while self._looked != self._known():
            while self._defined < len(self._atoms):
                self._defined += 1
                self._define_one(self._atoms[self._defined - 1])
            known = self._known()
            wrapping = list(self._wrapping)
            quotients = (
                [one for one in self._atoms[: self._defined] if is_quotient(one) and one not in self._divided] if wrapping else []
            )
            for one in wrapping:
                self._bound_turns(one, quotients)
                made = product(*map(self._shorter, one.arguments)) if len(one.arguments) == 2 else one.arguments[0]
                least, most = RANGES[one.function.rpartition(".")[2]]
                for exact in dict.fromkeys((made, _of_products(made, most - least) if len(one.arguments) == 1 else made)):
                    if self._reaches(exact, least) and self._reaches(scale(exact, -1), -most):
                        self._wrapping.remove(one)
                        self.assume(Compare("eq", add(atom(one), exact, -1)))
                        break
            # (Then more is known of what is divided.)
            for one in list(self._divided):
                if self._reaches(one.arguments[1], 1):
                    self._divided.remove(one)
                    if one.function == QUOTIENT:
                        self._define_quotient(one)
                    else:
                        self.assume(Compare("ge", add(add(one.arguments[1], Linear(-1)), atom(one), -1)))
            for one in list(self._multiples):
                if one not in self._divided:
                    self._multiples.remove(one)
                    left = add(one.arguments[0], product(atom(one), one.arguments[1]), -1)
                    self.assume(Compare("ge", left))
                    self.assume(Compare("ge", add(add(one.arguments[1], Linear(-1)), left, -1)))
            # The value of one of them may determine the range of another.
            if self._defined == len(self._atoms) and len(wrapping) == len(self._wrapping):
                self._looked = known
                return

    def _known(self) -> tuple[int, int, int]:
        """What ranges are computed from: how much has been learnt, and of how many values."""
        return self._learnt, len(self._atoms), self._defined

    def _define_one(self, one: Atom) -> None:
        match one:
            case Floor(form, divisor):
                rest = add(form, atom(one), -divisor)
                self.assume(Compare("ge", rest))
                self.assume(Compare("ge", add(Linear(divisor - 1), rest, -1)))
                for other in self._atoms[: self._defined - 1]:
                    if isinstance(other, Floor):
                        self._divided_again(one, other)
            case Choose(_, yes, no):
                # Often sufficient; otherwise the two cases would have to be split. (Others would only be multiplied.)
                for bound, sign in zip(_chosen(one, *map(self._between, (yes, no))), (1, -1), strict=True):
                    if _LARGE <= abs(bound) < inf or not (yes.terms or no.terms):
                        self.assume(Compare("ge", scale(add(atom(one), Linear(-int(bound))), sign)))
                if is_smaller(one) or is_larger(one):
                    self._number_computed((atom(one),))
                    sign = 1 if is_larger(one) else -1
                    for each in (yes, no):
                        self.assume(Compare("ge", add(scale(atom(one), sign), each, -sign)))
            case Apply(function, arguments) if function.rpartition(".")[2] in RANGES:
                operation, _, kind = function.rpartition(".")
                least, most = RANGES[kind]
                self.assume(Compare("ge", add(atom(one), Linear(-least))))
                self.assume(Compare("ge", add(Linear(most), atom(one), -1)))
                if (operation, len(arguments)) in (("", 1), ("mul.lo", 2)):
                    self._wrapping.append(one)
                else:
                    self._number_computed(arguments)
            case Apply(name, (form, _)) if name == QUOTIENT:
                # What is known of these comes first.
                for part, _ in form.terms:
                    self._number(part)
                self._divided.append(one)
            case Product((first, second)):
                for quotient, by in ((first, second), (second, first)):
                    # (By the divisor, or by what that is a multiple of.)
                    if is_quotient(quotient) and [part for part, _ in quotient.arguments[1].terms] == [by]:
                        self._number(quotient)
                        self._multiples.append(quotient)
            case Apply(name, (_, _)) if name == REMAINDER:
                self.assume(Compare("ge", atom(one)))
                self._divided.append(one)
            case _:
                pass

    def _bound_turns(self, one: Apply, quotients: Sequence[Apply]) -> None:
        """A size times a number that is no more than a quotient by that size: it is no more than what is divided. So far a walk over tiles
        comes whose turns are counted."""
        if len(one.arguments) != 2:
            return
        for size, turns in permutations(one.arguments):
            for other in quotients:
                if other.arguments[1] == size and self._at_hand(add(atom(other), turns, -1)):
                    self.assume(Compare("ge", add(other.arguments[0], product(size, turns), -1)))

    def _number_computed(self, arguments: Iterable[Linear]) -> None:
        """What the machine computes of where something is loaded, say, is exact where that is in range: loads are compared by it."""
        for form in arguments:
            for part in sorted(computed_in(form), key=text_of):
                self._number(part)

    def _define_quotient(self, one: Apply) -> None:
        """Bounds a quotient by a divisor of at least 1: it is between 0, or -1, and the dividend."""
        form, value = one.arguments[0], atom(one)
        for other in self._atoms[: self._defined]:
            for fine, coarse in ((one, other), (other, one)) if is_quotient(other) else ():
                if (found := divided_further(fine, coarse)) is not None:
                    self.assume(Compare("ge", found[0]))
                    self.assume(Compare("ge", add(Linear(found[1]), found[0], -1)))
        least, most = self._between(form)
        exact = self._exactly(form)
        if self._reaches(add(exact, one.arguments[1]), 0):
            least = max(least, -1)
        for bound, sign in ((min(least, 0), 1), (max(most, 0), -1)):
            if abs(bound) < inf:
                self.assume(Compare("ge", scale(add(value, Linear(-int(bound))), sign)))
        # Without the subtracted terms: a bound that can be multiplied by the coefficient of a block index.
        whole = Linear(exact.constant, tuple((part, n) for part, n in exact.terms if n > 0 or not self._at_hand(atom(part))))
        bounds = tuple(Compare("ge", add(most_, value, -1)) for most_ in dict.fromkeys((form, whole)))
        upwards = Both((Compare("ge", value), *bounds))
        downwards = Both((Compare("ge", add(Linear(-1), value, -1)), Compare("ge", add(value, form, -1))))
        self.assume(Either((upwards, downwards)))
        # It is at least 1 if the divisor is at most the dividend. (This is not tried as a case: there would be three instead of two.)
        left = add(form, one.arguments[1], -1)
        self._implied.append(Either((Compare("ge", scale(value, -1)), Compare("ge", left))))
        self._implied.append(Either((Compare("ge", add(value, Linear(-1))), Compare("ge", add(Linear(-1), left, -1)))))

    def _shorter(self, form: Linear) -> Linear:
        """The form, or what it is equal to if that has as many parts and no products: of such a factor more may be known."""
        made = self.solved(form)
        return form if len(made.terms) > len(form.terms) or any(isinstance(one, Product) for one, _ in made.terms) else made

    def _exactly(self, form: Linear) -> Linear:
        """The form with what the machine computes replaced by the exact number, where the two are known to be equal."""
        made = Linear(form.constant)
        for one, times in form.terms:
            match one:
                case Apply(kind, (inner,)) if kind in RANGES and self._is_exact(one):
                    made = add(made, self._exactly(inner), times)
                case _:
                    made = add(made, atom(one), times)
        return made

    def _is_exact(self, one: Apply) -> bool:
        """Whether its definition has been added, and it is no more among those of which it is open whether the machine reduces them."""
        return self._numbers.get(one, self._defined) < self._defined and one not in self._wrapping

    def _divided_again(self, one: Floor, other: Floor) -> None:
        """`floor((f + d * g) / (d * n))` is `floor((floor(f / d) + g) / n)`: an integer relation, whereas the definitions in terms of
        `f` alone leave a fraction undetermined."""
        coarse, fine = (one, other) if one.divisor > other.divisor else (other, one)
        times, rest = divmod(coarse.divisor, fine.divisor)
        apart = add(coarse.form, fine.form, -1)
        if rest or times == 1 or apart.constant % fine.divisor or any(number % fine.divisor for _, number in apart.terms):
            return
        whole = Linear(apart.constant // fine.divisor, tuple((each, number // fine.divisor) for each, number in apart.terms))
        left = add(add(atom(fine), whole), atom(coarse), -times)
        self.assume(Compare("ge", left))
        self.assume(Compare("ge", add(Linear(times - 1), left, -1)))

    def _reaches(self, form: Linear, least: int) -> bool:
        """Whether the form is at least this large, according to known inequalities, or to the bounds of its terms."""
        if self._at_hand(add(form, Linear(-least))) or self._between(form)[0] >= least:
            return True
        multiplied = any(isinstance(one, Product) for one, _ in self.solved(form).terms)
        asked = (form, len(self._solved), len(self._least)) if multiplied else (form, *self._known_of(form))
        if asked in self._far:
            return False
        self._far.add(asked)
        if multiplied:
            for one, _ in form.terms:
                self._number(one)
            self._multiply()
            return self._excluded(add(Linear(least - 1), form, -1))
        return self._nearby(add(form, Linear(-least)))

    def _known_of(self, form: Linear) -> Iterator[int]:
        """The constants of the inequalities that its terms are in: others if more is known of it."""
        terms = self._reduced(self._row(form))[1].keys()
        return (constant for key, constant in self._least.items() if not terms.isdisjoint(variables_of(key)))

    def _between(self, form: Linear, asked: frozenset[Atom] = frozenset()) -> tuple[float, float]:
        """`asked`: the quotients and choices whose bounds are being computed."""
        low: float = form.constant
        high: float = form.constant
        for one, times in form.terms:
            least, most = self._bounds(one, asked)
            low, high = low + times * (least if times > 0 else most), high + times * (most if times > 0 else least)
        return low, high

    def _bounds(self, one: Atom, asked: frozenset[Atom] = frozenset(), *, within: int = 0) -> tuple[float, float]:
        """Finite bounds are integers, and thus exact. `within`: the nesting of products whose bounds are being computed."""
        # The parts of a value may consist of the others, each of which is visited on every path to it.
        combined.value += bool(asked or within)
        if combined.value > allowed.value:
            return -inf, inf
        constant, coefficients = self._reduced(self._row(atom(one)))
        low: float = constant
        high: float = constant
        for variable, times in coefficients.items():
            least, most = self._least.get(((variable, 1),)), self._least.get(((variable, -1),))
            from_ = -inf if least is None or least > _FAR else min(-least, _FAR)
            to = inf if most is None or most > _FAR else max(most, -_FAR)
            known = self._atoms[variable]
            if isinstance(known, Product) and within < _MOST_WITHIN:
                down, up = _corners([self._bounds(each, asked, within=within + 1) for each in known.factors])
                from_, to = max(from_, down), min(to, up)
            elif isinstance(known, Floor) and known not in asked and (from_ == -inf or to == inf):
                # No inequality bounds it directly; the dividend may be bounded.
                down, up = self._divided_between(known, asked | {known})
                from_, to = max(from_, down), min(to, up)
            elif isinstance(known, Choose) and known not in asked and (from_ == -inf or to == inf):
                down, up = _chosen(known, *(self._between(each, asked | {known}) for each in (known.yes, known.no)))
                from_, to = max(from_, down), min(to, up)
            elif isinstance(known, Apply) and (kind := known.function.rpartition(".")[2]) in RANGES:
                from_, to = max(from_, RANGES[kind][0]), min(to, RANGES[kind][1])
            elif is_quotient(known) and known not in asked:
                # The dividend may be bounded by now.
                down, up = self._quotient_between(known, asked | {known})
                from_, to = max(from_, down), min(to, up)
            low, high = low + times * (from_ if times > 0 else to), high + times * (to if times > 0 else from_)
        return low, high

    def _quotient_between(self, one: Apply, asked: frozenset[Atom]) -> tuple[float, float]:
        form, divisor = one.arguments
        if not self._at_hand(add(divisor, Linear(-1))):
            return -inf, inf
        down, up = self._between(form, asked)
        return max(min(down, 0), -1) if self._at_hand(add(form, divisor)) else min(down, 0), max(up, 0)

    def _divided_between(self, one: Floor, asked: frozenset[Atom]) -> tuple[float, float]:
        low, high = self._between(one.form, asked)
        least, most = _divided(low, one.divisor), _divided(high, one.divisor)
        # Whether a block has tiles left, for example, is known only for the sum.
        if least < 1 and self._at_hand(add(one.form, Linear(-one.divisor))):
            least = 1
        if most > 0 and self._at_hand(add(Linear(one.divisor - 1), one.form, -1)):
            most = 0
        return least, most

    def _least_of(self, factor: Atom) -> float:
        """A lower bound of a quotient or a choice, which may not follow from a single inequality."""
        match factor:
            case Floor():
                return self._divided_between(factor, frozenset())[0]
            case Choose(_, yes, no):
                return min(self._between(yes)[0], self._between(no)[0])
            case Product():
                return self._bounds(factor)[0]
            case _:
                return -inf

    def _multiply(self) -> bool:
        """Adds products of inequalities about factors; returns whether there are any products."""
        products = [one for one in self._atoms if isinstance(one, Product)]
        before = len(self._atoms), self._learnt
        if products and before != self._exhausted:
            self._multiply_all(products)
            if before == (len(self._atoms), self._learnt):
                self._exhausted = before
        return bool(products)

    def _multiply_all(self, products: Sequence[Product]) -> None:
        factors = {factor for one in products for factor in factors_of(one)}
        for shared in _shared(products):
            self._number(shared)
        beside: dict[Atom, set[Atom]] = {one: set() for one in factors}
        for each in self._atoms:
            for one, other in permutations(each.factors, 2) if isinstance(each, Product) else ():
                beside[one].add(other)
        divided = sorted((one for one in factors if isinstance(one, Floor)), key=text_of)
        for each in sorted((one for one in factors if isinstance(one, Floor) or is_quotient(one)), key=text_of):
            self._number(each)
        for one, other in [*permutations(divided, 2)][:_MOST_COMPARED]:
            # The number of completed iterations and the total: related through their dividends, and needed as factors.
            if one.divisor == other.divisor and beside[one] & beside[other]:
                apart = add(atom(one), atom(other), -1)
                near = next((more for more in (-1, 0, 1) if self._nearby(add(apart, Linear(more)))), None)
                if near is not None:
                    self.assume(Compare("ge", add(apart, Linear(near))))
        for factor in sorted(factors & self._numbers.keys(), key=self._number):
            least = self._least_of(factor)
            if least > -inf:
                self.assume(Compare("ge", add(atom(factor), Linear(-int(least)))))
            if isinstance(factor, Floor) and self._divided_between(factor, frozenset())[1] == 0:
                self.assume(Compare("ge", scale(atom(factor), -1)))
        made_of = {
            tuple(sorted(map(self._number, one.factors))): n
            for n, one in enumerate(list(self._atoms))
            if isinstance(one, Product)
        }
        self._multiply_larger(made_of)
        # The product of two factors is a factor of products of three, about which something is known after the first round.
        for _ in range(max(map(len, made_of)) - 1):
            rows, multiplied = [], {self._numbers[one] for one in factors if one in self._numbers}
            for key, constant in self._least.items():
                if constant < _LARGE and len(key) <= _MOST_OF_A_FACTOR and variables_of(key) <= multiplied:
                    rows.append((constant, key))
            rows = sorted(rows, key=lambda row: len(row[1]))[:_MOST_MULTIPLIED]
            combined.value += len(rows) ** 2
            made_from = {variable: self._factors(variable) for variable in {each for _, key in rows for each, _ in key}}
            for left, right in combinations_with_replacement(rows, 2):
                row = _multiplied(left, right, made_of, made_from)
                if row is not None:
                    self._at_least(row)

    def _multiply_larger(self, made_of: dict[tuple[int, ...], int]) -> None:
        """Of a product x * y and one of larger numbers, x <= X + m and y <= Y + n: where X and y are not negative,
        `X * (Y + n - y) + y * (X + m - x)` is not either, in which X * y, which may be no value yet, drops out."""
        above: dict[int, list[tuple[int, int]]] = {}
        for key, constant in self._least.items():
            if len(key) == 2 and constant < _LARGE and key[0][1] * key[1][1] == -1:
                smaller, larger = (key[0][0], key[1][0]) if key[0][1] < 0 else (key[1][0], key[0][0])
                above.setdefault(smaller, []).append((larger, constant))
        for factors, made in [*made_of.items()] if above else ():
            for x, y in permutations(factors) if len(factors) == 2 else ():
                for (larger, m), (other, n) in ((one, two) for one in above.get(x, ()) for two in above.get(y, ())):
                    combined.value += 1
                    found = made_of.get(tuple(sorted((*self._factors(larger), *self._factors(other)))))
                    if found is not None and all(self._least.get(((each, 1),), 1) <= 0 for each in (larger, y)):
                        row = {found: 1, made: -1}
                        for each, times in ((larger, n), (y, m)):
                            row[each] = row.get(each, 0) + times
                        self._at_least((0, {each: times for each, times in row.items() if times}))

    def _factors(self, variable: int) -> tuple[int, ...]:
        one = self._atoms[variable]
        return tuple(map(self._number, one.factors)) if isinstance(one, Product) else (variable,)

    def _congruent(self, among: Callable[[Atom], bool] = lambda _: True) -> bool:
        """Sets values of one function equal whose arguments are; whether that was news."""
        applied = [one for one in self._atoms if isinstance(one, Apply) and among(one)]
        found = False
        combined.value += len(applied) ** 2
        for left, right in combinations(applied, 2):
            if left.function != right.function or len(left.arguments) != len(right.arguments):
                continue
            if self._equal_at_hand(atom(left), atom(right)):
                continue
            apart = self._apart(left, right)
            if apart is not None and not self._equal_at_hand(atom(left), add(atom(right), Linear(apart))):
                self.assume(Compare("eq", add(add(atom(left), atom(right), -1), Linear(-apart))))
                found = True
        return found

    def _apart(self, left: Apply, right: Apply) -> int | None:
        """The difference of two values of a function that follows from its definition; None if unknown."""
        pairs = list(zip(left.arguments, right.arguments, strict=True))
        if all(self._equal_at_hand(one, other) for one, other in pairs):
            return 0
        if left.function != QUOTIENT or len(pairs) != 2 or not self._equal_at_hand(*pairs[1]):
            return None
        (one, other), (divisor, _) = pairs
        if not self._at_hand(add(divisor, Linear(-1))):
            return None
        return next((times for times in (1, -1) if self._equal_at_hand(one, add(other, divisor, times))), None)


def _multiplied(
    left: Inequality, right: Inequality, made_of: dict[tuple[int, ...], int], factors: dict[int, tuple[int, ...]]
) -> Row | None:
    """The product of two inequalities, if its terms exist. `made_of`: factors -> the variable of their product; `factors`: those of each
    variable."""
    (constant, terms), (other, others) = left, right
    row: dict[int, int] = {}
    for variable, times in terms:
        for another, more in others:
            found = made_of.get(tuple(sorted((*factors[variable], *factors[another]))))
            if found is None:
                return None
            row[found] = row.get(found, 0) + times * more
    for each, by in ((terms, other), (others, constant)):
        for variable, times in each:
            row[variable] = row.get(variable, 0) + times * by
    return constant * other, {variable: times for variable, times in row.items() if times}


def _of_products(form: Linear, width: int) -> Linear:
    """The form with exact products of quotients and their divisors in place of those that the machine reduces to types of at least this
    width: it differs by a multiple of 2^32, say, so that what it is reduced to, in a type of 32 bits, is the same number."""
    made = Linear(form.constant)
    for one, times in form.terms:
        match one:
            case Apply(function, (left, right)) if function.startswith("mul.lo.") and _is_multiple(left, right):
                least, most = RANGES[function.rpartition(".")[2]]
                made = add(made, product(left, right) if most - least >= width else atom(one), times)
            case _:
                made = add(made, atom(one), times)
    return made


def _is_multiple(left: Linear, right: Linear) -> bool:
    """Whether one is a quotient by the other."""
    return any(
        len(form.terms) == 1 and not form.constant and is_quotient(form.terms[0][0]) and form.terms[0][0].arguments[1] == by
        for form, by in ((left, right), (right, left))
    )


def _shared(products: Iterable[Product]) -> list[Atom]:
    """Common parts of two products that differ in one factor: `N * K`, by which `M - i` is multiplied in `M * N * K - i * N * K`."""
    found = Counter(some for one in products for some in factors_of(one) if isinstance(some, Product))
    return sorted((some for some, times in found.items() if times > 1), key=text_of)


def _divided(bound: float, divisor: int) -> float:
    return bound if abs(bound) == inf else bound // divisor


def _chosen(known: Choose, yes: tuple[float, float], no: tuple[float, float]) -> tuple[float, float]:
    """The bounds of a choice between two numbers with these bounds."""
    least = max(yes[0], no[0]) if is_larger(known) else min(yes[0], no[0])
    most = min(yes[1], no[1]) if is_smaller(known) else max(yes[1], no[1])
    return least, most


def _corners(bounds: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The bounds of the product of numbers with these bounds."""
    least: float = 1
    most: float = 1
    for low, high in bounds:
        # (In floating point, zero times infinity is NaN.)
        corners = [one * other if one and other else 0 for one in (least, most) for other in (low, high)]
        least, most = min(corners), max(corners)
    return least, most
