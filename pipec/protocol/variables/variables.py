"""The values of a network as numbered variables: its sizes and registers, and values derived from them.

A sum of sizes that only occurs as a whole (`ceil(K / 64)` and the like) is one variable, so that most queries involve few variables
whose structure does not matter. The form of each variable is kept for the certificate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, permutations
from math import gcd

from pipec.protocol.deduction.comparisons import Comparison, Condition, Connective, comparisons
from pipec.protocol.deduction.premises import Premises, combined
from pipec.protocol.deduction.rows import Row, one, plus, scaled
from pipec.protocol.forms.extents import FAR, atom_range, range_of, ranges_in, sizes_beyond
from pipec.protocol.forms.rewriting import Rewriting, computed_in
from pipec.protocol.forms.sample import function_of, known_function
from pipec.protocol.variables.known_factors import KnownFactors
from pipec.protocol.variables.meanings import Meaning, meanings_of, name_parts
from pipec.protocol.variables.rounds import goes_round, starts
from pipec.verify.network import Network, Test, edges_of
from pipec.verify.terms import (
    MOST_WRITTEN,
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
    divided_further,
    factors_of,
    forms_of,
    is_quotient,
    is_remainder,
    product,
    quotient,
    size_of,
    substitute,
    summed,
    symbols_of,
)

FormTerms = tuple[tuple[Atom, int], ...]
_MOST_MULTIPLIED = 24  # rows
_RENAMED = 30  # cost of substituting registers in a value, in row combinations
_WRITTEN = 32  # parts of a large value per row combination
_MOST_REPLACED = 4 * MOST_WRITTEN  # parts of a value with others put into it, at the most
_MOST_SPREAD = 1 << 16
_LARGE = 1 << 30
_FAR_OFF = 65_534  # the constant of a bound by the largest grid, or by the largest number of blocks of a size


class Variables:
    """`products`: of registers and sizes, and `quotients` of registers, for which facts may be found."""

    def __init__(
        self, network: Network, registers: frozenset[Symbol], products: Sequence[Linear] = (), quotients: Sequence[Linear] = ()
    ) -> None:
        self.registers = registers
        self.forms: list[Linear] = []  # the form of each variable
        self.number: dict[Atom, int] = {}
        # What is made of numbers that the machine computes of registers: of these. (Only where products are of interest.)
        self.computed: dict[int, tuple[int, ...]] | None = None
        self.groups: dict[FormTerms, int] = {}
        self.derived: dict[int, tuple[int, ...]] = {}  # derived from registers: from these
        self.known_factors = KnownFactors(self.number, self.derived)
        self.derived_from: dict[int, list[int]] = {}  # by register, what is derived from it
        self._rows: dict[Linear, Row] = {}
        self._floors: dict[int, tuple[Row, ...]] = {}
        self._types: list[tuple[Row, ...]] = []  # in the order of `number`
        self._renamed: dict[tuple[int, tuple[Row, ...]], Row] = {}
        self._products: dict[tuple[Row, Row], Row | None] = {}
        self.largest = _LARGE  # the constant of a row that is not multiplied
        self._sizes_only = True
        forms = list(_forms(network))
        # In products the parts of a sum occur separately.
        if not products:
            self._group(forms)
        for form in forms:
            self.row(form)
        if products:
            self._name_factors((*forms, *products))
        for form in products:
            for symbol in sorted(symbols_of(form) - registers, key=lambda symbol: symbol.name):
                self.row(atom(symbol))
            # The increment of the product when its counter advances.
            self.row(self._of_factors(form))
        self.between = ranges_in(network.facts)
        bounds = [
            bound
            for form in dict.fromkeys(map(_loaded, _assigned(network)))
            for sign in (1, -1)
            for bound in self._beyond(form, sign)
        ]
        for bound in (*bounds, *starts(_assigned(network))):
            self.row(bound)
        # In units of which loaded numbers are counted, and the sizes that bound them.
        self.unit, self.bounding = _unit(network), frozenset[Symbol]().union(*map(symbols_of, bounds))
        self.sizes = tuple(range(len(self.forms)))
        # Registers come after sizes, and are solved for first.
        self._sizes_only = False
        for symbol in sorted(registers, key=lambda symbol: symbol.name):
            self._new(atom(symbol), symbol)
        self._rows.clear()
        for form in (*forms, *products, *quotients):
            self.row(form)
        name_parts(self, self.number)
        if products:
            self.computed = {}
            self._name_computed([*self.number])
        self.written = self.compared = tuple(self.derived)  # in the network itself
        self.carried = self._carried(network)
        self.spread = _spread(network)
        self.known = self._known(network.facts)
        self._meanings: list[Meaning] = []
        self.kept = set[int]()  # values of registers, in terms of others that keep what these are made of
        self._meant = 0  # values whose meanings have been returned
        # (Products are expanded unless they are requested.)
        factors = {factor for each in self.number if isinstance(each, Product) for factor in each.factors}
        # (Before values get new names.)
        assert self.meanings is self._meanings
        self.not_zero: list[Row] = [
            (-1, ((self.number[each], 1),)) for each in self.number if each in factors and isinstance(each, Floor)
        ]
        self.most_factors = (
            max((len(each.factors) for each in self.number if isinstance(each, Product)), default=1) if products else 1
        )

    def _name_factors(self, forms: Iterable[Linear]) -> None:
        """Quotients of sizes that are factors are named: more is known about the dividend than about the product."""
        for form in forms:
            for each, _ in form.terms:
                for factor in each.factors if isinstance(each, Product) else ():
                    if isinstance(factor, Floor) and self.registers.isdisjoint(symbols_of(factor.form)):
                        self.row(atom(factor))

    def _name_computed(self, values: Iterable[Atom]) -> list[Atom]:
        """Names the numbers that the machine computes inside of these; returns those that are new."""
        known = len(self.number)
        assert self.computed is not None
        for each in values:
            found = [part for part in computed_in(each) if part != each and symbols_of(atom(part)) & self.registers]
            for part in found:
                self.row(atom(part))
            if found:
                self.computed[self.number[each]] = tuple(dict.fromkeys(self.number[part] for part in found))
        made = [*self.number][known:]
        name_parts(self, made)
        return made

    def _of_factors(self, form: Linear) -> Linear:
        """The product of the factors that are sizes."""
        made = Linear(1)
        for each, _ in form.terms:
            for factor in each.factors if isinstance(each, Product) else ():
                made = product(made, atom(factor)) if self.registers.isdisjoint(symbols_of(atom(factor))) else made
        return made

    def _new(self, form: Linear, key: Atom | None = None) -> int:
        self.forms.append(form)
        if key is not None:
            self.number[key] = len(self.forms) - 1
        return len(self.forms) - 1

    def _group(self, forms: Iterable[Linear]) -> None:
        """Sums of sizes none of whose parts occurs in another sum."""
        sums: dict[Atom, set[FormTerms]] = {}
        asked: set[Atom] = set()
        for form in forms:
            asked.update(each for each, _ in form.terms)
            part = self._size_part(form)
            for each, _ in part:
                sums.setdefault(each, set()).add(_normal(part)[0])
        for part in {part for parts in sums.values() for part in parts}:
            # A part that also occurs in another sum relates the two, which a single variable would hide; so does a quotient of a value
            # that occurs separately, as in a loop that steps by the divisor.
            divided = {inner for each, _ in part if isinstance(each, Floor) for inner, _ in each.form.terms}
            if len(part) > 1 and all(len(sums[each]) == 1 for each, _ in part) and divided.isdisjoint(asked):
                self.groups[part] = -1

    def _size_part(self, form: Linear) -> FormTerms:
        return tuple(row for row in form.terms if self.registers.isdisjoint(symbols_of(atom(row[0]))))

    def row(self, form: Linear) -> Row:
        found = self._rows.get(form)
        if found is None:
            found = self._rows[form] = self._made(form)
        return found

    def _made(self, form: Linear) -> Row:
        terms: dict[int, int] = {}
        sizes = self._size_part(form)
        part, times = _normal(sizes)
        if part in self.groups:
            if self.groups[part] < 0:
                self.groups[part] = self._new(Linear(0, part))
            terms[self.groups[part]] = times
            rest = [row for row in form.terms if row not in sizes]
        else:
            rest = list(form.terms)
        for each, coefficient in rest:
            if self._sizes_only and symbols_of(atom(each)) & self.registers:
                continue
            number = self.number.get(each)
            if number is None:
                number = self._new(atom(each), each)
                inside = symbols_of(atom(each)) & self.registers
                if inside:
                    self.derived[number] = tuple(sorted(self.number[symbol] for symbol in inside))
                    for register in self.derived[number]:
                        self.derived_from.setdefault(register, []).append(number)
            terms[number] = terms.get(number, 0) + coefficient
        return form.constant, tuple(sorted(terms.items()))

    def fresh(self) -> int:
        """A new unknown value."""
        symbol = Symbol(f"unknown {len(self.forms)}")
        return self._new(atom(symbol), symbol)

    def form(self, row: Row) -> Linear:
        return summed(row[0], [(self.forms[variable], coefficient) for variable, coefficient in row[1]])

    def renamed(self, variable: int, values: Mapping[int, Row]) -> Row:
        """The value of a derived variable for these register values."""
        parts = tuple([values.get(each) or one(each) for each in self.derived[variable]])
        found = self._renamed.get((variable, parts))
        if found is None:
            # Substitution builds terms and sorts them by their text, which takes far longer than a row operation.
            combined.value += _RENAMED
            known = {
                symbol: self.form(part)
                for each, part in zip(self.derived[variable], parts, strict=True)
                for symbol in symbols_of(self.forms[each])
            }
            made = substitute(self.forms[variable], known)
            found = self._renamed[variable, parts] = self.row(summed(made.constant, [(_apart(o), t) for o, t in made.terms]))
        return found

    def recomputed(self, variable: int, values: Mapping[int, Row]) -> Row:
        """The value of a variable with the numbers that the machine computes inside of it replaced by what they are."""
        assert self.computed is not None
        parts = tuple(values.get(each, one(each)) for each in self.computed[variable])
        found = self._renamed.get((~variable, parts))
        if found is None:
            combined.value += _RENAMED
            known = {
                self.forms[each].terms[0][0]: self.form(part)
                for each, part in zip(self.computed[variable], parts, strict=True)
                if part != one(each)
            }
            form = self.forms[variable]
            # What is put into itself at several places, turn by turn, grows with the power of the turns.
            if size_of(form) * max(map(size_of, known.values()), default=1) <= _MOST_REPLACED:
                form = Rewriting(known.get).form(form)
                combined.value += size_of(form) // _WRITTEN
            small = size_of(form) <= MOST_WRITTEN
            found = self._renamed[~variable, parts] = self.row(form) if small else one(variable)
        return found

    def extended(self, values: dict[int, Row]) -> dict[int, Row]:
        """Adds the values derived from the registers that have new values."""
        for variable in self.written:
            if not values.keys().isdisjoint(self.derived[variable]):
                values[variable] = self.renamed(variable, values)
        return values

    def moved(self, values: dict[int, Row]) -> dict[int, Row]:
        """Like `extended`, for everything derived from these registers."""
        for variable in [*self.derived]:
            if not values.keys().isdisjoint(self.derived[variable]):
                values[variable] = self.renamed(variable, values)
        return values

    def condition(self, formula: Formula) -> Condition:
        match formula:
            case Compare(relation, form):
                return Comparison(relation, self.row(form))
            case Both(parts):
                return Connective(True, tuple(map(self.condition, parts)))
            case Either(parts):
                return Connective(False, tuple(map(self.condition, parts)))

    def formula(self, condition: Condition) -> Formula:
        match condition:
            case Comparison(relation, row):
                return Compare(relation, self.form(row))
            case Connective(every, parts):
                made = tuple(map(self.formula, parts))
                return Both(made) if every else Either(made)

    def is_size(self, variable: int) -> bool:
        """Whether it contains no registers. (Some sizes only occur in overflow conditions, and are numbered later than others.)"""
        return self.registers.isdisjoint(symbols_of(self.forms[variable]))

    def of_sizes(self, condition: Condition) -> bool:
        """Whether it is a condition on sizes only."""
        variables = {variable for each in comparisons(condition) for variable, _ in each.row[1]}
        return bool(variables) and max(variables) < len(self.sizes)

    def free(self, condition: Condition, premises: Premises) -> bool:
        """Whether it only involves otherwise unconstrained function values: then no definition could exclude it."""
        asked = {variable for each in comparisons(condition) for variable, _ in premises.reduced(each.row)[1]}
        opaque = all(len(terms) == 1 and isinstance(terms[0][0], Apply) for terms in (self.forms[each].terms for each in asked))
        told = [row[1] for clause in premises.clauses for row in (each.row for each in comparisons(clause))]
        told += [terms for terms in premises.least if len(terms) > 1]
        return opaque and all(asked.isdisjoint([each for each, _ in terms]) for terms in told)

    # ------------------------------------------------------------------------------------------------- what is known of sizes

    def _known(self, facts: Iterable[Formula]) -> list[Row]:
        """Bounds of each size, and relations of sizes stated by the facts."""
        between, rows = self.between, []
        for fact in facts:
            if not isinstance(fact, Compare) or fact.relation == "ne":
                continue
            form = fact.form
            if len(form.terms) == 1 and isinstance(form.terms[0][0], Symbol):
                continue
            if all(each in self.number for each, _ in form.terms) or self.groups.get(_normal(form.terms)[0], -1) >= 0:
                rows.append(self.row(form))
                # (Of what a size is a multiple.)
                if fact.relation == "eq":
                    rows.append(scaled(rows[-1], -1))
        for variable in self.sizes:
            low, high = range_of(self.forms[variable], between)
            if low > -FAR:
                rows.append((-low, ((variable, 1),)))
            if high < FAR:
                rows.append((high, ((variable, -1),)))
        for each, number in list(self.number.items()):
            known = is_remainder(each) or isinstance(each, Floor) and all(inner in self.number for inner, _ in each.form.terms)
            if known and number not in self.derived:
                rows += self._rounded(each)
        floors = [each for each, number in self.number.items() if isinstance(each, Floor) and number not in self.derived]
        for fine, coarse in permutations(floors, 2):
            rows += self._divided_again(fine, coarse)
        quotients = [each for each, number in self.number.items() if is_quotient(each) and number not in self.derived]
        for less, more in permutations(quotients, 2):
            if (found := divided_further(less, more)) is not None:
                rows += [self.row(found[0]), self.row(add(Linear(found[1]), found[0], -1))]
        return rows

    def _divided_again(self, fine: Floor, coarse: Floor) -> tuple[Row, ...]:
        """The relation of two quotients of one number whose divisors divide each other: it does not follow from the number, about which
        the network may say nothing else."""
        times, rest = divmod(coarse.divisor, fine.divisor)
        apart = add(coarse.form, fine.form, -1)
        if rest or times < 2 or apart.terms or apart.constant % fine.divisor:
            return ()
        constant, terms = self.row(add(Linear(apart.constant // fine.divisor, ((fine, 1),)), atom(coarse), -times))
        return (constant, terms), (times - 1 - constant, scaled((0, terms), -1)[1])

    def _typed(self, each: Atom) -> Iterator[Row]:
        """A value loaded from memory, or selected among such values, is in the range of its type."""
        if isinstance(each, (Apply, Choose)) and not is_remainder(each) and not is_quotient(each):
            low, high = atom_range(each, self.between)
            if low > -FAR:
                yield self.row(Linear(-low, ((each, 1),)))
            if high < FAR:
                yield self.row(Linear(high, ((each, -1),)))

    def ends(self, each: Atom, given: Row) -> Iterator[Row]:
        """The ends of the type of a value that is `given`, and the sizes that bound it: rows that are not negative."""
        if not isinstance(each, Symbol):
            yield from self.between_ends(atom(each), given)

    def between_ends(self, form: Linear, given: Row) -> Iterator[Row]:
        """The same of the value of a form."""
        low, high = range_of(form, self.between)
        if low > -FAR:
            yield plus(given, (-low, ()))
        if high < FAR:
            yield plus((high, ()), given, -1)
        for sign in (1, -1):
            for bound in self._beyond(form, sign):
                yield scaled(plus(self.row(bound), given, -1), sign)

    def symbol(self, register: int) -> Symbol:
        (((found, _),)) = self.forms[register].terms
        assert isinstance(found, Symbol)
        return found

    def _beyond(self, form: Linear, sign: int) -> list[Linear]:
        return sizes_beyond(form, sign, self.registers, self.between)

    def _rounded(self, each: Atom) -> tuple[Row, ...]:
        """A remainder is at least 0, and less than the divisor; a size has bounds."""
        match each:
            case Symbol():
                low, high = self.between.get(each, (-FAR, FAR))
                rows = [add(atom(each), Linear(-low))] if low > -FAR else []
                rows += [add(Linear(high), atom(each), -1)] if high < FAR else []
                return tuple(map(self.row, rows))
            case Floor(form, number):
                left, divisor = add(form, atom(each), -number), Linear(number)
            case Apply(_, (_, divisor)) if is_remainder(each):
                left = atom(each)
            case _:
                return ()
        return self.row(left), self.row(add(add(divisor, Linear(-1)), left, -1))

    def _carried(self, network: Network) -> frozenset[int]:
        """Values derived from registers that are assigned to a register as they are, although nothing else is known about them, such as
        loads."""
        values = [
            value
            for process in network.processes
            for state in process.states
            for edge in edges_of(state.action)
            for _, value in edge.values
            if value is not None and any(isinstance(each, (Apply, Choose)) or _of_choices(each) for each, _ in value.terms)
        ]
        return frozenset(variable for value in values for variable, _ in self.row(value)[1] if variable in self.derived)

    def related(self) -> list[int]:
        """Values derived from registers that may be in lockstep with others: quotients, and what another process keeps in a register."""
        return [n for n in self.compared if n in self.carried or _in_step(self.forms[n].terms[0][0])]

    def without_far_bounds(self) -> None:
        """Multiplies no bounds by the largest grid: there are many products of these, which seldom say anything."""
        self.largest = _FAR_OFF

    def multiplied(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Products of non-negative rows, as far as their terms are existing variables."""
        factors = {self.number.get(factor) for each in self.number if isinstance(each, Product) for factor in factors_of(each)}
        # The number of pairs is quadratic in that of rows, and products of long rows contain unknown terms; nor does it help to multiply
        # by bounds of types.
        near = [
            row
            for row in rows
            if len(row[1]) <= 3 and row[0] < self.largest and any(variable in factors for variable, _ in row[1])
        ]
        near = near[:_MOST_MULTIPLIED]
        for left, right in combinations_with_replacement(near, 2):
            if (left, right) not in self._products:
                made = product(self.form(left), self.form(right))
                known = all(symbol in self.number for symbol, _ in made.terms)
                self._products[left, right] = self.row(made) if known else None
            found = self._products[left, right]
            if found is not None:
                yield found

    def factors_alike(self) -> Iterator[tuple[Row, Row]]:
        """A quotient of a counter and one of sizes with a common factor: the completed and the total number of iterations."""
        products = [each for each in self.number if isinstance(each, Product) and len(each.factors) == 2]
        for made, whole in permutations(products, 2):
            for one_, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
                done, most = made.factors[one_], whole.factors[other]
                same = made.factors[1 - one_] == whole.factors[1 - other]
                if (
                    same
                    and self.number.get(done) in self.derived
                    and most in self.number
                    and self.number[most] not in self.derived
                ):
                    yield one(self.number[done]), one(self.number[most])

    @property
    def count(self) -> int:
        return len(self.forms)

    @property
    def meanings(self) -> list[Meaning]:
        """The meanings of choices, and of numbers that the machine reduces; also of remainders that are named during the search. (Naming
        the parts of all new values would be too many.)"""
        while self._meant < len(self.number):
            new = [*self.number][self._meant :]
            if self._meant:
                computed = [] if self.computed is None else self._name_computed(new)
                divisors = {part for each in self.number if is_remainder(each) for part, _ in each.arguments[1].terms}
                new = [
                    each
                    for each in new
                    if isinstance(each, Choose)
                    and (
                        each in divisors
                        or self.number[each] in self.kept
                        or any(map(is_remainder, _chosen_from(each)))
                        or goes_round(each)
                    )
                    or isinstance(each, Floor)
                    and self.number[each] in self.kept
                ]
                new += [each for each in computed if isinstance(each, Apply)]
            self._meant = len(self.number)
            name_parts(self, new)
            self._meanings += meanings_of(self, new)
        return self._meanings

    def floors(self) -> list[Row]:
        """The bounds of quotients and remainders of counters, and of sizes that occur only in requirements."""
        # The search may create new quotients.
        made = [
            n
            for each, n in self.number.items()
            if n >= len(self.sizes) and not (isinstance(each, Symbol) and each in self.registers)
        ]
        for number in made if len(made) > len(self._floors) else ():
            self._floors[number] = tuple(row for each, _ in self.forms[number].terms for row in self._rounded(each))
        return [row for rows in self._floors.values() for row in rows]

    def types(self) -> list[Row]:
        """The bounds by type of values that consist of counters, or are loaded at a counter's value."""
        if len(self._types) < len(self.number):
            new = [*self.number.items()][len(self._types) :]
            self._types += [tuple(self._typed(each)) if n >= len(self.sizes) else () for each, n in new]
        return [row for rows in self._types for row in rows]


