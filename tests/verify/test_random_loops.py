"""Random loops over three registers: those that certainly end, according to the checker, do so from every state in which they are run.

What is assigned an unknown value gets another number each time. A loop does not end if a state comes again while no number is drawn
anew, or if it takes far more turns than the small numbers allow.
"""

import random

import pytest
from verify.interpret import holds, value

from pipec.verify.checker.progress import ends
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, End, Process, State, Use
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, choose, decided, floor

N, STEP = atom(Symbol("n")), atom(Symbol("step"))
REGISTERS = tuple(Symbol(f"0:{name}") for name in "ijk")
POSITIVE = (Compare("ge", add(STEP, Linear(-1))),)
_MOST_TURNS = 2_000


def number(draw: random.Random) -> Linear:
    one = atom(draw.choice(REGISTERS))
    more = add(one, Linear(draw.choice((0, 0, 1, 1, 2, 4, -1))))
    smaller = choose(decided(Compare("ge", add(more, N, -1))), N, more)
    apart = add(one, atom(draw.choice(REGISTERS)), draw.choice((1, -1)))
    kinds = (more, add(one, STEP, draw.choice((1, 1, -1))), smaller, N, apart, floor(one, 2), Linear(0))
    return draw.choices(kinds, (8, 2, 2, 1, 1, 1, 1))[0]


def condition(draw: random.Random) -> Formula:
    one, other = draw.sample(REGISTERS, 2)
    bound = draw.choice((N, N, atom(other)))
    relation = draw.choices(("ge", "eq", "ne"), (8, 1, 1))[0]
    return Compare(relation, add(add(bound, atom(one), -1), Linear(draw.choice((-1, -1, 0)))))  # type: ignore[arg-type]


def edge(draw: random.Random, target: int) -> Edge:
    assigned = [one for one in REGISTERS if draw.random() < 0.35]
    return Edge(target, tuple((one, None if draw.random() < 0.06 else number(draw)) for one in assigned))


def process(draw: random.Random) -> Process:
    """Steps in a circle, some of which lead back, to others or out."""
    count = draw.randint(2, 5)
    states = []
    for at in range(count):
        onward, turn = edge(draw, (at + 1) % count), draw.random()
        if at and turn > 0.55:
            states.append(State(at, Arrive(Use(0, 0, 0), onward, 1), REGISTERS))
            continue
        targets = (count, count, draw.randrange(count)) if not at or turn < 0.25 else (at, at - 1, draw.randrange(count))
        ways = [onward, edge(draw, draw.choice(targets))]
        if draw.random() < 0.3:
            ways.reverse()
        states.append(State(at, Branch(condition(draw), *ways), REGISTERS))
    return Process("r", 1, (0,), (0,), 1, (*states, State(count, End())))


def does_not_end(draw: random.Random, one: Process) -> bool:
    values = {"n": draw.randint(-1, 7), "step": draw.randint(1, 3)} | {each.name: draw.randint(-2, 5) for each in REGISTERS}
    at, seen = draw.randrange(len(one.states)), set()
    for _ in range(_MOST_TURNS):
        match one.states[at].action:
            case Branch(when, yes, no):
                taken = yes if holds(when, values) else no
            case Arrive(_, onward):
                taken = onward
            case _:
                return False
        values |= {each.name: draw.randint(-3, 7) if form is None else value(form, values) for each, form in taken.values}
        at = taken.target
        seen = set() if any(form is None for _, form in taken.values) else seen
        here = at, *values.values()
        if here in seen:
            return True
        seen.add(here)
    return True


@pytest.mark.parametrize("seed", range(3))
def test_what_certainly_ends_does(seed: int) -> None:
    draw, ending = random.Random(seed), 0
    for _ in range(300):
        one = process(draw)
        if ends(one, System(POSITIVE)):
            ending += 1
            assert not any(does_not_end(draw, one) for _ in range(30)), one
    assert ending
