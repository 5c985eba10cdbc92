"""One order in which the processes run: a rule that says who steps next. Any rule will do; a good one needs few different situations.

Who can arrive arrives, then who stands at a branch takes it, then who can pass a wait passes it; among these the consumers of a ring
come before its producers, so that rings hold as little as the program allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipec.verify.configuration import Configuration, Layout
from pipec.verify.configuration import Key as Standing
from pipec.verify.network import Arrive, Edge, End, Network, Test, Wait

History = tuple[tuple[tuple[int, bool], ...], ...]  # per process the branches taken since its last wait or arrival

Key = tuple[Standing, History]  # of a situation

_MOST_STEPS = 20_000  # without a decision


class Stuck(Exception):
    """Nobody can step, and not all have ended."""


@dataclass(slots=True)
class Situation:
    """`test`: the process that decides next; None when all have ended. `steps`, `edges`: what led here without a decision."""

    at: Configuration
    history: History
    test: int | None
    steps: tuple[int, ...]
    edges: tuple[Edge, ...]
    key: Key


class Schedule:
    def __init__(self, network: Network, order: Sequence[int]) -> None:
        self.network, self.order = network, tuple(order)
        self.layout = Layout(network)

    def start(self) -> Situation:
        return self.settle(Configuration(self.layout), tuple(() for _ in self.network.processes), ())

    def branch(self, source: Situation, outcome: bool) -> Situation:
        """After the outcome of the test at hand, up to the next."""
        process = source.test
        assert process is not None
        action = source.at.action(process)
        assert isinstance(action, Test)
        edge = action.yes if outcome else action.no
        at = source.at.copy()
        taken = tuple(sorted({*source.history[process], (at.places[process], outcome)}))
        history = (*source.history[:process], taken, *source.history[process + 1 :])
        at.enter(process, edge)
        return self.settle(at, history, (edge,))

    def settle(self, at: Configuration, history: History, edges: tuple[Edge, ...]) -> Situation:
        """Steps until somebody has to decide. Takes the configuration over. Raises Stuck."""
        past, steps, followed = list(history), [], list(edges)
        for _ in range(_MOST_STEPS):
            chosen = self.choose(at)
            if chosen is None or isinstance(at.action(chosen), Test):
                break
            edge = self.step(at, chosen)
            past[chosen] = ()
            steps.append(chosen)
            followed.append(edge)
        else:
            raise Stuck
        at.lower()
        return Situation(at, tuple(past), chosen, tuple(steps), tuple(followed), (at.key(), tuple(past)))

    def choose(self, at: Configuration) -> int | None:
        """Who steps next; None when all have ended. Raises Stuck."""
        deciding = passing = None
        ended = True
        for process in self.order:
            match at.action(process):
                case Arrive():
                    return process
                case Test() if deciding is None:
                    deciding = process
                case Wait(use=use) if passing is None and at.rings[use.ring].complete(at.use(process, use)):
                    passing = process
                case End():
                    continue
            ended = False
        found = passing if deciding is None else deciding
        if found is None and not ended:
            raise Stuck
        return found

    @staticmethod
    def step(at: Configuration, process: int) -> Edge:
        """Passes a wait that is complete, or arrives. Raises Refused where an arrival cannot be."""
        action = at.action(process)
        assert isinstance(action, (Wait, Arrive))
        if isinstance(action, Wait):
            at.wait(process, action.use)
        else:
            at.arrive(process, action)
        at.enter(process, action.edge)
        return action.edge


def orders(network: Network) -> list[tuple[int, ...]]:
    """Orders to try: consumers first; the reverse."""
    count = len(network.processes)
    fills: set[tuple[int, int]] = set()
    arriving: dict[int, set[int]] = {}
    for number, process in enumerate(network.processes):
        for state in process.states:
            if isinstance(state.action, Arrive):
                arriving.setdefault(state.action.use.ring, set()).add(number)
    for number, process in enumerate(network.processes):
        for state in process.states:
            if (
                isinstance(state.action, Wait)
                and state.action.use.shift >= 0
                and network.rings[state.action.use.ring].kind == "mbarrier"
            ):
                fills |= {(producer, number) for producer in arriving.get(state.action.use.ring, ()) if producer != number}
    rank = [0] * count
    for _ in range(count):
        for producer, consumer in fills:
            if rank[consumer] <= rank[producer] < count:
                rank[consumer] = rank[producer] + 1
    first = tuple(sorted(range(count), key=lambda process: (-rank[process], process)))
    return [first, first[::-1]]
