"""In other words a loop goes on exactly as long, which the checker sees: compared for all small numbers, too."""

from itertools import product

import pytest

from pipec.protocol.restating.distances import measured
from pipec.protocol.restating.restate import restate
from pipec.verify.checker.restated import restated as checked
from pipec.verify.logic import System
from pipec.verify.network import Edge, End, Network, Process, State
from pipec.verify.network import Test as Branch
from pipec.verify.terms import (
    Apply,
    Choose,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    floor,
    negate,
    quotient,
    scale,
    symbols_in,
)
from tests.verify.interpret import holds, value

G, X, B, K = (atom(Symbol(name)) for name in ("%nctaid.x", "x", "%ctaid.x", "k"))
COUNTER = Symbol("0:%r1")
TURNS = atom(COUNTER)
FACTS = (Compare("ge", add(G, Linear(-1))),)
LARGER = choose(Compare("ge", X), X, Linear(0))
MOST_TURNS = 12


def loop(start: Linear, step: int, goes_on: Formula, kept: Linear | None = None) -> Process:
    """A loop with its test in front; `kept`: what a second register is given in each turn."""
    other = Symbol("0:%r2")
    values = ((COUNTER, add(TURNS, Linear(step))), *([] if kept is None else [(other, kept)]))
    states = (
        State(1, Branch(Compare("ge", Linear(0)), Edge(1, ((COUNTER, start),)), Edge(1, ((COUNTER, start),)))),
        State(2, Branch(goes_on, Edge(1, values), Edge(2)), (COUNTER,)),
        State(3, End()),
    )
    return Process("a", 32, (0,), (0,), 0, states)


def restated(process: Process, *, distances: bool = True) -> Process:
    """As the checker accepts it."""
    network = Network("k", (), (process,), FACTS)
    return checked(network, restate(network, distances=distances).others, System(FACTS)).processes[0]


def taken(process: Process, sizes: dict[str, int]) -> list[int]:
    """What the second register was in each turn, or nothing of it."""
    values, at, found = dict(sizes), 0, list[int]()
    while not isinstance(action := process.states[at].action, End) and len(found) < MOST_TURNS:
        assert isinstance(action, Branch)
        edge = action.yes if holds(action.condition, values) else action.no
        values |= {symbol.name: value(form, values) for symbol, form in edge.values if form is not None}
        if edge.values and at:
            found.append(values.get("0:%r2*", values.get("0:%r2", 0)))
        at = edge.target
    return found


def up(bound: Linear) -> Process:
    return loop(Linear(0), 1, Compare("ge", add(add(bound, TURNS, -1), Linear(-1))))


PLACE = add(atom(Apply("mul.lo.s32", (G, TURNS))), B)
RIGHT = {
    "up to a quotient": up(quotient(X, G)),
    "up to one rounded up": up(scale(quotient(scale(X, -1), G), -1)),
    "up to that of the larger number": up(add(quotient(add(LARGER, Linear(-1)), G), Linear(1))),
    "from 2 on": loop(Linear(2), 1, Compare("ge", add(add(quotient(X, G), TURNS, -1), Linear(-1)))),
    "by twos": loop(Linear(0), 2, Compare("ge", add(add(quotient(X, G), TURNS, -1), Linear(-1)))),
    "from below 0": loop(Linear(-2), 1, Compare("ge", add(add(quotient(add(LARGER, Linear(-1)), G), TURNS, -1), Linear(-1)))),
    "down": loop(add(quotient(X, G), Linear(1)), -1, Compare("ge", add(TURNS, Linear(-1)))),
    "while not at the end": loop(Linear(0), 1, negate(Compare("ge", add(TURNS, quotient(X, G), -1)))),
    "with the place that it leads to": loop(
        Linear(0), 1, Compare("ge", add(add(quotient(X, G), TURNS, -1), Linear(-1))), atom(Apply("s32", (PLACE,)))
    ),
    "up to a quotient by a number": up(floor(add(X, B, -1), 4)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_walk_has_as_many_turns(name: str) -> None:
    process = RIGHT[name]
    made = restated(process)
    action = made.states[1].action
    assert isinstance(action, Branch)
    assert COUNTER not in symbols_in(action.condition)
    for g, x, b in product((1, 2, 3), range(-4, 8), (0, 1)):
        sizes = {"%nctaid.x": g, "x": x, "%ctaid.x": b}
        assert taken(made, sizes) == taken(process, sizes), sizes


KEPT = {
    "a size that may be 0": (up(quotient(X, K)), FACTS),
    "the number of turns is needed": (
        loop(Linear(0), 1, Compare("ge", add(add(quotient(X, G), TURNS, -1), Linear(-1))), TURNS),
        FACTS,
    ),
    "it is set to what is not known": (
        loop(quotient(atom(Symbol("0:%r9")), G), -1, Compare("ge", add(TURNS, Linear(-1))), atom(Symbol("0:%r9"))),
        FACTS,
    ),
    "blocks of K": (up(floor(K, 64)), FACTS),
    "compared with a sum": (up(add(quotient(X, G), K)), FACTS),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_counters_are_left_alone(name: str) -> None:
    process, facts = KEPT[name]
    assert measured(process, facts).process == process


M = atom(Symbol("0:%r5"))


def extreme(larger: bool, first: Linear, second: Linear) -> Linear:
    apart = add(first, second, -1)
    return choose(Compare("ge", apart if larger else scale(apart, -1)), first, second)


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("times", [1, -1])
@pytest.mark.parametrize("divisor", [1, 4])
def test_what_is_asked_first_changes_nothing(larger: bool, times: int, divisor: int) -> None:
    number = floor(add(extreme(larger, K, add(scale(M, 4), Linear(4))), Linear(divisor - 1)), divisor)
    process = loop(Linear(0), 1, Compare("ge", add(scale(number, times), Linear(-1 if times > 0 else 0))))
    made = restated(process, distances=False)
    assert len(made.states) == len(process.states) + 1
    action = made.states[1].action
    assert isinstance(action, Branch) and symbols_in(action.condition) == {Symbol("k")}
    for k, m in product(range(-3, 9), range(-3, 3)):
        sizes = {"k": k, "0:%r5": m}
        assert bool(taken(made, sizes)) == bool(taken(process, sizes)), sizes


@pytest.mark.parametrize(
    "condition",
    [
        Compare("ge", add(extreme(False, K, X), Linear(-1))),
        Compare("ge", add(add(extreme(False, K, M), TURNS, -1), Linear(-1))),
        Compare("ge", add(extreme(False, K, M), Linear(-2))),
        Compare("eq", add(extreme(False, K, M), Linear(-1))),
        Compare("ge", add(atom(Choose(Compare("ge", K), K, M)), Linear(-1))),
    ],
    ids=["of sizes", "of turns", "of more than one", "of exactly one", "of another choice"],
)
def test_other_tests_are_left_alone(condition: Formula) -> None:
    process = loop(Linear(0), 1, condition)
    assert restated(process, distances=False) == process
