"""Schedules: rules that choose the process to step next. Any rule is sound; a good one has few distinct situations.

The base of the rules in `lazily.py` and `aligned.py`. A rule remembers some of the branches taken, on which its next choice depends:
this memory is part of a situation, as different facts may hold for different memories.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from pipec.protocol.deduction.premises import combined
from pipec.protocol.program.structure import arriving, fills
from pipec.record import mutable
from pipec.verify.checker.configuration import Configuration, Layout
from pipec.verify.checker.configuration import Key as Standing
from pipec.verify.network import Action, Arrive, Edge, End, Network, Test, Wait

Memory = TypeVar("Memory")
Key = tuple[Standing, object]  # of a situation: the places of all processes, and the memory

Pairs = Sequence[tuple[int, int]]  # the rings of full and of empty barriers of a pipeline

_MOST_STEPS = 20_000  # without a branch
_SETTLED = 100  # cost of advancing to the next branch, in row combinations


class Stuck(Exception):
    """No process can step, and not all have ended; where they stand."""

    def __init__(self, at: Configuration) -> None:
        super().__init__()
        self.at = at


@mutable
class Situation(Generic[Memory]):
    """`test`: the process that branches next; None if all have ended. `steps`, `edges`: the way here from the previous branch."""

    at: Configuration
    memory: Memory
    test: int | None
    steps: tuple[int, ...]
    edges: tuple[Edge, ...]
    key: Key


class Schedule(Generic[Memory]):
    """`sources`: processes that produce and never consume; they step only on demand, so that rings hold as little as the program allows."""

    def __init__(self, network: Network, order: Sequence[int]) -> None:
        self.network, self.order = network, tuple(order)
        self.layout = Layout(network)
        self.arriving = arriving(network)
        # Places where threads synchronise, outside pipelines.
        self.meetings = {
            (process, place)
            for process, actions in enumerate(self.layout.actions)
            for place, action in enumerate(actions)
            if isinstance(action, (Wait, Arrive)) and network.rings[action.use.ring].kind != "mbarrier"
        }
        pairs = fills(network)
        self.sources = {producer for producer, _ in pairs} - {consumer for _, consumer in pairs}

    def of(self, network: Network) -> "Schedule[Memory]":
        """The same schedule for a network that differs in conditions and values."""
        raise NotImplementedError

    # The interface of a rule.

    def nothing(self) -> Memory:
        """The memory at the start."""
        raise NotImplementedError

    def decided(self, memory: Memory, process: int, place: int, outcome: bool) -> Memory:
        raise NotImplementedError

    def stepped(self, memory: Memory, process: int) -> Memory:
        """The memory after a wait or an arrival."""
        raise NotImplementedError

    def choose(self, at: Configuration, memory: Memory) -> int | None:
        """The process to step next; None if all have ended. Raises Stuck."""
        raise NotImplementedError

    def settled(self, at: Configuration, memory: Memory, chosen: int | None) -> tuple[int | None, Memory]:
        """The process to branch, among those at a test, and the updated memory."""
        raise NotImplementedError

    # Derived from the rule.

    def start(self) -> Situation[Memory]:
        return self.settle(Configuration(self.layout), self.nothing(), ())

    def branch(self, source: Situation[Memory], outcome: bool) -> Situation[Memory]:
        """The situation at the next branch, after this outcome of the current one."""
        process = source.test
        assert process is not None
        action = source.at.action(process)
        assert isinstance(action, Test)
        edge = action.yes if outcome else action.no
        at = source.at.copy()
        memory = self.decided(source.memory, process, at.places[process], outcome)
        at.enter(process, edge)
        return self.settle(at, memory, (edge,))

    def settle(self, at: Configuration, memory: Memory, edges: tuple[Edge, ...]) -> Situation[Memory]:
        """Steps until a process has to branch. Takes ownership of the configuration. Raises Stuck."""
        combined.value += _SETTLED
        steps, followed = [], list(edges)
        for _ in range(_MOST_STEPS):
            chosen = self.choose(at, memory)
            if chosen is None or isinstance(at.action(chosen), Test):
                break
            followed.append(self.step(at, chosen))
            memory = self.stepped(memory, chosen)
            steps.append(chosen)
        else:
            raise Stuck(at)
        chosen, memory = self.settled(at, memory, chosen)
        # Counts are relative to the oldest phase in use: the tenth iteration of a loop is then the same situation as the second.
        at.lower()
        return Situation(at, memory, chosen, tuple(steps), tuple(followed), (at.key(), memory))

    def meeting(self, at: Configuration) -> int | None:
        """The process to step at a synchronisation outside pipelines: all pass the prologue before the loops begin, and likewise the
        end."""
        if self.meetings.isdisjoint(enumerate(at.places)):
            return None
        meeting = (one for one in self.order if (one, at.places[one]) in self.meetings)
        return next((one for one in meeting if able(at, one, at.action(one))), None)

    def demanded(self, at: Configuration, processes: Iterable[int]) -> int | None:
        """The process that must step for the first of these that can be unblocked."""
        seen: set[int] = set()
        return next((found for one in processes if (found := self._needed(at, one, seen)) is not None), None)

    def _needed(self, at: Configuration, process: int, seen: set[int]) -> int | None:
        if process in seen:
            return None
        seen.add(process)
        action = at.action(process)
        if able(at, process, action):
            return process
        if not isinstance(action, Wait):
            return None
        # The process furthest behind on the ring comes first, among these one that is about to arrive.
        ring = action.use.ring
        behind = sorted(
            self.arriving[ring], key=lambda one: (at.cursors[one[0]][one[1]] + one[2], not self._arrives(at, one[0], ring))
        )
        return next((found for other, _, _ in behind if (found := self._needed(at, other, seen)) is not None), None)

    @staticmethod
    def _arrives(at: Configuration, process: int, ring: int) -> bool:
        action = at.action(process)
        return isinstance(action, Arrive) and action.use.ring == ring

    @staticmethod
    def step(at: Configuration, process: int) -> Edge:
        """Passes a completed wait, or arrives. Raises Refused for an invalid arrival."""
        action = at.action(process)
        assert isinstance(action, (Wait, Arrive))
        if isinstance(action, Arrive):
            at.arrive(process, action)
        elif not action.peeks:
            at.wait(process, action.use)
        at.enter(process, action.edge)
        return action.edge


def uneven(at: Configuration, pairs: Pairs) -> int | None:
    """The first ring of full barriers that has advanced further than its ring of empty ones."""
    return next((full for full, empty in pairs if at.below(full) != at.below(empty)), None)


def able(at: Configuration, process: int, action: Action) -> bool:
    if isinstance(action, Wait) and not action.peeks:
        return at.complete(action.use.ring, at.use(process, action.use))
    return not isinstance(action, End)
