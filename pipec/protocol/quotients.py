"""Quotients of counters, of which facts may be found: what the network says of turns that it does not count.

Turns that are dealt out in turn to several roles: of `i % 4 == 1` the network has `floor(i / 4)`. How many turns another role has had,
`floor((i + 3) / 4)`, is no sum of that and of counters where more than two share the turns.

Counters that move on by more than one: of a loop over `range(b, n, 8)` only `floor((i - b) / 8)` tells that `i - b` is a multiple of 8,
and how that is related to a bound such as `ceildiv(n - b, 8)`.
"""

from collections.abc import Iterator

from pipec.protocol.sample import forms_of
from pipec.verify.network import Network, Process, Test, edges_of
from pipec.verify.terms import Floor, Linear, Symbol, add, atom, floor, symbols_of

_FEWEST, _MOST = 3, 8  # that share turns: of two, one has had what the other has not


def quotients_of(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    return tuple(dict.fromkeys((*_shares(network, registers), *strides(network, registers))))


def _shares(network: Network, registers: frozenset[Symbol]) -> Iterator[Linear]:
    """The quotients of a counter by which tests ask for what a division leaves, from each turn on."""
    for one in _tested(network):
        counter = Linear(0, one.form.terms)
        if len(counter.terms) == 1 and symbols_of(counter) <= registers and _FEWEST <= one.divisor <= _MOST:
            shares = (floor(Linear(turn, counter.terms), one.divisor) for turn in range(one.divisor))
            yield from (share for share in shares if len(share.terms) == 1)


def strides(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """How many turns lie behind a counter that moves on by more than one, where a test is about a quotient of sizes by that."""
    asked = {one.divisor for one in _tested(network) if symbols_of(one.form).isdisjoint(registers)}
    found: dict[Linear, None] = {}
    for process in network.processes:
        turns = turns_of(process, registers)
        found.update(dict.fromkeys(turn for _, step, turn in turns if any(divisor % step == 0 for divisor in asked)))
    return tuple(found)


def turns_of(process: Process, registers: frozenset[Symbol]) -> Iterator[tuple[Symbol, int, Linear]]:
    """Counters that move on by more than one, by how much, and how many turns lie behind each."""
    assigned = [
        (symbol, value)
        for state in process.states
        for edge in edges_of(state.action)
        for symbol, value in edge.values
        if value is not None
    ]
    steps = {symbol: abs(value.constant) for symbol, value in assigned if value.terms == ((symbol, 1),)}
    for symbol, begin in assigned:
        step = steps.get(symbol, 0)
        if step > 1 and symbols_of(begin).isdisjoint(registers):
            yield symbol, step, floor(add(atom(symbol), begin, -1), step)


def _tested(network: Network) -> Iterator[Floor]:
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                yield from (one for one, _ in form.terms if isinstance(one, Floor))
