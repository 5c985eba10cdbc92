"""Expands what the reader folded: large forms of sizes, of which a proof only needs that equal ones are equal.

A run at given sizes needs their values: the number of tiles per block of a persistent kernel is such a form.
"""

from pipec.record import replace
from pipec.verify.network import Action, Arrive, Edge, Network, Process, State, Test, Wait
from pipec.verify.reader.values.forms import Folds
from pipec.verify.terms import (
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Product,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    negate,
    substitute,
    substituted,
    summed,
)

_MOST_PARTS = 2_000  # of one form; nested folds may grow exponentially, and such ones stay folded


def unfolded(network: Network, folds: Folds) -> Network:
    """The same places and cursors; `folds`: those of the reader (see Arithmetic)."""
    return replace(network, processes=tuple(map(_Unfolding(folds).process, network.processes))) if folds else network


class _Unfolding:
    """Expansions of atoms are memoised."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds
        self._made: dict[Atom, tuple[Linear, int]] = {}  # with the number of its parts

    def process(self, process: Process) -> Process:
        return replace(process, states=tuple(State(one.line, self._action(one.action), one.live) for one in process.states))

    def _action(self, action: Action) -> Action:
        match action:
            case Test(condition, yes, no):
                return Test(self._formula(condition)[0], self._edge(yes), self._edge(no))
            case Wait() | Arrive():
                return replace(action, edge=self._edge(action.edge))
        return action

    def _edge(self, edge: Edge) -> Edge:
        values = tuple((symbol, None if form is None else self._form(form)[0]) for symbol, form in edge.values)
        return replace(edge, values=values, requires=tuple(self._formula(one)[0] for one in edge.requires))

    def _form(self, form: Linear) -> tuple[Linear, int]:
        parts = [(self._atom(one), times) for one, times in form.terms]
        return summed(form.constant, [(made, times) for (made, _), times in parts]), 1 + sum(size for (_, size), _ in parts)

    def _atom(self, one: Atom) -> tuple[Linear, int]:
        found = self._made.get(one)
        if found is None:
            made, size = self._unfolded(one)
            found = self._made[one] = (made, size) if size <= _MOST_PARTS else (atom(one), 1)
        return found

    def _unfolded(self, one: Atom) -> tuple[Linear, int]:
        match one:
            case Floor(form, divisor):
                made, size = self._form(form)
                return floor(made, divisor), size + 1
            case Choose(condition, yes, no):
                (asked, first), (left, second), (right, third) = self._formula(condition), self._form(yes), self._form(no)
                return choose(asked, left, right), first + second + third
            case Apply(function, arguments):
                return self._applied(function, [self._form(argument) for argument in arguments])
            case Product(factors):
                return atom(one), len(factors)  # only in certificates
        return atom(one), 1

    def _applied(self, function: str, given: list[tuple[Linear, int]]) -> tuple[Linear, int]:
        name, _, kind = function.rpartition(".")
        symbols, value = self._folds.get(name, ((), None))
        arguments = tuple(made for made, _ in given)
        if not isinstance(value, Linear):
            return atom(Apply(function, arguments)), 1 + sum(size for _, size in given)
        inner, more = self._form(value)
        # The name stands for a number of that width, to which the form is congruent, for example modulo 2^32.
        return atom(Apply(kind, (substitute(inner, dict(zip(symbols, arguments, strict=True))),))), more * max(
            size for _, size in given
        )

    def _formula(self, formula: Formula) -> tuple[Formula, int]:
        match formula:
            case Compare(relation, Linear(0, ((Apply(name, arguments), 1),))) if name in self._folds:
                symbols, value = self._folds[name]
                assert not isinstance(value, Linear), "named without a width"
                inner, size = self._formula(value)
                given = dict(zip(symbols, arguments, strict=True))
                asked = substituted(inner, given)
                return asked if relation == "ne" else negate(asked), size
            case Compare(relation, form):
                made, size = self._form(form)
                return decided(Compare(relation, made)), size
            case Both(parts) | Either(parts):
                found = [self._formula(part) for part in parts]
                joined = both if isinstance(formula, Both) else either
                return joined(*(made for made, _ in found)), sum(size for _, size in found)
