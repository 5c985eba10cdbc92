"""How far a walk has come, in place of how many turns it has had.

A counter i of turns that is compared with a quotient by a size g is replaced by the distance i * g: `i < ceil(n / g)` is `i * g < n`, for
g >= 1. Walks that count their turns up or down and walks that advance by the size are then alike, and compare with the same number; and
what the machine multiplies to find the place to which some turns lead is a register.
"""

from collections.abc import Iterator, Sequence

from pipec.protocol.restating.spelled import spelled
from pipec.record import record, replace
from pipec.verify.network import Edge, Network, Process, State, Test, edges_of
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.reader.values.extremes import counts
from pipec.verify.reader.values.parts import PLACES, is_row, of_places
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
    applied,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    is_larger,
    is_quotient,
    negate,
    product,
    scale,
    summed,
    symbols_of,
)

_REDUCED = ("s32", "u32")


class _Needed(Exception):
    """The number of turns is part of something that a distance does not say."""


@record
class _Counter:
    """`start`: what a counter that goes down begins with; one that goes up begins with numbers. `forwards`: its distance is at least 0."""

    register: Symbol
    start: Linear | None
    forwards: bool

    @property
    def sign(self) -> int:
        return 1 if self.start is None else -1


@record
class Measured:
    """A process with distances in place of counters. `meant`: what is known of each added register; `held`: in which states, where not
    wherever it has been given a value. `stages`: what is known one after another where registers are given a value, before that. `numbers`:
    of the registers those for numbers of a tile."""

    process: Process
    meant: tuple[tuple[Symbol, tuple[Formula, ...]], ...] = ()
    held: tuple[tuple[Symbol, frozenset[int]], ...] = ()
    stages: tuple[tuple[Formula, ...], ...] = ()
    numbers: tuple[Symbol, ...] = ()


def with_distances(network: Network) -> tuple[Measured, ...]:
    """The processes with distances in place of counters of turns; as they are if some process needs to know how many turns there are, as
    one that has all blocks of all its tiles in one loop."""
    several = not any(_asks_which_turn(process) for process in network.processes)
    made = tuple([measured(process, network.facts, several=several) for process in network.processes])
    return tuple(map(Measured, network.processes)) if any(_counts_turns(one.process) for one in made) else made


def _counts_turns(process: Process) -> bool:
    """Whether a test or a value has a quotient of sizes by a size."""
    forms = [
        form
        for state in process.states
        for form in (
            *(_forms(state.action.condition) if isinstance(state.action, Test) else ()),
            *(value for edge in edges_of(state.action) for _, value in edge.values if value is not None),
        )
    ]
    return any(is_quotient(one) and not counts(atom(one)) for form in forms for one in _atoms(form))


def _asks_which_turn(process: Process) -> bool:
    """Whether a test takes a counter of turns apart, as where every other tile is for somebody else: whose turns are as many as two of
    these is said by the numbers of both."""
    tests = (state.action.condition for state in process.states if isinstance(state.action, Test))
    return any(isinstance(one, Floor) and counts(one.form) for test in tests for form in _forms(test) for one in _atoms(form))


def _forms(formula: Formula) -> Iterator[Linear]:
    return (one.form for one in _comparisons(formula))


def _atoms(form: Linear) -> Iterator[Atom]:
    """The parts of a form, at any depth that products and reductions have."""
    for one, _ in form.terms:
        yield one
        if isinstance(one, Apply) and not is_quotient(one):
            for argument in one.arguments:
                yield from _atoms(argument)


def measured(process: Process, facts: Sequence[Formula], *, several: bool = True) -> Measured:
    """The process with the distances of its walks in place of the counters of their turns. Places that are computed from them are required
    to fit their type, as those are that a counter walks to. `several`: also of walks by several times a size."""
    before, process, meant = process, spelled(process), []
    for counter in list(_counters(process)):
        for size in dict.fromkeys(_sizes(process, counter)):
            if _divides(size, facts) and (several or not size.terms or size.terms[0][1] == 1):
                try:
                    measuring = _Measuring(process, counter, size)
                    process = measuring.process()
                    meant.append((measuring.distance, measuring.meant))
                    break
                except _Needed:
                    continue
    return Measured(process, tuple(meant)) if meant else Measured(before)


def _divides(size: Linear, facts: Sequence[Formula]) -> bool:
    """Whether it is a number that is at least 1, or a multiple of one."""
    return (
        all(decided(Compare("ge", add(atom(one), Linear(-1)))) in facts for one, _ in size.terms)
        if size.terms
        else size.constant > 0
    )


