"""Squares of counters, for loops that go up to the counter around them.

`for i in range(n): for j in range(i)` has i * (i - 1) / 2 + j turns behind it. Where another role takes the same triangle from its other
side, or as one loop, how many turns both have had is an equation of squares; and so is that neither has any left.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement

from pipec.protocol.facts.products import arrows_of, counters_around
from pipec.verify.network import Edge, Network, Process, Test
from pipec.verify.terms import Atom, Linear, Symbol, atom, forms_of, product, symbols_of

_MOST = 12  # products that are considered


def squares(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """Products of a counter with itself, and with the sizes between which it counts, if a loop inside of its own counts up to it, down
    to it, or from it."""
    found = dict.fromkeys(one for process in network.processes for one in _of_process(process, registers))
    return tuple(found)[:_MOST]


def _of_process(process: Process, registers: frozenset[Symbol]) -> Iterator[Linear]:
    arrows = [*arrows_of(process)]
    about = [form for state in process.states if isinstance(state.action, Test) for form in forms_of(state.action.condition)]
    begun = [(symbol, value) for _, edge in arrows for symbol, value in edge.values if value is not None]
    around = dict(counters_around([(-1, Edge(process.start)), *arrows], frozenset()))
    for inner, outer in sorted(around.items(), key=lambda pair: pair[0].name):
        beside = [form for form in about if inner in symbols_of(form)] + [value for symbol, value in begun if symbol == inner]
        for counter in sorted(outer, key=lambda symbol: symbol.name):
            if any(counter in symbols_of(form) for form in beside):
                yield from _multiplied(counter, about + [value for symbol, value in begun if symbol == counter], registers)


def _multiplied(counter: Symbol, about: list[Linear], registers: frozenset[Symbol]) -> Iterator[Linear]:
    sizes: dict[Atom, None] = {}
    for form in about:
        if symbols_of(form) & registers <= {counter}:
            sizes.update(dict.fromkeys(one for one, _ in form.terms if registers.isdisjoint(symbols_of(atom(one)))))
    for one, other in combinations_with_replacement((counter, *sizes), 2):
        yield product(atom(one), atom(other))
