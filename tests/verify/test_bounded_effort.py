"""Certificates made to keep the checker busy: values that double at each step, and files with more of everything, are refused at once."""

import json
import time
from typing import Any

import pytest
from verify.test_forged import proved

from pipec.verify.checker.certificate import Case, Certificate, Moves, Node
from pipec.verify.checker.check import TOO_LARGE, check
from pipec.verify.checker.configuration import Refused
from pipec.verify.document import from_json, to_json
from pipec.verify.inequalities import combined
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Use
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Apply, Compare, Either, Formula, Linear, Symbol, add, atom, choose, floor, product

X, Y, Z = Symbol("0:x"), Symbol("0:y"), Symbol("z")
x, y, z = atom(X), atom(Y), atom(Z)
STEPS = 60
SECONDS = 20  # of processor time; without a limit each takes longer than the universe has existed


def multiplied(left: Linear, right: Linear) -> Linear:
    return atom(Apply("mul.lo.s32", (left, right)))


GROWING = {
    "squares": {X: multiplied(x, x)},
    "products": {X: multiplied(x, y), Y: multiplied(add(x, y), y)},
    "exact products": {X: product(x, y), Y: add(x, y)},
    "smaller of two": {X: choose(Compare("ge", add(x, y, -1)), y, x), Y: add(x, y)},
    "choices": {X: choose(Compare("eq", add(x, y, -1)), add(y, x), x), Y: choose(Compare("ge", add(x, y, -3)), y, x)},
    "quotients": {X: floor(add(x, y), 2), Y: add(floor(x, 3), y)},
}


def straight(changes: dict[Symbol, Linear], steps: int) -> Network:
    """One thread, which changes its registers at each step, and at last branches on one."""
    edges = [Edge(at + 1, tuple(changes.items()), ((0, 1),)) for at in range(steps)]
    states = [State(at, Arrive(Use(0, 0, 0), edge, 1), (X, Y)) for at, edge in enumerate(edges)]
    states += [State(steps, Branch(Compare("ge", x), Edge(steps + 1), Edge(steps + 1)), (X, Y)), State(steps + 1, End())]
    return Network("k", (Ring("mbarrier", (0,), 1),), (Process("r", 1, (0,), (0,), 1, tuple(states)),))


def one_way(facts: tuple[Formula, ...], steps: int) -> Certificate:
    nodes = (Node(facts, 0, Moves((), 1), Moves((), 1)), Node((), None))
    return Certificate("k", (Case((), Moves((0,) * steps, 0), nodes),))


@pytest.mark.parametrize("facts", [(), (Compare("ge", x),), (Compare("ge", product(x, product(y, y))),)], ids=["", "x", "xyy"])
@pytest.mark.parametrize("changes", GROWING.values(), ids=GROWING)
def test_values_that_double_at_each_step(changes: dict[Symbol, Linear], facts: tuple[Formula, ...]) -> None:
    started = time.process_time()
    with pytest.raises(Refused, match=TOO_LARGE):
        check(straight(changes, STEPS), one_way(facts, STEPS))
    assert time.process_time() - started < SECONDS


def test_values_of_a_usual_size_are_followed() -> None:
    """It is refused for what follows, the arrivals that nobody waits for."""
    for changes in GROWING.values():
        with pytest.raises(Refused) as why:
            check(straight(changes, 2), one_way((), 2))
        assert TOO_LARGE not in str(why.value)


def _more_facts(case: Any) -> None:
    for node in case["nodes"]:
        node["facts"] += [["ge", [number, [3 + number, "gemm_dim_K"], [-7 - number, "gemm_dim_M"]]] for number in range(200)]


def _more_cases(case: Any) -> None:
    case["when"] = [["ge", [-number, [1, "gemm_dim_K"]]] for number in range(1, 300)]


def _more_steps(case: Any) -> None:
    case["nodes"][0]["yes"]["steps"] *= 20_000


def _large_numbers(case: Any) -> None:
    for node in case["nodes"]:
        node["facts"].append(["ge", [2**127, [-(2**126), "gemm_dim_K"], [2**125 + 1, "gemm_dim_M"]]])


def _alternatives(case: Any) -> None:
    for node in case["nodes"]:
        either = [["ge", [-number, [1, "gemm_dim_K"], [-number, "gemm_dim_M"]]] for number in range(1, 60)]
        node["facts"] += [["or", *either], ["or", *either[:-1]], ["or", *either[:-2]]]


@pytest.mark.parametrize("more", [_more_facts, _more_cases, _more_steps, _large_numbers, _alternatives])
def test_files_with_more_of_everything(more: Any) -> None:
    network, document = proved("gemm")
    data = json.loads(to_json(document))
    more(data["kernels"][0]["certificate"]["cases"][0])
    started = time.process_time()
    (proof,) = from_json(json.dumps(data)).proofs
    with pytest.raises(Refused):
        check(network, proof.certificate)
    assert time.process_time() - started < SECONDS


def test_time_is_in_proportion_to_the_steps_counted() -> None:
    """Alternatives that are looked at again wherever another one is tried: a hundred questions, of a second each, took few steps."""

    def differ(number: int) -> Compare:
        return Compare("ge", add(add(x, y, -2), Linear(-7 - number)))

    several = tuple(Either(tuple(differ(1000 * at + one) for one in range(300))) for at in range(5))
    arrive = State(0, Arrive(Use(0, 0, 0), Edge(1), 1), (X, Y))
    states = (arrive, State(1, Branch(Compare("ge", x), Edge(2), Edge(2)), (X, Y)), State(2, End()))
    network = Network("k", (Ring("mbarrier", (0,), 1),), (Process("r", 1, (0,), (0,), 1, states),), (*several, Compare("ge", z)))
    asked = tuple(Compare("ge", add(add(add(x, y, -2), z), Linear(at - 7))) for at in range(100))
    started, before = time.process_time(), combined.value
    with pytest.raises(Refused, match="steps|arrivals"):
        check(network, one_way(asked, 1))
    assert combined.value - before < 1_100_000
    assert time.process_time() - started < SECONDS