def _counters(process: Process) -> Iterator[_Counter]:
    """The registers that begin with numbers and advance by numbers, and those that begin with one form of sizes and count down."""
    assigned: dict[Symbol, list[Linear | None]] = {}
    for state in process.states:
        for edge in edges_of(state.action):
            for symbol, value in edge.values:
                assigned.setdefault(symbol, []).append(value)
    for symbol, values in assigned.items():
        known = [value for value in values if value is not None]
        starts = {value for value in known if value.terms != ((symbol, 1),)}
        steps = [value.constant for value in known if value.terms == ((symbol, 1),)]
        if len(known) < len(values) or not starts:
            continue
        if not any(value.terms for value in starts):
            yield _Counter(symbol, None, forwards=min(steps, default=0) >= 0 and all(value.constant >= 0 for value in starts))
        elif len(starts) == 1:
            (start,) = starts
            if symbols_of(start).isdisjoint(assigned):
                yield _Counter(symbol, start, forwards=max(steps, default=0) <= 0)


def _sizes(process: Process, counter: _Counter) -> Iterator[Linear]:
    """By which quotients are divided that the counter is compared with: of sizes, and, where the divisor is a number, of what is left from
    a block's place. (A quotient of what other counters say is one number for whoever else has it, and so are blocks of K.)"""
    for state in process.states:
        for one in _comparisons(state.action.condition) if isinstance(state.action, Test) else ():
            if any(part == counter.register for part, _ in one.form.terms):
                for part, _ in (*one.form.terms, *(counter.start or Linear(0)).terms):
                    match part:
                        case Apply(_, (divided, Linear(0, ((Symbol(), times),)) as size)) if is_quotient(part):
                            if times > 0 and not counts(divided):
                                yield size
                        case Floor(divided, number) if not counts(divided) and _from_place(divided):
                            yield Linear(number)
                        case _:
                            pass


def _from_place(form: Linear) -> bool:
    """Whether it is what is left from a block's place. (What is loaded there is not.)"""
    return any(
        isinstance(one, Symbol)
        and one.name.startswith(PLACES)
        or isinstance(one, Choose)
        and (_from_place(one.yes) or _from_place(one.no))
        for one, _ in form.terms
    )


