"""Quotients of counters as candidate values: iterations that the network does not count explicitly.

Iterations dealt round-robin to several roles: for `i % 4 == 1` the network has `floor(i / 4)`. The number of iterations of another role,
`floor((i + 3) / 4)`, is not a linear function of that and of counters if more than two roles share the iterations.

Counters with a stride: in a loop over `range(b, n, 8)` only `floor((i - b) / 8)` expresses that `i - b` is a multiple of 8, and its
relation to a bound such as `ceildiv(n - b, 8)`.
"""

from collections.abc import Iterator

from pipec.protocol.sample import forms_of
from pipec.verify.network import Network, Process, Test, edges_of
from pipec.verify.terms import Floor, Linear, Symbol, add, atom, floor, symbols_of

_FEWEST, _MOST = 3, 8  # roles that share iterations: of two, one has the iterations that the other has not


def quotients_of(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    return tuple(dict.fromkeys((*_shares(network, registers), *strides(network, registers))))


def _shares(network: Network, registers: frozenset[Symbol]) -> Iterator[Linear]:
    """The quotients of a counter whose remainder is tested, for each offset."""
    for one in _tested(network):
        counter = Linear(0, one.form.terms)
        if len(counter.terms) == 1 and symbols_of(counter) <= registers and _FEWEST <= one.divisor <= _MOST:
            shares = (floor(Linear(turn, counter.terms), one.divisor) for turn in range(one.divisor))
            yield from (share for share in shares if len(share.terms) == 1)


def strides(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """The number of iterations completed by a counter with a stride, if a test involves a quotient of sizes by that stride."""
    asked = {one.divisor for one in _tested(network) if symbols_of(one.form).isdisjoint(registers)}
    found: dict[Linear, None] = {}
    for process in network.processes:
        turns = turns_of(process, registers)
        found.update(dict.fromkeys(turn for _, step, turn in turns if any(divisor % step == 0 for divisor in asked)))
    return tuple(found)


def turns_of(process: Process, registers: frozenset[Symbol]) -> Iterator[tuple[Symbol, int, Linear]]:
    """Counters with a stride other than 1, the stride, and the number of completed iterations."""
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
