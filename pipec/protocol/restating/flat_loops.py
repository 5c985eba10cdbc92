"""Single loops over the turns of several: those whose bound is a product."""

from collections.abc import Iterator

from pipec.protocol.forms.rewriting import is_machine_product
from pipec.record import record
from pipec.verify.network import Action, Edge, Process, Test, edges_of
from pipec.verify.terms import (
    MOST_FACTORS,
    Apply,
    Choose,
    Compare,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    is_quotient,
    is_remainder,
    negate,
)


@record
class Flat:
    """`counter`: of a loop over `range(bound)`; `factors`: of the bound; `divided`: its remainders and quotients in tests."""

    counter: Symbol
    bound: Apply
    factors: tuple[Linear, ...]
    divided: tuple[Apply, ...]

    @property
    def divisors(self) -> frozenset[Linear]:
        return frozenset(divisor_of(one) for one in self.divided)


def flat_loops(process: Process) -> Iterator[Flat]:
    """The counters that begin with 0 if there is a turn, and go on by one if there is another one."""
    assigned: dict[Symbol, list[tuple[int, Action, Edge]]] = {}
    divided: dict[Linear, dict[Apply, None]] = {}
    for at, state in enumerate(process.states):
        for edge in edges_of(state.action):
            for symbol, _ in edge.values:
                assigned.setdefault(symbol, []).append((at, state.action, edge))
        for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
            for one, _ in form.terms:
                if is_remainder(one) or is_quotient(one):
                    divided.setdefault(one.arguments[0], {})[one] = None
    for counter, rows in assigned.items():
        bounds = {_bound(counter, action, edge) for _, action, edge in rows}
        (bound,) = bounds if len(bounds) == 1 else (None,)
        if bound is not None:
            factors = tuple(factors_of(bound))
            if len(factors) <= MOST_FACTORS:
                yield Flat(counter, bound, factors, tuple(divided.get(atom(counter), ())))


def divisor_of(one: Apply) -> Linear:
    """Without the 1 that replaces a 0."""
    divisor = one.arguments[1]
    match divisor:
        case Linear(0, ((Choose(_, yes, Linear(1, ())), 1),)):
            return yes
        case _:
            return divisor


def _bound(counter: Symbol, action: Action, edge: Edge) -> Apply | None:
    """The product up to which a counter is counted that begins or goes on along the edge of a test."""
    if not isinstance(action, Test):
        return None
    condition = action.condition if edge == action.yes else negate(action.condition)
    value = dict(edge.values)[counter]
    if not isinstance(condition, Compare) or condition.relation != "ge" or value is None:
        return None
    left = add(condition.form, value)
    match left:
        case Linear(-1, ((Apply() as bound, 1),)) if is_machine_product(bound) and value in (
            Linear(0),
            add(atom(counter), Linear(1)),
        ):
            return bound
        case _:
            return None


def factors_of(bound: Apply) -> Iterator[Linear]:
    for form in bound.arguments:
        match form:
            case Linear(0, ((Apply() as inner, 1),)) if is_machine_product(inner):
                yield from factors_of(inner)
            case _:
                yield form
