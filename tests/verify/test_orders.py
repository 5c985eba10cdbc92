"""Kernels that run through in one order and go wrong in another: the checker must not take the one for all of them."""

from collections.abc import Callable, Sequence

import pytest

from pipec.protocol.prove import Undecided, prove
from pipec.verify.checker.certificate import Case, Certificate, Moves, Node
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.checker.knowledge import OVERWRITTEN
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, Ring, State, Use, Wait
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Compare, Linear, Symbol, add, atom

N = atom(Symbol("n"))
FULL, EMPTY = 0, 1
OWN: tuple[tuple[int, int], ...] = ()
PEER = ((0, 1), (1, 0))
ALL = ((0, 0), (0, 1), (1, 0), (1, 1))

Step = Callable[[Edge], Action]


def waits(ring: int, shift: int = 0) -> Step:
    return lambda edge: Wait(Use(ring, 0, shift), edge)


def arrives(ring: int, count: int = 0, expects: int = 0, delivers: int = 0, targets: tuple[tuple[int, int], ...] = OWN) -> Step:
    return lambda edge: Arrive(Use(ring, 0, 0), edge, count, expects, delivers, targets)


def reads(edge: Edge) -> Action:
    return Wait(Use(FULL, 0, 0), edge, reads=True)


def asks(edge: Edge) -> Action:
    return Arrive(Use(FULL, 0, 0), edge, delivers=16, asks=True)


def role(number: int, ranks: tuple[int, ...], steps: Sequence[Step]) -> Process:
    """A loop of n rounds over the steps; the cursor moves on with the last one."""
    counter = Symbol(f"{number}:k")
    more = Compare("ge", add(add(N, atom(counter), -1), Linear(-1)))
    begin = Edge(1, ((counter, Linear(0)),))
    again = Edge(1, ((counter, add(atom(counter), Linear(1))),), ((0, 1),))
    edges = [*(Edge(3 + index) for index in range(len(steps) - 1)), again]
    actions: list[Action] = [Branch(Compare("ge", Linear(0)), begin, begin), Branch(more, Edge(2), Edge(2 + len(steps)))]
    actions += [step(edge) for step, edge in zip(steps, edges, strict=True)]
    live = [(), *[(counter,)] * (1 + len(steps)), ()]
    states = tuple(State(line, action, one) for line, (action, one) in enumerate(zip([*actions, End()], live, strict=True)))
    return Process(f"role {number}", 1, (number,), ranks, 1, states)


def accepted(
    stages: int, empties: int, producer: Sequence[Step], consumer: Sequence[Step], *, fulls: int = 1, ctas: int = 2
) -> bool:
    ranks = tuple(range(ctas))
    rings = tuple(
        Ring("mbarrier", tuple(base + 8 * stage for stage in range(stages)), count, ranks)
        for base, count in ((0, fulls), (512, empties))
    )
    sizes = (Compare("ge", N), Compare("ge", add(Linear(2**31 - 1), N, -1)))
    found = Network("k", rings, (role(0, ranks, producer), role(1, ranks, consumer)), sizes)
    try:
        check(found, prove(found))
    except (Undecided, Refused):
        return False
    return True


