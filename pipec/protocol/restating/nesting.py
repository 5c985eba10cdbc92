"""A process in other words: with loops inside each other in place of a single one."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from pipec.protocol.forms.rewriting import Rewriting, is_machine_product
from pipec.protocol.program.liveness import assigned_in, live_in
from pipec.protocol.restating.flat_loops import Flat, divisor_of, factors_of
from pipec.record import replace
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.logic import System
from pipec.verify.network import Action, Process, Test, edges_of
from pipec.verify.terms import (
    Apply,
    Atom,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    is_remainder,
    negate,
    product,
    scale,
)


class Levels:
    """Loops inside of each other, in place of one. `counters`: theirs; `turns`: how many turns the inner ones of the first k have had, of
    which the last is what the loop counts."""

    def __init__(self, one: Flat, bounds: tuple[Linear, ...]) -> None:
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
            made = product(made, exact(bound))
            yield made

    def facts(self) -> Iterator[Formula]:
        """In a turn."""
        for level, (counter, bound) in enumerate(zip(self.counters, self.bounds, strict=True)):
            yield Compare("ge", atom(counter))
            yield Compare("ge", add(add(bound, atom(counter), -1), Linear(-1)))
            if (whole := exact(bound)) != bound:
                yield Compare("eq", add(bound, whole, -1))
            if level:
                turns = self.turns[level]
                within = add(product(atom(self.turns[level - 1]), exact(bound)), atom(counter))
                yield Compare("eq", add(within, atom(turns), -1))
                # All turns of this one of the loop around are within the bound.
                yield Compare("ge", add(self.most[level], product(add(atom(self.turns[level - 1]), Linear(1)), exact(bound)), -1))
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
            whole = exact(bound)
            if inner > level and len(self.bounds) > 2:
                further = add(turns, Linear(2))
                yield self.begun(inner)
                yield Compare("ge", add(self.most[inner - 1], further, -1))
                yield Compare("ge", add(self.most[inner], product(further, whole), -1))
            # Those inside are at their last turn.
            turns = add(product(turns, whole), atom(counter) if inner <= level else add(whole, Linear(-1)))

    def rest(self, one: Atom) -> Linear | None:
        """What the innermost loop says in place of a remainder or a quotient."""
        if one in self.of.divided and isinstance(one, Apply) and divisor_of(one) == self.bounds[-1]:
            return atom(self.counters[-1] if is_remainder(one) else self.turns[-2])
        return None


def exact(form: Linear) -> Linear:
    """A product as a whole number."""
    match form:
        case Linear(0, ((Apply() as one, 1),)) if is_machine_product(one):
            return reduce(product, map(exact, one.arguments))
        case _:
            return form


class Nesting:
    """Restates a process."""

    def __init__(
        self, number: int, process: Process, levels: Sequence[Levels], registers: frozenset[Symbol], sizes: System
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

    def _asks(self, at: int, takes: int, one: Levels, *, begins: bool) -> None:
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
                factors = [*factors_of(one)]
                for factor in factors[:-1]:
                    self.places.append(Place(at, facts, Compare("ge", add(factor, Linear(-1))), (out, out)))
                    out = Onward(None, len(self.places) - 1)
        return out

    def _begun(self, at: int, facts: tuple[Formula, ...], one: Levels, level: int, on: Onward) -> Onward:
        """The way on, past questions whether the loops inside have a turn, as they had before."""
        for inside in range(len(one.bounds) - 1, level, -1):
            self.places.append(Place(at, facts, one.begun(inside), (on, on)))
            on = Onward(None, len(self.places) - 1)
        return on


def _answer(action: Action, takes: int) -> tuple[Formula, ...]:
    return () if not isinstance(action, Test) else (negate(action.condition) if takes else action.condition,)
