"""Loops that go on from a number that is computed of a counter, or as far as that, as to the end of the tile that it is in."""

from pipec.verify.network import Network, Process, edges_of
from pipec.verify.terms import Symbol, atom, symbols_of


def leaps(network: Network) -> bool:
    """Whether a register is given a number that is computed of others."""
    return any(map(goes_on, network.processes))


def goes_on(process: Process) -> bool:
    rows = [row for state in process.states for edge in edges_of(state.action) for row in edge.values]
    registers = {symbol for symbol, _ in rows}
    computed = (one for _, value in rows if value is not None for one, _ in value.terms if not isinstance(one, Symbol))
    return any(not symbols_of(atom(one)).isdisjoint(registers) for one in computed)
