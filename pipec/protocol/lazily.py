"""Who consumes something steps whenever it can, the last consumers first; who only produces steps when somebody waits for it.

So rings hold as little as the program allows, and a producer takes a branch when its consumers have taken theirs. Or the other way
round: it depends on the order that is given. Remembered is how each process came to where it stands since it last waited or arrived.
"""

from collections.abc import Sequence

from pipec.protocol.schedule import Schedule, Stuck, able
from pipec.protocol.structure import questions
from pipec.verify.checker.configuration import Configuration
from pipec.verify.network import End, Network, Test
from pipec.verify.terms import Formula

Taken = tuple[tuple[int, bool], ...]  # branches, oldest first: where, and which way
Past = tuple[Taken, ...]  # per process


class Lazy(Schedule[Past]):
    """`forgets`: how a process came to its end tells no situations apart."""

    def __init__(self, network: Network, order: Sequence[int], *, forgets: bool = True) -> None:
        super().__init__(network, order)
        self.forgets, self.asks = forgets, questions(network)
        self.coming: dict[tuple[int, int], frozenset[Formula]] = {}

    def of(self, network: Network) -> "Lazy":
        return Lazy(network, self.order, forgets=self.forgets)

    def nothing(self) -> Past:
        return tuple(() for _ in self.network.processes)

    def decided(self, memory: Past, process: int, place: int, outcome: bool) -> Past:
        return with_taken(memory, process, place, outcome)

    def stepped(self, memory: Past, process: int) -> Past:
        return (*memory[:process], (), *memory[process + 1 :]) if memory[process] else memory

    def choose(self, at: Configuration, memory: Past) -> int | None:
        return self.first(at)

    def first(self, at: Configuration) -> int | None:
        """Who steps next depends on nothing that is remembered."""
        if (meeting := self.meeting(at)) is not None:
            return meeting
        # Not sources: they would fill their rings, and each number of filled stages is a situation of its own.
        for process in self.order:
            if process not in self.sources and able(at, process, at.action(process)):
                return process
        found = self.demanded(at, self.order)
        if found is None and not at.ended():
            raise Stuck
        return found

    def settled(self, at: Configuration, memory: Past, chosen: int | None) -> tuple[int | None, Past]:
        chosen, past = self._together(at, list(memory), chosen)
        # All that a process could still do is nothing.
        if self.forgets:
            past = [() if isinstance(at.action(process), End) else taken for process, taken in enumerate(past)]
        return chosen, tuple(past)

    def _together(self, at: Configuration, past: list[Taken], chosen: int | None) -> tuple[int | None, list[Taken]]:
        """Who has come around in a loop without any event lets those decide who have not: so turns in which nothing happens are taken by
        all. When everybody has come around, a new turn begins."""
        if chosen is None:
            return None, past
        testing = [process for process in self.order if isinstance(at.action(process), Test)]
        asked = next((process for process in testing if self._has_yet_to_ask(at, past, process, chosen)), None)
        if asked is not None:
            return asked, past
        if not _around(at, past, chosen):
            return chosen, past
        behind = next((process for process in testing if not _around(at, past, process)), None)
        if behind is not None:
            return behind, past
        return chosen, [() if process in testing else taken for process, taken in enumerate(past)]

    def _has_yet_to_ask(self, at: Configuration, past: list[Taken], process: int, other: int) -> bool:
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


def with_taken(past: Past, process: int, place: int, outcome: bool) -> Past:
    """The way that the process came since its last event, without the turns of loops."""
    mine = past[process]
    # A loop without events would otherwise grow the history for ever, and no situation would come twice.
    before = next((number for number, (where, _) in enumerate(mine) if where == place), len(mine))
    return (*past[:process], (*mine[:before], (place, outcome)), *past[process + 1 :])


def _around(at: Configuration, past: list[Taken], process: int) -> bool:
    return any(place == at.places[process] for place, _ in past[process])
