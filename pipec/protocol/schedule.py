"""One order in which the processes run: a rule that says who steps next. Any rule will do; a good one needs few different situations.

Who consumes something steps whenever it can, the last consumers first; who only produces steps when somebody waits for it. So rings hold
as little as the program allows, and a producer takes a branch when its consumers have taken theirs.
"""

from collections.abc import Sequence

from pipec.protocol.program import registers_of
from pipec.record import mutable, record
from pipec.verify.checker.configuration import Configuration, Layout, waits_of
from pipec.verify.checker.configuration import Key as Standing
from pipec.verify.checker.progress import loops
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, Test, Use, Wait, edges_of
from pipec.verify.terms import Formula, Symbol, atom, substituted, symbols_in

History = tuple[tuple[tuple[int, bool], ...], ...]  # per process the branches taken since its last wait or arrival

Turns = tuple[int, ...]  # per process how many turns of its outermost loop it is ahead of who is furthest behind

Key = tuple[Standing, History, Turns]  # of a situation

_MOST_STEPS = 20_000  # without a decision
_AHEAD = 2  # turns that are told apart


class Stuck(Exception):
    """Nobody can step, and not all have ended."""


@mutable
class Situation:
    """`test`: the process that decides next; None when all have ended. `steps`, `edges`: what led here without a decision."""

    at: Configuration
    history: History
    turns: Turns
    test: int | None
    steps: tuple[int, ...]
    edges: tuple[Edge, ...]
    key: Key


