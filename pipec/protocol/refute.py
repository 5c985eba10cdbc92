"""Searches sizes at which processes wait for ever: runs of the network, the smallest sizes first.

One order of steps stands for all, so that a run that ends stuck at some sizes is stuck at these sizes on the machine, too. What is not
known of a launch (what memory holds, which blocks a scheduler hands out) has a range of values, and a run ends without an answer where
a branch depends on which of them it is. CTAs of a cluster that are alike stand for one: where they signal each other, their places in
the grid are not known.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from pipec.budgets import BudgetEnded, Meter
from pipec.protocol.lazily import Lazy
from pipec.protocol.program import registers_of
from pipec.protocol.ranges import ANYTHING, TILES, Range, certain, range_of
from pipec.protocol.sample import Numbers, forms_of, holds, known_function
from pipec.protocol.schedule import Pairs, Stuck, uneven
from pipec.protocol.structure import orders
from pipec.record import record
from pipec.verify.checker.configuration import Configuration, Refused
from pipec.verify.network import Arrive, Edge, End, Network, Test, edges_of
from pipec.verify.terms import Apply, Choose, Floor, Linear, Product, Symbol, symbols_in

_MOST_STEPS = 3_000  # of one run; those of all runs have a budget
_MOST_RUNS = 120
_LEAST_TRIED = 5  # steps that a size is tried with at least; where rings have more stages, as many as fill one, and two more
_LARGE = (1 << 30, (1 << 31) - 1)
_VARIED = 3  # sizes that take all counts; the others are 0 or 1 step

Launches = Callable[[Numbers], bool]  # whether a launch can have the sizes


@record
class Deadlock:
    """`sizes`: at which the run stops. `blocked`: process and place of all that wait; `why`: a fault of an arrival instead. `uneven`: all
    have ended, but this ring of full barriers has come further than its empty ones, by `filled` and `given` uses. `wraps`: the process and
    place whose arithmetic leaves 32 bits, with which the run ends."""

    sizes: dict[Symbol, int]
    blocked: tuple[tuple[int, int], ...]
    ended: tuple[int, ...]
    why: str = ""
    uneven: int | None = None
    filled: int = 0
    given: int = 0
    wraps: tuple[int, int] | None = None


def refute(
    network: Network, pairs: Pairs = (), launches: Launches = lambda _: True, *, large: bool = False
) -> tuple[Deadlock | None, int]:
    """The first deadlock found, and how many runs ended without one. `large`: at sizes that may wrap, where a proof could still ask the
    launch for smaller ones."""
    # Which order does not matter: what one order can reach all of them come to, since a
    # step of one process never takes away another's.
    schedule = Lazy(network, orders(network)[0])
    crosses = _crosses(network)
    runs, meter = 0, Meter("protocol steps")
    for sizes in _large(network, launches) if large else islice(_sizes(network, launches), _MOST_RUNS):
        known = {symbol: (value, value) for symbol, value in sizes.items() if not (crosses and symbol.name.startswith("%ctaid"))}
        try:
            found, ended = _run(schedule, known, sizes, pairs, meter)
        except BudgetEnded:
            break
        if found is not None and (found.wraps is None or max(sizes.values(), default=0) < _LARGE[0]):
            return found, runs
        runs += ended
    return None, runs


def _crosses(network: Network) -> bool:
    """Whether CTAs of a cluster signal each other: what one of them knows of its place is not what another knows."""
    actions = (state.action for process in network.processes for state in process.states)
    return any(isinstance(action, Arrive) and action.targets for action in actions)


def _run(schedule: Lazy, known: dict[Symbol, Range], sizes: Numbers, pairs: Pairs, meter: Meter) -> tuple[Deadlock | None, bool]:
    """What goes wrong, and whether the run came to its end."""
    at = Configuration(schedule.layout)
    known = dict(known)
    for _ in range(_MOST_STEPS):
        meter.spend()
        places = list(at.places)
        try:
            process = schedule.first(at)
            if process is None:
                return _left(at, sizes, pairs), True
            action = at.action(process)
            if isinstance(action, Test):
                outcome = certain(action.condition, known)
                if outcome is None:
                    return None, False
                edge = action.yes if outcome else action.no
                at.enter(process, edge)
            else:
                edge = schedule.step(at, process)
        except Stuck:
            return _stuck(at, sizes), True
        except Refused as why:
            return _stuck(at, sizes, str(why)), True
        allowed = [certain(one, known) for one in edge.requires]
        # Arithmetic that leaves its 32 bits would make the counts of the roles differ from what the source says.
        if False in allowed:
            return Deadlock(dict(sizes), (), (), wraps=(process, places[process])), True
        if None in allowed:
            return None, False
        if edge.values:
            known.update(_assigned(edge, known))
    return None, False


def _assigned(edge: Edge, known: dict[Symbol, Range]) -> dict[Symbol, Range]:
    return {symbol: ANYTHING if value is None else range_of(value, known) for symbol, value in edge.values}


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


def _large(network: Network, launches: Launches) -> Iterator[Numbers]:
    """One size at which sums of sizes wrap around, the others 1: a loop over it ends without an answer, a test of it does not."""
    steps: dict[Symbol, int] = {}
    for form in _forms(network):
        # That a product of sizes wraps is no fault of the program: a proof asks the launch that it does not.
        if any(isinstance(one, Apply) for one, _ in form.terms):
            return
        _steps(form, registers_of(network), steps)
    names = sorted(steps.keys() - {TILES}, key=lambda symbol: symbol.name)
    rest = {symbol: _least(network, symbol) for fact in network.facts for symbol in symbols_in(fact) if symbol not in steps}
    for symbol in names[:_VARIED]:
        for value in _LARGE:
            numbers = dict.fromkeys(steps, 1) | {symbol: value}
            if all(holds(fact, numbers | rest) for fact in network.facts) and launches(numbers):
                yield numbers


def _sizes(network: Network, launches: Launches) -> Iterator[Numbers]:
    """Sizes by their sum, so that the first that fails is a small one."""
    registers = registers_of(network)
    steps: dict[Symbol, int] = {}
    for form in _forms(network):
        _steps(form, registers, steps)
    names = sorted(steps, key=lambda symbol: (symbol != TILES, symbol.name))
    rest = {symbol: _least(network, symbol) for fact in network.facts for symbol in symbols_in(fact) if symbol not in steps}
    # A ring hides a missing release until all of its stages are taken, so sizes go beyond the largest ring.
    most = max([_LEAST_TRIED, *(ring.stages + 2 for ring in network.rings)])
    for counts in _by_their_sum(min(_VARIED, len(names)), most):
        for last in (0, 1) if len(names) > _VARIED else (0,):
            chosen = (*counts, *(last for _ in range(len(names) - len(counts))))
            numbers = {symbol: count * steps[symbol] for symbol, count in zip(names, chosen, strict=True)}
            # A launch that no caller can make refutes nothing.
            if numbers.get(TILES) != 0 and all(holds(fact, numbers | rest) for fact in network.facts) and launches(numbers):
                yield numbers


def _by_their_sum(places: int, most: int) -> Iterator[tuple[int, ...]]:
    for total in range(places * most + 1):
        yield from _adding_up(places, most, total)


def _adding_up(places: int, most: int, total: int) -> Iterator[tuple[int, ...]]:
    if not places:
        yield from [()] if not total else []
        return
    for first in range(max(0, total - (places - 1) * most), min(most, total) + 1):
        for rest in _adding_up(places - 1, most, total - first):
            yield first, *rest


def _forms(network: Network) -> Iterator[Linear]:
    """All that tests and assignments ask."""
    for process in network.processes:
        for state in process.states:
            yield from (value for edge in edges_of(state.action) for _, value in edge.values if value is not None)
            if isinstance(state.action, Test):
                yield from forms_of(state.action.condition)


def _least(network: Network, symbol: Symbol) -> int:
    """A value of a size that no test depends on."""
    facts = [fact for fact in network.facts if symbols_in(fact) == {symbol}]
    return next((value for value in (0, 1) if all(holds(fact, {symbol: value}) for fact in facts)), 0)


def _steps(form: Linear, registers: frozenset[Symbol], steps: dict[Symbol, int]) -> None:
    """By how much a size has to grow for something to change: the largest number it is divided by."""
    for one, _ in form.terms:
        match one:
            case Symbol():
                if one not in registers:
                    steps[one] = max(1, steps.get(one, 0))
            case Floor(inner, divisor):
                _steps(inner, registers, steps)
                for symbol, _ in inner.terms:
                    if isinstance(symbol, Symbol) and symbol in steps:
                        steps[symbol] = max(divisor, steps[symbol])
            case Choose(condition, yes, no):
                for each in (*forms_of(condition), yes, no):
                    _steps(each, registers, steps)
            case Apply("is_canceled", _):
                steps[TILES] = 1
            case Apply(function, arguments) if known_function(function):
                for each in arguments:
                    _steps(each, registers, steps)
            case Product(factors):
                for factor in factors:
                    _steps(Linear(0, ((factor, 1),)), registers, steps)
            case Apply():
                pass  # whatever it is applied to, its value is not known
