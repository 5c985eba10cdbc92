"""Removes what decides nothing: synchronisations of a process with itself, branches with equal successors."""

from collections.abc import Callable, Mapping, Sequence

from pipec.record import replace
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, State, Test, Unreadable, Use, Wait, edges_of
from pipec.verify.terms import FALSE, TRUE, Linear, Symbol, atom, substitute, substituted, symbols_in, symbols_of


def _shortened(process: Process, number: int, rings: Mapping[int, int], *, branches: bool) -> Process:
    """The process without synchronisations with itself and branches with equal successors. `number`: of the process; `rings`: the new
    numbers of the remaining rings; `branches`: see `tidied`."""
    onwards: dict[int, Edge] = {}
    for at, state in enumerate(process.states):
        match state.action:
            case Arrive(use, edge) | Wait(use, edge) if use.ring not in rings:
                advances = tuple(row for row in edge.advances if row[0] != use.cursor)
                onwards[at] = Edge(edge.target, edge.values, advances, edge.requires)
    _decide_nothing(process.states, onwards, branches=branches)
    reached = reached_from(process.start, process.states)
    kept = [at for at in range(len(process.states)) if at not in onwards and at in reached]
    place = {old: new for new, old in enumerate(kept)}
    actions = [process.states[at].action for at in kept]
    used = sorted({action.use.cursor for action in actions if isinstance(action, (Arrive, Wait))})
    cursors = {old: new for new, old in enumerate(used)}
    names = {f"{number}:cursor{old}": f"{number}:cursor{new}" for old, new in cursors.items() if old != new}

    def moved(edge: Edge) -> Edge:
        edge = _past(edge, onwards, process.states)
        if edge.target in onwards:
            raise Unreadable(process.states[edge.target].line, "a loop that never ends is not understood")
        advances = tuple((cursors[cursor], by) for cursor, by in edge.advances if cursor in cursors)
        return Edge(place[edge.target], edge.values, advances, edge.requires)

    def counted(use: Use) -> Use:
        return Use(rings[use.ring], cursors[use.cursor], use.shift)

    states = []
    for at, action in zip(kept, actions, strict=True):
        state = process.states[at]
        if isinstance(action, End):
            action = End(tuple((rings[ring], count) for ring, count in action.leaves if ring in rings))
        states.append(State(state.line, with_edges(action, moved, counted), state.live))
    start = moved(Edge(process.start))
    if start != Edge(start.target):
        states.append(State(process.states[0].line, Test(TRUE, start, start)))
        start = Edge(len(states) - 1)
    made = replace(process, states=tuple(states), start=start.target, cursors=len(used))
    return renamed(made, lambda name: names.get(name, name)) if names else made


def _decide_nothing(states: Sequence[State], onwards: dict[int, Edge], *, branches: bool) -> None:
    """Adds the branches whose two edges lead to the same state in the same way, also those, unless `branches` are asked for, of which that
    is so once those on the way there are left out: of a branch within a branch the inner one comes first."""
    tests = [(at, state.action) for at, state in enumerate(states) if isinstance(state.action, Test)]
    onwards.update({at: test.yes for at, test in tests if test.yes == test.no})
    if branches:
        return
    known = -1
    while known < len(onwards):
        known = len(onwards)
        for at, test in tests:
            if at not in onwards and _past(test.yes, onwards, states) == _past(test.no, onwards, states):
                onwards[at] = test.yes


def _past(edge: Edge, onwards: Mapping[int, Edge], states: Sequence[State]) -> Edge:
    """The edge to the next state that is not left out; in a loop of such states, to one of them."""
    seen: set[int] = set()
    while edge.target in onwards and edge.target not in seen:
        seen.add(edge.target)
        edge = _joined(edge, onwards[edge.target])
    if not seen or not edge.values:
        return edge
    live = states[edge.target].live
    return Edge(edge.target, tuple(row for row in edge.values if row[0] in live), edge.advances, edge.requires)


def reached_from(start: int, states: Sequence[State]) -> set[int]:
    """The reachable states."""
    seen: set[int] = set()
    work = [start]
    while work:
        number = work.pop()
        if number not in seen:
            seen.add(number)
            work += [edge.target for edge in edges_of(states[number].action)]
    return seen


def _joined(first: Edge, then: Edge) -> Edge:
    """Composes two edges."""
    if not (then.values or then.advances or then.requires):
        return Edge(then.target, first.values, first.advances, first.requires)
    known = {symbol: form for symbol, form in first.values if form is not None}
    lost = {symbol for symbol, form in first.values if form is None}
    values = dict(first.values)
    for symbol, form in then.values:
        values[symbol] = None if form is None or symbols_of(form) & lost else substitute(form, known)
    advances = dict(first.advances)
    for cursor, by in then.advances:
        advances[cursor] = advances.get(cursor, 0) + by
    requires = [FALSE if symbols_in(formula) & lost else substituted(formula, known) for formula in then.requires]
    return Edge(then.target, tuple(values.items()), tuple(advances.items()), (*first.requires, *requires))