class Schedule:
    """`sources`: processes that produce and never consume. `forgets`: how a process came to its end tells no situations apart. `even`:
    all take their branches in turn, and turns of their outermost loops together, so that nobody is through with a loop of which others
    know no more what it found."""

    def __init__(self, network: Network, order: Sequence[int], *, forgets: bool = True, even: bool = False) -> None:
        self.forgets, self.even = forgets, even
        self.network, self.order = network, tuple(order)
        self.layout = Layout(network)
        self.arriving = arriving(network)
        self.meetings = {number for number, ring in enumerate(network.rings) if ring.kind != "mbarrier"}
        pairs = fills(network)
        self.sources = {producer for producer, _ in pairs} - {consumer for _, consumer in pairs}
        self.asks = questions(network)
        self.coming: dict[tuple[int, int], frozenset[Formula]] = {}
        self.rounds = [_rounds(process) for process in network.processes] if even else []

    def of(self, network: Network) -> "Schedule":
        """The same of a network that differs in conditions and values."""
        return Schedule(network, self.order, forgets=self.forgets, even=self.even)

    def start(self) -> Situation:
        at = Configuration(self.layout)
        return self.settle(at, tuple(() for _ in at.places), tuple(0 for _ in at.places), ())

    def branch(self, source: Situation, outcome: bool) -> Situation:
        """After the outcome of the test at hand, up to the next."""
        process = source.test
        assert process is not None
        action = source.at.action(process)
        assert isinstance(action, Test)
        edge = action.yes if outcome else action.no
        at = source.at.copy()
        history = (*source.history[:process], self._taken(source, process, outcome), *source.history[process + 1 :])
        turns = self._turned(source.turns, process, at.places[process], edge.target)
        at.enter(process, edge)
        return self.settle(at, history, turns, (edge,))

    def _turned(self, turns: Turns, process: int, place: int, target: int) -> Turns:
        # Only the edge back to the head of the outermost loop begins a turn; inner loops turn within it.
        if not self.even or (place, target) not in self.rounds[process].back:
            return turns
        return (*turns[:process], turns[process] + 1, *turns[process + 1 :])

    def _level(self, at: Configuration, turns: Turns) -> Turns:
        """Relative to who is furthest behind of those who loop, or are going to."""
        if not self.even:
            return ()
        looping = [turns[one] for one, place in enumerate(at.places) if place in self.rounds[one].before]
        least = min(looping, default=0)
        return tuple(
            min(turn - least, _AHEAD) if place in self.rounds[one].inside else 0
            for one, (turn, place) in enumerate(zip(turns, at.places, strict=True))
        )

    @staticmethod
    def _taken(source: Situation, process: int, outcome: bool) -> tuple[tuple[int, bool], ...]:
        """The way that the process came since its last event, without the turns of loops."""
        place, past = source.at.places[process], source.history[process]
        # A loop without events would otherwise grow the history for ever, and no situation would come twice.
        before = next((number for number, (where, _) in enumerate(past) if where == place), len(past))
        return (*past[:before], (place, outcome))

    def settle(self, at: Configuration, history: History, turns: Turns, edges: tuple[Edge, ...]) -> Situation:
        """Steps until somebody has to decide. Takes the configuration over. Raises Stuck."""
        past, steps, followed = list(history), [], list(edges)
        for _ in range(_MOST_STEPS):
            chosen = self.choose(at, past, turns)
            if chosen is None or isinstance(at.action(chosen), Test):
                chosen = self._together(at, past, chosen)
                break
            place = at.places[chosen]
            edge = self.step(at, chosen)
            turns = self._turned(turns, chosen, place, edge.target)
            past[chosen] = ()
            steps.append(chosen)
            followed.append(edge)
        else:
            raise Stuck
        # Counts relative to the oldest phase in use: the tenth turn of a loop is then the same situation as the second.
        at.lower()
        if self.forgets:
            past = [() if isinstance(at.action(process), End) else taken for process, taken in enumerate(past)]
        turns = self._level(at, turns)
        return Situation(at, tuple(past), turns, chosen, tuple(steps), tuple(followed), (at.key(), tuple(past), turns))

    def _together(self, at: Configuration, past: list[tuple[tuple[int, bool], ...]], chosen: int | None) -> int | None:
        """Who has come around in a loop without any event lets those decide who have not: so turns in which nothing happens are taken by
        all. When everybody has come around, a new turn begins."""
        if chosen is None:
            return None
        if self.even:
            past[chosen] = () if self._around(at, past, chosen) else past[chosen]
            return chosen
        testing = [process for process in self.order if isinstance(at.action(process), Test)]
        asked = next((process for process in testing if self._has_yet_to_ask(at, past, process, chosen)), None)
        if asked is not None:
            return asked
        if not self._around(at, past, chosen):
            return chosen
        behind = next((process for process in testing if not self._around(at, past, process)), None)
        if behind is not None:
            return behind
        for process in testing:
            past[process] = ()
        return chosen

    def _has_yet_to_ask(self, at: Configuration, past: list[tuple[tuple[int, bool], ...]], process: int, other: int) -> bool:
        """Whether the process will come to a question, before any event, to which the other has the answer, and has none itself to what
        the other asks: it is behind."""
        asked = {self.asks[process, place] for place, _ in past[process]}
        answered = {self.asks[other, place] for place, _ in past[other]}
        return (
            process != other
            and self.asks[other, at.places[other]] not in asked
            and not self._coming(process, at.places[process]).isdisjoint(answered - asked)
        )

    def _coming(self, process: int, place: int) -> frozenset[Formula]:
        """The questions that a process may come to from a place, before any event."""
        found = self.coming.get((process, place))
        if found is None:
            states = self.network.processes[process].states
            unseen, seen = [place], {place}
            while unseen:
                action = states[unseen.pop()].action
                if isinstance(action, Test):
                    unseen += {action.yes.target, action.no.target} - seen
                    seen.update(unseen)
            found = frozenset(self.asks[process, one] for one in seen if (process, one) in self.asks)
            self.coming[process, place] = found
        return found

    @staticmethod
    def _around(at: Configuration, past: list[tuple[tuple[int, bool], ...]], process: int) -> bool:
        return any(place == at.places[process] for place, _ in past[process])

    def choose(self, at: Configuration, past: Sequence[tuple[tuple[int, bool], ...]] = (), turns: Turns = ()) -> int | None:
        """Who steps next; None when all have ended. Raises Stuck."""
        first = None
        for process in self.order:
            action = at.action(process)
            if not _able(at, process, action):
                continue
            # Where threads meet, at no pipeline: beginnings and ends lie behind all before the loops begin.
            if isinstance(action, (Wait, Arrive)) and action.use.ring in self.meetings:
                return process
            if first is None and process not in self.sources and not (self.even and isinstance(action, Test)):
                first = process
        if first is not None:
            return first
        if self.even and (testing := [process for process in self.order if isinstance(at.action(process), Test)]):
            return min(testing, key=lambda process: (self._ahead(at, turns, process), len(past[process])))
        seen: set[int] = set()
        for process in self.order:
            found = self._demanded(at, process, seen)
            if found is not None:
                return found
        if at.ended():
            return None
        raise Stuck

    def _ahead(self, at: Configuration, turns: Turns, process: int) -> int:
        return turns[process] if at.places[process] in self.rounds[process].inside else -1

    def _demanded(self, at: Configuration, process: int, seen: set[int]) -> int | None:
        """Who has to step for the process to go on."""
        if process in seen:
            return None
        seen.add(process)
        action = at.action(process)
        if _able(at, process, action):
            return process
        if isinstance(action, Wait):
            # Who is furthest behind on the ring comes first, and of these who is about to arrive.
            ring = action.use.ring
            behind = sorted(
                self.arriving[ring], key=lambda one: (at.cursors[one[0]][one[1]] + one[2], not self._arrives(at, one[0], ring))
            )
            for other, _, _ in behind:
                found = self._demanded(at, other, seen)
                if found is not None:
                    return found
        return None

    @staticmethod
    def _arrives(at: Configuration, process: int, ring: int) -> bool:
        action = at.action(process)
        return isinstance(action, Arrive) and action.use.ring == ring

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


