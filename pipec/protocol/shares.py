"""Turns that are dealt out in turn to several roles: what each of them has had is a quotient of its own.

Of `i % 4 == 1` the network has `floor(i / 4)`. How many turns another role has had, `floor((i + 3) / 4)`, is no sum of that and of counters
where more than two share the turns, so it is a value of its own, of which facts may be found.
"""

from collections.abc import Iterator

from pipec.protocol.sample import forms_of
from pipec.verify.network import Network, Test
from pipec.verify.terms import Floor, Linear, Symbol, floor, symbols_of

_FEWEST, _MOST = 3, 8  # that share turns: of two, one has had what the other has not


def shares(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """The quotients of a counter by which tests ask for what a division leaves, from each turn on."""
    found: dict[Linear, None] = {}
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                found.update(dict.fromkeys(_of_form(form, registers)))
    return tuple(one for one in found if len(one.terms) == 1)


def _of_form(form: Linear, registers: frozenset[Symbol]) -> Iterator[Linear]:
    for one, _ in form.terms:
        if not isinstance(one, Floor):
            continue
        counter = Linear(0, one.form.terms)
        if len(counter.terms) == 1 and symbols_of(counter) <= registers and _FEWEST <= one.divisor <= _MOST:
            yield from (floor(Linear(turn, counter.terms), one.divisor) for turn in range(one.divisor))