class _Measuring:
    """Replaces a counter by its distance. Raises _Needed."""

    def __init__(self, process: Process, counter: _Counter, size: Linear) -> None:
        self.before, self.counter, self.size = process, counter, size
        self.quotients: dict[Apply, None] = {}  # of sizes, by the size
        self.required: dict[Formula, None] = {}  # by what has been replaced
        factors = [(one.name, times) for one, times in size.terms if isinstance(one, Symbol)]
        self.name = "*".join([f"{times}*{name}" if times > 1 else name for name, times in factors]) or str(size.constant)
        self.distance = Symbol(f"{counter.register.name}*{self.name}")

    @property
    def meant(self) -> tuple[Formula, ...]:
        """What the distance is; and that it is not negative."""
        distance, counter = atom(self.distance), self.counter
        turns = add(atom(counter.register), counter.start or Linear(0), -1)
        apart = add(distance, product(turns, self.size), -counter.sign)
        # (With the products of the quotients that the turns are compared with the checker has what those are no more than.)
        multiples = [Compare("ge", add(one.arguments[0], product(atom(one), self.size), -1)) for one in self.quotients]
        return (Compare("eq", apart), *((Compare("ge", distance),) if counter.forwards else ()), *multiples)

    def process(self) -> Process:
        states = []
        for state in self.before.states:
            action = with_edges(state.action, self._edge)
            if isinstance(action, Test):
                self.required.clear()
                action = Test(self._formula(action.condition), action.yes, action.no)
                action = with_edges(action, self._requiring)
            live = tuple([self.distance if one == self.counter.register else one for one in state.live])
            states.append(State(state.line, action, live))
        return replace(self.before, states=tuple(states))

    def _edge(self, edge: Edge) -> Edge:
        if not edge.values and not edge.requires:
            return edge
        self.required.clear()
        values = tuple([self._assigned(*row) for row in edge.values])
        return self._requiring(replace(edge, values=values, requires=tuple(map(self._formula, edge.requires))))

    def _requiring(self, edge: Edge) -> Edge:
        return replace(edge, requires=tuple(dict.fromkeys((*edge.requires, *self.required)))) if self.required else edge

    def _assigned(self, symbol: Symbol, value: Linear | None) -> tuple[Symbol, Linear | None]:
        if symbol != self.counter.register:
            return symbol, None if value is None else self._form(value)
        assert value is not None
        if value.terms == ((symbol, 1),):
            return self.distance, add(atom(self.distance), self._times(self.counter.sign * value.constant))
        return self.distance, self._times(value.constant if self.counter.start is None else 0)

    def _times(self, turns: int) -> Linear:
        return scale(self.size, turns)

    def _formula(self, formula: Formula) -> Formula:
        match formula:
            case Compare():
                return self._comparison(formula)
            case Both(parts):
                return both(*map(self._formula, parts))
            case Either(parts):
                return either(*map(self._formula, parts))

    def _comparison(self, asked: Compare) -> Formula:
        times = dict(asked.form.terms).get(self.counter.register, 0)
        rest = add(asked.form, atom(self.counter.register), -times)
        if self.counter.start is not None:
            rest = add(rest, self.counter.start, times)
        turns = add(scale(atom(self.distance), self.counter.sign * times), self._times(rest.constant))
        match rest.terms:
            case () if times:
                return decided(Compare(asked.relation, turns))
            case ((one, sign),) if (divided := self._divided(one)) is not None and abs(sign) == 1 and asked.relation == "ge":
                # A quotient is at least a number exactly if what is divided is at least that many times the divisor.
                if sign == 1:
                    return self._at_least(divided, scale(turns, -1))
                return negate(self._at_least(divided, add(turns, self._times(1))))
            case _:
                return decided(Compare(asked.relation, self._form(asked.form)))

    def _divided(self, one: Atom) -> Linear | None:
        match one:
            case Apply(_, (divided, by)) if is_quotient(one) and by == self.size:
                if not counts(divided):
                    self.quotients[one] = None
                return self._form(divided)
            case Floor(divided, number) if Linear(number) == self.size and _from_place(divided):
                return self._form(divided)
            case _:
                return None

    def _at_least(self, number: Linear, distance: Linear) -> Formula:
        """Whether the number is at least the distance: where that is positive, the larger one of the number and 0 is the number."""
        distance, rest = add(distance, Linear(-number.constant)), Linear(0, number.terms)
        match rest.terms:
            case ((Choose(_, yes, no) as one, 1),) if is_larger(one) and Linear(0) in (yes, no) and self._is_positive(distance):
                rest = no if yes == Linear(0) else yes
            case _:
                pass
        return decided(Compare("ge", add(rest, distance, -1)))

    def _is_positive(self, distance: Linear) -> bool:
        """A walk begins at 0 or later and goes on; and a size by which is divided is at least 1."""
        symbols = {self.distance, *symbols_of(self.size)}
        known = all(one in symbols and times > 0 for one, times in distance.terms)
        least = distance.constant + sum(times for one, times in distance.terms if one != self.distance)
        return self.counter.forwards and known and least >= 1

    def _form(self, form: Linear) -> Linear:
        """The form, of the products that the machine makes of the counter."""
        if self.counter.register not in symbols_of(form):
            return form
        made = summed(form.constant, [self._term(*term) for term in form.terms])
        if self.counter.register in symbols_of(made):
            raise _Needed
        return made

    def _term(self, one: Atom, times: int) -> tuple[Linear, int]:
        """The machine adds up multiples of the counter by a number as it does those of other registers."""
        if one == self.counter.register and self.counter.start is None and not self.size.terms and not times % self.size.constant:
            return atom(self.distance), times // self.size.constant
        return self._atom(one), times

    def _atom(self, one: Atom) -> Linear:
        match one:
            case Floor(form, divisor):
                return floor(self._form(form), divisor)
            case Choose(condition, yes, no):
                return choose(self._formula(condition), self._form(yes), self._form(no))
            case Apply(kind, (form,)) if kind in _REDUCED:
                return self._reduced(kind, summed(form.constant, [(self._part(each), times) for each, times in form.terms]))
            case Apply(function, arguments):
                made = self._product(one)
                if made is not None:
                    return self._reduced(*made)
                return applied(function, tuple(map(self._form, arguments)))
            case _:
                return atom(one)

    def _part(self, one: Atom) -> Linear:
        match one:
            case Apply(kind, (form,)) if kind in _REDUCED:
                return self._reduced(kind, self._form(form))
            case Apply() if (made := self._product(one)) is not None:
                # (It could be what it is but for a multiple of 2^32, which makes no difference, but the checker does not see that.)
                return self._reduced(*made)
            case _:
                return self._form(atom(one))

    def _reduced(self, kind: str, form: Linear) -> Linear:
        """What the machine reduces the form to."""
        if not (of_places(form) or is_row(form)):
            return atom(Apply(kind, (form,)))
        least, most = RANGES[kind]
        self.required[Compare("ge", add(form, Linear(-least)))] = None
        self.required[Compare("ge", add(Linear(most), form, -1))] = None
        return form

    def _product(self, one: Apply) -> tuple[str, Linear] | None:
        """What the machine reduces to which type, if it is the product of the size and the counter, with a number beside it."""
        if len(one.arguments) != 2 or self.counter.start is not None:
            return None
        kind = one.function.rpartition(".")[2]
        for form, by in (one.arguments, one.arguments[::-1]):
            match form:
                case Linear(more, ((self.counter.register, times),)) if by == self.size and kind in _REDUCED:
                    distance = add(scale(atom(self.distance), times), self._times(more))
                    return kind, distance
                case _:
                    pass
        return None


def _comparisons(formula: Formula) -> Iterator[Compare]:
    match formula:
        case Compare():
            yield formula
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)
