"""A decision procedure for conjunctions over the integers: sound, and complete enough for protocols.

Linear arithmetic is in inequalities.py, the definitions of other atoms in definitions.py. This module decomposes formulas and splits
cases. All consequences hold for all integers; failing to derive a formula proves nothing, and the answer is then "not entailed".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pipec.verify.definitions import Definitions
from pipec.verify.inequalities import MOST_STEPS, allowed, combined, contradict, tight, variables_of
from pipec.verify.terms import FALSE, Both, Choose, Compare, Either, Floor, Formula, Linear, add, atom, is_quotient, negate, scale

_MOST_SPLITS = 3  # nested case splits of one query
_NEAR = 3  # steps from one inequality to others that share terms, before all are considered
_MOST_TURNS = 3  # rounds in which new facts resolve cases, and these imply further facts
_ASSUMED = 7  # cost of adding a formula, in combinations of inequalities


Answer = TypeVar("Answer")


class System(Definitions):
    """A conjunction of formulas, kept in solved form."""

    def __init__(self, premises: Iterable[Formula] = ()) -> None:
        super().__init__()
        self._cases: list[Either] = []
        self._chosen: set[Choose] = set()  # choices with an assumed condition
        self._asked: frozenset[Choose] = frozenset()  # choices that the question is about
        for premise in premises:
            self.assume(premise)

    def extended(self, premises: Iterable[Formula]) -> "System":
        made = System()
        made.contradictory = self.contradictory
        made._numbers, made._atoms = dict(self._numbers), list(self._atoms)
        made._solved, made._least, made._learnt = dict(self._solved), dict(self._least), self._learnt
        made._cases, made._chosen, made._defined = list(self._cases), set(self._chosen), self._defined
        made._looked = self._looked
        made._wrapping, made._divided, made._far = list(self._wrapping), list(self._divided), set(self._far)
        made._implied, made._exhausted, made._multiples = list(self._implied), self._exhausted, list(self._multiples)
        made._changed, made._renamed, made._asked = set(self._changed), self._renamed, self._asked
        for premise in premises:
            made.assume(premise)
        return made

    def assume(self, formula: Formula) -> None:
        combined.value += _ASSUMED
        match formula:
            case Compare("ge", form):
                self._at_least(self._row(form))
            case Compare("eq", form):
                self._equal(self._row(form))
            case Compare(_, form):
                self._cases.append(_different(form))
            case Both(parts):
                for part in parts:
                    self.assume(part)
            case Either(()):
                self.contradictory = True
            case Either((only,)):
                self.assume(only)
            case Either():
                self._cases.append(formula)

    def entails(self, formula: Formula, most: int = MOST_STEPS) -> bool:
        """Whether the formula follows from the conjunction; False if that is not established, in so many steps."""
        return self._within(lambda: self._entails(formula), most)

    def impossible(self, splits: int = _MOST_SPLITS) -> bool:
        """Whether no integers satisfy the conjunction; False if that is not established."""
        return self.contradictory or self._within(lambda: self._impossible(splits))

    @staticmethod
    def _within(question: Callable[[], Answer], most: int = MOST_STEPS) -> Answer:
        """The answer, if it takes no more steps than a question may."""
        before, allowed.value = allowed.value, min(allowed.value, combined.value + most)
        try:
            return question()
        finally:
            allowed.value = before

    def _entails(self, formula: Formula) -> bool:
        if self.contradictory:
            return True
        if combined.value > allowed.value:
            return False
        match formula:
            case Compare("ge", form):
                if self._at_hand(form) or self._nearby(form) or self.closed()._nearby(form):
                    return True
            case Compare("eq", form):
                constant, coefficients = self._reduced(self._row(form))
                if not coefficients:
                    return constant == 0 or self._impossible()
                return self._entails(Compare("ge", form)) and self._entails(Compare("ge", scale(form, -1)))
            case Both(parts):
                return all(self._entails(part) for part in parts)
            case _:
                pass
        opposite = self.extended([negate(formula)])
        if isinstance(formula, Compare):
            opposite._asked = frozenset(_choices(formula.form))
        return opposite._impossible()

    def _impossible(self, splits: int = _MOST_SPLITS) -> bool:
        if self.contradictory:
            return True
        if combined.value > allowed.value:
            return False
        self._propagate()
        # For example, a factor is known to be 0, or a product to be small, or it is looked at what a factor is.
        if self._multiply() and (self._changed or self._wrapping or self._defined < len(self._atoms)):
            self._propagate()
        if self.contradictory or self._eliminated():
            return True
        if self._congruent() and self._impossible(splits):
            return True
        if not splits:
            return False
        return any(all(part._impossible(splits - 1) for part in parts) for parts in self._splits(splits))

    def closed(self) -> "System":
        """The system with the definitions of its atoms added, so that extensions need not add them again."""
        self._within(self._propagate)
        return self

    def _nearby(self, form: Linear) -> bool:
        """Whether `form >= 0` follows from the inequalities about its own terms and those that share terms with them: most queries do,
        and other inequalities would only slow elimination down."""
        if self.contradictory:
            return True
        constant, coefficients = self._reduced(self._row(add(Linear(-1), form, -1)))
        if not coefficients:
            return constant < 0
        least, key = tight(constant, coefficients)
        rows = {key: min(least, self._least.get(key, least))}
        met = {variable for variable, _ in key}
        for _ in range(_NEAR):
            near = [(one, constant) for one, constant in self._least.items() if not met.isdisjoint(variables_of(one))]
            combined.value += len(near)
            rows = {**dict(near), **rows}
            if contradict(rows):
                return True
            met.update(*[variables_of(one) for one, _ in near])
        return False

    def _propagate(self) -> None:
        """Adds the definitions of atoms, and the consequences of resolved cases and choices; this may add further atoms."""
        known, changed = self._renamed, self._changed
        self._renamed, self._changed = len(self._atoms), set()
        for _ in range(_MOST_TURNS):
            self._rename(known, frozenset([self._atoms[variable] for variable in changed]))
            self._define()
            known, changed = len(self._atoms), set()
            # (Of a product the range may depend on which quotient is its factor.)
            news = not self.contradictory and (self._settled() or self._congruent(is_quotient))
            if self.contradictory or not (news or len(self._atoms) > known):
                return

    def _settled(self) -> bool:
        """Unit propagation: assumes the remaining part of a case when the others are refuted, and the remaining alternative of a choice;
        returns whether there was any. Otherwise splitting would nest as deep as there are cases, doubling the time at each level."""
        found = False
        for cases, case in [*((self._cases, one) for one in self._cases), *((self._implied, one) for one in self._implied)]:
            if combined.value > allowed.value:
                return found
            left = [part for part in case.parts if not self._refuted(part)]
            combined.value += _beyond_two(case.parts)
            if len(left) < 2:
                cases.remove(case)
                self.assume(left[0] if left else FALSE)
                found = True
        for one in self._atoms:
            if isinstance(one, Choose) and one not in self._chosen:
                for condition, value in ((one.condition, one.no), (negate(one.condition), one.yes)):
                    if self._refuted(condition):
                        self._chosen.add(one)
                        self.assume(Compare("eq", add(atom(one), value, -1)))
                        found = True
                        break
        return found

    def _refuted(self, formula: Formula) -> bool:
        """Whether known inequalities contradict the formula."""
        match formula:
            case Compare("ge", form):
                return self._at_hand(add(Linear(-1), form, -1))
            case Compare("eq", form):
                return self._at_hand(add(form, Linear(-1))) or self._at_hand(add(Linear(-1), form, -1))
            case Compare(_, form):
                return self._equal_at_hand(form, Linear(0))
            case Both(parts):
                combined.value += _beyond_two(parts)
                return any(self._refuted(part) for part in parts)
            case Either(parts):
                combined.value += _beyond_two(parts)
                return all(self._refuted(part) for part in parts)

    def _splits(self, most: int) -> Iterator[list["System"]]:
        """Ways to split cases: each a list of systems one of which holds."""
        combined.value += len(self._least)
        for case in self._cases[:most]:
            parts = [self.extended([part]) for part in case.parts]
            for part in parts:
                part._cases = [one for one in part._cases if one is not case]
            yield parts
        choices = [one for one in self._atoms if isinstance(one, Choose) and one not in self._chosen]
        # (Of many choices, most have nothing to do with the question.)
        for choice in sorted(choices, key=lambda one: one not in self._asked)[:most]:
            value = atom(choice)
            taken = self.extended([choice.condition, Compare("eq", add(value, choice.yes, -1))])
            other = self.extended([negate(choice.condition), Compare("eq", add(value, choice.no, -1))])
            taken._chosen.add(choice)
            other._chosen.add(choice)
            yield [taken, other]


def _choices(form: Linear) -> Iterator[Choose]:
    """Of which its value depends."""
    for one, _ in form.terms:
        match one:
            case Choose(_, yes, no):
                yield one
                yield from (*_choices(yes), *_choices(no))
            case Floor(inner, _):
                yield from _choices(inner)
            case _:
                pass


def _beyond_two(parts: Sequence[Formula]) -> int:
    """The cost of looking at the parts of a formula: none for two, as nearly all have, which is part of the cost of what they settle."""
    return max(len(parts) - 2, 0)


def _different(form: Linear) -> Either:
    return Either((Compare("ge", add(form, Linear(-1))), Compare("ge", add(Linear(-1), form, -1))))
