"""Loops that turn equally often turn together: who is behind on a question that several processes ask answers first.

Which questions are the same is seen from what they are about when their counters begin (`structure.first_asked`). Remembered are, for
each of them, the answers that some processes have given and others have still to give; so nobody is through with a loop of which others
know no more what it found.
"""

from collections.abc import Sequence

from pipec.protocol.lazily import Past, with_taken
from pipec.protocol.schedule import Schedule, Stuck, able
from pipec.protocol.structure import Asked, Place, first_asked, loop_tests, moves_on
from pipec.verify.checker.configuration import Configuration
from pipec.verify.network import End, Network, Test

_MOST_AHEAD = 3  # answers that are told apart

Answers = tuple[
    tuple[tuple[int, tuple[bool, ...]], ...], ...
]  # per question: who has answered it more often than others, and how


class Alignment:
    """`question`: what is asked at a place, by number, where others ask the same; `askers`: per question. `whole`: each loop of each
    process is one that others have, too; `common`: all processes with loops have one of them in common, over tiles as a rule."""

    def __init__(self, network: Network) -> None:
        asked = first_asked(network)
        for place in _beside(network, asked):
            del asked[place]
        askers: dict[Asked, set[int]] = {}
        for (process, _), one in asked.items():
            askers.setdefault(one, set()).add(process)
        shared = [one for one, processes in askers.items() if len(processes) > 1]
        numbers = {one: number for number, one in enumerate(shared)}
        self.question = {place: numbers[one] for place, one in asked.items() if one in numbers}
        self.askers = [sorted(askers[one]) for one in shared]
        alone = {process for process, place in loop_tests(network) if (process, place) not in self.question}
        self.alone, self.whole = alone, not alone and bool(shared)
        looping = {process for process, _ in loop_tests(network)}
        self.common = any(looping <= {*processes} for processes in self.askers)


def _beside(network: Network, asked: dict[Place, Asked]) -> list[Place]:
    """Tests that ask what a loop of the same process asks, too, and do not move on in it: whether there is another turn, say. Who counted
    these would take two answers for one turn."""
    places: dict[tuple[int, Asked], list[int]] = {}
    for (process, place), one in asked.items():
        places.setdefault((process, one), []).append(place)
    found = []
    for (number, _), mine in places.items():
        moving = [place for place in mine if moves_on(network.processes[number], place)]
        if moving:
            found += [(number, place) for place in mine if place not in moving]
    return found


class Aligned(Schedule[tuple[Past, Answers]]):
    """Sources step when somebody waits for it only if they have loops of their own: those of others hold them back as well."""

    def __init__(self, network: Network, order: Sequence[int], alignment: Alignment) -> None:
        super().__init__(network, order)
        self.alignment = alignment
        self.sources = self.sources & alignment.alone

    def of(self, network: Network) -> "Aligned":
        return Aligned(network, self.order, Alignment(network))

    def nothing(self) -> tuple[Past, Answers]:
        return tuple(() for _ in self.network.processes), tuple(() for _ in self.alignment.askers)

    def decided(self, memory: tuple[Past, Answers], process: int, place: int, outcome: bool) -> tuple[Past, Answers]:
        past, answers = memory
        question = self.alignment.question.get((process, place))
        if question is None:
            return with_taken(past, process, place, outcome), answers
        given = dict(answers[question])
        # The last few only: a role that runs ahead would be in a situation of its own in each turn.
        given[process] = (*given.get(process, ()), outcome)[-_MOST_AHEAD:]
        left = _left(given, self.alignment.askers[question])
        return past, (*answers[:question], left, *answers[question + 1 :])

    def stepped(self, memory: tuple[Past, Answers], process: int) -> tuple[Past, Answers]:
        past, answers = memory
        return ((*past[:process], (), *past[process + 1 :]), answers) if past[process] else memory

    def choose(self, at: Configuration, memory: tuple[Past, Answers]) -> int | None:
        if (meeting := self.meeting(at)) is not None:
            return meeting
        testing = []
        for process in self.order:
            action = at.action(process)
            if isinstance(action, Test):
                testing.append(process)
            elif process not in self.sources and able(at, process, action):
                return process
        ahead = {process: self._ahead(at, memory[1], process) for process in testing}
        if testing and min(ahead.values()) < 0:
            return min(testing, key=ahead.__getitem__)
        for process in testing:
            if process not in self.sources and not ahead[process]:
                return process
        found = self.demanded(at, [process for process in self.order if process not in testing])
        # Nobody waits for what a step could bring: who is the least ahead decides.
        if found is None and testing:
            return min(testing, key=ahead.__getitem__)
        if found is None and not at.ended():
            raise Stuck
        return found

    def _ahead(self, at: Configuration, answers: Answers, process: int) -> int:
        """By how many answers to what it asks it is before others who ask it; below 0: behind."""
        question = self.alignment.question.get((process, at.places[process]))
        if question is None:
            return 0
        given = dict(answers[question])
        mine = len(given.pop(process, ()))
        most = max(map(len, given.values()), default=0)
        return mine - most if mine < most else mine

    def settled(
        self, at: Configuration, memory: tuple[Past, Answers], chosen: int | None
    ) -> tuple[int | None, tuple[Past, Answers]]:
        # Who has ended answers nothing more, and how it came there tells no situations apart.
        past, answers = memory
        going = {process for process in range(len(at.places)) if not isinstance(at.action(process), End)}
        past = tuple(taken if process in going else () for process, taken in enumerate(past))
        left = zip(answers, self.alignment.askers, strict=True)
        return chosen, (past, tuple(_left(dict(given), [one for one in askers if one in going]) for given, askers in left))


def _left(given: dict[int, tuple[bool, ...]], askers: Sequence[int]) -> tuple[tuple[int, tuple[bool, ...]], ...]:
    """Without what all of them have answered."""
    all_ = min((len(given.get(one, ())) for one in askers), default=0)
    return tuple((one, given[one][all_:]) for one in askers if len(given.get(one, ())) > all_)
