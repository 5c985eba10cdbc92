"""Registers per state of a process: live ones, on which a later test, requirement or live value depends, and those with a value."""

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


def assigned_in(process: Process) -> list[frozenset[Symbol]]:
    """Per state the registers that have been given a value on all ways there (a forward fixed point)."""
    found: dict[int, frozenset[Symbol]] = {process.start: frozenset()}
    work = [process.start]
    while work:
        at = work.pop()
        for edge in edges_of(process.states[at].action):
            assigned = found[at].union(symbol for symbol, _ in edge.values)
            before = found.get(edge.target)
            if before is None or not before <= assigned:
                found[edge.target] = assigned if before is None else before & assigned
                work.append(edge.target)
    return [found.get(at, frozenset()) for at in range(len(process.states))]