def _able(at: Configuration, process: int, action: Action) -> bool:
    if isinstance(action, Wait):
        ring, use = at.rings[action.use.ring], at.use(process, action.use)
        return use < ring.below or use in ring.beyond
    return not isinstance(action, End)


def questions(network: Network) -> dict[tuple[int, int], Formula]:
    """What is asked at the tests of each process, whatever its registers are called."""
    anything = atom(Symbol("register"))
    registers = registers_of(network)
    return {
        (process, place): substituted(
            state.action.condition, dict.fromkeys(symbols_in(state.action.condition) & registers, anything)
        )
        for process, each in enumerate(network.processes)
        for place, state in enumerate(each.states)
        if isinstance(state.action, Test)
    }


@record
class _Rounds:
    """The outermost loops of a process: the places in them, those and all from which one comes to them, the edges that begin a turn."""

    inside: frozenset[int]
    before: frozenset[int]
    back: frozenset[tuple[int, int]]


def _rounds(process: Process) -> _Rounds:
    arrows = [(place, edge.target) for place, state in enumerate(process.states) for edge in edges_of(state.action)]
    inside: set[int] = set()
    back: set[tuple[int, int]] = set()
    for loop in loops(arrows):
        inside |= loop
        first = {target for place, target in arrows if target in loop and place not in loop}
        back |= {(place, target) for place, target in arrows if target in first and place in loop}
    before = set(inside)
    while more := {place for place, target in arrows if target in before and place not in before}:
        before |= more
    return _Rounds(frozenset(inside), frozenset(before), frozenset(back))


def arriving(network: Network) -> dict[int, list[tuple[int, int, int]]]:
    """Per ring the processes that arrive there, each with the use that it signals first: a cursor and a shift."""
    found: dict[int, dict[int, Use]] = {ring: {} for ring in range(len(network.rings))}
    for number, process in enumerate(network.processes):
        for state in process.states:
            if isinstance(state.action, Arrive):
                found[state.action.use.ring].setdefault(number, state.action.use)
    return {ring: [(number, use.cursor, use.shift) for number, use in row.items()] for ring, row in found.items()}


def fills(network: Network) -> set[tuple[int, int]]:
    """Producers and consumers."""
    by = arriving(network)
    return {
        (producer, number)
        for number, process in enumerate(network.processes)
        for use in waits_of(process)
        if use.shift >= 0 and network.rings[use.ring].kind == "mbarrier"
        for producer, _, _ in by[use.ring]
        if producer != number
    }


def orders(network: Network) -> list[tuple[int, ...]]:
    """Orders to try: consumers first; the reverse."""
    count = len(network.processes)
    rank = [0] * count
    pairs = fills(network)
    for _ in range(count):
        for producer, consumer in pairs:
            if rank[consumer] <= rank[producer] < count:
                rank[consumer] = rank[producer] + 1
    first = tuple(sorted(range(count), key=lambda process: (-rank[process], process)))
    return [first, first[::-1]]
