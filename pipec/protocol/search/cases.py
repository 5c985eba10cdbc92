"""Proofs by cases of the sizes, if no single automaton is found."""

from collections.abc import Callable, Iterator
from typing import Any

from pipec.protocol.effort import Effort, Spent
from pipec.protocol.program import Program
from pipec.protocol.sample import forms_of
from pipec.protocol.schedule import Pairs, Schedule
from pipec.protocol.search.attempts import Attempt
from pipec.protocol.search.automaton import Search
from pipec.protocol.search.undecided import Undecided
from pipec.protocol.simplify import simplified
from pipec.verify.checker.certificate import Case
from pipec.verify.logic import System
from pipec.verify.network import Action, Test, edges_of
from pipec.verify.terms import Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, negate, symbols_in

_ROOM = 3  # factor on the number of situations


class Splitter:
    """Proofs by cases of the sizes."""

    def __init__(
        self, program: Program, attempt: Attempt, effort: Effort, pairs: Pairs, spent: Spent, refuted: Callable[[], bool]
    ) -> None:
        self.tells_begun, self.situations = attempt.tells_begun, effort.situations * (_ROOM if attempt.roomy else 1)
        self.program, self.effort, self.pairs, self.spent = program, effort, pairs, spent
        self.schedule = attempt.schedule if program.network is attempt.schedule.network else attempt.schedule.of(program.network)
        self.left, self.refuted = effort.cases, refuted
        self.cuts: tuple[list[Compare], list[Compare], list[Compare]] | None = None

    def cases(self) -> Iterator[Case]:
        yield from self._under(())

    def _under(self, when: tuple[Formula, ...], before: Undecided | None = None) -> Iterator[Case]:
        """`before`: why the search failed without the last condition."""
        if when and System([*self.program.facts, *when]).impossible():
            return
        self.left -= 1
        try:
            schedule, program, decided = self._within(when)
            search = Search(schedule, program, when, self.situations, self.pairs, self.spent, tells_begun=self.tells_begun)
            # Facts decided for these sizes exclude none of them, but save the checker from deciding them at each node.
            yield Case((*when, *decided), *search.nodes())
            return
        except Undecided as why:
            # Splitting is expensive. A deadlock at small sizes ends the search before it.
            if not when and self.refuted():
                raise why.again(hopeless=True) from why
            if self.left <= 0 or self.spent.paused() or why.hopeless:
                raise
            cut = self._cut(when, why, small=before is None or not why.alike(before))
            if cut is None:
                raise
            last = why
        for side in (cut, negate(cut)):
            yield from self._under((*when, side), last)

    def _cut(self, when: tuple[Formula, ...], why: Undecided, *, small: bool) -> Formula | None:
        """The next condition to split on, if any: which operand a choice has, as this removes choices from the network; else one related
        to the question at which the search failed. `small`: also small numbers, one by one."""
        if self.cuts is None:
            self.cuts = self._choices(), self._tests(), self._small()
        choices, tests, few = self.cuts
        # Of many sizes only some affect the question; splitting on others would double the work for nothing.
        asked = symbols_in(why.asked) if why.asked is not None else frozenset[Symbol]()
        base = System([*self.program.facts, *when])
        there = base.extended(why.told) if why.told else base
        for cuts, given in ((choices, base), (tests, base), (few if small else [], there)):
            for cut in sorted(cuts, key=lambda cut: asked.isdisjoint(symbols_in(cut))):
                # A condition already decided there would give an empty case and repeat the search.
                if not given.entails(cut) and not given.entails(negate(cut)):
                    return cut
        return None

    def _within(self, when: tuple[Formula, ...]) -> tuple[Schedule[Any], Program, tuple[Formula, ...]]:
        """Specialises to these sizes if that makes a difference; also returns the values decided there."""
        # Terms without choices are shorter, and rows can express their relations.
        network, decided = simplified(self.program.network, System([*self.program.facts, *when])) if when else (None, ())
        if network is None or not decided:
            return self.schedule, self.program, ()
        program = Program(network, products=self.program.products, quotients=self.program.quotients)
        program.assumed = self.program.assumed
        return self.schedule.of(network), program, decided

    def _tests(self) -> list[Compare]:
        """The program's tests of sizes only."""
        seen: list[Compare] = []
        for process in self.program.network.processes:
            for state in process.states:
                if isinstance(state.action, Test):
                    for part in _comparisons(state.action.condition):
                        if not symbols_in(part) & self.program.registers and part not in seen and negate(part) not in seen:
                            seen.append(part)
        return seen

    def _choices(self) -> list[Compare]:
        """The conditions of choices between two numbers."""
        network = self.program.network
        forms = [one for process in network.processes for state in process.states for one in _forms(state.action)]
        found = dict.fromkeys(part for form in forms for part in _conditions(form))
        return [part for part in found if not symbols_in(part) & self.program.registers]

    def _small(self) -> list[Compare]:
        """Small trip counts behave differently: a loop that does not run, only a prologue, a ring that is not full yet."""
        # In both directions, as a loop may be left if its test holds or if it does not.
        sides = [
            one for part in self._tests() for one in (part, negate(part)) if isinstance(one, Compare) and one.relation == "ge"
        ]
        return [Compare("ge", Linear(one.form.constant - least, one.form.terms)) for least in (1, 2, 3) for one in sides]


def _forms(action: Action) -> Iterator[Linear]:
    if isinstance(action, Test):
        yield from forms_of(action.condition)
    yield from (value for edge in edges_of(action) for _, value in edge.values if value is not None)


def _conditions(form: Linear) -> Iterator[Compare]:
    for one, _ in form.terms:
        match one:
            case Choose(condition, yes, no):
                yield from _comparisons(condition)
                yield from (*_conditions(yes), *_conditions(no))
            case Floor(inner, _):
                yield from _conditions(inner)
            case _:
                pass


def _comparisons(formula: Formula) -> Iterator[Compare]:
    match formula:
        case Compare():
            yield formula
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons(part)
