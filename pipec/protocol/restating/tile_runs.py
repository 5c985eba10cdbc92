"""Runs of a process through one tile, with numbers drawn for those of the tile (loaded.py): how often it waits, and what it counts."""

from collections.abc import Collection, Iterator, Sequence
from itertools import product as combinations

from pipec.protocol.forms.extents import FAR, Between, range_of, sizes_beyond
from pipec.record import mutable, record
from pipec.verify.logic import System
from pipec.verify.network import Edge, Process, Test, Wait, edges_of
from pipec.verify.terms import (
    RANGES,
    TRUE,
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
    floor,
    forms_of,
    symbols_of,
)

MOST_TURNS = 8  # blocks in a turn of a loop
_MOST_STEPS = 2_000  # of a run
_MOST_IN_VAIN = 8  # runs one after the other from where a tile begins that are too long
_MOST_WAYS = 24  # of a run past tests that do not depend on what is drawn
_LEAST_DRAWN, _MORE_DRAWN = -3, 3
_MOST_DIVISOR = 1 << 10
_LARGEST = (1 << 31) - 1

Values = dict[Symbol, int]
# A state, and which outcome the last test of a counter had, if any since the last wait: a test may say what the next one asks.
Key = tuple[int, tuple[int, bool] | None]


@record
class Visit:
    """Of a state; `taken`: how often each ring has been waited for in the tile."""

    values: Values
    taken: dict[int, int]


@mutable
class Run:
    """A tile, with numbers `drawn` for it. `waits`: for each ring, in the whole of it."""

    drawn: Values
    waits: dict[int, int]


@record
class Counted:
    """`number`: of waits for the ring that a tile has, which is not more than 0 if it has none. `left`: a register for what is left."""

    ring: int
    number: Linear
    left: Symbol