@pytest.fixture(params=(1, 2, 4))
def stages(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_a_stage_that_is_waited_for_again_after_it_was_given_back(stages: int) -> None:
    """The producer may fill it once more in between; the second wait then sees the parity of two phases on, and blocks."""
    producer = [waits(EMPTY, -stages), arrives(FULL, 1)]
    assert accepted(stages, 1, producer, [waits(FULL), waits(FULL), arrives(EMPTY, 1)], ctas=1)
    assert not accepted(stages, 1, producer, [waits(FULL), arrives(EMPTY, 1), waits(FULL)], ctas=1)


def test_a_multicast_into_stages_that_only_the_own_consumer_gave_back(stages: int) -> None:
    """The peer's phase may still be open: bytes of the next one end it, with bytes of its own missing."""
    producer = [waits(EMPTY, -stages), arrives(FULL, 1, expects=128), arrives(FULL, delivers=128, targets=ALL)]
    assert accepted(stages, 2, producer, [waits(FULL), arrives(EMPTY, 2, targets=ALL)])
    assert not accepted(stages, 1, producer, [waits(FULL), arrives(EMPTY, 1)])


def test_a_peer_that_is_signalled_and_a_stage_given_back_at_home(stages: int) -> None:
    """A CTA that is ahead ends two phases of the peer's barrier before the peer has seen the first."""
    producer = [waits(EMPTY, -stages), arrives(FULL, 1, targets=PEER)]
    assert accepted(stages, 1, producer, [waits(FULL), arrives(EMPTY, 1, targets=PEER)])
    assert not accepted(stages, 1, producer, [waits(FULL), arrives(EMPTY, 1)])


def test_bytes_announced_at_home_by_a_thread_that_arrives_at_the_peer(stages: int) -> None:
    """The peer's arrival ends the phase at home before the bytes are announced."""
    consumer = [waits(FULL), arrives(EMPTY, 2, targets=ALL)]
    right = [waits(EMPTY, -stages), arrives(FULL, expects=128), arrives(FULL, 2, targets=ALL), arrives(FULL, delivers=128)]
    wrong = [waits(EMPTY, -stages), arrives(FULL, expects=128), arrives(FULL, 1, targets=PEER), arrives(FULL, delivers=128)]
    assert accepted(stages, 2, right, consumer, fulls=2)
    assert not accepted(stages, 2, wrong, consumer)


ANNOUNCES = arrives(FULL, 1, expects=16)
GIVES = arrives(EMPTY, 1)


@pytest.mark.parametrize("asking", [[ANNOUNCES, asks], [asks, ANNOUNCES]])
def test_an_answer_is_read_before_its_place_is_given_back(stages: int, asking: list[Step]) -> None:
    """(Whether the request comes before the arrival that announces its bytes does not matter.)"""
    asker = [waits(EMPTY, -stages), *asking]
    assert accepted(stages, 1, asker, [waits(FULL), reads, GIVES], ctas=1)
    assert not accepted(stages, 1, asker, [waits(FULL), GIVES, reads], ctas=1)
    assert not accepted(stages, 1, asker, [reads, waits(FULL), GIVES], ctas=1)


def test_whoever_asks_knows_that_the_answer_before_was_read(stages: int) -> None:
    """The arrival that completes the phase knows it, but the answer may come before that."""
    reader = [waits(FULL), reads, GIVES]
    assert accepted(stages, 1, [waits(EMPTY, -stages), asks, ANNOUNCES], reader, ctas=1)
    assert not accepted(stages, 1, [asks, waits(EMPTY, -stages), ANNOUNCES], reader, ctas=1)


def test_nothing_is_asked_for_while_an_answer_is_read() -> None:
    """A schedule in which the reader has not even waited when its answer is overwritten is refused at the reading."""
    rings = Ring("mbarrier", (0,), 1), Ring("mbarrier", (8,), 1)

    def straight(number: int, steps: list[Step]) -> Process:
        # (The cursor moves on with the third step.)
        edges = [Edge(at + 1, (), ((0, 1),) if at == 2 else ()) for at in range(len(steps))]
        actions = [*(step(edge) for step, edge in zip(steps, edges, strict=True)), End()]
        return Process(f"role {number}", 1, (number,), (0,), 1, tuple(State(at, one) for at, one in enumerate(actions)))

    def checked(asker: list[Step], steps: tuple[int, ...]) -> None:
        reader = straight(1, [waits(FULL), reads, GIVES, waits(FULL), GIVES])
        network = Network("k", rings, (straight(0, [ANNOUNCES, asks, waits(FULL), *asker]), reader))
        check(network, Certificate("k", (Case((), Moves(steps, 0), (Node((), None),)),)))

    checked([waits(EMPTY, -1), asks, ANNOUNCES], (0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1))
    for steps in ((0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1), (0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1)):
        with pytest.raises(Refused, match=OVERWRITTEN):
            checked([asks, waits(EMPTY, -1), ANNOUNCES], steps)
