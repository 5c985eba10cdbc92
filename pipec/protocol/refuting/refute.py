"""Searches sizes at which processes wait for ever: runs the network, the smallest sizes first.

One order of steps represents all. A run that gets stuck at some sizes is therefore stuck on the machine at these sizes as well, provided
that arrivals counted towards the intended phases, and that no process waits so far ahead that a parity aliases. Unknown values of a
launch (memory contents, blocks from a scheduler) have ranges, and a run ends without a result if a branch depends on them. CTAs of a
cluster with the same behaviour are represented by one: if they signal each other, their places in the grid are unknown.
"""

from collections.abc import Callable

from pipec.budgets import BudgetEnded, Meter
from pipec.protocol.forms.ranges import ANYTHING, Decided, Range, Ranged, Ranges, decided, ranged
from pipec.protocol.forms.sample import Numbers
from pipec.protocol.program.structure import orders
from pipec.protocol.refuting.drawn import drawn_sizes, lessened
from pipec.protocol.refuting.launches import ANY, Launches
from pipec.protocol.refuting.tried import LARGE, large_sizes, small_sizes
from pipec.protocol.schedules.lazily import Lazy
from pipec.protocol.schedules.schedule import Pairs, Stuck, uneven
from pipec.record import record
from pipec.verify.checker.configuration import Configuration, Refused
from pipec.verify.network import Arrive, Edge, End, Network, Test, Wait
from pipec.verify.per_thread import PerThread
from pipec.verify.terms import Symbol

_MOST_STEPS = 12_000  # of one run; all runs together have a budget
_MOST_DRAWN_STEPS = 20_000  # of runs at sizes drawn at random


@record
class Deadlock:
    """`sizes`: those of the stuck run. `blocked`: process and place of all waiting processes; `why`: instead, an invalid arrival.
    `uneven`: all have ended, but this ring of full barriers has advanced further than its empty ones, by `filled` and `given` uses.
    `wraps`: the process and place whose arithmetic overflows 32 bits, which ends the run. `memory`: pointers, places behind them, and
    the numbers there that the run has assumed."""

    sizes: dict[Symbol, int]
    blocked: tuple[tuple[int, int], ...]
    ended: tuple[int, ...]
    why: str = ""
    uneven: int | None = None
    filled: int = 0
    given: int = 0
    wraps: tuple[int, int] | None = None
    memory: tuple[tuple[Symbol, int, int], ...] = ()


tried = PerThread(0)  # steps, over all runs


def refute(network: Network, pairs: Pairs = (), launches: Launches = ANY, *, large: bool = False) -> tuple[Deadlock | None, int]:
    """The first deadlock found, and the number of runs that ended without one. `large`: at sizes that may overflow, where a proof could
    still restrict the launch to smaller ones."""
    # Any order will do: the system is confluent, since a step of one process never disables a step of another.
    schedule, asked = Lazy(network, orders(network)[0]), Asked(network)
    remote = crosses(network)
    runs, meter = 0, Meter("protocol steps")

    def ends(sizes: Numbers) -> tuple[Deadlock | None, bool]:
        known = {symbol: (value, value) for symbol, value in sizes.items() if not (remote and symbol.name.startswith("%ctaid"))}
        left = meter.left
        try:
            return run(schedule, asked, Ranges(known), sizes, pairs, meter)
        finally:
            tried.value += left - meter.left

    try:
        for sizes in large_sizes(network, launches) if large else small_sizes(network, launches):
            found, ended = ends(sizes)
            if found is not None and (found.wraps is None or max(sizes.values(), default=0) < LARGE[0]):
                return found, runs
            runs += ended
        begun = meter.left
        for sizes in () if large else drawn_sizes(network, launches):
            if begun - meter.left > _MOST_DRAWN_STEPS:
                break
            found, _ = ends(sizes)
            if found is not None and found.wraps is None:
                return least(found, lambda sizes: ends(sizes)[0], network, launches), runs
    except BudgetEnded:
        pass
    return None, runs


def least(found: Deadlock, again: Callable[[Numbers], Deadlock | None], network: Network, launches: Launches) -> Deadlock:
    """The same at smaller sizes, if there are any. `again`: what a run at other sizes finds."""

    def still(sizes: Numbers) -> bool:
        nonlocal found
        other = again(sizes)
        if other is None or other.wraps is not None:
            return False
        found = other
        return True

    try:
        lessened(found.sizes, network, launches, still)
    except BudgetEnded:
        pass
    return found


def crosses(network: Network) -> bool:
    """Whether CTAs of a cluster signal each other: knowledge about one's place does not apply to another."""
    actions = (state.action for process in network.processes for state in process.states)
    return any(isinstance(action, Arrive) and action.targets for action in actions)