class Seen:
    """Runs of a process through one tile. `visits`: by state; `runs`. `walked`: the registers that numbers are made of go on from where
    they begin. `beyond`: sizes that numbers are not more than."""

    def __init__(self, process: Process, numbers: Sequence[Symbol], sizes: System, between: Between) -> None:
        self.process, self.numbers, self.sizes = process, numbers, sizes
        edges = [edge for state in process.states for edge in edges_of(state.action)]
        self.begins = [edge for edge in edges if any(symbol in numbers for symbol, _ in edge.values)]
        self._beginning = frozenset(map(id, self.begins))
        assigned = {symbol for edge in edges for symbol, _ in edge.values}
        inside = [symbols_of(value) for edge in self.begins for symbol, value in edge.values if symbol in numbers and value]
        made_of = frozenset[Symbol]().union(*inside)
        begun = [
            (symbol, value)
            for edge in edges
            for symbol, value in edge.values
            if symbol in made_of and value is not None and symbols_of(value).isdisjoint(assigned)
        ]
        self.walked = tuple([Compare("ge", add(atom(symbol), value, -1)) for symbol, value in dict.fromkeys(begun)])
        self.between = self._between(between)
        bounds = [(symbol, bound) for symbol in numbers for bound in self._beyond(symbol, assigned, between)]
        self.bounds = dict.fromkeys(bound for _, bound in bounds)
        self.beyond = tuple([Compare("ge", add(bound, atom(symbol), -1)) for symbol, bound in bounds])
        self.quotients = [*dict.fromkeys(self._quotients())]
        self.divisors = sorted({each for each in self._divisors() if 1 < each <= _MOST_DIVISOR})
        self.inner: set[int] = set()  # tests that the numbers decide
        self.visits: dict[Key, list[Visit]] = {}
        self.runs: list[Run] = []
        for edge in self._different_begins():
            in_vain = 0
            for drawn in self._drawn():
                in_vain = 0 if self._follow(edge, dict(zip(numbers, drawn, strict=True))) else in_vain + 1
                if in_vain >= _MOST_IN_VAIN:
                    break

    def _between(self, between: Between) -> Between:
        """The range of each number, if what it is made of goes on from where it begins."""
        found: Between = {}
        for symbol in self.numbers:
            values = [value for edge in self.begins for each, value in edge.values if each == symbol]
            ranges = [(-FAR, FAR) if value is None else self._range(value, between) for value in values]
            found[symbol] = min(low for low, _ in ranges), max(high for _, high in ranges)
        return found

    def _beyond(self, symbol: Symbol, registers: Collection[Symbol], between: Between) -> list[Linear]:
        """Sizes that a number is not more than, wherever it is given."""
        values = [value for edge in self.begins for each, value in edge.values if each == symbol]
        found = [[] if value is None else sizes_beyond(value, 1, registers, between) for value in values]
        return [one for one in found[0] if all(one in others for others in found)] if found else []

    def _range(self, value: Linear, between: Between) -> tuple[int, int]:
        low, high = range_of(value, between)
        if low >= -_LARGEST - 1 and high <= _LARGEST:
            return low, high
        having = self.sizes.extended(self.walked)
        low = 0 if low < 0 and having.entails(Compare("ge", value)) else low
        high = _LARGEST if high > _LARGEST and having.entails(Compare("ge", add(Linear(_LARGEST), value, -1))) else high
        return low, high

    def _divisors(self) -> Iterator[int]:
        for state in self.process.states:
            for edge in edges_of(state.action):
                for symbol, value in edge.values:
                    if value is not None and value.terms == ((symbol, 1),):
                        yield abs(value.constant)
        yield from (one.divisor for one in self.quotients)

    def _quotients(self) -> Iterator[Floor]:
        """Of numbers of the tile, in tests and in what counters are given."""
        for state in self.process.states:
            forms = [*forms_of(state.action.condition)] if isinstance(state.action, Test) else []
            forms += [value for edge in edges_of(state.action) for _, value in edge.values if value is not None]
            for one in (each for form in forms for each in _inside(form)):
                if symbols_of(one.form) <= {*self.numbers} and one.form.terms:
                    yield one

    def _drawn(self) -> Iterator[tuple[int, ...]]:
        unit = min((each for each in self.divisors if each > MOST_TURNS), default=1)
        turns = max((by for each in self.divisors for by in (each, each // unit) if by <= MOST_TURNS), default=1)
        rows = []
        for symbol in self.numbers:
            low, high = self.between[symbol]
            row = [*range(_LEAST_DRAWN, 3 * turns + _MORE_DRAWN)]
            row += [each * unit + more for each in range(-2, 3 * turns + 3) for more in (0, 1)] if unit > 1 else []
            row = [each for each in dict.fromkeys(row) if low <= each <= high]
            rows.append(row if len(self.numbers) == 1 else row[:: max(1, len(row) // 6)])
        yield from combinations(*rows)

    def _different_begins(self) -> list[Edge]:
        """The edges along which a tile begins, by where they lead and what they say of counters."""
        found: dict[object, Edge] = {}
        for edge in self.begins:
            known = tuple((symbol, value) for symbol, value in edge.values if value is not None and not value.terms)
            found.setdefault((edge.target, known), edge)
        return [*found.values()]

    def _follow(self, begin: Edge, drawn: Values) -> bool:
        """All ways through the tile; none if they are too many. Returns whether there are some."""
        first = {symbol: value.constant for symbol, value in begin.values if value is not None and not value.terms}
        work: list[tuple[Key, Values, dict[int, int]]] = [((begin.target, None), {**first, **drawn}, {})]
        visits: list[tuple[Key, Visit]] = []
        ended: list[dict[int, int]] = []
        steps = 0
        while work and steps < _MOST_STEPS and len(ended) < _MOST_WAYS:
            key, values, taken = work.pop()
            while True:
                steps += 1
                visits.append((key, Visit(values, taken)))
                action = self.process.states[key[0]].action
                edges = edges_of(action)
                if not edges or steps >= _MOST_STEPS:
                    ended.append(taken)
                    break
                number_of = 0
                if isinstance(action, Test):
                    outcome = outcome_of(action.condition, values)
                    if outcome is not None and action.condition != TRUE:
                        self.inner.add(key[0])
                    elif outcome is None and not self.begin(action.no):
                        work.append((self.behind(key, 1), self._after(action.no, values), taken))
                    number_of = 1 if outcome is False else 0
                edge = edges[number_of]
                if isinstance(action, Wait) and not action.peeks:
                    taken = {**taken, action.use.ring: taken.get(action.use.ring, 0) + 1}
                if self.begin(edge):
                    ended.append(taken)
                    break
                key, values = self.behind(key, number_of), self._after(edge, values)
        if steps >= _MOST_STEPS or work:
            return False
        for key, visit in visits:
            self.visits.setdefault(key, []).append(visit)
        self.runs += [Run(drawn, taken) for taken in ended]
        return True

    def begin(self, edge: Edge) -> bool:
        """Whether a tile begins."""
        return id(edge) in self._beginning

    def behind(self, key: Key, number: int) -> Key:
        """Where an edge leads."""
        at, last = key
        action = self.process.states[at].action
        edge = edges_of(action)[number]
        if isinstance(action, Wait) and not action.peeks or self.begin(edge):
            last = None
        elif at in self.inner:
            last = at, number == 0
        return edge.target, last

    def _after(self, edge: Edge, values: Values) -> Values:
        if not edge.values:
            return values
        made = {symbol: value for symbol, value in values.items() if all(symbol != each for each, _ in edge.values)}
        for symbol, form in edge.values:
            if form is not None and (value := value_of(form, values)) is not None:
                made[symbol] = value
        return made

    def counted(self, process: int) -> Counted | None:
        """The first ring of which each tile has a number of stages."""
        rings = dict.fromkeys(
            action.use.ring
            for action in (state.action for state in self.process.states)
            if isinstance(action, Wait) and not (action.reads or action.peeks)
        )
        for ring in rings:
            waits = [(run.drawn, run.waits.get(ring, 0)) for run in self.runs]
            if len({many for _, many in waits}) > 2:
                for number in self._candidates(waits):
                    if all(max(value_of(number, drawn) or 0, 0) == many for drawn, many in waits):
                        return Counted(ring, number, Symbol(f"{process}:%left"))
        return None

    def _candidates(self, waits: Sequence[tuple[Values, int]]) -> Iterator[Linear]:
        """What the number of stages may be, of which it is known where it is not 0."""
        some = next(((drawn, many) for drawn, many in waits if many > 1), None)
        if some is None:
            return
        forms = [atom(one) for one in self.numbers]
        forms += [add(left, right, -1) for left in forms for right in forms if left != right]
        forms += [floor(add(atom(one), Linear(by - 1)), by) for one in self.numbers for by in self.divisors]
        forms += map(atom, self.quotients)
        for form in forms:
            value = value_of(form, some[0])
            assert value is not None
            yield add(form, Linear(some[1] - value))


def _inside(form: Linear) -> Iterator[Floor]:
    for one, _ in form.terms:
        if isinstance(one, Floor):
            yield one
            yield from _inside(one.form)
        elif isinstance(one, Choose):
            yield from (*_inside(one.yes), *_inside(one.no))


def value_of(form: Linear, values: Values) -> int | None:
    """None if something in it is not known."""
    total = form.constant
    for one, times in form.terms:
        value = _atom_value(one, values)
        if value is None:
            return None
        total += times * value
    return total


def _atom_value(one: Atom, values: Values) -> int | None:
    match one:
        case Symbol():
            return values.get(one)
        case Floor(form, divisor):
            inner = value_of(form, values)
            return None if inner is None else inner // divisor
        case Choose(condition, yes, no):
            outcome = outcome_of(condition, values)
            return None if outcome is None else value_of(yes if outcome else no, values)
        case Apply(kind, (form,)) if kind in RANGES:
            inner = value_of(form, values)
            least, most = RANGES[kind]
            return None if inner is None else (inner - least) % (most - least + 1) + least
        case _:
            return None


def outcome_of(condition: Formula, values: Values) -> bool | None:
    match condition:
        case Compare(relation, form):
            value = value_of(form, values)
            return None if value is None else value >= 0 if relation == "ge" else (value == 0) == (relation == "eq")
        case Both(parts) | Either(parts):
            outcomes = [outcome_of(part, values) for part in parts]
            decisive = isinstance(condition, Either)
            if decisive in outcomes:
                return decisive
            return None if None in outcomes else not decisive
