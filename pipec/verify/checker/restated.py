"""Processes in other words: a certificate may add registers to a process, and have its tests ask the same of these.

A *restatement* of a process is an automaton of *places*. A place stands for a state of the process and does what that does. It may ask
something else, as long as each answer leads where the state's own test would go, or to another place for the same state; and the edges
behind it may give values to added registers. What a place asks, and what is required there so that no arithmetic wraps, must mean what the
state has there. Facts of the place relate the added registers to those of the process, so that this follows.

Each step of the process is then one of its restatement: the facts hold wherever it goes, by induction over its steps, and added registers
decide nothing that the process does not. That a restatement does not ask for ever follows from its termination (progress.py).
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import count

from pipec.record import record, replace
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.checker.configuration import need
from pipec.verify.checker.unknown import unknown
from pipec.verify.inequalities import MOST_STEPS
from pipec.verify.logic import System
from pipec.verify.network import Action, Edge, Network, Process, State, Test, edges_of
from pipec.verify.terms import (
    MOST_WRITTEN,
    TRUE,
    Formula,
    Symbol,
    negate,
    size_in,
    size_of,
    substituted,
    symbols_in,
    symbols_of,
)


def restated(network: Network, others: Sequence[Restatement], sizes: System) -> Network:
    """The network with the processes as they are restated. Raises Refused."""
    if not others:
        return network
    numbers = [one.process for one in others]
    need(len({*numbers}) == len(numbers), "a process is restated twice")
    need(all(0 <= number < len(network.processes) for number in numbers), "a process that does not exist is restated")
    own = [_assigned(process) for process in network.processes]
    taken = _named(network)
    for one in others:
        added = {symbol for place in one.places for onward in place.onwards for symbol, _ in onward.values}
        need(added.isdisjoint(taken), "a register is added that is there already")
        own[one.process] |= added
        taken |= added
    processes = list(network.processes)
    for one in others:
        # What a process does depends on its own registers only, wherever the others stand.
        foreign = set[Symbol]().union(*(symbols for number, symbols in enumerate(own) if number != one.process))
        processes[one.process] = _Restating(network.processes[one.process], one, sizes, foreign).process()
    return replace(network, processes=tuple(processes))


def _assigned(process: Process) -> set[Symbol]:
    return {symbol for state in process.states for edge in edges_of(state.action) for symbol, _ in edge.values}


def _named(network: Network) -> set[Symbol]:
    """The symbols of the network."""
    named = set[Symbol]().union(*map(symbols_in, network.facts))
    for process in network.processes:
        for state in process.states:
            named.update(state.live)
            if isinstance(state.action, Test):
                named |= symbols_in(state.action.condition)
            for edge in edges_of(state.action):
                named.update(*map(symbols_in, edge.requires))
                for symbol, value in edge.values:
                    named |= {symbol} if value is None else {symbol, *symbols_of(value)}
    return named


_EFFORTS = 1_000, 10_000, MOST_STEPS  # that a question may take: neither way is to use up the steps of the other


@record
class _Having:
    """The same premises, without and with what is known of sizes: what follows without it is soon seen, where products of many sizes would
    take all steps that a question may."""

    systems: tuple[System, ...]

    def extended(self, premises: Iterable[Formula]) -> "_Having":
        more = [*premises]
        return _Having(tuple([one.extended(more) for one in self.systems]))

    def entails(self, formula: Formula) -> bool:
        return any(one.entails(formula, most) for most in _EFFORTS for one in self.systems)


class _Restating:
    def __init__(self, process: Process, other: Restatement, sizes: System, foreign: Collection[Symbol]) -> None:
        self.before, self.other, self.sizes, self.foreign = process, other, sizes, foreign
        self.unknowns = count()
        self.shown = set[tuple[object, ...]]()  # what has been asked on the way from one place to another, and follows

    def process(self) -> Process:
        at = self._place(self.other.start).state
        need(at == self.before.start, "a restatement begins in another state")
        # Whatever the registers are at the start.
        need(
            all(map(self.sizes.entails, self._place(self.other.start).facts)),
            "the facts of a restatement do not hold at its start",
        )
        return replace(self.before, states=tuple(map(self._state, self.other.places)), start=self.other.start)

    def _place(self, number: int) -> Place:
        need(0 <= number < len(self.other.places), "a place of a restatement that does not exist")
        return self.other.places[number]

    def _state(self, place: Place) -> State:
        need(0 <= place.state < len(self.before.states), "a place for a state that does not exist")
        state = self.before.states[place.state]
        formulas = [*place.facts, *(one for onward in place.onwards for one in onward.requires)]
        formulas += [] if place.asks is None else [place.asks]
        used = set[Symbol]().union(*map(symbols_in, formulas))
        used.update(*(symbols_of(value) for onward in place.onwards for _, value in onward.values))
        need(used.isdisjoint(self.foreign), "a restatement is about registers of another process")
        return State(state.line, self._action(place, state.action), state.live)

    def _action(self, place: Place, action: Action) -> Action:
        if place.asks is None:
            edges = edges_of(action)
            need(not isinstance(action, Test), "a test without a question")
            need([onward.takes for onward in place.onwards] == [0] * len(edges), "a place goes on otherwise than its state")
            made = [self._edge(place, action, TRUE, onward) for onward in place.onwards]
            return action if not made else replace(action, edge=made[0])
        need(len(place.onwards) == 2, "a question with other than two answers")
        asks = isinstance(action, Test) or all(onward.takes is None for onward in place.onwards)
        need(asks, "a place goes on otherwise than its state")
        yes, no = (self._edge(place, action, *each) for each in zip((place.asks, negate(place.asks)), place.onwards, strict=True))
        return Test(place.asks, yes, no)

    def _edge(self, place: Place, action: Action, answer: Formula, onward: Onward) -> Edge:
        """The edge along which the place is left with the answer."""
        edge, then, meant = Edge(place.state), self._place(onward.target), TRUE
        if onward.takes is not None:
            edges = edges_of(action)
            need(0 <= onward.takes < len(edges), "a place goes on otherwise than its state")
            edge = edges[onward.takes]
            if isinstance(action, Test):  # whose condition is what the answer must mean
                meant = negate(action.condition) if onward.takes else action.condition
        need(then.state == edge.target, "a restatement goes on in another state")
        # Where a loop is written out several times, the same is asked each time.
        asked = place.facts, answer, onward.requires, meant, edge.requires, edge.values, onward.values, then.facts
        if asked not in self.shown:
            having = _Having((System(), self.sizes)).extended((*place.facts, answer, *onward.requires))
            need(having.entails(meant), "a restatement asks something else")
            having = having.extended([meant])
            need(all(map(having.entails, edge.requires)), "a restatement lets arithmetic wrap")
            self._holds(having.extended(edge.requires), edge, onward, then)
            self.shown.add(asked)
        return Edge(onward.target, (*edge.values, *onward.values), edge.advances, onward.requires)

    def _holds(self, having: _Having, edge: Edge, onward: Onward, then: Place) -> None:
        """Whether the facts hold at the place reached."""
        values = {symbol: unknown(next(self.unknowns)) if value is None else value for symbol, value in edge.values}
        values |= dict(onward.values)
        sizes = {symbol: size_of(value) for symbol, value in values.items()}
        need(all(size_in(fact, sizes) <= MOST_WRITTEN for fact in then.facts), "a value grows too large in a restatement")
        facts = [substituted(fact, values) for fact in then.facts]
        for _ in range(2):
            # Those that follow may serve to show others.
            follow = [having.entails(fact) for fact in facts]
            having = having.extended(fact for fact, follows in zip(facts, follow, strict=True) if follows)
            facts = [fact for fact, follows in zip(facts, follow, strict=True) if not follows]
        need(not facts, "the facts of a restatement do not follow from those before them")