@record
class _Followed:
    """What an edge requires, and what it assigns."""

    requires: list[Decided]
    values: list[tuple[Symbol, Ranged]]

    def assigned(self, known: Ranges) -> list[tuple[Symbol, Range]]:
        # All at once: the values are in terms of those before.
        return [(symbol, value(known)) for symbol, value in self.values]


class Asked:
    """What the tests and the edges of a network ask of a run, prepared when it is first asked."""

    def __init__(self, network: Network) -> None:
        # (As long as the network is there, an object in it is the only one with its identity.)
        self.network = network
        self._tests: dict[int, Decided] = {}
        self._edges: dict[int, _Followed] = {}

    def test(self, action: Test) -> Decided:
        found = self._tests.get(id(action))
        if found is None:
            found = self._tests[id(action)] = decided(action.condition)
        return found

    def edge(self, edge: Edge) -> _Followed:
        found = self._edges.get(id(edge))
        if found is None:
            values = [(symbol, _anything if value is None else ranged(value)) for symbol, value in edge.values]
            found = self._edges[id(edge)] = _Followed([*map(decided, edge.requires)], values)
        return found


def _anything(_: Ranges) -> Range:
    return ANYTHING


def run(schedule: Lazy, asked: Asked, known: Ranges, sizes: Numbers, pairs: Pairs, meter: Meter) -> tuple[Deadlock | None, bool]:
    """The error, if any, and whether the run ended. `known`: of sizes; those of registers are added."""
    at = Configuration(schedule.layout)
    # Where the processes have stood since the last event or change of a register. There again, they go round for ever.
    seen: set[tuple[int, ...]] = set()
    for _ in range(_MOST_STEPS):
        meter.spend()
        places = tuple(at.places)
        if places in seen:
            break
        seen.add(places)
        try:
            process = schedule.first(at)
            if process is None:
                return _left(at, sizes, pairs), True
            action = at.action(process)
            if isinstance(action, Test):
                outcome = asked.test(action)(known)
                if outcome is None:
                    return None, False
                edge = action.yes if outcome else action.no
                at.enter(process, edge)
                happened = bool(edge.advances)
            else:
                edge = schedule.step(at, process)
                happened = True
        except Stuck:
            return (None, False) if _miscounted(at) or _passes(at) else (_stuck(at, sizes), True)
        except Refused as why:
            return _stuck(at, sizes, str(why)), True
        followed = asked.edge(edge)
        allowed = [requires(known) for requires in followed.requires]
        # An overflow would make the counts of the roles differ from the source.
        if False in allowed:
            return Deadlock(dict(sizes), (), (), wraps=(process, places[process])), True
        if None in allowed:
            return None, False
        if edge.values:
            happened |= known.assign(followed.assigned(known))
        if happened:
            seen.clear()
    return None, False


def _miscounted(at: Configuration) -> bool:
    """Whether the machine completes a phase here that is incomplete in the model: it counts arrivals towards the open phase, whatever
    they are meant for."""
    arrived: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by barrier: uses and their arrivals
    for (ring, use), (arrivals, *_) in at.partial.items():
        arrived.setdefault((ring, use % at.network.rings[ring].stages), []).append((use, arrivals))
    return any(
        _later(at, ring, min(uses)[0]) or len(uses) > 1 and sum(arrivals for _, arrivals in uses) >= at.count(ring)
        for (ring, _), uses in arrived.items()
    )


def _later(at: Configuration, ring: int, use: int) -> bool:
    """Whether a later phase of the same barrier is complete."""
    stages = at.network.rings[ring].stages
    return any(at.complete(ring, one) for one in range(use + stages, at.done[ring].bit_length(), stages))


def _passes(at: Configuration) -> bool:
    """Whether a waiting process finds its parity too early: an odd number of phases before its own is still missing."""
    for process in range(len(at.places)):
        action = at.action(process)
        if not isinstance(action, Wait) or at.network.rings[action.use.ring].kind != "mbarrier":
            continue
        ring, use = action.use.ring, at.use(process, action.use)
        stages, missing = at.network.rings[ring].stages, 0
        while not at.complete(ring, use):
            use, missing = use - stages, missing + 1
        if missing and missing % 2 == 0:
            return True
    return False


def _left(at: Configuration, sizes: Numbers, pairs: Pairs) -> Deadlock | None:
    ring = uneven(at, pairs)
    if ring is None:
        return None
    empty, start = dict(pairs)[ring], at.layout.window
    return Deadlock(dict(sizes), (), (), "", ring, at.below(ring) - start, at.below(empty) - start)


def _stuck(at: Configuration, sizes: Numbers, why: str = "") -> Deadlock:
    places = range(len(at.places))
    blocked = tuple((process, at.places[process]) for process in places if not isinstance(at.action(process), End))
    ended = tuple(process for process in places if isinstance(at.action(process), End))
    return Deadlock(dict(sizes), blocked, ended, why)
