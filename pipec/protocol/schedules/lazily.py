"""Consumers step as soon as they can, the last consumers first; pure producers step only on demand.

Rings thus hold as little as the program allows, and a producer branches after its consumers. With the reverse order it is the other way
round. The memory is the branches of each process since its last wait or arrival.
"""

from collections.abc import Sequence

from pipec.protocol.program.structure import Place, loop_tests, questions
from pipec.protocol.schedules.schedule import Schedule, Stuck, able
from pipec.verify.checker.configuration import Configuration
from pipec.verify.network import End, Network, Test
from pipec.verify.terms import Formula

Taken = tuple[tuple[int, bool], ...]  # branches, oldest first: place and outcome
Past = tuple[Taken, ...]  # per process


class Lazy(Schedule[Past]):
    """`forgets`: the history of a process that has ended does not distinguish situations. `prompt`: before another process begins an
    iteration, pure producers test whether they have another one, too: a producer in nested loops then stands in the tile to which the
    counter of a single loop has come, and not at the end of the tile before."""

    def __init__(self, network: Network, order: Sequence[int], *, forgets: bool = True, prompt: bool = False) -> None:
        super().__init__(network, order)
        self.forgets, self.prompt, self.asks = forgets, prompt, questions(network)
        self.beginning = loop_tests(network) if prompt else frozenset[Place]()
        self.coming: dict[tuple[int, int], frozenset[Formula]] = {}

    def of(self, network: Network) -> "Lazy":
        return Lazy(network, self.order, forgets=self.forgets, prompt=self.prompt)

    def nothing(self) -> Past:
        return tuple(() for _ in self.network.processes)

    def decided(self, memory: Past, process: int, place: int, outcome: bool) -> Past:
        return with_taken(memory, process, place, outcome)

    def stepped(self, memory: Past, process: int) -> Past:
        return (*memory[:process], (), *memory[process + 1 :]) if memory[process] else memory

    def choose(self, at: Configuration, memory: Past) -> int | None:
        return self.first(at)

    def first(self, at: Configuration) -> int | None:
        """The next step does not depend on the memory."""
        if (meeting := self.meeting(at)) is not None:
            return meeting
        # Sources excluded: they would fill their rings, and each fill level is a situation of its own.
        for process in self.order:
            if process not in self.sources and able(at, process, at.action(process)):
                return self._before(at, process)
        found = self.demanded(at, self.order)
        if found is None and not at.ended():
            raise Stuck(at)
        return found

    def _before(self, at: Configuration, process: int) -> int:
        if (process, at.places[process]) not in self.beginning:
            return process
        return next((each for each in self.order if each in self.sources and isinstance(at.action(each), Test)), process)

    def settled(self, at: Configuration, memory: Past, chosen: int | None) -> tuple[int | None, Past]:
        chosen, past = self._together(at, list(memory), chosen)
        # The process can do nothing more.
        if self.forgets:
            past = [() if isinstance(at.action(process), End) else taken for process, taken in enumerate(past)]
        return chosen, tuple(past)

    def _together(self, at: Configuration, past: list[Taken], chosen: int | None) -> tuple[int | None, list[Taken]]:
        """If a process has completed a loop iteration without events, it yields to those that have not, so that all take such empty
        iterations together. When all have, a new round starts."""
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
        """Whether the process will reach, before any event, a test whose outcome the other one has, while it has no outcome for the
        other's next test: it is behind."""
        asked = {self.asks[process, place] for place, _ in past[process]}
        answered = {self.asks[other, place] for place, _ in past[other]}
        return (
            process != other
            and self.asks[other, at.places[other]] not in asked
            and not self._coming(process, at.places[process]).isdisjoint(answered - asked)
        )

    def _coming(self, process: int, place: int) -> frozenset[Formula]:
        """The tests that a process may reach from a place, before any event."""
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
    """The path of the process since its last event, without loop iterations."""
    mine = past[process]
    # A loop without events would otherwise grow the history for ever, and no situation would recur.
    before = next((number for number, (where, _) in enumerate(mine) if where == place), len(mine))
    return (*past[:process], (*mine[:before], (place, outcome)), *past[process + 1 :])


def _around(at: Configuration, past: list[Taken], process: int) -> bool:
    return any(place == at.places[process] for place, _ in past[process])
