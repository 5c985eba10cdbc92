"""Processes in other words: what the checker accepts does the same as the process itself, step by step, whatever the certificate says.

Right restatements are changed in one place each. Most changes are refused; what is not is run beside the process, at many small sizes.
"""

import json
import random
from collections import Counter
from functools import cache
from itertools import product

import pytest

from pipec.protocol.restating.restate import restate
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate, Onward, Place, Restatement, certificate_of, data_of
from pipec.verify.checker.configuration import Refused
from pipec.verify.checker.restated import restated
from pipec.verify.data import Malformed
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Use, Wait, edges_of
from pipec.verify.network import Test as Branch
from pipec.verify.terms import (
    MOST_WRITTEN,
    TRUE,
    Apply,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    floor,
    quotient,
    remainder,
    scale,
    summed,
    symbols_in,
    symbols_of,
)
from tests.verify.forging import forgeries
from tests.verify.interpret import holds, value

X, G, B, K = (atom(Symbol(name)) for name in ("x", "%nctaid.x", "%ctaid.x", "k"))
I, T, D, OTHER = (Symbol(name) for name in ("0:i", "0:t", "0:d", "1:i"))
FACTS = (Compare("ge", add(G, Linear(-1))), Compare("ge", B), Compare("ge", add(add(G, B, -1), Linear(-1))))
SMALL = 1 << 7  # what the numbers of these processes must not reach
EACH = 120  # changes of a restatement


def positive(form: Linear) -> Formula:
    return Compare("ge", add(form, Linear(-1)))


def walk(goes_on: Formula, start: Linear, step: int, place: Linear, blocks: Linear) -> Network:
    """Turns that are counted; in each one an arrival for each block that is left from a place."""
    below = Compare("ge", add(Linear(SMALL), atom(I), -1))
    states = (
        State(1, Branch(TRUE, Edge(1, ((I, start),)), Edge(1, ((I, start),)))),
        State(2, Branch(goes_on, Edge(2, ((T, place),)), Edge(6)), (I,)),
        State(3, Branch(positive(blocks), Edge(3), Edge(5)), (I, T)),
        State(4, Arrive(Use(0, 0, 0), Edge(4, (), ((0, 1),)), 1), (I, T)),
        State(5, Wait(Use(1, 0, -1), Edge(5)), (I, T)),
        State(6, Arrive(Use(1, 0, -1), Edge(1, ((I, add(atom(I), Linear(step))),), (), (below,)), 1), (I,)),
        State(7, End()),
    )
    other = (State(8, Wait(Use(0, 0, 0), Edge(1, ((OTHER, Linear(3)),)))), State(9, End()))
    processes = (Process("a", 32, (0,), (0,), 1, states), Process("b", 32, (1,), (0,), 1, other))
    return Network("k", (Ring("mbarrier", (0,), 1), Ring("mbarrier", (8,), 1)), processes, FACTS)


SHARE = scale(quotient(add(B, X, -1), G), -1)  # X - B things, rounded up
PRODUCT = atom(Apply("mul.lo.s32", (G, atom(I))))
ROW = atom(Apply("s32", (add(PRODUCT, B),)))
REACH = choose(Compare("ge", add(K, atom(T), -1)), add(atom(T), Linear(1)), K)  # the smaller one
TILE = atom(Symbol("0:t"))
LARGER = choose(Compare("ge", add(G, Linear(-1))), G, Linear(1))
LEFT = choose(Compare("ge", add(G, Linear(-1))), remainder(TILE, LARGER), TILE)  # in the words of `t - t // g * g`


def told(place: Linear) -> Linear:
    """What memory says of a place, of which there are K."""
    said = atom(Apply("ld.global.s32", (scale(place, 4),)))
    return choose(Compare("ge", add(add(K, place, -1), Linear(-1))), said, Linear(0))


