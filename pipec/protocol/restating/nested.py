"""A single loop over the turns of several, as loops inside each other.

A loop over `range(T * s)` is that over `range(s)` inside of one over `range(T)`. Its counter i is T's counter times s, plus that of s;
whether there is another turn is asked of s first, and then of T: as a role asks that has these loops. Which factors are loops of their own,
and which is inside of which, is told by the loops of the other roles, and by what the loop itself divides its counter by.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

from pipec.protocol.facts.products import fitting
from pipec.protocol.forms.everywhere import Everywhere, askable_formula
from pipec.protocol.forms.rewriting import is_machine_product
from pipec.protocol.program.nests import depths
from pipec.protocol.program.program import registers_of
from pipec.protocol.program.structure import Asked, Beginnings
from pipec.protocol.restating.flat_loops import Flat, factors_of, flat_loops
from pipec.protocol.restating.nesting import Levels, Nesting
from pipec.record import record
from pipec.verify.checker.certificate import Restatement
from pipec.verify.logic import System
from pipec.verify.network import Network, Process, Test
from pipec.verify.terms import (
    Apply,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    negate,
    symbols_in,
)

_MOST_COUNTERS = 3  # of a process

Ranks = tuple[int | None, ...]  # per process how far inside a factor is a loop there


@record
class Nested:
    """The processes with such loops in other words, if the conditions hold."""

    others: tuple[Restatement, ...]
    conditions: tuple[Formula, ...]


def nested(network: Network) -> Nested | None:
    """None if no process has such a loop that another one says in other words."""
    registers = registers_of(network)
    flat = [list(flat_loops(process)) for process in network.processes]
    if not any(flat):
        return None
    nests = [_Depths(process, registers) for process in network.processes]
    conditions: dict[Formula, None] = {}
    found: list[tuple[int, Process, list[Levels]]] = []
    everywhere, facts = Everywhere(network.facts), System(network.facts)
    for number, process in enumerate(network.processes):
        levels = []
        for one in flat[number][:_MOST_COUNTERS]:
            bounds = _ordered(one, number, nests)
            if len(bounds) > 1:
                levels.append(Levels(one, bounds))
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
    others = [Nesting(number, process, levels, registers, sizes).restatement() for number, process, levels in found]
    return Nested(tuple(others), tuple(conditions))


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
                        factors = [*factors_of(one)]
                        self.forms.setdefault((depth, frozenset(factors)), atom(one))
                        for factor in factors:
                            self.of.setdefault(self.asked(factor), depth)

    def asked(self, factor: Linear) -> Asked:
        return False, self.beginnings.first_asked(_another_turn(factor))[1]


def _ordered(one: Flat, number: int, nests: Sequence[_Depths]) -> tuple[Linear, ...]:
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


def _multiplied(factors: Sequence[Linear], rank: Ranks, others: Sequence[_Depths], one: Flat) -> Linear:
    """The product of factors that are one loop, in the words of a process that has that loop."""
    if len(factors) == 1:
        return factors[0]
    for depth, process in zip(rank, others, strict=True):
        if depth is not None and (depth, frozenset(factors)) in process.forms:
            return process.forms[depth, frozenset(factors)]
    said = next((each for each in _products(one.bound) if {*factors_of(each)} == {*factors}), None)
    return atom(said) if said is not None else reduce(lambda a, b: atom(Apply(one.bound.function, (a, b))), factors)


def _products(bound: Apply) -> Iterator[Apply]:
    yield bound
    for form in bound.arguments:
        for inner, _ in form.terms:
            if is_machine_product(inner):
                yield from _products(inner)
