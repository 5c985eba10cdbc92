"""Proofs by cases of the sizes, if no single automaton is found."""

from collections.abc import Iterator
from typing import Any

from pipec.protocol.effort import Effort, Spent
from pipec.protocol.program.program import Program
from pipec.protocol.program.simplify import simplified
from pipec.protocol.program.structure import ANY, Beginnings
from pipec.protocol.schedules.schedule import Pairs, Schedule
from pipec.protocol.search.attempts import Attempt
from pipec.protocol.search.automaton import Search
from pipec.protocol.search.undecided import TOO_LONG, Undecided
from pipec.verify.checker.certificate import Case
from pipec.verify.logic import System
from pipec.verify.network import Action, Network, Test, edges_of
from pipec.verify.terms import Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, add, forms_of, negate, symbols_in

_TURNS = 2  # of a counter, at which it is asked for what tests of it ask
_ROOM = 3  # factor on the number of situations


class Parts:
    """Parts of the sizes of a program. Attempts split the sizes alike, and what is found of a part is the same in all of them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # By the number of assumptions, which the attempts add to, and the conditions of the part.
        self._empty: dict[tuple[int, tuple[Formula, ...]], bool] = {}
        self._special: dict[tuple[int, tuple[Formula, ...]], tuple[Program, tuple[Formula, ...]]] = {}
        self._systems: dict[tuple[int, tuple[Formula, ...]], System] = {}
        self._open: dict[tuple[int, tuple[Formula, ...], Formula], bool] = {}

    def empty(self, when: tuple[Formula, ...]) -> bool:
        """Whether there are no such sizes."""
        key = len(self.program.assumed), when
        if key not in self._empty:
            self._empty[key] = System([*self.program.facts, *when]).impossible()
        return self._empty[key]

    def specialised(self, when: tuple[Formula, ...]) -> tuple[Program, tuple[Formula, ...]]:
        """The program for these sizes, and the values decided there: none if it is the same program."""
        key = len(self.program.assumed), when
        if key not in self._special:
            # Terms without choices are shorter, and rows can express their relations.
            network, decided = simplified(self.program.network, System([*self.program.facts, *when]))
            self._special[key] = (self._like(network), decided) if decided else (self.program, ())
        return self._special[key]

    def _like(self, network: Network) -> Program:
        of = self.program
        made = of.again(network)
        made.assumed = self.program.assumed
        return made

    def divides(self, cut: Formula, when: tuple[Formula, ...]) -> bool:
        """Whether it is open for these sizes if a condition holds."""
        key = len(self.program.assumed), when
        if (*key, cut) not in self._open:
            system = self._systems.get(key) or self._systems.setdefault(key, System([*self.program.facts, *when]))
            self._open[*key, cut] = not system.entails(cut) and not system.entails(negate(cut))
        return self._open[*key, cut]


class Splitter:
    """Proofs by cases of the sizes. `parts`: of the program."""

    def __init__(self, parts: Parts, attempt: Attempt, effort: Effort, pairs: Pairs, spent: Spent) -> None:
        self.tells_begun, self.situations = attempt.tells_begun, effort.situations * (_ROOM if attempt.roomy else 1)
        self.parts, self.program, self.effort, self.pairs, self.spent = parts, parts.program, effort, pairs, spent
        network = self.program.network
        self.schedule = attempt.schedule if network is attempt.schedule.network else attempt.schedule.of(network)
        self.left = effort.cases
        self.cuts: tuple[list[Compare], list[Compare], list[Compare]] | None = None

    def whole(self) -> Case:
        """One automaton for all sizes."""
        return self._single(())

    def parts_of(self, why: Undecided) -> Iterator[Case]:
        """Several, for parts of the sizes; `why` there is no single one."""
        yield from self._split((), None, why)

    def _single(self, when: tuple[Formula, ...]) -> Case:
        self.left -= 1
        schedule, program, decided = self._within(when)
        search = Search(schedule, program, when, self.situations, self.pairs, self.spent, tells_begun=self.tells_begun)
        # Facts decided for these sizes exclude none of them, but save the checker from deciding them at each node.
        return Case((*when, *decided), *search.nodes())

    def _under(self, when: tuple[Formula, ...], before: Undecided) -> Iterator[Case]:
        """`before`: why the search failed without the last condition."""
        if self.parts.empty(when):
            return
        try:
            yield self._single(when)
        except Undecided as why:
            yield from self._split(when, before, why)

    def _split(self, when: tuple[Formula, ...], before: Undecided | None, why: Undecided) -> Iterator[Case]:
        # (A search that took too long would take as long again.)
        if self.left <= 0 or self.spent.paused() or why.hopeless or str(why) == TOO_LONG:
            raise why
        cut = self._cut(when, why, small=before is None or not why.alike(before))
        if cut is None:
            raise why
        for side in (cut, negate(cut)):
            yield from self._under((*when, side), why)

    def _cut(self, when: tuple[Formula, ...], why: Undecided, *, small: bool) -> Formula | None:
        """The next condition to split on, if any: which operand a choice has, as this removes choices from the network; else one related
        to the question at which the search failed. `small`: also small numbers, one by one."""
        if self.cuts is None:
            self.cuts = self._choices(), self._tests(), [*self._small(), *self._first_turns()]
        choices, tests, few = self.cuts
        # Of many sizes only some affect the question; splitting on others would double the work for nothing.
        asked = symbols_in(why.asked) if why.asked is not None else frozenset[Symbol]()
        for cuts, given in ((choices, when), (tests, when), (few if small else [], (*when, *why.told))):
            for cut in sorted(cuts, key=lambda cut: asked.isdisjoint(symbols_in(cut))):
                # A condition already decided there would give an empty case and repeat the search.
                if self.parts.divides(cut, given):
                    return cut
        return None

    def _within(self, when: tuple[Formula, ...]) -> tuple[Schedule[Any], Program, tuple[Formula, ...]]:
        """Specialises to these sizes if that makes a difference; also returns the values decided there."""
        program, decided = self.parts.specialised(when) if when else (self.program, ())
        return self.schedule if program is self.program else self.schedule.of(program.network), program, decided

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

    def _first_turns(self) -> Iterator[Compare]:
        """What tests of counters ask in the first turns: whether a guard lets any of them pass by."""
        registers = self.program.registers
        for process in self.program.network.processes:
            beginnings = Beginnings(process, registers)
            tests = [state.action.condition for state in process.states if isinstance(state.action, Test)]
            for part in (part for test in tests for part in _comparisons(test) if symbols_in(part) & registers):
                for asked in sorted(beginnings.first_asked(part)[1], key=repr):
                    if isinstance(asked, Compare) and asked.relation == "ge" and symbols_in(asked).isdisjoint((*registers, ANY)):
                        yield from (Compare("ge", add(asked.form, Linear(-turn))) for turn in range(_TURNS) if asked.form.terms)


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
