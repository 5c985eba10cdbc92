"""Loops that turn equally often, however they count, are followed turn by turn; others are not taken for such."""

import pytest

from pipec.protocol.effort import Effort
from pipec.protocol.program.structure import orders
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.schedules.aligned import Aligned, Alignment
from pipec.record import replace
from pipec.verify.checker.check import check
from pipec.verify.network import Network, State, Test
from pipec.verify.terms import Apply, Compare, Linear, add, atom, negate
from tests.protocol.build import Consume, If, Loop, Pipes, Produce, network, size

n, m = size("n"), size("m")
ZERO, ONE = Linear(0), Linear(1)


def pair(produced: tuple[object, ...], consumed: tuple[object, ...]) -> Network:
    return network(Pipes({"p": 2}), {"a": produced, "b": consumed})


def loop(start: Linear, stop: Linear, *body: object, variable: str = "k", turned: bool = True) -> Loop:
    return Loop(variable, start, stop, body, turned=turned)


@pytest.mark.parametrize("turned", [True, False])
def test_a_loop_that_begins_elsewhere_is_the_same(turned: bool) -> None:
    alike = pair((loop(ZERO, n, Produce("p"), turned=turned),), (loop(ONE, add(n, ONE), Consume("p"), turned=turned),))
    assert Alignment(alike).whole


@pytest.mark.parametrize("first", [True, False])
def test_the_opposite_question_is_the_same(first: bool) -> None:
    """Whether there is another turn, or none."""
    alike = pair((loop(ZERO, n, Produce("p")),), (loop(ZERO, n, Consume("p")),))
    processes = list(alike.processes)
    processes[first] = replace(processes[first], states=tuple(map(_opposite, processes[first].states)))
    made = replace(alike, processes=tuple(processes))
    alignment = Alignment(made)
    assert alignment.whole and {process for process, _ in alignment.opposite} == {1}
    check(made, prove(made, Effort(visits=40, runs=40, combinations=20_000)))


def _opposite(state: State) -> State:
    match state.action:
        case Test(condition, yes, no):
            return replace(state, action=Test(negate(condition), no, yes))
        case _:
            return state


def test_a_loop_of_another_length_is_not() -> None:
    other = Alignment(pair((loop(ZERO, n, Produce("p")),), (loop(ZERO, m, Consume("p")),)))
    assert not other.whole and other.alone == {0, 1}


def test_what_is_asked_beside_the_loop_is_not_counted() -> None:
    """Whether there is another turn, asked within the turn: two answers to one question in each turn of one role, one in the other's."""
    beside = If(lambda k: Compare("ge", add(add(n, k, -1), Linear(-2))), (), ())
    made = pair((loop(ZERO, n, Produce("p"), beside),), (loop(ZERO, n, Consume("p")),))
    alignment = Alignment(made)
    assert alignment.whole
    tests = {place for process, place in alignment.question if process == 0}
    assert len(tests) == 2  # before the first turn and after each


def tiles(inner: Linear, *, reads: Linear) -> Network:
    """A loop over groups, in each as many turns as memory says there."""
    count = lambda bound: lambda t: atom(Apply("load.u32", (t, bound)))
    return pair(
        (Loop("t", ZERO, m, (Loop("k", ZERO, count(inner), (Produce("p"),), turned=True),), turned=True),),
        (Loop("t", ZERO, m, (Loop("k", ZERO, count(reads), (Consume("p"),), turned=True),), turned=True),),
    )


def test_loops_whose_bound_is_loaded_take_few_steps() -> None:
    made = tiles(n, reads=n)
    certificate = prove(made, Effort(visits=40, runs=40, combinations=20_000))
    check(made, certificate)


def test_loops_whose_bounds_are_loaded_from_elsewhere_are_not_proved() -> None:
    with pytest.raises(Undecided):
        prove(tiles(n, reads=add(n, ONE)), Effort(visits=100, runs=60, combinations=60_000))


def test_no_role_gets_ahead_by_more_than_one_answer() -> None:
    """Where nobody has to wait: rings of more stages than there are turns."""
    made = network(Pipes({"p": 8}), {"a": (loop(ZERO, n, Produce("p")),), "b": (loop(ZERO, n, Consume("p")),)})
    schedule = Aligned(made, orders(made)[0], Alignment(made))
    at = schedule.start()
    for _ in range(12):
        assert at.test is not None
        at = schedule.branch(at, True)
        assert all(len(answers) == 1 for row in at.memory[1] for _, answers in row)
