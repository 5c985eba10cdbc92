"""Live registers per state of a process: those on which a later test, requirement or live value depends."""

from pipec.verify.network import Action, Edge, Process, Test, edges_of
from pipec.verify.terms import Formula, Symbol, symbols_in, symbols_of

Live = list[frozenset[Symbol]]


def live_in(process: Process, registers: frozenset[Symbol]) -> Live:
    """Per state (a backward fixed point)."""
    live: Live = [frozenset()] * len(process.states)
    edges = [edges_of(state.action) for state in process.states]
    # The uses of a state itself.
    asked = [
        frozenset().union(*map(symbols_in, _asked(state.action, ways))) & registers
        for state, ways in zip(process.states, edges, strict=True)
    ]
    preceding: dict[int, set[int]] = {}
    for number, ways in enumerate(edges):
        for edge in ways:
            preceding.setdefault(edge.target, set()).add(number)
    # A dead value would keep situations apart that continue identically.
    work = list(range(len(process.states)))
    while work:
        number = work.pop()
        found = asked[number]
        for edge in edges[number]:
            after = live[edge.target]
            found |= _needed(edge, after) & registers if after and edge.values else after
        if found != live[number]:
            live[number] = found
            work += preceding.get(number, ())
    return live


def _asked(action: Action, edges: tuple[Edge, ...]) -> list[Formula]:
    required = [one for edge in edges for one in edge.requires]
    return [action.condition, *required] if isinstance(action, Test) else required


def _needed(edge: Edge, after: frozenset[Symbol]) -> frozenset[Symbol]:
    kept = after - {symbol for symbol, _ in edge.values}
    # The operands of a value are live only if the value is.
    return kept.union(*[symbols_of(value) for symbol, value in edge.values if symbol in after and value is not None])
