"""What a process reads and nothing is known of: no certificate may tell cases apart by it, or remember it under a name."""

import pytest

from pipec.verify.checker import check as checker
from pipec.verify.checker.certificate import Case, Certificate, Moves, Node
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Use, Wait
from pipec.verify.network import Test as Branch
from pipec.verify.terms import TRUE, Compare, Formula, Symbol, atom, either, negate

FIRST, SECOND, OTHER = Symbol("0:a"), Symbol("0:b"), Symbol("2:c")


def positive(symbol: Symbol) -> Formula:
    return Compare("ge", atom(symbol))


def draws(symbol: Symbol, target: int) -> Branch:
    """Reads a number that may be any, and goes on."""
    edge = Edge(target, ((symbol, None),))
    return Branch(TRUE, edge, edge)


def process(number: int, *actions: Branch | Wait | Arrive | End) -> Process:
    states = tuple(State(line, action) for line, action in enumerate(actions))
    return Process(f"role {number}", 1, (number,), (0,), 1, states)


# The first role reads two numbers, and does not signal if the first is positive and the second is not. The second role waits for that;
# the third role reads a number, too.
SIGNALLED = either(negate(positive(FIRST)), positive(SECOND))
SIGNALS = Arrive(Use(0, 0, 0), Edge(4), 1)
HANGS = Network(
    "k",
    (Ring("mbarrier", (0,), 1),),
    (
        process(0, draws(FIRST, 1), draws(SECOND, 2), Branch(SIGNALLED, Edge(3), Edge(4)), SIGNALS, End()),
        process(1, Wait(Use(0, 0, 0), Edge(1)), End()),
        process(2, draws(OTHER, 1), End()),
    ),
)


def forged() -> Certificate:
    """The number that is read second in all: if it is positive, the first role reads it second, and if it is not, first."""
    number = positive(Symbol("unknown 2"))
    cases = []
    for when, order, told in ((number, (0, 0, 2), positive(SECOND)), (negate(number), (2, 0, 0), negate(positive(FIRST)))):
        nodes = [Node((told,) if place == 2 else (), reader, Moves((), place + 1)) for place, reader in enumerate(order)]
        cases.append(Case((when,), Moves((), 0), (*nodes, Node((told,), 0, Moves((0, 1), 4)), Node((), None))))
    return Certificate("k", tuple(cases))


def test_cases_are_not_distinguished_by_values_that_are_read() -> None:
    with pytest.raises(Refused, match="the facts of a node do not follow"):
        check(HANGS, forged())


def test_the_certificate_would_do_if_numbers_had_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is wrong with it."""
    monkeypatch.setattr(checker, "unknown", lambda number: atom(Symbol(f"unknown {number}")))
    check(HANGS, forged())
