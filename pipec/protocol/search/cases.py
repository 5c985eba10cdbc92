"""Proves by cases of the sizes, where one automaton for all of them is not found."""

from collections.abc import Callable, Iterator
from typing import Any

from pipec.protocol.effort import Effort, Spent
from pipec.protocol.program import Program
from pipec.protocol.schedule import Pairs, Schedule
from pipec.protocol.search.attempts import Attempt
from pipec.protocol.search.automaton import Search
from pipec.protocol.search.undecided import Undecided
from pipec.protocol.simplify import simplified
from pipec.verify.checker.certificate import Case
from pipec.verify.logic import System
from pipec.verify.network import Test
from pipec.verify.terms import Both, Compare, Either, Formula, Linear, negate, symbols_in


class Splitter:
    """Proves by cases of the sizes."""

    def __init__(
        self, program: Program, attempt: Attempt, effort: Effort, pairs: Pairs, spent: Spent, refuted: Callable[[], bool]
    ) -> None:
        self.tells_begun = attempt.tells_begun
        self.program, self.effort, self.pairs, self.spent = program, effort, pairs, spent
        self.schedule = attempt.schedule if program.network is attempt.schedule.network else attempt.schedule.of(program.network)
        self.left, self.refuted = effort.cases, refuted

    def cases(self) -> Iterator[Case]:
        yield from self._under((), None)

    def _under(self, when: tuple[Formula, ...], cuts: tuple[Formula, ...] | None) -> Iterator[Case]:
        if when and System([*self.program.facts, *when]).impossible():
            return
        self.left -= 1
        try:
            schedule, program, decided = self._within(when)
            search = Search(schedule, program, when, self.effort, self.pairs, self.spent, tells_begun=self.tells_begun)
            # What is decided for these sizes tells them apart no further, but spares the checker to decide it for each node.
            yield Case((*when, *decided), *search.nodes())
            return
        except Undecided as why:
            # Splitting is what takes long. A deadlock at small sizes ends the search before it.
            if not when and self.refuted():
                raise Undecided(str(why), hopeless=True) from why
            if self.left <= 0 or self.spent.paused() or why.hopeless:
                raise
            base = System([*self.program.facts, *when])
            cuts = tuple(self._cuts()) if cuts is None else cuts
            # A condition that the case already decides would give one empty side and the same search again.
            number = next((n for n, cut in enumerate(cuts) if not base.entails(cut) and not base.entails(negate(cut))), None)
            if number is None:
                raise
        for side in (cuts[number], negate(cuts[number])):
            yield from self._under((*when, side), cuts[number + 1 :])

    def _within(self, when: tuple[Formula, ...]) -> tuple[Schedule[Any], Program, tuple[Formula, ...]]:
        """For these sizes alone, where that makes a difference; and which values are decided there."""
        network, decided = simplified(self.program.network, System([*self.program.facts, *when])) if when else (None, ())
        if network is None or not decided:
            return self.schedule, self.program, ()
        program = Program(network, products=self.program.products)
        program.assumed = self.program.assumed
        return self.schedule.of(network), program, decided

    def _cuts(self) -> Iterator[Formula]:
        """Conditions on sizes alone: the program's own tests, then small values of what its bounds are made of."""
        seen: list[Formula] = []
        for process in self.program.network.processes:
            for state in process.states:
                if isinstance(state.action, Test):
                    for part in _comparisons(state.action.condition):
                        if not symbols_in(part) & self.program.registers and part not in seen and negate(part) not in seen:
                            seen.append(part)
        yield from seen
        for form in dict.fromkeys(part.form for part in seen if isinstance(part, Compare)):
            # Few iterations behave unlike many: a loop that does not run, a prologue alone, a ring that is not full yet.
            for least in (1, 2, 3):
                yield Compare("ge", Linear(form.constant - least, form.terms))


def _comparisons(formula: Formula) -> Iterator[Formula]:
    match formula:
        case Compare():
            yield formula
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)
