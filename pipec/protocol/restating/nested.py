"""A single loop over the turns of several, as loops inside each other.

A loop over `range(T * s)` is that over `range(s)` inside of one over `range(T)`. Its counter i is T's counter times s, plus that of s;
whether there is another turn is asked of s first, and then of T: as a role asks that has these loops. Which factors are loops of their own,
and which is inside of which, is told by the loops of the other roles, and by what the loop itself divides its counter by.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from pipec.protocol.facts.products import fitting
from pipec.protocol.forms.everywhere import Everywhere, askable_formula
from pipec.protocol.forms.rewriting import Rewriting, is_machine_product
from pipec.protocol.program.liveness import assigned_in, live_in
from pipec.protocol.program.nests import depths
from pipec.protocol.program.program import registers_of
from pipec.protocol.program.structure import Asked, Beginnings
from pipec.record import record, replace
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.logic import System
from pipec.verify.network import Action, Edge, Network, Process, Test, edges_of
from pipec.verify.terms import (
    MOST_FACTORS,
    Apply,
    Atom,
    Choose,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    is_quotient,
    is_remainder,
    negate,
    product,
    scale,
    symbols_in,
)

_MOST_COUNTERS = 3  # of a process

Ranks = tuple[int | None, ...]  # per process how far inside a factor is a loop there


@record
class _Flat:
    """`counter`: of a loop over `range(bound)`; `factors`: of the bound; `divided`: its remainders and quotients in tests."""

    counter: Symbol
    bound: Apply
    factors: tuple[Linear, ...]
    divided: tuple[Apply, ...]

    @property
    def divisors(self) -> frozenset[Linear]:
        return frozenset(_divisor(one) for one in self.divided)


@record
class Nested:
    """The processes with such loops in other words, if the conditions hold."""

    others: tuple[Restatement, ...]
    conditions: tuple[Formula, ...]


def nested(network: Network) -> Nested | None:
    """None if no process has such a loop that another one says in other words."""
    registers = registers_of(network)
    flat = [list(_flat(process)) for process in network.processes]
    if not any(flat):
        return None
    nests = [_Depths(process, registers) for process in network.processes]
    conditions: dict[Formula, None] = {}
    found: list[tuple[int, Process, list[_Levels]]] = []
    everywhere, facts = Everywhere(network.facts), System(network.facts)
    for number, process in enumerate(network.processes):
        levels = []
        for one in flat[number][:_MOST_COUNTERS]:
            bounds = _ordered(one, number, nests)
            if len(bounds) > 1:
                levels.append(_Levels(one, bounds))
                exact = (each for form in (atom(one.bound), *bounds) for each in fitting(form, network.facts))
                asked = [everywhere.condition(each) for each in exact if not facts.entails(each)]
                if not all(map(askable_formula, asked)):
                    return None
                conditions.update(dict.fromkeys(asked))
        if levels:
            found.append((number, process, levels))
    if not found:
        return None
    sizes = System([*network.facts, *conditions]).closed()
    others = [_Nesting(number, process, levels, registers, sizes).restatement() for number, process, levels in found]
    return Nested(tuple(others), tuple(conditions))


# ---------------------------------------------------------------------------------------------------------------- which loops


def _flat(process: Process) -> Iterator[_Flat]:
    """The counters that begin with 0 if there is a turn, and go on by one if there is another one."""
    assigned: dict[Symbol, list[tuple[int, Action, Edge]]] = {}
    divided: dict[Linear, dict[Apply, None]] = {}
    for at, state in enumerate(process.states):
        for edge in edges_of(state.action):
            for symbol, _ in edge.values:
                assigned.setdefault(symbol, []).append((at, state.action, edge))
        for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
            for one, _ in form.terms:
                if is_remainder(one) or is_quotient(one):
                    divided.setdefault(one.arguments[0], {})[one] = None
    for counter, rows in assigned.items():
        bounds = {_bound(counter, action, edge) for _, action, edge in rows}
        (bound,) = bounds if len(bounds) == 1 else (None,)
        if bound is not None:
            factors = tuple(_factors(bound))
            if len(factors) <= MOST_FACTORS:
                yield _Flat(counter, bound, factors, tuple(divided.get(atom(counter), ())))


def _divisor(one: Apply) -> Linear:
    """Without the 1 that replaces a 0."""
    divisor = one.arguments[1]
    match divisor:
        case Linear(0, ((Choose(_, yes, Linear(1, ())), 1),)):
            return yes
        case _:
            return divisor


def _bound(counter: Symbol, action: Action, edge: Edge) -> Apply | None:
    """The product up to which a counter is counted that begins or goes on along the edge of a test."""
    if not isinstance(action, Test):
        return None
    condition = action.condition if edge == action.yes else negate(action.condition)
    value = dict(edge.values)[counter]
    if not isinstance(condition, Compare) or condition.relation != "ge" or value is None:
        return None
    left = add(condition.form, value)
    match left:
        case Linear(-1, ((Apply() as bound, 1),)) if is_machine_product(bound) and value in (
            Linear(0),
            add(atom(counter), Linear(1)),
        ):
            return bound
        case _:
            return None


def _factors(bound: Apply) -> Iterator[Linear]:
    for form in bound.arguments:
        match form:
            case Linear(0, ((Apply() as inner, 1),)) if is_machine_product(inner):
                yield from _factors(inner)
            case _:
                yield form


def _another_turn(bound: Linear) -> Formula:
    """What a loop up to the bound asks behind its first turn."""
    return Compare("ge", add(bound, Linear(-2)))


class _Depths:
    """How deep the loops of a process are, by what they ask; of a loop over a product that is of each factor, too."""

    def __init__(self, process: Process, registers: frozenset[Symbol]) -> None:
        self.beginnings = Beginnings(process, registers)
        self.of: dict[Asked, int] = {}
        self.forms: dict[tuple[int, frozenset[Linear]], Linear] = {}  # of a loop over a product, by its factors
        for place, depth in depths(process).items():
            action = process.states[place].action
            if not isinstance(action, Test):
                continue
            for condition in (action.condition, negate(action.condition)):
                if not isinstance(condition, Compare) or symbols_in(condition).isdisjoint(registers):
                    continue
                _, asked = self.beginnings.first_asked(condition)
                self.of.setdefault((False, asked), depth)
                for one, times in condition.form.terms:
                    if times == 1 and is_machine_product(one):
                        factors = [*_factors(one)]
                        self.forms.setdefault((depth, frozenset(factors)), atom(one))
                        for factor in factors:
                            self.of.setdefault(self.asked(factor), depth)

    def asked(self, factor: Linear) -> Asked:
        return False, self.beginnings.first_asked(_another_turn(factor))[1]


def _ordered(one: _Flat, number: int, nests: Sequence[_Depths]) -> tuple[Linear, ...]:
    """The bounds of the loops, the outermost first; one if nothing tells any apart."""
    ranks: dict[Linear, Ranks] = {}
    for factor in one.factors:
        asked = nests[number].asked(factor)
        ranks[factor] = tuple(each.of.get(asked) for other, each in enumerate(nests) if other != number)
    if len(ranks) < len(one.factors):
        return ()
    groups: dict[tuple[bool, Ranks], list[Linear]] = {}
    for factor, rank in ranks.items():
        groups.setdefault((factor in one.divisors, rank), []).append(factor)
    left, order = [*groups], list[tuple[bool, Ranks]]()
    while left:
        outer = next((each for each in left if not any(_inside(each, other) for other in left if other != each)), None)
        if outer is None:
            return ()
        left.remove(outer)
        order.append(outer)
    others = [each for other, each in enumerate(nests) if other != number]
    return tuple([_multiplied(groups[group], group[1], others, one) for group in order])


def _inside(one: tuple[bool, Ranks], other: tuple[bool, Ranks]) -> bool:
    """Whether the loop over one is inside of that over the other one. What no process says is outside."""
    if one[0] != other[0]:
        return one[0]
    pairs = [(a, b) for a, b in zip(one[1], other[1], strict=True) if a is not None and b is not None]
    return any(a > b for a, b in pairs) if pairs else any(a is not None for a in one[1]) and all(b is None for b in other[1])


def _multiplied(factors: Sequence[Linear], rank: Ranks, others: Sequence[_Depths], one: _Flat) -> Linear:
    """The product of factors that are one loop, in the words of a process that has that loop."""
    if len(factors) == 1:
        return factors[0]
    for depth, process in zip(rank, others, strict=True):
        if depth is not None and (depth, frozenset(factors)) in process.forms:
            return process.forms[depth, frozenset(factors)]
    said = next((each for each in _products(one.bound) if {*_factors(each)} == {*factors}), None)
    return atom(said) if said is not None else reduce(lambda a, b: atom(Apply(one.bound.function, (a, b))), factors)


def _products(bound: Apply) -> Iterator[Apply]:
    yield bound
    for form in bound.arguments:
        for inner, _ in form.terms:
            if is_machine_product(inner):
                yield from _products(inner)


# --------------------------------------------------------------------------------------------------------------- in other words


class _Levels:
    """Loops inside of each other, in place of one. `counters`: theirs; `turns`: how many turns the inner ones of the first k have had, of
    which the last is what the loop counts."""

    def __init__(self, one: _Flat, bounds: tuple[Linear, ...]) -> None:
        self.counter, self.bounds, self.of = one.counter, bounds, one
        self.counters = [Symbol(f"{one.counter.name}@{level}") for level in range(len(bounds))]
        self.turns = [
            self.counters[0],
            *(Symbol(f"{one.counter.name}@{level}+") for level in range(1, len(bounds) - 1)),
            one.counter,
        ]
        self.most = [*self._most()]

    def _most(self) -> Iterator[Linear]:
        made = Linear(1)
        for bound in self.bounds:
            made = product(made, _exact(bound))
            yield made

    def facts(self) -> Iterator[Formula]:
        """In a turn."""
        for level, (counter, bound) in enumerate(zip(self.counters, self.bounds, strict=True)):
            yield Compare("ge", atom(counter))
            yield Compare("ge", add(add(bound, atom(counter), -1), Linear(-1)))
            if (whole := _exact(bound)) != bound:
                yield Compare("eq", add(bound, whole, -1))
            if level:
                turns = self.turns[level]
                within = add(product(atom(self.turns[level - 1]), _exact(bound)), atom(counter))
                yield Compare("eq", add(within, atom(turns), -1))
                # All turns of this one of the loop around are within the bound.
                yield Compare(
                    "ge", add(self.most[level], product(add(atom(self.turns[level - 1]), Linear(1)), _exact(bound)), -1)
                )
                yield Compare("ge", atom(turns))
        yield Compare("eq", add(atom(self.of.bound), self.most[-1], -1))
        for each in self.of.divided:
            if (said := self.rest(each)) is not None:
                yield Compare("eq", add(atom(each), said, -1))

    def begins(self) -> tuple[tuple[Symbol, Linear], ...]:
        return tuple((symbol, Linear(0)) for symbol in (*self.counters, *self.turns[1:-1]))

    def goes_on(self, level: int) -> tuple[tuple[Symbol, Linear], ...]:
        """With the next turn of the loop at a level; those inside begin again, and all around it have had one more."""
        return (
            (self.counters[level], add(atom(self.counters[level]), Linear(1))),
            *((counter, Linear(0)) for counter in self.counters[level + 1 :]),
            *((turns, add(atom(turns), Linear(1))) for turns in self.turns[max(level, 1) : -1]),
        )

    def begun(self, level: int) -> Compare:
        return Compare("ge", add(self.bounds[level], Linear(-1)))

    def another(self, level: int) -> Compare:
        return Compare("ge", add(add(self.bounds[level], atom(self.counters[level]), -1), Linear(-2)))

    def beyond(self, level: int) -> Iterator[Formula]:
        """If there is another turn at a level, with all those inside of it: how many there are at least. Of two loops the checker sees it;
        of more, in terms of the counters, as it replaces the turns so far by what they equal, and multiplies inequalities where it knows
        the products."""
        turns = Linear(0)
        for inner, (counter, bound) in enumerate(zip(self.counters, self.bounds, strict=True)):
            whole = _exact(bound)
            if inner > level and len(self.bounds) > 2:
                further = add(turns, Linear(2))
                yield self.begun(inner)
                yield Compare("ge", add(self.most[inner - 1], further, -1))
                yield Compare("ge", add(self.most[inner], product(further, whole), -1))
            # Those inside are at their last turn.
            turns = add(product(turns, whole), atom(counter) if inner <= level else add(whole, Linear(-1)))

    def rest(self, one: Atom) -> Linear | None:
        """What the innermost loop says in place of a remainder or a quotient."""
        if one in self.of.divided and isinstance(one, Apply) and _divisor(one) == self.bounds[-1]:
            return atom(self.counters[-1] if is_remainder(one) else self.turns[-2])
        return None


def _exact(form: Linear) -> Linear:
    """A product as a whole number."""
    match form:
        case Linear(0, ((Apply() as one, 1),)) if is_machine_product(one):
            return reduce(product, map(_exact, one.arguments))
        case _:
            return form


class _Nesting:
    """Restates a process."""

    def __init__(
        self, number: int, process: Process, levels: Sequence[_Levels], registers: frozenset[Symbol], sizes: System
    ) -> None:
        self.number, self.process, self.levels, self.sizes = number, process, levels, sizes
        live, assigned = live_in(process, registers), assigned_in(process)
        self.within = [
            [one for one in levels if one.counter in alive and one.counter in given]
            for alive, given in zip(live, assigned, strict=True)
        ]
        self.places: list[Place] = []
        self.follows: dict[tuple[Formula, ...], System] = {}
        self.needless: dict[tuple[tuple[Formula, ...], Formula], bool] = {}

    def restatement(self) -> Restatement:
        self.places = [self._place(at) for at in range(len(self.process.states))]
        for at, state in enumerate(self.process.states):
            if isinstance(state.action, Test):
                self._test(at, state.action)
        return Restatement(self.number, self.process.start, tuple(self.places))

    def _facts(self, at: int) -> tuple[Formula, ...]:
        return tuple(dict.fromkeys(fact for one in self.within[at] for fact in one.facts()))

    def _place(self, at: int) -> Place:
        action, facts = self.process.states[at].action, self._facts(at)
        asks = None
        if isinstance(action, Test):
            asks = self._asked(action.condition)
        onwards = [
            Onward(takes, edge.target, (), self._required(facts, _answer(action, takes), edge.requires))
            for takes, edge in enumerate(edges_of(action))
        ]
        return Place(at, facts, asks, tuple(onwards))

    def _asked(self, condition: Formula) -> Formula:
        for one in self.levels:
            condition = Rewriting(one.rest).formula(condition)
            # Where the last turn of the innermost loop is asked for, that is whether there is another one.
            if isinstance(condition, Compare) and condition.relation != "ge":
                another = one.another(-1)
                last = add(another.form, Linear(1))
                if condition.form in (last, scale(last, -1)):
                    condition = another if condition.relation == "ne" else negate(another)
        return condition

    def _required(
        self, facts: tuple[Formula, ...], answer: Iterable[Formula], required: Iterable[Formula]
    ) -> tuple[Formula, ...]:
        """What does not follow."""
        having = (*facts, *answer)
        return tuple([one for one in required if not self._implied(having, one)])

    def _implied(self, having: tuple[Formula, ...], one: Formula) -> bool:
        if (having, one) not in self.needless:
            if having not in self.follows:
                self.follows[having] = self.sizes.extended(having)
            self.needless[having, one] = self.follows[having].entails(one)
        return self.needless[having, one]

    def _test(self, at: int, action: Test) -> None:
        """A test whether there is a turn, or another one, is replaced by those of the loops."""
        for takes, edge in enumerate(edges_of(action)):
            given = dict(edge.values)
            for one in self.levels:
                if (value := given.get(one.counter)) is not None:
                    self._asks(at, takes, one, begins=not value.terms)

    def _asks(self, at: int, takes: int, one: _Levels, *, begins: bool) -> None:
        """Asks in front of the edge that is taken if there is a turn: from the outermost loop on if it is the first one, else from the
        innermost one. As a loop inside of another one does, each asks at the beginning whether it has a turn."""
        facts, (on, out) = self.places[at].facts, self.places[at].onwards[:: -1 if takes else 1]
        levels, here = range(len(one.bounds)), at
        for level in levels if begins else reversed(levels):
            last = level == (levels[-1] if begins else 0)
            question = one.begun(level) if begins else one.another(level)
            further = len(self.places)
            if not last:
                self.places.append(Place(at, (*facts, question if begins else negate(question)), question, ()))
            then = Onward(None, further) if not last else replace(on, values=one.begins()) if begins else out
            if begins:
                yes, no = then, self._none(at, (*facts, negate(question)), one.bounds[level], out)
            else:
                yes, no = (
                    self._begun(at, (*facts, question, *one.beyond(level)), one, level, replace(on, values=one.goes_on(level))),
                    then,
                )
            self.places[here] = Place(at, facts, question, (yes, no))
            if not last:
                facts, here = self.places[further].facts, further

    def _none(self, at: int, facts: tuple[Formula, ...], bound: Linear, out: Onward) -> Onward:
        """The way on where a loop has no turn: if its bound is a product, past questions which factor is 0."""
        match bound:
            case Linear(0, ((Apply() as one, 1),)) if is_machine_product(one):
                factors = [*_factors(one)]
                for factor in factors[:-1]:
                    self.places.append(Place(at, facts, Compare("ge", add(factor, Linear(-1))), (out, out)))
                    out = Onward(None, len(self.places) - 1)
        return out

    def _begun(self, at: int, facts: tuple[Formula, ...], one: _Levels, level: int, on: Onward) -> Onward:
        """The way on, past questions whether the loops inside have a turn, as they had before."""
        for inside in range(len(one.bounds) - 1, level, -1):
            self.places.append(Place(at, facts, one.begun(inside), (on, on)))
            on = Onward(None, len(self.places) - 1)
        return on


def _answer(action: Action, takes: int) -> tuple[Formula, ...]:
    return () if not isinstance(action, Test) else (negate(action.condition) if takes else action.condition,)