NETWORKS = {
    "up": walk(positive(add(SHARE, atom(I), -1)), Linear(0), 1, ROW, add(K, atom(T), -1)),
    "down": walk(positive(atom(I)), SHARE, -1, B, K),
    "rounded up by hand": walk(
        positive(add(quotient(add(add(X, G), add(B, Linear(1)), -1), G), atom(I), -1)), Linear(0), 1, ROW, REACH
    ),
    "by a number": walk(
        positive(add(floor(add(add(X, B, -1), Linear(3)), 4), atom(I), -1)), Linear(0), 1, scale(atom(I), 4), REACH
    ),
    "as memory says": walk(positive(add(SHARE, atom(I), -1)), Linear(0), 1, ROW, told(TILE)),
    "as memory says of what is left": walk(
        positive(add(SHARE, atom(I), -1)), Linear(0), 1, ROW, choose(Compare("ge", add(X, told(LEFT), -1)), told(LEFT), X)
    ),
}
NUMBERED = ("as memory says", "as memory says of what is left")


SIZES = [
    {"x": x, "%nctaid.x": g, "%ctaid.x": b, "k": k}
    for x, g, b, k in product((-3, 0, 1, 5, 6), (1, 2, 3), (0, 1, 2), (-1, 0, 2, 4))
    if b < g
]
Seen = list[tuple[bool, int, int]]


def ran(process: Process, sizes: dict[str, int], most: int) -> tuple[Seen, str]:
    """The waits and arrivals in order, and how it ended: also where a requirement does not hold. Registers begin with any number."""
    values = dict.fromkeys(sorted(registers(process)), 77) | sizes
    at, cursor, seen = process.start, 0, Seen()
    for _ in range(most):
        match process.states[at].action:
            case End():
                return seen, "ended"
            case Branch(condition, yes, no):
                edge = yes if holds(condition, values) else no
            case Arrive(use, edge) | Wait(use, edge) as action:
                seen.append((isinstance(action, Wait), use.ring, cursor + use.shift))
        if not all(holds(one, values) for one in edge.requires):
            return seen, "required"
        values |= {symbol.name: value(form, values) for symbol, form in edge.values if form is not None}
        cursor += sum(by for _, by in edge.advances)
        at = edge.target
    return seen, "goes on"


def registers(process: Process) -> set[str]:
    """Also those that are read before anything is assigned to them."""
    forms = [form for state in process.states for edge in edges_of(state.action) for _, form in edge.values if form is not None]
    asked = [state.action.condition for state in process.states if isinstance(state.action, Branch)]
    asked += [one for state in process.states for edge in edges_of(state.action) for one in edge.requires]
    return {one.name for one in frozenset().union(*map(symbols_of, forms), *map(symbols_in, asked))}


def same(before: Process, after: Process, sizes: dict[str, int]) -> bool:
    """Whether the second process does what the first one does, as far as what it requires holds."""
    (seen, end), (told, other) = ran(before, sizes, 400), ran(after, sizes, 200)
    if other == "ended":
        return end == "ended" and seen == told
    return seen[: len(told)] == told


def closed(network: Network) -> System:
    return System(network.facts).closed()


@cache
def right(name: str) -> Restatement:
    (one,) = restate(NETWORKS[name], numbers=True).others
    return one


@pytest.mark.parametrize("name", NETWORKS)
def test_it_does_the_same(name: str) -> None:
    network = NETWORKS[name]
    made = restated(network, [right(name)], closed(network))
    tests = [state.action.condition for state in made.processes[0].states if isinstance(state.action, Branch)]
    assert not any(I in symbols_in(one) for one in tests)
    if name in NUMBERED:
        assert not any(T in symbols_in(one) for one in tests)
    ends = Counter[str]()
    for sizes in SIZES:
        assert same(network.processes[0], made.processes[0], sizes), sizes
        ends[ran(made.processes[0], sizes, 200)[1]] += 1
    assert ends["ended"] == len(SIZES)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_changed_is_refused_or_does_the_same(name: str) -> None:
    network, chosen = NETWORKS[name], random.Random(name)
    text = json.dumps(data_of(Certificate("k", (), restated=(right(name),)))["restated"])
    found: Counter[str] = Counter()
    for forgery in forgeries(text, EACH, chosen):
        try:
            others = certificate_of({"kernel": "k", "restated": json.loads(forgery.text), "cases": []}).restated
            made = restated(network, others, closed(network))
        except Malformed:
            found["malformed"] += 1
            continue
        except Refused:
            found["refused"] += 1
            continue
        found["accepted"] += 1
        for sizes in SIZES:
            for before, after in zip(network.processes, made.processes, strict=True):
                assert same(before, after, sizes), (forgery.path, forgery.change, sizes)
    assert found["refused"] > EACH // 5 and found["accepted"] < EACH // 3, found


