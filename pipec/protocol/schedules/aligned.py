"""Schedules loops with equal trip counts in lockstep: of several processes that evaluate the same test, the one that is behind goes
first.

Two tests are the same if their conditions are equal at the initial values of their counters (`structure.first_asked`). The schedule
remembers, per test, the outcomes that some processes have had and others have not had yet; so no process leaves a loop before the
outcomes are known to the others.
"""

from collections.abc import Sequence

from pipec.protocol.program.structure import Asked, Place, first_asked, loop_tests, moves_on
from pipec.protocol.schedules.lazily import Past, with_taken
from pipec.protocol.schedules.schedule import Schedule, Stuck, able
from pipec.verify.checker.configuration import Configuration
from pipec.verify.network import End, Network, Test
from pipec.verify.terms import negate

_MOST_AHEAD = 3  # outcomes that are distinguished

Answers = tuple[tuple[tuple[int, tuple[bool, ...]], ...], ...]  # per test: the processes that are ahead, and their outcomes


class Alignment:
    """`question`: the number of the test at a place, if other processes have the same, and `opposite`: those that ask for the opposite;
    `askers`: the processes per test. `whole`: every loop of every process occurs in others as well; `common`: all processes with loops
    share one of them, usually over tiles."""

    def __init__(self, network: Network) -> None:
        asked, self.opposite = _alike(first_asked(network))
        for place in _beside(network, asked):
            del asked[place]
        askers: dict[Asked, set[int]] = {}
        for (process, _), one in asked.items():
            askers.setdefault(one, set()).add(process)
        shared = [one for one, processes in askers.items() if len(processes) > 1]
        numbers = {one: number for number, one in enumerate(shared)}
        self.question = {place: numbers[one] for place, one in asked.items() if one in numbers}
        self.askers = [sorted(askers[one]) for one in shared]
        looped = loop_tests(network)
        alone = {process for process, place in looped if (process, place) not in self.question}
        self.alone, self.whole = alone, not alone and bool(shared)
        looping = {process for process, _ in looped}
        self.common = any(looping <= {*processes} for processes in self.askers)


def _alike(asked: dict[Place, Asked]) -> tuple[dict[Place, Asked], frozenset[Place]]:
    """The tests, in place of their opposites where these come first, and the places of the latter."""
    found: dict[Place, Asked] = {}
    first: dict[Asked, Asked] = {}
    for place, one in asked.items():
        if one not in first:
            registers, conditions = one
            first[one] = one
            first.setdefault((registers, frozenset(map(negate, conditions))), one)
        found[place] = first[one]
    return found, frozenset(place for place, one in found.items() if one != asked[place])


def _beside(network: Network, asked: dict[Place, Asked]) -> list[Place]:
    """Tests that repeat the test of another loop in the same process without advancing its counter, such as whether there is another
    iteration. Counting them would count an iteration twice."""
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
    """Sources step on demand only if they have loops of their own: loops shared with others restrain them as well."""

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
        outcome = outcome != ((process, place) in self.alignment.opposite)
        given = dict(answers[question])
        # Only the last few: otherwise a role that runs ahead would be in a new situation in each iteration.
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
        # No step is demanded: the process that is least ahead decides.
        if found is None and testing:
            return min(testing, key=ahead.__getitem__)
        if found is None and not at.ended():
            raise Stuck(at)
        return found

    def _ahead(self, at: Configuration, answers: Answers, process: int) -> int:
        """The number of outcomes by which the process is ahead of others with the same test; negative: behind."""
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
        # A process that has ended evaluates nothing more, and its history does not distinguish situations.
        past, answers = memory
        going = {process for process in range(len(at.places)) if not isinstance(at.action(process), End)}
        past = tuple(taken if process in going else () for process, taken in enumerate(past))
        left = zip(answers, self.alignment.askers, strict=True)
        return chosen, (past, tuple(_left(dict(given), [one for one in askers if one in going]) for given, askers in left))


def _left(given: dict[int, tuple[bool, ...]], askers: Sequence[int]) -> tuple[tuple[int, tuple[bool, ...]], ...]:
    """Drops the outcomes that all processes have had."""
    all_ = min((len(given.get(one, ())) for one in askers), default=0)
    return tuple((one, given[one][all_:]) for one in askers if len(given.get(one, ())) > all_)