def _loaded(form: Linear) -> Linear:
    """The form, if it may be carried (see `_carried`)."""
    match form:
        case Linear(0, ((Choose(), 1),)):
            return form
        case _:
            return Linear(0)


def _unit(network: Network) -> int:
    """The largest number by which one is divided, or in steps of which it is counted, that a register is given which is loaded where a
    counter stands."""
    given = {symbol for symbol, value in _assignments(network) if _loaded(value).terms}
    if not given:
        return 1
    steps = {symbol: abs(value.constant) for symbol, value in _assignments(network) if value.terms == ((symbol, 1),)}
    found = {1}
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                if not symbols_of(form).isdisjoint(given):
                    found.update(steps.get(each, 1) for each, _ in form.terms if isinstance(each, Symbol))
                    found.update(each.divisor for each, _ in form.terms if isinstance(each, Floor))
    return max(found)


def _chosen_from(one: Choose) -> list[Atom]:
    return [each for form in (one.yes, one.no) for each, _ in form.terms]


def _apart(one: Atom) -> Linear:
    """A quotient without the multiples of its divisor in the dividend."""
    return quotient(*one.arguments) if is_quotient(one) else atom(one)


def _of_choices(one: Atom) -> bool:
    """Whether it is a quotient of a number that no inequality says everything of."""
    return isinstance(one, Floor) and any(isinstance(part, (Apply, Choose)) for part, _ in one.form.terms)