def changed(one: Restatement, at: int, **parts: object) -> Restatement:
    places = tuple(replace(place, **parts) if number == at else place for number, place in enumerate(one.places))
    return replace(one, places=places)


def plain(network: Network, number: int = 0) -> Restatement:
    """The process in its own words."""
    process = network.processes[number]
    places = []
    for at, state in enumerate(process.states):
        asks = state.action.condition if isinstance(state.action, Branch) else None
        onwards = tuple(Onward(takes, edge.target, (), edge.requires) for takes, edge in enumerate(edges_of(state.action)))
        places.append(Place(at, (), asks, onwards))
    return Restatement(number, process.start, tuple(places))


UP = NETWORKS["up"]
PLAIN = plain(UP)
COUNTS = Onward(0, 2, ((D, add(atom(D), Linear(1))),))
WRONG = {
    "the other answer": (changed(PLAIN, 1, onwards=PLAIN.places[1].onwards[::-1]), "asks something else"),
    "another question": (changed(PLAIN, 2, asks=positive(add(K, atom(I), -1))), "asks something else"),
    "a question of a size too many": (
        changed(PLAIN, 2, asks=positive(add(add(K, atom(T), -1), Linear(-1)))),
        "asks something else",
    ),
    "no question": (changed(PLAIN, 1, asks=None), "a test without a question"),
    "one answer": (changed(PLAIN, 1, onwards=PLAIN.places[1].onwards[:1]), "other than two answers"),
    "past an arrival": (changed(PLAIN, 3, asks=TRUE, onwards=(Onward(0, 4), Onward(None, 3))), "goes on otherwise"),
    "past a wait": (changed(PLAIN, 4, onwards=()), "goes on otherwise"),
    "beyond the end": (changed(PLAIN, 6, onwards=(Onward(0, 6),)), "goes on otherwise"),
    "on in another state": (changed(PLAIN, 4, onwards=(Onward(0, 6),)), "goes on in another state"),
    "staying in another state": (
        changed(PLAIN, 4, asks=positive(K), onwards=(Onward(None, 5), Onward(None, 4))),
        "goes on in another state",
    ),
    "nowhere": (changed(PLAIN, 4, onwards=(Onward(0, 99),)), "does not exist"),
    "a place for nothing": (
        replace(PLAIN, places=(*PLAIN.places, replace(PLAIN.places[6], state=99))),
        "a state that does not exist",
    ),
    "another beginning": (replace(PLAIN, start=1), "begins in another state"),
    "no such process": (replace(PLAIN, process=2), "does not exist"),
    "nothing required": (changed(PLAIN, 5, onwards=(Onward(0, 1),)), "lets arithmetic wrap"),
    "less required": (
        changed(PLAIN, 5, onwards=(Onward(0, 1, (), (Compare("ge", add(Linear(SMALL + 1), atom(I), -1)),)),)),
        "wrap",
    ),
    "a fact from nothing": (changed(PLAIN, 2, facts=(Compare("ge", atom(I)),)), "do not follow"),
    "a fact at the start": (changed(PLAIN, 0, facts=(Compare("ge", atom(I)),)), "at its start"),
    "a fact about what is added": (
        changed(
            changed(PLAIN, 1, onwards=(COUNTS, PLAIN.places[1].onwards[1])), 2, facts=(Compare("eq", add(atom(D), atom(I), -1)),)
        ),
        "do not follow",
    ),
    "a register of its own": (changed(PLAIN, 4, onwards=(Onward(0, 5, ((T, K),)),)), "there already"),
    "a size": (changed(PLAIN, 4, onwards=(Onward(0, 5, ((Symbol("k"), Linear(9)),)),)), "there already"),
    "a register of another process": (changed(PLAIN, 4, onwards=(Onward(0, 5, ((OTHER, Linear(9)),)),)), "there already"),
    "made of another process": (changed(PLAIN, 4, onwards=(Onward(0, 5, ((D, atom(OTHER)),)),)), "of another process"),
    "asked of another process": (
        changed(PLAIN, 4, asks=positive(atom(OTHER)), onwards=(Onward(None, 4), Onward(None, 4))),
        "of another process",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused(name: str) -> None:
    other, why = WRONG[name]
    with pytest.raises(Refused, match=why):
        restated(UP, [other], closed(UP))


def twice(first: Restatement, other: Restatement) -> Restatement:
    """A loop written out twice, the second time as in the other restatement."""
    count = len(first.places)

    def moved(place: Place, more: int) -> Place:
        return replace(
            place,
            onwards=tuple(
                replace(one, target=(one.target + (count if place.state == 5 else 0) + more) % (2 * count))
                for one in place.onwards
            ),
        )

    return replace(first, places=(*(moved(one, 0) for one in first.places), *(moved(one, count) for one in other.places)))


def test_what_has_been_shown_is_not_taken_for_something_else() -> None:
    """What is asked of each turn of a loop that is written out is asked once, and only of turns that are the same."""
    restated(UP, [twice(PLAIN, PLAIN)], closed(UP))
    same = {
        name: other
        for name, (other, _) in WRONG.items()
        if len(other.places) == len(PLAIN.places) and other.places[0] == PLAIN.places[0]
    }
    changes = {name: other for name, other in same.items() if other.start == PLAIN.start and other.process == PLAIN.process}
    assert len(changes) > 15
    for name, other in changes.items():
        with pytest.raises(Refused):
            restated(UP, [twice(PLAIN, other)], closed(UP))
            pytest.fail(name)


def test_its_own_words_are_the_process() -> None:
    assert restated(UP, [PLAIN], closed(UP)) == UP


def test_a_process_is_restated_once() -> None:
    with pytest.raises(Refused, match="twice"):
        restated(UP, [PLAIN, PLAIN], closed(UP))


def test_registers_are_added_to_one_process() -> None:
    one = changed(PLAIN, 4, onwards=(Onward(0, 5, ((D, K),)),))
    other = plain(UP, 1)
    other = changed(other, 0, onwards=(replace(other.places[0].onwards[0], values=((D, K),)),))
    with pytest.raises(Refused, match="there already"):
        restated(UP, [one, other], closed(UP))
    other = changed(plain(UP, 1), 0, onwards=(replace(other.places[0].onwards[0], values=((Symbol("1:d"), atom(D)),)),))
    with pytest.raises(Refused, match="of another process"):
        restated(UP, [one, other], closed(UP))


def test_what_is_read_is_not_known() -> None:
    process = replace(UP.processes[0], states=tuple(map(reading, UP.processes[0].states)))
    network = replace(UP, processes=(process, UP.processes[1]))
    one = changed(plain(network), 4, onwards=(Onward(0, 7),))
    one = replace(one, places=(*one.places, replace(one.places[5], facts=(Compare("ge", atom(T)),))))
    with pytest.raises(Refused, match="do not follow"):
        restated(network, [one], closed(network))


def test_values_do_not_grow_without_end() -> None:
    huge = summed(0, [(atom(Apply("f", (Linear(n), atom(D)))), 1) for n in range(MOST_WRITTEN // 2)])
    wide = summed(0, [(atom(Apply("g", (Linear(n),))), 1) for n in range(4)])
    one = changed(PLAIN, 4, onwards=(Onward(0, 7, ((D, wide),)),))
    one = replace(one, places=(*one.places, replace(one.places[5], facts=(Compare("eq", huge),))))
    with pytest.raises(Refused, match="too large"):
        restated(UP, [one], closed(UP))


def reading(state: State) -> State:
    return replace(state, action=replace(state.action, edge=Edge(5, ((T, None),)))) if state.line == 5 else state