def _alone(network: Network) -> set[int]:
    """Named barriers used by the threads of one process only: they are in lockstep and wait for nobody. What they tell each other there
    matters to some of them that signal alone, also behind a later wait."""
    users: dict[int, set[int]] = {}
    whole: dict[int, bool] = {}
    apart: set[int] = set()
    for number, process in enumerate(network.processes):
        if any(isinstance(state.action, Arrive) and state.action.part for state in process.states):
            apart.add(number)
        for state in process.states:
            match state.action:
                case Arrive(use, edge, count):
                    follows = process.states[edge.target].action
                    users.setdefault(use.ring, set()).add(number)
                    meets = isinstance(follows, Wait) and follows.use == use and count == network.rings[use.ring].count
                    whole[use.ring] = whole.get(use.ring, True) and meets
    return {
        ring
        for ring, by in users.items()
        if len(by) == 1 and not by & apart and whole[ring] and network.rings[ring].kind == "named"
    }


def tidied(network: Network, *, branches: bool = False) -> Network:
    """The network without what decides nothing. `branches`: with those around others, as they decide how much code is executed."""
    alone = _alone(network)
    rings = {old: new for new, old in enumerate(ring for ring in range(len(network.rings)) if ring not in alone)}
    processes = [_counting(_shortened(process, at, rings, branches=branches), at) for at, process in enumerate(network.processes)]
    return replace(network, rings=tuple(network.rings[old] for old in rings), processes=tuple(processes))


def _counting(process: Process, at: int) -> Process:
    """References to a cursor are replaced by a register that starts at 0 and advances with it."""
    named = mentioned(process)
    cursors = {number: Symbol(f"{at}:cursor{number}") for number in range(process.cursors)}
    cursors = {number: symbol for number, symbol in cursors.items() if symbol in named}
    if not cursors:
        return process

    def counted(edge: Edge) -> Edge:
        moved = [(cursors[number], Linear(by, ((cursors[number], 1),))) for number, by in edge.advances if number in cursors]
        return replace(edge, values=(*edge.values, *moved))

    states = [replace(state, action=with_edges(state.action, counted)) for state in process.states]
    first = Edge(process.start, tuple((symbol, Linear(0)) for symbol in cursors.values()))
    states.append(State(process.states[0].line, Test(TRUE, first, first)))
    return replace(process, states=tuple(states), start=len(states) - 1)


def with_edges(action: Action, moved: Callable[[Edge], Edge], used: Callable[[Use], Use] = lambda use: use) -> Action:
    """The action with transformed edges and use."""
    match action:
        case Test():
            return Test(action.condition, moved(action.yes), moved(action.no))
        case Wait() | Arrive():
            return replace(action, use=used(action.use), edge=moved(action.edge))
    return action


def renamed(process: Process, name: Callable[[str], str]) -> Process:
    """The process with renamed register and cursor symbols."""
    symbols = mentioned(process).union(*[state.live for state in process.states])
    names = {symbol: Symbol(name(symbol.name)) for symbol in symbols if ":" in symbol.name}
    names = {symbol: one for symbol, one in names.items() if symbol != one}
    if not names:
        return process
    forms = {symbol: atom(one) for symbol, one in names.items()}

    def moved(edge: Edge) -> Edge:
        if not (edge.values or edge.requires):
            return edge
        values = tuple([(names.get(one, one), None if form is None else substitute(form, forms)) for one, form in edge.values])
        return Edge(edge.target, values, edge.advances, tuple([substituted(formula, forms) for formula in edge.requires]))

    states = []
    for state in process.states:
        action = with_edges(state.action, moved)
        if isinstance(action, Test):
            action = Test(substituted(action.condition, forms), action.yes, action.no)
        states.append(State(state.line, action, tuple([names.get(one, one) for one in state.live])))
    return replace(process, states=tuple(states))


def mentioned(process: Process) -> set[Symbol]:
    """The symbols that occur in the actions of a process."""
    found: set[Symbol] = set()
    for state in process.states:
        if isinstance(state.action, Test):
            found |= symbols_in(state.action.condition)
        for edge in edges_of(state.action):
            for _, form in edge.values:
                if form is not None:
                    found |= symbols_of(form)
            for formula in edge.requires:
                found |= symbols_in(formula)
    return found
