"""Runs of a process through a walk that it takes in pieces (pieces.py), with numbers drawn for what is made of sizes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import gcd
from random import Random

from pipec.protocol.forms.rewriting import Rewriting
from pipec.protocol.forms.sample import evaluate, holds
from pipec.protocol.restating.wording import parts_of
from pipec.record import mutable, record, replace
from pipec.verify.network import Edge, Process, State, Test, Wait, edges_of
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    is_quotient,
    is_remainder,
    symbols_of,
)

_RUNS = 40
_MOST_STEPS = 600  # of a run
_MOST_DRAWN, _MOST_DIVISOR = 12, 4
_MOST_APART = 1  # of two numbers that are compared

Values = dict[Symbol, int]


class Folding:
    """Symbols in place of what is made of sizes alone: `meaning` of each, in order of occurrence."""

    def __init__(self, registers: frozenset[Symbol]) -> None:
        self.registers = registers
        self.meaning: dict[Symbol, Linear] = {}
        self.exact: dict[Linear, tuple[int, int]] = {}  # what is taken for the number itself: the range of its type
        self._names: dict[Atom, Symbol] = {}
        self._folding = Rewriting(self._folded)
        self._unfolding = Rewriting(lambda one: self.meaning.get(one) if isinstance(one, Symbol) else None)

    def _folded(self, one: Atom) -> Linear | None:
        if not self.registers.isdisjoint(symbols_of(atom(one))):
            return None
        match one:
            case Apply(kind, (form,)) if kind in RANGES and any(times < 0 for _, times in form.terms):
                made = self._folding.form(form)  # how far two numbers are apart
                self.exact[made] = RANGES[kind]
                return made
        if one not in self._names:
            name = self._names[one] = Symbol(f"folded {len(self._names):03}")
            self.meaning[name] = atom(one)
        return atom(self._names[one])

    def process(self, process: Process) -> Process:
        states = []
        for state in process.states:
            action = with_edges(state.action, self._edge)
            if isinstance(action, Test):
                action = replace(action, condition=self._folding.formula(action.condition))
            states.append(replace(state, action=action))
        return replace(process, states=tuple(states))

    def _edge(self, edge: Edge) -> Edge:
        values = tuple([(symbol, None if value is None else self._folding.form(value)) for symbol, value in edge.values])
        return replace(edge, values=values, requires=tuple(map(self._folding.formula, edge.requires)))

    def relations(self) -> dict[Symbol, Linear]:
        """What symbols are of others: the number of blocks of a size, where that size stands by itself, too."""
        found = {}
        for name, form in self.meaning.items():
            ((one, _),) = form.terms
            made = Rewriting(partial(self._part, one)).atom(one)
            if made != form and symbols_of(made) <= self.meaning.keys():
                found[name] = made
        return found

    def _part(self, whole: Atom, one: Atom) -> Linear | None:
        return atom(self._names[one]) if one != whole and one in self._names else None

    def least(self, symbol: Symbol) -> int:
        """Of what is drawn for it: a share of nothing, rounded up as `(0 - 1 - b) // g + 1`, is one less than 0 there."""
        match self.meaning.get(symbol):
            case Linear(0, ((one, 1),)) if is_quotient(one):
                return -1 if one.arguments[0].constant < 0 else 0
            case Linear(0, ((Floor(form, _), 1),)):
                return -1 if form.constant < 0 else 0
            case _:
                return 0

    def unfolded(self, form: Linear) -> Linear:
        return self._unfolding.form(form)

    def unfolded_formula(self, formula: Formula) -> Formula:
        return self._unfolding.formula(formula)


@record
class Visit:
    """Of a state; `taken`: how often each ring has been waited for; `outcome` of its test."""

    values: Values
    taken: dict[int, int]
    outcome: bool | None


@mutable
class Run:
    """With numbers drawn for sizes. `waits`: for each ring, in the whole of it."""

    sizes: Values
    waits: dict[int, int]
    visits: list[tuple[int, Visit]]


def runs_of(process: Process, folding: Folding) -> list[Run]:
    """None at all if some run does not end, or depends on what is not known."""
    found = []
    for sizes in _drawn(process, folding):
        run = _run(process, sizes)
        if run is None:
            return []
        found.append(run)
    return found


def forms_in(process: Process) -> Iterator[Linear]:
    """Of tests and of values."""
    for state in process.states:
        yield from forms_of_state(state)


def forms_of_state(state: State) -> Iterator[Linear]:
    if isinstance(state.action, Test):
        yield from forms_of(state.action.condition)
    yield from (value for edge in edges_of(state.action) for _, value in edge.values if value is not None)


def atoms_in(forms: Iterable[Linear]) -> Iterator[Atom]:
    """At any depth."""
    for form in forms:
        for one, _ in form.terms:
            yield one
            yield from atoms_in(parts_of(one))


def divisors_in(process: Process) -> list[Linear]:
    """Sizes by which something is divided."""
    found = [one.arguments[1] for one in atoms_in(forms_in(process)) if is_quotient(one) or is_remainder(one)]
    return [*dict.fromkeys(one for one in found if one.terms)]


def _drawn(process: Process, folding: Folding) -> Iterator[Values]:
    forms, relations = [*forms_in(process)], folding.relations()
    sizes = dict.fromkeys(one for one in atoms_in(forms) if isinstance(one, Symbol) and one not in folding.registers)
    divisors = {symbol for form in divisors_in(process) for symbol in symbols_of(form)}
    made = {one: relations[one] for one in sizes if one in relations}
    # So large that what is made of it is as large as other numbers.
    units = {part: _unit(form) for form in made.values() for part in symbols_of(form)}
    small = {part for one, form in made.items() if one in divisors for part in symbols_of(form)}
    sizes |= dict.fromkeys(units)
    random = Random(0)
    for _ in range(_RUNS):
        values = {}
        for one in sizes:
            least, most = (1, _MOST_DIVISOR) if one in divisors or one in small else (folding.least(one), _MOST_DRAWN)
            unit = units.get(one, 1)
            values[one] = max(unit * random.randint(least, most) - random.randint(0, unit - 1), least)
        values |= {one: evaluate(form, values) for one, form in made.items()}
        yield values


def _unit(form: Linear) -> int:
    return max((one.divisor for one, _ in form.terms if isinstance(one, Floor)), default=1)


def _run(process: Process, sizes: Values) -> Run | None:
    values, taken, at = dict(sizes), dict[int, int](), process.start
    run = Run(sizes, taken, [])
    try:
        for _ in range(_MOST_STEPS):
            action = process.states[at].action
            outcome = holds(action.condition, values) if isinstance(action, Test) else None
            run.visits.append((at, Visit(values, taken, outcome)))
            edges = edges_of(action)
            if not edges:
                run.waits = taken
                return run
            if isinstance(action, Wait) and not action.peeks:
                taken = {**taken, action.use.ring: taken.get(action.use.ring, 0) + 1}
            edge = edges[1 if outcome is False else 0]
            if edge.values:
                values = {**values, **{symbol: _value(value, values) for symbol, value in edge.values}}
            at = edge.target
    except (KeyError, ZeroDivisionError):
        pass
    return None


def _value(form: Linear | None, values: Values) -> int:
    if form is None:
        raise KeyError
    return evaluate(form, values)


def numbers_of_stages(processes: Sequence[Process], registers: frozenset[Symbol]) -> list[Linear]:
    """What a walk may have as many stages as: by the tests of sizes that ask whether there is one."""
    found: dict[Linear, None] = {}
    for process in processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                if form.terms and symbols_of(form).isdisjoint(registers):
                    found[add(form, Linear(1))] = None
                    found[Linear(-form.constant, tuple((one, -times) for one, times in form.terms))] = None
    return [*found]


class Points:
    """The values of registers and sizes in some visits."""

    def __init__(self, points: Sequence[Values]) -> None:
        self.points = points

    def _row(self, form: Linear) -> list[int]:
        return [evaluate(form, point) for point in self.points]

    def bounds(self, form: Linear) -> Iterator[Linear]:
        """The form, less a small number, if it is at least 0 so; and likewise its opposite."""
        row = self._row(form)
        if (least := min(row)) < max(row):
            if least >= -_MOST_APART:
                yield add(form, Linear(-min(least, _MOST_APART)))
            if (most := max(row)) <= _MOST_APART:
                yield add(Linear(max(most, -_MOST_APART)), form, -1)

    def equations(self, forms: Sequence[Linear]) -> Iterator[Linear]:
        """Sums of multiples of the forms that are 0, from which all others follow."""
        rows = [self._row(form) for form in forms]
        hull = [(-row[0], {number: 1}) for number, row in enumerate(rows)]
        for point in range(1, len(self.points)):
            rests = [constant + sum(times * rows[each][point] for each, times in made.items()) for constant, made in hull]
            failing = [number for number, rest in enumerate(rests) if rest]
            if failing:
                pivot = min(failing, key=lambda number: (abs(rests[number]), len(hull[number][1]), number))
                hull = [
                    _combined(one, rests[pivot], hull[pivot], -rests[number]) if rests[number] else one
                    for number, one in enumerate(hull)
                    if number != pivot
                ]
        for constant, made in hull:
            form = Linear(constant)
            for number, times in sorted(made.items()):
                form = add(form, forms[number], times)
            yield form


_Equation = tuple[int, dict[int, int]]  # a number, and multiples of forms


def _combined(one: _Equation, times: int, other: _Equation, of_other: int) -> _Equation:
    constant = one[0] * times + other[0] * of_other
    made = {each: one[1].get(each, 0) * times + other[1].get(each, 0) * of_other for each in {**one[1], **other[1]}}
    made = {each: coefficient for each, coefficient in made.items() if coefficient}
    common = gcd(constant, *made.values())
    return constant // common, {each: coefficient // common for each, coefficient in made.items()}
