"""A network in terms of numbered variables: its tests and assignments, and candidate facts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from pipec.protocol.deduction.comparisons import Comparison, Condition, Connective, comparisons, opposite, substituted
from pipec.protocol.deduction.rows import ZERO, Row, Terms, negative, one, plus, replaced, scaled
from pipec.protocol.facts.chunks import in_terms_of_kept
from pipec.protocol.facts.products import candidates, exact, quotients_in
from pipec.protocol.facts.quotients import ahead, quotients_of
from pipec.protocol.facts.reached import reached
from pipec.protocol.facts.remainders import Remainders
from pipec.protocol.facts.shares import Shares
from pipec.protocol.facts.signs import Signs
from pipec.protocol.facts.squares import squares
from pipec.protocol.forms.everywhere import Everywhere
from pipec.protocol.program.liveness import live_in
from pipec.protocol.variables.rounds import starts
from pipec.protocol.variables.sizes import Sizes
from pipec.protocol.variables.variables import Variables
from pipec.verify.network import Edge, Network, Test, edges_of
from pipec.verify.terms import Apply, Atom, Choose, Floor, Formula, Linear, Symbol, atom, is_quotient, substitute, symbols_of


def registers_of(network: Network) -> frozenset[Symbol]:
    """The symbols that some edge assigns."""
    actions = [state.action for process in network.processes for state in process.states]
    return frozenset(symbol for action in actions for edge in edges_of(action) for symbol, _ in edge.values)


Values = dict[int, Row]
_Step = tuple[
    Values, list[Condition]
]  # the values of variables after some edges, and the preconditions, in terms of the values before


class Program:
    """A network in terms of numbered variables: its tests and assignments. `assumed`: on sizes, in addition to the network's facts.
    `reaching`: also with products of counters that are bounded by sizes as exact ones, in a launch that is asked for it; and with fewer
    products of bounds. `squared`: also with squares of counters."""

    def __init__(
        self, network: Network, *, products: bool = False, quotients: bool = False, reaching: bool = False, squared: bool = False
    ) -> None:
        self.registers = registers_of(network)
        self.assumed: list[Formula] = []
        extra: tuple[Linear, ...] = ()
        if products:
            bounds = reached(network, self.registers) if reaching else ()
            network, conditions = exact(network, self.registers, bounds)
            self.assumed += map(Everywhere((*network.facts, *bounds)).condition, conditions)
            extra = candidates(network, self.registers)
            if squared:
                extra = (*squares(network, self.registers), *extra)
        self.network, self.products, self.quotients, self.reaching, self.squared = network, products, quotients, reaching, squared
        self.everywhere = Everywhere(network.facts)
        counted = quotients_of(network, self.registers) if quotients else ()
        if products:
            counted = (*quotients_in(extra, self.registers), *ahead(network, self.registers))
        self.variables = Variables(network, self.registers, extra, counted)
        if reaching:
            self.variables.without_far_bounds()
        self.remainders = Remainders(network, self.variables)
        self.signs, self.shares = Signs(network, self.variables), Shares(self.variables)
        self.sizes = Sizes(network, self.variables)
        self.live = [
            [frozenset(self.variables.number[symbol] for symbol in states) for states in live_in(process, self.registers)]
            for process in network.processes
        ]
        self._tests: dict[tuple[int, int], tuple[Condition, Condition]] = {}
        self._edges: dict[int, _Step] = {}
        self._told: dict[Condition, int] = {}
        self.conditions: dict[int, Condition] = {}  # conditions on sizes only, by number
        self._number: dict[tuple[int, int], int | None] = {}
        self._directions: dict[tuple[int, int], list[Row]] = {}
        self._clauses: dict[tuple[int, int], list[Condition]] = {}
        self._asking: dict[int, list[Condition]] = {}
        self._all_tested: tuple[Row, ...] | None = None
        self._testing: dict[int, list[Row]] = {}
        self._stepping: dict[int, list[tuple[int, Row]]] = {}
        self._suggesting: dict[int, list[tuple[frozenset[int], list[Row]]]] = {}
        self._turns = [plus(plus(most, done, -1), (-1, ())) for done, most in self.variables.factors_alike()] if products else []
        self._constants: dict[Terms, list[int]] | None = None  # by the shape of rows
        if self.variables.derived:
            for process in range(len(network.processes)):
                self._tested(process)
            self.variables.compared = tuple(self.variables.derived)
            for process in range(len(network.processes)):
                self._asked(process)
        # What must not wrap is made of registers as an edge finds them, also where no test or assignment has the same.
        self._name_required()
        self.loaded = frozenset(
            variable
            for process in range(len(network.processes))
            for variable, row in self._assigned(process)
            if self._loaded(row) is not None
        )
        self.variables.written = tuple(self.variables.derived)

    def again(self, network: Network) -> "Program":
        """Of another network, with values of the same kinds."""
        return Program(network, products=self.products, quotients=self.quotients, reaching=self.reaching, squared=self.squared)

    @property
    def facts(self) -> tuple[Formula, ...]:
        return (*self.network.facts, *self.assumed)

    def test(self, process: int, place: int) -> tuple[Condition, Condition]:
        """The condition of a test, and its negation."""
        found = self._tests.get((process, place))
        if found is None:
            action = self.network.processes[process].states[place].action
            assert isinstance(action, Test)
            condition = self.variables.condition(action.condition)
            found = self._tests[process, place] = (condition, opposite(condition))
        return found

    def told_apart(self, process: int, place: int) -> int | None:
        """The number of a test that depends on sizes only."""
        key = process, place
        if key not in self._number:
            self._number[key] = self.numbered(self.test(process, place)[0])
        return self._number[key]

    def numbered(self, condition: Condition) -> int | None:
        """A unique number for a condition on sizes only; its negation has the complement of the number."""
        if not self.variables.of_sizes(condition):
            return None
        number = self._told.get(condition)
        if number is None:
            number = self._told[condition] = len(self._told) // 2
            # A test and its negation are one question, in whichever form a role tests it.
            self._told[opposite(condition)] = ~number
            self.conditions[number], self.conditions[~number] = condition, opposite(condition)
        return number

    def composed(self, edges: Sequence[Edge], before: Mapping[int, Row] = {}) -> _Step:
        """`before`: the values of changed variables at the start of the first edge."""
        values = dict(before)
        required: list[Condition] = []
        for edge in edges:
            made, needed = self._edge(edge)
            if made or needed:
                known = self.variables.extended(dict(values)) if self.variables.written else values
                required += [substituted(each, known) for each in needed]
                values.update({variable: replaced(row, known) for variable, row in made.items()})
        return self.variables.extended(values), required

    def _edge(self, edge: Edge) -> _Step:
        if not edge.values and not edge.requires:
            return {}, []
        # An unknown value is a new one each time the edge is taken.
        unknown = any(value is None for _, value in edge.values)
        found = None if unknown else self._edges.get(id(edge))
        if found is None:
            values = {
                self.variables.number[symbol]: one(self.variables.fresh()) if value is None else self.variables.row(value)
                for symbol, value in edge.values
            }
            found = self._edges[id(edge)] = values, [self.variables.condition(each) for each in edge.requires]
        return found

    def given(self, values: Values) -> Iterator[Row]:
        """What is known of the loaded numbers that registers are given."""
        for variable in self.loaded.intersection(values):
            for each, _ in values[variable][1]:
                for part, _ in self.variables.forms[each].terms:
                    yield from self.variables.ends(part, one(each))

    def directions(self, process: int, place: int) -> list[Row]:
        """Candidate inequalities of a process at a place: registers are non-negative, the program's tests hold or do not."""
        found = self._directions.get((process, place))
        if found is None:
            live = self.live[process][place]
            found = [one(variable) for variable in sorted(live)]
            # A fact unrelated to any test excludes nothing.
            for inside, rows in self._suggested(process) if live else ():
                if inside <= live:
                    found += rows
            found = self._directions[process, place] = list(dict.fromkeys(found))
        return found

    def _suggested(self, process: int) -> list[tuple[frozenset[int], list[Row]]]:
        """Candidate inequalities for registers of the process, with those registers."""
        found = self._suggesting.get(process)
        if found is None:
            suggested = (
                *self._tested(process),
                *self._begun(process),
                *self._together(process),
                *self._wrapped(process),
                *self._turns,
                *self._reached(process),
                *self._between(process),
            )
            made = [(self._registers_in(row), row) for row in dict.fromkeys(suggested)]
            found = self._suggesting[process] = [
                (inside, [each for like in self._alike(row) for each in (like, negative(like))]) for inside, row in made if inside
            ]
        return found

    def clauses(self, process: int, place: int) -> list[Condition]:
        """Candidate conditions other than inequalities: the outcomes of other tests."""
        found = self._clauses.get((process, place))
        if found is None:
            live = self.live[process][place]
            found = [
                each
                for each in self._asked(process)
                if (inside := set().union(*(self._registers_in(part.row) for part in comparisons(each)))) and inside <= live
            ]
            self._clauses[process, place] = found
        return found

    def _asked(self, process: int) -> list[Condition]:
        """Outcomes of tests that are not inequalities, also in terms of counters after their increment."""
        found = self._asking.get(process)
        if found is None:
            states = self.network.processes[process].states
            asked: dict[Condition, None] = {}
            for place, state in enumerate(states):
                if isinstance(state.action, Test):
                    asked.update(dict.fromkeys(each for outcome in self.test(process, place) for each in _clauses_of(outcome)))
            # After an increment, the test that was passed is about the previous value.
            for variable, before in self._steps(process):
                known = self.variables.moved({variable: before})
                asked.update(dict.fromkeys([substituted(each, known) for each in asked]))
            asked.update(dict.fromkeys(self._repeated(process)))
            found = self._asking[process] = list(asked)
        return found

    def _repeated(self, process: int) -> Iterator[Condition]:
        """For a loop with its test at the end: the counter has its initial value, or the test has passed for the previous one. (Where the
        bound consists of sizes, situations tell its outcomes apart; with another test in front of the loop, an inequality holds.)"""
        states, steps = self.network.processes[process].states, set(self._steps(process))
        begun: dict[int, dict[Row, None]] = {}
        tests = [self.test(process, place) for place, state in enumerate(states) if isinstance(state.action, Test)]
        outcomes = {outcome for test in tests for outcome in test}
        for state in states:
            for edge in edges_of(state.action):
                for variable, row in self._edge(edge)[0].items():
                    if not self._registers_in(row):
                        begun.setdefault(variable, {})[row] = None
        for place, state in enumerate(states):
            for outcome, edge in zip(self.test(process, place), edges_of(state.action)) if isinstance(state.action, Test) else ():
                for variable, row in self._edge(edge)[0].items():
                    before = plus(scaled(one(variable), 2), row, -1)
                    bound = {each for part in comparisons(outcome) for each, _ in part.row[1]} - {variable}
                    if (variable, before) in steps and any(each in self.variables.derived for each in bound):
                        passed = substituted(outcome, self.variables.moved({variable: before}))
                        for first in begun.get(variable, ()):
                            if substituted(passed, self.variables.moved({variable: first})) not in outcomes:
                                yield Connective(False, (Comparison("eq", plus(one(variable), first, -1)), passed))

    def _alike(self, row: Row) -> list[Row]:
        """The row with each constant that some process uses in a comparison of the same shape."""
        if self._constants is None:
            self._constants = {}
            for process in range(len(self.network.processes)):
                for each in (like for test in self._tested(process) for like in (test, negative(test))):
                    constants = self._constants.setdefault(self._shape(each), [])
                    constants += [each[0]] if each[0] not in constants else []
        return [row, *((constant, row[1]) for constant in self._constants.get(self._shape(row), ()))]

    def _shape(self, row: Row) -> Terms:
        """The shape of a row: its terms with counters anonymised."""
        return tuple((variable if variable < len(self.variables.sizes) else -1, coefficient) for variable, coefficient in row[1])

    def _begun(self, process: int) -> Iterator[Row]:
        """The distances of counters from their initial values; from that of another counter, where they count down from it."""
        down = {variable for variable, before in self._steps(process) if plus(before, one(variable), -1) > ZERO}
        for variable, row in self._assigned(process):
            # (Also from what is found in memory where another counter stands.)
            known = all(each in self.variables.carried or not self._registers_in(one(each)) for each, _ in row[1])
            others = {each for each, _ in row[1]}.difference({variable}, self.variables.derived)
            # (That a counter has not become negative is proposed of each.)
            far = bool(row[1]) or variable in down or row[0] < 0
            if far and (known or variable in down and len(others) == len(row[1]) == 1):
                yield plus(one(variable), row, -1)
            # A counter that goes round begins each time.
            for each in starts([self.variables.forms[part] for part, _ in row[1]]):
                if symbols_of(each).isdisjoint(self.registers):
                    yield plus(one(variable), self.variables.row(each), -1)

    def _reached(self, process: int) -> Iterator[Row]:
        """How far a counter comes that advances by a size, where another one counts its turns up to a quotient by that size."""
        if not self.products:
            return
        begun = [(variable, row) for variable, row in self._assigned(process) if not self._registers_in(row)]
        for variable, before in self._steps(process):
            step = self.variables.form(plus(one(variable), before, -1))
            divided = [each.arguments[0] for each in self.variables.number if is_quotient(each) and each.arguments[1] == step]
            for dividend in dict.fromkeys(divided):
                if symbols_of(dividend).isdisjoint(self.registers):
                    row = self.variables.row(dividend)
                    yield from (plus(plus(begin, row), one(variable), -1) for each, begin in begun if each == variable)

    def _between(self, process: int) -> Iterator[Row]:
        """What registers lie between that are given what is loaded where a counter stands, or what is made of it."""
        given: dict[Symbol, Atom] = {}
        assigned = list(self._assigned(process))
        for variable, row in assigned:
            if (each := self._loaded(row)) is not None:
                given[self.variables.symbol(variable)] = each
                yield from self.variables.ends(each, one(variable))
        known = {symbol: atom(each) for symbol, each in given.items()}
        for variable, row in assigned:
            form = self.variables.form(row)
            if not symbols_of(form).isdisjoint(given) and self.variables.symbol(variable) not in symbols_of(form):
                yield from self.variables.between_ends(substitute(form, known), one(variable))

    def _loaded(self, row: Row) -> Atom | None:
        """The value, if it is one that is assigned to registers as it is, although nothing else is known about it."""
        if row[0] or len(row[1]) != 1 or row[1][0][1] != 1 or row[1][0][0] not in self.variables.carried:
            return None
        ((each, _),) = self.variables.forms[row[1][0][0]].terms
        return each if isinstance(each, (Apply, Choose, Floor)) else None

    def _assigned(self, process: int) -> Iterator[tuple[int, Row]]:
        for values in self._values(process):
            yield from values.items()

    def _together(self, process: int) -> Iterator[Row]:
        """The distances of counters that are incremented together: one of them may be reset at times."""
        for values in self._values(process):
            steps = {v: row[0] for v, row in values.items() if row[1] == ((v, 1),)}
            for (one_, step), (other, further) in combinations(sorted(steps.items()), 2):
                yield plus(scaled(one(one_), abs(further)), one(other), -abs(step) if step * further > 0 else abs(step))

    def _wrapped(self, process: int) -> Iterator[Row]:
        """How far two counters come together, where one goes on as the other one is set back by a size: `n -= columns` as `m += 1`. It is
        no further than the first one may come by its test, and the second one by a step beyond that size."""
        tested = self._tested(process)
        for values in self._values(process):
            apart = {variable: plus(row, one(variable), -1) for variable, row in values.items()}
            on = [variable for variable, step in apart.items() if not step[1] and step[0] > 0]
            back = [(variable, step) for variable, step in apart.items() if step[1] and not self._registers_in(step)]
            for (variable, step), other in product(back, on):
                ends = [row for row in tested if self._registers_in(row) == {other} and (other, 1) in row[1]]
                beyond = [
                    known[0]
                    for each, row in self._steps(process)
                    if each == variable and not (known := plus(one(each), row, -1))[1]
                ]
                for most, more in product(ends, beyond):
                    # (What is tested is that the first one has come there.)
                    yield plus(plus(negative(most), step, -1), plus(one(variable), (1 - more, ())), -1)

    def _tested(self, process: int) -> list[Row]:
        """The rows that tests compare with 0, also in terms of counters after their increment."""
        made = self._testing.get(process)
        if made is None:
            found: dict[Row, None] = {}
            for place, state in enumerate(self.network.processes[process].states):
                if isinstance(state.action, Test):
                    found.update(dict.fromkeys(each.row for each in comparisons(self.test(process, place)[0])))
            steps = self._steps(process)
            for variable, before in steps:
                found.update(dict.fromkeys([replaced(row, {variable: before}) for row in found]))
            for values in self._values(process):
                found.update(dict.fromkeys(list(in_terms_of_kept(found, values, self.variables))))
            made = self._testing[process] = [*found, *self._awaited(list(found), steps)]
        return made

    def tested(self) -> tuple[Row, ...]:
        """Of all processes."""
        if self._all_tested is None:
            rows = [row for process in range(len(self.network.processes)) for row in self._tested(process)]
            self._all_tested = tuple(row for row in dict.fromkeys(rows) if self._registers_in(row))
        return self._all_tested

    def _awaited(self, tested: list[Row], steps: list[tuple[int, Row]]) -> Iterator[Row]:
        """Tested values derived from counters, in terms of the counters before their increment: the outcome that comes next."""
        for row in tested:
            for made in {variable for variable, _ in row[1]} & self.variables.derived.keys():
                for variable, before in steps:
                    if variable in self.variables.derived[made]:
                        after = plus(one(variable), plus(before, one(variable), -1), -1)
                        yield replaced(row, {made: self.variables.renamed(made, {variable: after})})

    def _name_required(self) -> None:
        for process in self.network.processes:
            for state in process.states:
                for edge in edges_of(state.action):
                    for condition in edge.requires:
                        self.variables.condition(condition)

    def _steps(self, process: int) -> list[tuple[int, Row]]:
        """The values of counters before an increment, in terms of those after it."""
        found = self._stepping.get(process)
        if found is None:
            made: dict[tuple[int, Row], None] = {}
            for state in self.network.processes[process].states:
                for edge in edges_of(state.action):
                    for variable, row in self._edge(edge)[0].items():
                        step = plus(row, one(variable), -1)
                        if step != ZERO and not self._registers_in(step):
                            made[variable, plus(one(variable), step, -1)] = None
            found = self._stepping[process] = [*made]
        return found

    def _values(self, process: int) -> Iterator[Values]:
        """What each edge assigns."""
        for state in self.network.processes[process].states:
            for edge in edges_of(state.action):
                yield self._edge(edge)[0]

    def _registers_in(self, row: Row) -> frozenset[int]:
        found: set[int] = set()
        for variable, _ in row[1]:
            found.update(self.variables.derived.get(variable, (variable,) if variable >= len(self.variables.sizes) else ()))
        return frozenset(found)


def _clauses_of(condition: Condition) -> Iterator[Condition]:
    """The parts that are neither inequalities nor equations."""
    match condition:
        case Connective(True, parts):
            for part in parts:
                yield from _clauses_of(part)
        case Comparison("ne") | Connective():
            yield condition
        case _:
            pass
