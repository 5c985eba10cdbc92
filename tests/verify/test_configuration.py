"""Where processes stand and what has arrived, as bits: what counts relative to a window must not be seen from outside."""

from pipec.verify.checker.configuration import Configuration, Layout
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Use, Wait

ON = Edge(1, advances=((0, 2),))
ARRIVAL, WAIT = Arrive(Use(0, 0, 0), ON, 1), Wait(Use(0, 0, 0), ON)


def network() -> Network:
    """One process arrives on a ring of two stages and skips every second use; another waits where it arrives."""
    processes = (
        Process("a", 1, (0,), (0,), 1, (State(1, ARRIVAL), State(2, End()))),
        Process("b", 1, (1,), (0,), 1, (State(3, WAIT), State(4, End()))),
    )
    return Network("k", (Ring("mbarrier", (0, 8), 1),), processes)


def test_the_first_use_that_is_not_complete() -> None:
    at = Configuration(Layout(network()))
    window = at.layout.window
    assert at.below(0) == window and at.complete(0, window - 1) and at.complete(0, -1) and not at.complete(0, window)
    assert at.arrive(0, ARRIVAL) == window and at.below(0) == window + 1


def test_a_copy_is_its_own_and_counts_are_relative() -> None:
    first = Configuration(Layout(network()))
    again = first.copy()
    again.arrive(0, ARRIVAL)
    again.wait(1, WAIT.use)
    for process in range(2):
        again.enter(process, ON)
    assert first.key() == Configuration(first.layout).key() != again.key()
    again.lower()
    # All have ended: rings are counted from the first use that is not complete.
    assert again.below(0) == again.layout.window and again.ended() and again.settled()


def test_a_ring_of_which_a_use_never_came_can_be_forgotten() -> None:
    at = Configuration(Layout(network()))
    at.done[0] = 0b101  # the window has been passed, with a use open
    for process in range(2):
        at.enter(process, ON)
    at.lower()
    assert at.below(0) == at.layout.window and not at.complete(0, at.layout.window) and at.complete(0, at.layout.window + 1)


def test_a_use_that_is_gone_past_counts_as_waited_for() -> None:
    """A process that has gone past a use will not wait for it: nobody has to hear of that wait before the next phase may end."""
    at = Configuration(Layout(network()))
    window = at.layout.window
    assert at.gone_past(1, ON) == [(0, window), (0, window + 1)]  # ON moves on by two, and nothing was waited for
    at.wait(1, WAIT.use)
    assert at.gone_past(1, ON) == [(0, window + 1)]
    at.enter(1, ON)
    assert at.all_waited(0, window) and at.all_waited(0, window + 1) and not at.all_waited(0, window + 2)
    assert at.gone_past(0, ON) == []  # who arrives and never waits goes past nothing


def test_a_phase_waits_for_those_that_have_neither_come_nor_ended() -> None:
    """One has arrived and another has ended; the third comes only once the first has passed, so neither goes on."""
    meeting, signal = Ring("named", (0,), 3), Ring("mbarrier", (0,), 1)
    end = End(((0, 1),))
    first = (
        State(0, Arrive(Use(0, 0, 0), Edge(1), 1)),
        State(1, Wait(Use(0, 0, 0), Edge(2, (), ((0, 1),)))),
        State(2, Arrive(Use(1, 1, 0), Edge(3), 1)),
        State(3, end),
    )
    second = (State(0, Arrive(Use(2, 0, 0), Edge(1), 1)), State(1, end))
    third = (State(0, Wait(Use(1, 0, 0), Edge(1, (), ((0, 1),)))), State(1, end))
    rings = (meeting, signal, Ring("mbarrier", (8,), 1))
    processes = [Process(str(at), 1, (at,), (0,), 2, states) for at, states in enumerate((first, second, third))]
    found = Configuration(Layout(Network("k", rings, tuple(processes))))

    def completed(process: int) -> list[tuple[int, int]]:
        action = found.action(process)
        assert isinstance(action, (Arrive, Wait))
        if isinstance(action, Arrive):
            found.arrive(process, action)
        return found.enter(process, action.edge)

    window = found.layout.window
    assert not completed(0) and not completed(1) and not found.complete(0, window)
    assert completed(2) == [(0, window)] and found.complete(0, window)
