"""How far counters come that are multiplied by sizes: a tile of a walk is one of the tiles, so that the blocks of K in front of it are no
more than there are in all.

What the machine makes of such a counter, `(t + 1) * steps`, is exact under a condition on sizes that a launch can check, in which the
counter is at its last value.
"""

from collections.abc import Iterator, Sequence

from pipec.protocol.forms.everywhere import askable
from pipec.protocol.forms.rewriting import computed_inside, is_machine_product
from pipec.verify.logic import System
from pipec.verify.network import Network, Test, edges_of
from pipec.verify.terms import TRUE, Both, Compare, Formula, Linear, Symbol, add, atom, forms_of, negate, symbols_of

_UNKNOWN = atom(Symbol("any: number"))
Given = tuple[Linear, tuple[Formula, ...]]  # a value that a register is given, and what is known there by a test


def reached(network: Network, registers: frozenset[Symbol]) -> tuple[Formula, ...]:
    """The bounds, 0 and numbers made of sizes, of counters that the machine multiplies in tests; only of those that have both."""
    found: list[Formula] = []
    for symbol in sorted(_multiplied(network, registers), key=lambda one: one.name):
        given = [*_given(network, symbol)]
        natural = Compare("ge", atom(symbol))
        if not all(_follows(network, (*told, natural), value) for value, told in given):
            continue
        for most in dict.fromkeys(most for value, told in given for most in _ends(value, told, registers)):
            end = Compare("ge", add(most, atom(symbol), -1))
            if all(_follows(network, (*told, natural, end), add(most, value, -1)) for value, told in given):
                found += [natural, end]
                break
    return tuple(found)


def _follows(network: Network, known: Sequence[Formula], form: Linear) -> bool:
    """Whether the form is not negative."""
    return System([*network.facts, *known]).entails(Compare("ge", form))


def _multiplied(network: Network, registers: frozenset[Symbol]) -> frozenset[Symbol]:
    """The registers in products that tests are about."""
    found: set[Symbol] = set()
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                found.update(*(symbols_of(atom(one)) & registers for one in computed_inside(form) if is_machine_product(one)))
    return frozenset(found)


def _given(network: Network, symbol: Symbol) -> Iterator[Given]:
    for process in network.processes:
        for state in process.states:
            action = state.action
            for edge in edges_of(action):
                told: Formula = TRUE
                if isinstance(action, Test):
                    told = action.condition if edge is action.yes else negate(action.condition)
                for one, value in edge.values:
                    if one == symbol:
                        yield _UNKNOWN if value is None else value, (told,)


def _ends(value: Linear, told: Sequence[Formula], registers: frozenset[Symbol]) -> Iterator[Linear]:
    """The numbers made of sizes than which a value is no larger, as a test says."""
    for one in told:
        match one:
            case Compare("ge", form):
                most = add(value, form)
                if registers.isdisjoint(symbols_of(most)) and askable(most):
                    yield most
            case Both(parts):
                yield from _ends(value, parts, registers)
            case _:
                pass