def _in_step(one: Atom) -> bool:
    return isinstance(one, (Floor, Product, Choose)) or is_remainder(one) or is_quotient(one)


def _assigned(network: Network) -> Iterator[Linear]:
    return (value for _, value in _assignments(network))


def _assignments(network: Network) -> Iterator[tuple[Symbol, Linear]]:
    for process in network.processes:
        for state in process.states:
            for edge in edges_of(state.action):
                yield from ((symbol, value) for symbol, value in edge.values if value is not None)


def _spread(network: Network) -> dict[str, int]:
    """By how much unknown values should vary if they are compared with a constant: to both sides of it, so that runs take both branches."""
    found: dict[str, int] = {}
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                function = function_of(Linear(0, form.terms))
                if function and not known_function(function):
                    found[function] = max(found.get(function, 1), min(abs(form.constant), _MOST_SPREAD) // 2)
    return found


def _forms(network: Network) -> Iterator[Linear]:
    yield from _assigned(network)
    for process in network.processes:
        for state in process.states:
            action = state.action
            if isinstance(action, Test):
                yield from forms_of(action.condition)


def _normal(part: FormTerms) -> tuple[FormTerms, int]:
    """The sum divided by its common factor, with a positive first coefficient; and that factor."""
    if not part:
        return part, 1
    divisor = gcd(*(coefficient for _, coefficient in part)) * (1 if part[0][1] > 0 else -1)
    return tuple((each, coefficient // divisor) for each, coefficient in part), divisor
