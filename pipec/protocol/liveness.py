"""Which registers matter in a state of a process: those that a test, a requirement or a value on some way from there depends on."""

from pipec.verify.network import Edge, Process, Test, edges_of
from pipec.verify.terms import Symbol, symbols_in, symbols_of

Live = list[frozenset[Symbol]]


def live_in(process: Process, registers: frozenset[Symbol]) -> Live:
    """Per state (backwards, until nothing changes)."""
    live: Live = [frozenset()] * len(process.states)
    preceding: dict[int, set[int]] = {}
    for number, state in enumerate(process.states):
        for edge in edges_of(state.action):
            preceding.setdefault(edge.target, set()).add(number)
    # A value that nobody asks for again would keep situations apart that go on alike.
    work = list(range(len(process.states)))
    while work:
        number = work.pop()
        action = process.states[number].action
        found: set[Symbol] = set(symbols_in(action.condition)) if isinstance(action, Test) else set()
        for edge in edges_of(action):
            found |= _needed(edge, live[edge.target])
        now = frozenset(found & registers)
        if now != live[number]:
            live[number] = now
            work += preceding.get(number, ())
    return live


def _needed(edge: Edge, after: frozenset[Symbol]) -> set[Symbol]:
    found = set(after) - {symbol for symbol, _ in edge.values}
    for symbol, value in edge.values:
        # What a value is made of matters only if the value does.
        if symbol in after and value is not None:
            found |= symbols_of(value)
    for required in edge.requires:
        found |= symbols_in(required)
    return found
