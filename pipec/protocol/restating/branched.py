"""Counters that go round, with branches in place of choices.

A single loop that counts the blocks of one tile after the other, `k += 1; if k == last: k = 0; t += step`, has no branch for that on the
machine: `k` and `t` are chosen. Asked first, in front of what depends on it, the process says what one with nested loops does.
"""

from collections.abc import Iterator, Sequence

from pipec.protocol.forms.rewriting import Rewriting
from pipec.protocol.program.liveness import assigned_in
from pipec.protocol.variables.rounds import goes_round
from pipec.record import record
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.network import Edge, Process, Test, edges_of
from pipec.verify.terms import (
    Atom,
    Choose,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    negate,
    scale,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

_MOST = 3  # counters that go round
_MOST_PLACES = 200


@record
class _Round:
    """`condition`: on which a counter starts again; `asks`: the same of one that does not pass its last value, which `within` says."""

    condition: Compare
    asks: Formula
    within: Formula | None
    registers: frozenset[Symbol]


def branched(number: int, process: Process) -> Restatement | None:
    """The process, if it has such counters."""
    rounds = list(_rounds(process))
    return _Branching(number, process, rounds).restatement() if 0 < len(rounds) <= _MOST else None


def _rounds(process: Process) -> Iterator[_Round]:
    found: dict[Formula, _Round] = {}
    registers = {symbol for symbol, _ in _values(process)}
    for symbol, value in _values(process):
        for one in _choices(value) if value is not None else ():
            if isinstance(one.condition, Compare) and symbol in symbols_in(one.condition) and goes_round(one):
                made = _round(one, symbol, registers)
                if made is not None and found.keys().isdisjoint((one.condition, negate(one.condition))):
                    found[made.condition] = made
    return iter(found.values())


def _round(one: Choose, counter: Symbol, registers: set[Symbol]) -> _Round | None:
    steps = [add(value, atom(counter), -1) for value in (one.yes, one.no)]
    step = next((each.constant for each in steps if not each.terms), 0)
    condition = one.condition if steps[1] == Linear(step) else negate(one.condition)
    inside = symbols_in(condition) & registers
    if not isinstance(condition, Compare) or not step or inside != {counter}:
        return None
    times = dict(condition.form.terms).get(counter, 0)
    if condition.relation == "ge":
        return _Round(condition, condition, None, inside)
    if condition.relation == "ne" or abs(step) != 1 or abs(times) != 1:
        return None
    # Before the last value what is left is positive.
    left = scale(condition.form, -times * step)
    return _Round(condition, Compare("ge", scale(left, -1)), Compare("ge", left), inside)


def _values(process: Process) -> Iterator[tuple[Symbol, Linear | None]]:
    for state in process.states:
        for edge in edges_of(state.action):
            yield from edge.values


def _choices(form: Linear) -> Iterator[Choose]:
    """At any depth that choices have."""
    for one, _ in form.terms:
        if isinstance(one, Choose):
            yield one
            yield from (*_choices(one.yes), *_choices(one.no))


Known = frozenset[tuple[Formula, _Round]]  # conditions that hold, and what they are about


class _Branching:
    def __init__(self, number: int, process: Process, rounds: Sequence[_Round]) -> None:
        self.number, self.process, self.rounds = number, process, rounds
        self.asked = {condition: one for one in rounds for condition in (one.condition, negate(one.condition))}
        self.moved = self._moved()
        self.forms = {symbol: atom(Symbol(f"{symbol.name}*")) for symbol in self.moved}
        self.assigned = assigned_in(process)
        self.numbers: dict[tuple[int, Known], int] = {}

    def restatement(self) -> Restatement | None:
        if any(value is None for symbol, value in _values(self.process) if symbol in self.moved):
            return None
        places: list[Place] = []
        start = self._at(self.process.start, frozenset())
        while len(places) < len(self.numbers) <= _MOST_PLACES:
            places.append(self._place(*[*self.numbers][len(places)]))
        return None if len(self.numbers) > _MOST_PLACES else Restatement(self.number, start, tuple(places))

    def _moved(self) -> dict[Symbol, None]:
        """The registers that are given chosen values, or values that are made of such registers."""
        moved: dict[Symbol, None] = {}
        size = -1
        while size < len(moved):
            size = len(moved)
            for symbol, value in _values(self.process):
                if value is not None and (self._in_form(value) or not symbols_of(value).isdisjoint(moved)):
                    moved[symbol] = None
        return moved

    def _in_form(self, form: Linear) -> list[_Round]:
        """What is asked in it."""
        return [self.asked[one.condition] for one in _choices(form) if one.condition in self.asked]

    def _at(self, state: int, known: Known) -> int:
        return self.numbers.setdefault((state, known), len(self.numbers))

    def _place(self, at: int, known: Known) -> Place:
        action = self.process.states[at].action
        facts: list[Formula] = [
            Compare("eq", add(form, atom(symbol), -1)) for symbol, form in self.forms.items() if symbol in self.assigned[at]
        ]
        facts += [self._said(one.within) for one in self.rounds if one.within is not None and one.registers <= self.assigned[at]]
        facts += [each for each, _ in known]
        now = Rewriting(lambda one: self._chosen(one, known))
        further = self._open(at, known, now)
        if further is not None:
            ways = [
                Onward(None, self._at(at, known | {(one, further)})) for one in (further.condition, negate(further.condition))
            ]
            return Place(at, tuple(facts), self._said(further.asks), tuple(ways))
        asks = self._said(now.formula(action.condition)) if isinstance(action, Test) else None
        onwards = [self._onward(number, edge, known, now) for number, edge in enumerate(edges_of(action))]
        return Place(at, tuple(facts), asks, tuple(onwards))

    def _onward(self, number: int, edge: Edge, known: Known, now: Rewriting) -> Onward:
        given = {symbol for symbol, _ in edge.values}
        values = tuple(
            [
                (Symbol(f"{symbol.name}*"), substitute(now.form(value), self.forms))
                for symbol, value in edge.values
                if symbol in self.moved and value is not None
            ]
        )
        kept = frozenset(row for row in known if row[1].registers.isdisjoint(given))
        return Onward(number, self._at(edge.target, kept), values, tuple([self._said(now.formula(one)) for one in edge.requires]))

    def _open(self, at: int, known: Known, now: Rewriting) -> _Round | None:
        """What has to be asked before the state does anything."""
        action = self.process.states[at].action
        forms = [*forms_of(action.condition)] if isinstance(action, Test) else []
        for edge in edges_of(action):
            forms += [value for _, value in edge.values if value is not None]
            forms += [form for one in edge.requires for form in forms_of(one)]
        return next((one for form in forms for one in self._in_form(now.form(form))), None)

    @staticmethod
    def _chosen(one: Atom, known: Known) -> Linear | None:
        if not isinstance(one, Choose):
            return None
        for condition, _ in known:
            if one.condition in (condition, negate(condition)):
                taken = one.yes if one.condition == condition else one.no
                return Rewriting(lambda each: _Branching._chosen(each, known)).form(taken)
        return None

    def _said(self, formula: Formula) -> Formula:
        """In terms of the added registers."""
        return substituted(formula, self.forms)
