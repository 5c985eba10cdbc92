"""Follows a certificate for given sizes, with numbers where the checker has formulas: whether what it says is true of this run.

Nothing of the checker is used: waits and arrivals are counted as in `interpret`, conditions are computed. A value that a network leaves
unknown is drawn at random.
"""

import random
from collections import Counter

from pipec.record import replace
from pipec.verify.checker.certificate import Case, Certificate, Moves, Place, Restatement
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, State, Test, Wait, edges_of
from pipec.verify.terms import Both, Compare, Either, Formula, Symbol, symbols_in
from tests.verify.interpret import holds, value

MOST_NODES = 400  # of one run; a loop over a large size is followed so far


def sizes_of(network: Network, chosen: random.Random) -> dict[str, int] | None:
    """Small sizes within the network's facts; None where none were found."""
    names = sorted({one.name for fact in network.facts for one in _symbols(fact)})
    for _ in range(50):
        scale = chosen.choice((1, 3, 40, 200))
        numbers = {name: chosen.randrange(scale) if "ctaid" in name else chosen.randrange(scale + 1) for name in names}
        numbers |= {name: 1 + chosen.randrange(3) for name in names if "%ncta" in name or "%ncluster" in name}
        if all(holds(fact, numbers) for fact in network.facts):
            return numbers
    return None


def _symbols(formula: Formula) -> set[Symbol]:
    match formula:
        case Compare(_, form):
            return {one for one, _ in form.terms if isinstance(one, Symbol)}
        case Both(parts) | Either(parts):
            return set().union(*map(_symbols, parts))


def follow_certificate(network: Network, certificate: Certificate, sizes: dict[str, int], chosen: random.Random) -> None:
    """Fails where the certificate says something that is not so."""
    processes = list(network.processes)
    for other in certificate.restated:
        processes[other.process] = _in_other_words(processes[other.process], other)
    others = {one.process: (network.processes[one.process], one) for one in certificate.restated}
    network = replace(network, processes=tuple(processes))
    sizes = _strangers(network, certificate, chosen) | sizes
    cases = [case for case in certificate.cases if all(holds(one, sizes) for one in case.when)]
    assert cases, "no case is for these sizes"
    for case in cases:
        _Run(network, case, dict(sizes), chosen, others).run()


def _in_other_words(process: Process, other: Restatement) -> Process:
    states = [State(process.states[one.state].line, _said(one, process.states[one.state].action)) for one in other.places]
    return replace(process, states=tuple(states), start=other.start)


def _said(place: Place, action: Action) -> Action:
    edges = []
    for onward in place.onwards:
        edge = Edge(0) if onward.takes is None else edges_of(action)[onward.takes]
        edges.append(Edge(onward.target, (*edge.values, *onward.values), edge.advances, onward.requires))
    if place.asks is not None:
        return Test(place.asks, *edges)
    return replace(action, edge=edges[0]) if isinstance(action, Wait | Arrive) else action


def _strangers(network: Network, certificate: Certificate, chosen: random.Random) -> dict[str, int]:
    """Any numbers for names that nothing of the network has: what a certificate says of these holds whatever they are, or not at all."""
    said = [fact for case in certificate.cases for fact in (*case.when, *(one for node in case.nodes for one in node.facts))]
    named = {one.name for fact in said for one in symbols_in(fact)}
    edges = [edge for process in network.processes for state in process.states for edge in edges_of(state.action)]
    known = {one.name for fact in network.facts for one in symbols_in(fact)} | {
        one.name for edge in edges for one, _ in edge.values
    }
    return {name: chosen.randrange(1 << 20) for name in sorted(named - known)}


class _Run:
    """`others`: the processes as they are, beside what is said of them."""

    def __init__(
        self,
        network: Network,
        case: Case,
        values: dict[str, int],
        chosen: random.Random,
        others: dict[int, tuple[Process, Restatement]],
    ) -> None:
        self.network, self.case, self.values, self.chosen, self.others = network, case, values, chosen, others
        self.places = [one.start for one in network.processes]
        self.cursors = [[0] * one.cursors for one in network.processes]
        self.arrived: Counter[tuple[int, int]] = Counter()
        self.missing: Counter[tuple[int, int]] = Counter()  # bytes

    def run(self) -> None:
        number = self._through(self.case.begin)
        for _ in range(MOST_NODES):
            node = self.case.nodes[number]
            assert all(holds(fact, self.values) for fact in node.facts), "a fact does not hold"
            if node.test is None:
                self._at_the_end()
                return
            action = self.network.processes[node.test].states[self.places[node.test]].action
            assert isinstance(action, Test), "no test"
            outcome = holds(action.condition, self.values)
            moves = node.yes if outcome else node.no
            assert moves is not None, "an outcome that is left out"
            self._enter(node.test, action.yes if outcome else action.no)
            number = self._through(moves)

    def _through(self, moves: Moves) -> int:
        for step in moves.steps:
            process = step if step >= 0 else ~step
            action = self.network.processes[process].states[self.places[process]].action
            if isinstance(action, Test):
                assert holds(action.condition, self.values) == (step >= 0), "a test comes out otherwise"
                self._enter(process, action.yes if step >= 0 else action.no)
                continue
            assert isinstance(action, Wait | Arrive), "a step that is none"
            use = action.use.ring, self.cursors[process][action.use.cursor] + action.use.shift
            if isinstance(action, Wait):
                assert self._complete(*use), "a step waits for what has not come"
            else:
                assert self._complete(use[0], use[1] - self.network.rings[use[0]].stages), "an arrival for a phase to come"
                self.arrived[use] += action.count
                self.missing[use] += action.expects - action.delivers
                assert self.arrived[use] <= self.network.rings[use[0]].count, "an arrival too many"
            self._enter(process, action.edge)
        return moves.node

    def _complete(self, ring: int, use: int) -> bool:
        return use < 0 or self.arrived[ring, use] == self.network.rings[ring].count and not self.missing[ring, use]

    def _as_it_is(self, number: int) -> None:
        """The process itself takes the same edge, and nothing wraps there."""
        process, other = self.others[number]
        place = other.places[self.places[number]]
        action = process.states[place.state].action
        answer = None if place.asks is None else not holds(place.asks, self.values)
        takes = place.onwards[bool(answer)].takes
        if takes is not None:
            assert not isinstance(action, Test) or takes == (not holds(action.condition, self.values)), "it goes another way"
            assert all(holds(one, self.values) for one in edges_of(action)[takes].requires), "something wraps"

    def _enter(self, process: int, edge: Edge) -> None:
        if process in self.others:
            self._as_it_is(process)
        assert all(holds(one, self.values) for one in edge.requires), "something wraps"
        unknown = self.chosen.choice((0, 1, 2, 5, 1 << 20))
        self.values |= {one.name: unknown if form is None else value(form, self.values) for one, form in edge.values}
        for cursor, by in edge.advances:
            self.cursors[process][cursor] += by
        self.places[process] = edge.target
        if process in self.others:
            facts = self.others[process][1].places[edge.target].facts
            assert all(holds(one, self.values) for one in facts), "a fact of a restatement does not hold"

    def _at_the_end(self) -> None:
        for process, place in zip(self.network.processes, self.places, strict=True):
            assert isinstance(process.states[place].action, End), "a process has not ended"
        for ring, use in self.arrived:
            assert self._complete(ring, use) or not self.arrived[ring, use], "a barrier is left half full"
