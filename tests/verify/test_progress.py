"""Which loops certainly end: those that count towards a bound, by whatever steps and over however many copies of their test."""

import pytest

from pipec.verify.checker.progress import ends
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, End, Process, State, Use
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Compare, Linear, Symbol, add, atom

K, N, STEP = Symbol("0:k"), atom(Symbol("n")), atom(Symbol("step"))
MORE = Compare("ge", add(add(N, atom(K), -1), Linear(-1)))  # k < n
OTHER = Compare("ge", add(N, Linear(-5)))
POSITIVE, NATURAL = (Compare("ge", add(STEP, Linear(-1))),), (Compare("ge", STEP),)


def moved(target: int, by: Linear | None) -> Edge:
    return Edge(target, ((K, None if by is None else add(atom(K), by)),))


def process(*actions: Branch | Arrive | End) -> Process:
    return Process("r", 1, (0,), (0,), 1, tuple(State(line, action, (K,)) for line, action in enumerate(actions)))


def signal(edge: Edge) -> Arrive:
    return Arrive(Use(0, 0, 0), edge, 1)


@pytest.mark.parametrize(
    ("by", "facts", "bounded"),
    [
        (Linear(1), (), True),
        (Linear(0), (), False),
        (Linear(-1), (), False),
        (None, (), False),
        (STEP, POSITIVE, True),
        (STEP, NATURAL, False),
        (STEP, (), False),
    ],
)
def test_one_test(by: Linear | None, facts: tuple[Compare, ...], bounded: bool) -> None:
    found = process(Branch(MORE, Edge(1), Edge(2)), signal(moved(0, by)), End())
    assert ends(found, System(facts)) is bounded


@pytest.mark.parametrize("tested", [True, False])
def test_two_copies_of_a_test(tested: bool) -> None:
    """The way round that takes neither of them must not count alone."""
    copy = Branch(MORE, moved(1, Linear(1)), Edge(3)) if tested else Branch(OTHER, moved(1, Linear(1)), Edge(3))
    found = process(
        Branch(MORE, Edge(1), Edge(3)), Branch(OTHER, Edge(2), Edge(4)), copy, End(), Branch(MORE, moved(1, Linear(1)), Edge(3))
    )
    assert ends(found, System()) is tested


def test_an_inner_loop_that_does_not_end() -> None:
    inner = Branch(OTHER, Edge(1), moved(0, Linear(1)))
    assert not ends(process(Branch(MORE, Edge(1), Edge(2)), inner, End()), System())
